"""Plain sentences and ungrammatical versions of them as labels of acceptability, alone or beside those of people."""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from textmover.data.datamodule import HELD_BACK
from textmover.data.generated.datamodule import SentencesDataModule, check_damage, with_neighbours
from textmover.data.generated.ungrammatical import UNGRAMMATICAL, ungrammatical
from textmover.data.label_tasks import TASKS
from textmover.data.labelled import LabelledSource, LabelledText, LabelsDataModule
from textmover.data.sources import Source
from textmover.data.split import HELD_BACK_SHARE, is_held_back
from textmover.types import InputError, check_share, plural

logger = logging.getLogger(__name__)

ACCEPTABILITY = TASKS["cola"].labels
"""The classes: unacceptable, acceptable."""

DAMAGED = "damaged"
"""Name of the held-back part of damaged sentences, where people's labels are held back beside it."""

ATTEMPTS = 6
"""Kinds that are tried for each text, of which some do not apply to it."""

NOTICE = (
    "Sentences count as unacceptable because they were damaged by rule: some are acceptable after all, and telling "
    "them apart is not agreeing with people."
)


class AcceptabilityDataModule(SentencesDataModule):
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
        sizes = (batch_size, validation_batch_size)
        super().__init__(texts, (column, split), sentences, words, (3, 30), held_back, sizes, seed, workers, NOTICE)
        self.kinds = check_damage("kinds", kinds, UNGRAMMATICAL, UNGRAMMATICAL)
        self.bare, self.labels = check_share("bare", bare), labels

    def read(self) -> list[Source[Any]]:
        """Read the sentences, damage them, and put people's labels beside them."""
        found, texts = self._sentences()
        known = known_words(found)
        sides: tuple[list[str], list[str]] = ([], [])
        for text in texts:
            sides[is_held_back(text, self.held_back)].append(text)
        training, damaged = (labelled_versions(side, self.kinds, self.seed, known, self.bare) for side in sides)
        for name, part in (("training", training), ("held-back", damaged)):
            if len(part) < 4:
                raise InputError(
                    f"Expected at least 2 sentences and their versions in the {name} part, but got "
                    f"{plural(len(part), 'item')} of {', '.join(self.files)}: give more sentences, or change `words` "
                    "or `held_back`."
                )
        about = {
            "plain sentences": f"{len(texts)} of {self._named}, each with a damaged version where one was found",
            "held-back sentences": f"{100 * self.held_back:g}% by a hash of their text",
        }
        parts = {HELD_BACK: damaged}
        if self.labels is not None:
            people = self._people(self.labels)
            training = [*people.items, *training]
            parts = {HELD_BACK: people.parts[HELD_BACK], DAMAGED: damaged}
            about = {**people.about, **about}
        sizes = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
        logger.info("Acceptability: %d items to train on, %s", len(training), sizes)
        return [self._source(LabelledSource, "acceptability", training, parts, about=about, classes=ACCEPTABILITY)]

    def _people(self, labels: LabelsDataModule) -> LabelledSource:
        (source,) = labels.read()
        if not isinstance(source, LabelledSource) or source.classes != ACCEPTABILITY or source.pairs:
            raise InputError(
                f"Expected `labels` to be of single sentences and the classes {', '.join(ACCEPTABILITY)}, but got "
                f"others: take the task `cola`."
            )
        return source


def known_words(texts: Iterable[str]) -> frozenset[str]:
    """The words of texts, in lower case and without the marks around them."""
    return frozenset(word.strip(".,;:!?\"'()[]").lower() for text in texts for word in text.split())


def labelled_versions(
    texts: Sequence[str], kinds: Mapping[str, float], seed: int, known: Container[str] | None = None, bare: float = 0.0
) -> list[LabelledText]:
    """Each text as acceptable, and behind it a damaged version as unacceptable where one is found.

    Other forms of words are among the known ones. The items have the group ``damage``: ``none`` or the kind.
    """
    names, weights = list(kinds), list(kinds.values())
    items: list[LabelledText] = []
    for text, pool, rng in with_neighbours(texts, seed):
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
