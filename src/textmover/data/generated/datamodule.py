"""Base classes of data modules with generated ratings, and the data module of damaged sentences."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.split import HELD_BACK_SHARE, split_held_back, text_hash
from textmover.data.training_sources import RatedSource, Source, check_judged
from textmover.perturbations.editable_sentences import WordPool, keyed_random
from textmover.perturbations.perturbations import PERTURBATIONS, perturb
from textmover.perturbations.registry import all_perturbations
from textmover.perturbations.severity import shipped_table
from textmover.readers.segments import read_texts
from textmover.types import InputError, MarkedSegment, Segment, plural

logger = logging.getLogger(__name__)

NEIGHBOURS = 128  # texts that provide words and unrelated sentences for each other
ATTEMPTS = 4  # tries for each version, since some change nothing or repeat a version

Version = TypeVar("Version", Segment, MarkedSegment)


def synthetic_notice(rated: str, change: str = "kind of damage") -> str:
    """Return the notice for readers of results that the ratings are generated."""
    rule = f"The ratings of {rated} are synthetic: each {change} has a fixed rating."
    return f"{rule} Correlation with them does not measure agreement with people."


class GeneratedDataModule(SourcesDataModule):
    """Base of data modules whose ratings follow from a fixed table of severities."""

    held_back: float

    @property
    def _named(self) -> str:
        return ", ".join(Path(name).name for name in self.files)

    def _rated(
        self, name: str, segments: Sequence[Segment], about: Mapping[str, str], *, drawn: str, way_out: str
    ) -> list[Source[Any]]:
        """Return the generated segments as the only source, with a share held back by a hash."""
        training, held_back = split_held_back(segments, self.held_back)
        self._check_sizes("segments", {"training": training, HELD_BACK: held_back}, way_out)
        logger.info("%s, %s to train on, %d held back", drawn, plural(len(training), "segment"), len(held_back))
        about = {**about, "held back": f"{100 * self.held_back:g}% of the references by a hash of their text"}
        source = self._source(RatedSource, name, training, {HELD_BACK: held_back}, about=about)
        if self.files:
            check_judged(source, self.files)
        return [source]


class SentencesDataModule(GeneratedDataModule):
    """Base of data modules that damage plain sentences by weighted kinds of damage."""

    column: str | None
    sentences: int | None
    words: tuple[int, int]

    def _sentences(self) -> tuple[list[str], list[str]]:
        """Return all distinct texts of the files, and the selected ones."""
        texts = read_sentences(self.files, self.column, self.splits[0])
        return texts, taken_sentences(texts, self.words, self.sentences, self.seed)


def check_words(words: tuple[int, int], usual: tuple[int, int]) -> tuple[int, int]:
    """Return the minimum and maximum number of words; raise an error if they are out of order."""
    if words[0] > words[1]:
        raise InputError(f"Expected `words` in ascending order, but got {words}: {usual} is usual.")
    return words


def check_kinds(
    name: str, weights: Mapping[str, float] | None, defaults: Collection[str], known: Collection[str]
) -> dict[str, float]:
    """Check and return weights of kinds for the argument ``name``; by default 1 for each of ``defaults``."""
    chosen = dict.fromkeys(defaults, 1.0) if weights is None else dict(weights)
    for kind, weight in chosen.items():
        if kind not in known or not 0 <= weight < float("inf"):
            raise InputError(
                f"Expected `{name}` to give weights of at least 0 to {', '.join(known)}, but got {kind}: {weight}."
            )
    if not any(chosen.values()):
        raise InputError(f"Expected `{name}` to give some kind a weight above 0, but got none: name one.")
    return chosen


def read_sentences(files: Sequence[str], column: str | None, split: str) -> list[str]:
    """Return the distinct texts of files, without surrounding white space."""
    return list(dict.fromkeys(text.strip() for name in files for text in read_texts(name, column, split=split)))


def taken_sentences(texts: Sequence[str], words: tuple[int, int], sentences: int | None, seed: int) -> list[str]:
    """Return up to ``sentences`` texts of suitable word counts, in an order that depends only on seed and text."""
    low, high = words
    fitting = [text for text in texts if low <= len(text.split()) <= high]
    return sorted(fitting, key=lambda text: text_hash(f"{seed} {text}"))[:sentences]


def with_neighbours(texts: Sequence[str], seed: int) -> Iterator[tuple[str, WordPool, Random]]:
    """Yield each text with the words of its neighbours and a generator that depends only on seed and text."""
    for start in range(0, len(texts), NEIGHBOURS):
        chunk = texts[start : start + NEIGHBOURS]
        pool = WordPool(chunk)
        yield from ((text, pool, keyed_random(f"{seed}\n{text}")) for text in chunk)


def distinct_versions(tries: Iterable[Version | None], versions: int) -> list[Version]:
    """Return the first ``versions`` segments with distinct hypotheses, or fewer."""
    distinct: dict[str, Version] = {}
    for version in tries:
        if version is not None:
            distinct.setdefault(version.hypothesis, version)
        if len(distinct) == versions:
            break
    return list(distinct.values())


class PerturbedDataModule(SentencesDataModule):
    """Plain sentences as references, damaged versions as hypotheses, and ratings by the severity of the damage.

    Args:
        texts: Files of sentences, one a line, or tables if ``column`` is given.
        column: Column of the sentences if the files are tables.
        split: Split of a hub data set; plain files have none.
        sentences: Number of distinct sentences, chosen by ``seed``; all if None.
        words: Minimum and maximum number of words of a sentence.
        versions: Damaged versions of each sentence, each by one kind of damage.
        types: Kinds of damage and their weights (``textmover perturb --list`` names all that need neither a parser nor
            neighbours); if None, equal weights for the first ten.
        held_back: Share of the sentences to hold back for validation.
        batch_size: Segments per batch over all processes.
        validation_batch_size: Segments per validation batch.
        seed: Seed of sentences, damage and batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
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
        notice = synthetic_notice("damaged sentences")
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"texts": texts}, notice)
        self.column, self.splits, self.sentences, self.versions = column, (split,), sentences, versions
        self.words, self.held_back = check_words(words, (4, 40)), held_back
        self.types = check_kinds("types", types, PERTURBATIONS, all_perturbations())

    def read(self) -> list[Source[Any]]:
        """Read the sentences and damage them."""
        _, texts = self._sentences()
        return self._rated(
            "perturbed",
            perturbed_segments(texts, self.types, self.versions, self.seed),
            {"sentences": f"{len(texts)} of {self._named}"},
            drawn=f"Damaged sentences: {plural(len(texts), 'sentence')}",
            way_out="give more sentences, or change `words`",
        )


def perturbed_segments(texts: Sequence[str], types: Mapping[str, float], versions: int, seed: int) -> list[Segment]:
    """Return damaged versions of texts, rated from 0 (worthless) to 100 (as good as the text), by weighted kinds.

    Kinds that do not apply to a text are replaced by others. The segments have the group ``perturbation``.
    """
    kinds, weights = list(types), list(types.values())
    table, available = shipped_table(), all_perturbations()

    def damaged(text: str, seed: int, pool: WordPool, rng: Random) -> Segment | None:
        kind = rng.choices(kinds, weights)[0]
        result = perturb(text, kind, rng.choice(table.degrees(kind)), seed=seed, pool=pool, perturbations=available)
        groups = {"perturbation": kind}
        return None if result is None else Segment(result.text, (text,), score=result.rating, groups=groups)

    segments: list[Segment] = []
    for text, pool, rng in with_neighbours(texts, seed):
        tries = (damaged(text, seed + attempt, pool, rng) for attempt in range(ATTEMPTS * versions))
        segments += distinct_versions(tries, versions)
    return segments
