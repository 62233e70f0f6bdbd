"""Plain sentences and damaged versions of them as ratings: what a metric can learn without people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from textmover.data.generated.datamodule import (
    ATTEMPTS,
    SentencesDataModule,
    check_damage,
    distinct_versions,
    with_neighbours,
)
from textmover.data.sources import Source
from textmover.data.split import HELD_BACK_SHARE
from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import PERTURBATIONS, perturb
from textmover.perturbations.phrases import WordPool
from textmover.perturbations.severity import shipped_table
from textmover.types import Segment, plural

NOTICE = (
    "The ratings of damaged sentences are synthetic: each kind of damage has a fixed rating. Agreeing with them "
    "is not agreeing with people."
)


class PerturbedDataModule(SentencesDataModule):
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
        sizes = (batch_size, validation_batch_size)
        super().__init__(texts, (column, split), sentences, words, (4, 40), held_back, sizes, seed, workers, NOTICE)
        self.versions = versions
        self.types = check_damage("types", types, PERTURBATIONS, all_perturbations())

    def read(self) -> list[Source[Any]]:
        """Read the sentences and damage them."""
        _, texts = self._sentences()
        source = self._rated(
            "perturbed",
            perturbed_segments(texts, self.types, self.versions, self.seed),
            {"sentences": f"{len(texts)} of {self._named}"},
            drawn=f"Damaged sentences: {plural(len(texts), 'sentence')}",
            unit="sentences",
            way_out=f" of {', '.join(self.files)}: give more sentences, or change `words`",
        )
        return [source]


def perturbed_segments(texts: Sequence[str], types: Mapping[str, float], versions: int, seed: int) -> list[Segment]:
    """Damaged versions of texts, rated from 0 (worthless) to 100 (as good as the text), by weighted kinds of damage.

    Kinds that do not apply to a text are replaced by others. The segments have the group ``perturbation``.
    """
    kinds, weights = list(types), list(types.values())
    table, known = shipped_table(), all_perturbations()

    def damaged(text: str, seed: int, pool: WordPool, rng: Random) -> Segment | None:
        kind = rng.choices(kinds, weights)[0]
        found = perturb(text, kind, rng.choice(table.degrees(kind)), seed=seed, pool=pool, perturbations=known)
        groups = {"perturbation": kind}
        return None if found is None else Segment(found.text, (text,), score=found.rating, groups=groups)

    segments: list[Segment] = []
    for text, pool, rng in with_neighbours(texts, seed):
        tries = (damaged(text, seed + attempt, pool, rng) for attempt in range(ATTEMPTS * versions))
        segments += distinct_versions(tries, versions)
    return segments
