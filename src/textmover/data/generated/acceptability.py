"""Plain sentences and ungrammatical versions of them as labels of acceptability, alone or beside those of people."""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.generated.plain_sentences import check_damage, read_sentences, taken_sentences
from textmover.data.generated.ungrammatical import UNGRAMMATICAL, ungrammatical
from textmover.data.label_tasks import TASKS
from textmover.data.labelled import LabelledSource, LabelledText, LabelsDataModule
from textmover.data.sources import Source, check_reading
from textmover.data.split import HELD_BACK_SHARE, is_held_back
from textmover.perturbations.phrases import WordPool, keyed_random
from textmover.types import InputError

logger = logging.getLogger(__name__)

ACCEPTABILITY = TASKS["cola"].labels
"""The classes: unacceptable, acceptable."""

DAMAGED = "damaged"
"""Name of the held-back part of damaged sentences, where people's labels are held back beside it."""

NEIGHBOURS = 128
"""Texts that give one another words."""

ATTEMPTS = 6
"""Kinds that are tried for each text, of which some do not apply to it."""

NOTICE = (
    "Sentences count as unacceptable because they were damaged by rule: some are acceptable after all, and telling "
    "them apart is not agreeing with people."
)


class AcceptabilityDataModule(SourcesDataModule):
    """Plain sentences as acceptable, a damaged version of each as unacceptable, and labels of people beside them.

    Args:
        texts: Files of sentences, one a line; with ``column`` tables.
        column: Column of the sentences where the files are tables.
        split: Split of a hub data set; plain files have none.
        sentences: How many distinct sentences to take, chosen by ``seed``; all if None.
        words: Least and greatest number of words of a sentence.
        kinds: Kinds of damage and their weights; all with the same weight if None.
        bare: Share of the sentences that lose their end mark, in both versions: its absence is not damage.
        labels: Sentences that people have labelled, which are trained on in the same epochs; None for none. Their
            held-back part is judged as ``held-back``, that of the damaged sentences then as ``damaged``.
        held_back: Share of the plain sentences to hold back for validation.
        batch_size: Sentences to a batch, those of all processes together.
        validation_batch_size: Sentences to a batch of validation.
        seed: Seed of sentences, damage and the order of batches; if None, that of the mixture that it is part of, and 0
            by itself.
        workers: Processes that tokenise ahead; 0 tokenises in between.
    """

    def __init__(
        self,
        texts: list[str],
        column: str | None = None,
        split: str = "train",
        sentences: int | None = None,
        words: tuple[int, int] = (3, 30),
        kinds: dict[str, float] | None = None,
        bare: float = 0.15,
        labels: LabelsDataModule | None = None,
        held_back: float = HELD_BACK_SHARE,
        batch_size: int = 32,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(seed, workers)
        chosen = check_damage("kinds", kinds, UNGRAMMATICAL, UNGRAMMATICAL)
        if words[0] > words[1]:
            raise InputError(f"Expected `words` in ascending order, but got {words}: (3, 30) is usual.")
        if not 0 <= bare <= 1:
            raise InputError(f"Expected `bare` to be between 0 and 1, but got {bare}: 0.15 is usual.")
        check_reading("texts", texts, batch_size, validation_batch_size)
        self.files, self.column, self.split, self.sentences, self.words = list(texts), column, split, sentences, words
        self.kinds, self.bare, self.labels, self.held_back = chosen, bare, labels, held_back
        self.batch_size, self.validation_batch_size = batch_size, validation_batch_size

    def read(self) -> list[Source[Any]]:
        """Read the sentences, damage them, and put people's labels beside them."""
        found = read_sentences(self.files, self.column, self.split)
        texts, known = taken_sentences(found, self.words, self.sentences, self.seed), known_words(found)
        apart = {text for text in texts if is_held_back(text, self.held_back)}
        made = [
            labelled_versions(
                [text for text in texts if (text in apart) is held], self.kinds, self.seed, known, self.bare
            )
            for held in (False, True)
        ]
        training, damaged = made
        for name, part in (("training", training), ("held-back", damaged)):
            if len(part) < 4:
                raise InputError(
                    f"Expected at least 2 sentences and their versions in the {name} part, but got {len(part)} items "
                    f"of {', '.join(self.files)}: give more sentences, or change `words` or `held_back`."
                )
        names = ", ".join(Path(name).name for name in self.files)
        about = {
            "plain sentences": f"{len(texts)} of {names}, each with a damaged version where one was found",
            "held-back sentences": f"{100 * self.held_back:g}% by a hash of their text",
        }
        parts = {HELD_BACK: damaged}
        if self.labels is not None:
            people = self._people(self.labels)
            training = [*people.items, *training]
            parts = {HELD_BACK: people.parts[HELD_BACK], DAMAGED: damaged}
            about = {**people.about, **about}
        logger.info(
            "Acceptability: %d items to train on, %s", len(training),
            ", ".join(f"{len(part)} {name}" for name, part in parts.items()),
        )  # fmt: skip
        return [
            LabelledSource(
                "acceptability",
                training,
                parts,
                batch_size=self.batch_size,
                validation_batch_size=self.validation_batch_size,
                about=about,
                notice=NOTICE,
                classes=ACCEPTABILITY,
            )
        ]

    def _people(self, labels: LabelsDataModule) -> LabelledSource:
        """Labels given by people."""
        (source,) = labels.read()
        if not isinstance(source, LabelledSource) or source.classes != ACCEPTABILITY or source.pairs:
            raise InputError(
                f"Expected `labels` to be of single sentences and the classes {', '.join(ACCEPTABILITY)}, but got "
                f"others: take the task `cola`."
            )
        return source


def known_words(texts: Sequence[str] | Mapping[str, Any]) -> frozenset[str]:
    """The words of texts, in lower case and without the marks around them."""
    return frozenset(word.strip(".,;:!?\"'()[]").lower() for text in texts for word in text.split())


def labelled_versions(
    texts: Sequence[str],
    kinds: Mapping[str, float],
    seed: int,
    known: Container[str] | None = None,
    bare: float = 0.0,
) -> list[LabelledText]:
    """Each text as acceptable, and behind it a damaged version as unacceptable where one is found.

    What is done to a text follows from the text and the seed alone, but for the words that are put into it, which come
    from its neighbours.

    Args:
        texts: Sentences.
        kinds: Weights of the kinds of damage.
        seed: Seed of all choices.
        known: Words that other forms of words are chosen among; any if ``None``.
        bare: Share of the texts that lose their end mark, in both versions.

    Returns:
        Items with the group ``damage``: ``none`` or the kind.
    """
    names, weights = list(kinds), list(kinds.values())
    items: list[LabelledText] = []
    for start in range(0, len(texts), NEIGHBOURS):
        pool = WordPool(texts[start : start + NEIGHBOURS])
        for text in texts[start : start + NEIGHBOURS]:
            rng = keyed_random(f"{seed}\n{text}")
            end = rng.random() < bare
            items.append(LabelledText((_without_mark(text) if end else text,), 1, {"damage": "none"}))
            for attempt in range(ATTEMPTS):
                kind = rng.choices(names, weights)[0]
                version = ungrammatical(text, kind, seed=seed + attempt, pool=pool, known=known)
                if version is not None:
                    items.append(LabelledText((_without_mark(version) if end else version,), 0, {"damage": kind}))
                    break
    return items


def _without_mark(text: str) -> str:
    return re.sub(r"[.!?…]+$", "", text) or text
