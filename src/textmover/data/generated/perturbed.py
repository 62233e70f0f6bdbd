"""Plain sentences and damaged versions of them as ratings: what a metric can learn without people."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.generated.plain_sentences import check_damage, read_sentences, taken_sentences
from textmover.data.sources import RatedSource, Source, check_judged, check_reading
from textmover.data.split import HELD_BACK_SHARE, split_held_back
from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import PERTURBATIONS, perturb
from textmover.perturbations.phrases import WordPool, keyed_random
from textmover.perturbations.severity import shipped_table
from textmover.types import InputError, Segment

logger = logging.getLogger(__name__)

NOTICE = (
    "The ratings of damaged sentences follow from a fixed table of how bad each kind of damage is; agreeing with them "
    "is not agreeing with people."
)


NEIGHBOURS = 128
"""Texts that give one another words and unrelated sentences."""

ATTEMPTS = 4
"""Tries for each version, of which some find nothing to damage or what is there already."""


class PerturbedDataModule(SourcesDataModule):
    """Plain sentences as references, damaged versions of them as hypotheses, the severity of the damage as rating.

    Args:
        texts: Files of sentences, one a line; with ``column`` tables.
        column: Column of the sentences where the files are tables.
        split: Split of a hub data set; plain files have none.
        sentences: How many distinct sentences to take, chosen by ``seed``; all if None.
        words: Least and greatest number of words of a sentence.
        versions: Damaged versions of each sentence, each by one or two kinds of damage.
        types: Kinds of damage and their weights (``textmover perturb --list`` names all that need neither a parser nor
            neighbours); if None, the first ten of them with the same weight.
        held_back: Share of the sentences to hold back for validation.
        batch_size: Segments to a batch, those of all processes together.
        validation_batch_size: Segments to a batch of validation.
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
        words: tuple[int, int] = (4, 40),
        versions: int = 2,
        types: dict[str, float] | None = None,
        held_back: float = HELD_BACK_SHARE,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(seed, workers)
        chosen = check_damage("types", types, PERTURBATIONS, all_perturbations())
        if words[0] > words[1]:
            raise InputError(f"Expected `words` in ascending order, but got {words}: (4, 40) is usual.")
        check_reading("texts", texts, batch_size, validation_batch_size)
        self.files, self.column, self.split, self.sentences, self.words = list(texts), column, split, sentences, words
        self.versions, self.types, self.held_back = versions, chosen, held_back
        self.batch_size, self.validation_batch_size = batch_size, validation_batch_size

    def read(self) -> list[Source[Any]]:
        """Read the sentences and damage them."""
        found = read_sentences(self.files, self.column, self.split)
        texts = taken_sentences(found, self.words, self.sentences, self.seed)
        segments = perturbed_segments(texts, self.types, self.versions, self.seed)
        training, held_back = split_held_back(segments, self.held_back)
        if len(training) < 3 or len(held_back) < 3:
            raise InputError(
                f"Expected sentences for at least 3 segments to train on and 3 to hold back, but got {len(training)} "
                f"and {len(held_back)} of {', '.join(self.files)}: give more sentences, or change `words`."
            )
        logger.info(
            "Damaged sentences: %d sentences, %d segments to train on, %d held back",
            len(texts), len(training), len(held_back),
        )  # fmt: skip
        source = RatedSource(
            "perturbed",
            training,
            {HELD_BACK: held_back},
            batch_size=self.batch_size,
            validation_batch_size=self.validation_batch_size,
            about={
                "sentences": f"{len(texts)} of {', '.join(Path(name).name for name in self.files)}",
                "held back": f"{100 * self.held_back:g}% of the sentences by a hash of their text",
            },
            notice=NOTICE,
        )
        check_judged(source, self.files)
        return [source]


def perturbed_segments(texts: Sequence[str], types: Mapping[str, float], versions: int, seed: int) -> list[Segment]:
    """Damaged versions of texts, rated from 0 (worthless) to 100 (as good as the text).

    Which kinds of damage a text gets follows from the text and the seed alone, but for the words and sentences that are
    put in its place, which come from its neighbours. Kinds that do not apply to a text are replaced by others.

    Args:
        texts: Sentences.
        types: Weights of the kinds of damage.
        versions: Versions of each text; fewer where fewer differ.
        seed: Seed of all choices.

    Returns:
        Segments with the group ``perturbation``, text after text.
    """
    kinds, weights = list(types), list(types.values())
    segments: list[Segment] = []
    for start in range(0, len(texts), NEIGHBOURS):
        pool = WordPool(texts[start : start + NEIGHBOURS])
        for text in texts[start : start + NEIGHBOURS]:
            segments += _versions(text, kinds, weights, versions, seed, pool)
    return segments


def _versions(
    text: str, kinds: Sequence[str], weights: Sequence[float], versions: int, seed: int, pool: WordPool
) -> Iterator[Segment]:
    """Distinct damaged versions of one text."""
    table, known = shipped_table(), all_perturbations()
    rng = keyed_random(f"{seed}\n{text}")
    made: set[str] = set()
    for attempt in range(ATTEMPTS * versions):
        if len(made) == versions:
            return
        kind = rng.choices(kinds, weights)[0]
        degree = rng.choice(table.degrees(kind))
        found = perturb(text, kind, degree, seed=seed + attempt, pool=pool, perturbations=known)
        if found is not None and found.text not in made:
            made.add(found.text)
            yield Segment(found.text, (text,), score=found.rating, groups={"perturbation": kind})
