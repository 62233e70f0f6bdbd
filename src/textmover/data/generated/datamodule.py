"""Bases of data modules that generate their ratings, and the one that damages plain sentences."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.mixture_sources import RatedSource, Source, check_judged
from textmover.data.split import HELD_BACK_SHARE, split_held_back, text_hash
from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import PERTURBATIONS, perturb
from textmover.perturbations.sentence_edits import WordPool, keyed_random
from textmover.perturbations.severity import shipped_table
from textmover.readers.segments import read_texts
from textmover.types import InputError, MarkedSegment, Segment, plural

logger = logging.getLogger(__name__)

NEIGHBOURS = 128  # texts that give one another words and unrelated sentences
ATTEMPTS = 4  # tries for each version of a text, of which some find nothing to change or what is there already

Version = TypeVar("Version", Segment, MarkedSegment)


def synthetic_notice(rated: str, change: str = "kind of damage") -> str:
    """Return the notice for readers of results that the ratings are generated."""
    rule = f"The ratings of {rated} are synthetic: each {change} has a fixed rating."
    return f"{rule} Agreeing with them is not agreeing with people."


class GeneratedDataModule(SourcesDataModule):
    """Base of data modules whose ratings follow from a fixed table of severities."""

    held_back: float

    @property
    def _named(self) -> str:
        return ", ".join(Path(name).name for name in self.files)

    def _rated(
        self, name: str, segments: Sequence[Segment], about: Mapping[str, str], *, drawn: str, unit: str, way_out: str
    ) -> list[Source[Any]]:
        """The generated segments as the only source, a part held back by a hash."""
        training, held_back = split_held_back(segments, self.held_back)
        if len(training) < 3 or len(held_back) < 3:
            raise InputError(
                f"Expected {unit} for at least 3 segments to train on and 3 to hold back, but got {len(training)} "
                f"and {len(held_back)}{way_out}."
            )
        logger.info("%s, %s to train on, %d held back", drawn, plural(len(training), "segment"), len(held_back))
        about = {**about, "held back": f"{100 * self.held_back:g}% of the references by a hash of their text"}
        source = self._source(RatedSource, name, training, {HELD_BACK: held_back}, about=about)
        if self.files:
            check_judged(source, self.files)
        return [source]


class SentencesDataModule(GeneratedDataModule):
    """Base of data modules that damage plain sentences by weighted kinds of damage."""

    column: str | None
    split: str
    sentences: int | None
    words: tuple[int, int]

    def _sentences(self) -> tuple[list[str], list[str]]:
        """Distinct texts of the files, and those that are taken."""
        found = read_sentences(self.files, self.column, self.split)
        return found, taken_sentences(found, self.words, self.sentences, self.seed)


def check_words(words: tuple[int, int], usual: tuple[int, int]) -> tuple[int, int]:
    """Return the least and the greatest number of words; refuse them in another order."""
    if words[0] > words[1]:
        raise InputError(f"Expected `words` in ascending order, but got {words}: {usual} is usual.")
    return words


def check_damage(
    name: str, weights: Mapping[str, float] | None, all_of_them: Collection[str], known: Collection[str]
) -> dict[str, float]:
    """Weights of known kinds of damage, given as the argument ``name``; the same for ``all_of_them`` if ``None``."""
    chosen = dict.fromkeys(all_of_them, 1.0) if weights is None else dict(weights)
    for kind, weight in chosen.items():
        if kind not in known or not 0 <= weight < float("inf"):
            raise InputError(
                f"Expected `{name}` to give weights of at least 0 to {', '.join(known)}, but got {kind}: {weight}."
            )
    if not any(chosen.values()):
        raise InputError(f"Expected `{name}` to give some kind of damage a weight above 0, but got none: name one.")
    return chosen


def read_sentences(files: Sequence[str], column: str | None, split: str) -> list[str]:
    """Distinct texts of files, without the white space around them."""
    return list(dict.fromkeys(text.strip() for name in files for text in read_texts(name, column, split=split)))


def taken_sentences(texts: Sequence[str], words: tuple[int, int], sentences: int | None, seed: int) -> list[str]:
    """Some of the texts with a wanted number of words, in an order that follows from the seed and each text alone."""
    low, high = words
    fitting = [text for text in texts if low <= len(text.split()) <= high]
    return sorted(fitting, key=lambda text: text_hash(f"{seed} {text}"))[:sentences]


def with_neighbours(texts: Sequence[str], seed: int) -> Iterator[tuple[str, WordPool, Random]]:
    """Each text with the words of its neighbours, and random numbers that follow from the seed and the text alone."""
    for start in range(0, len(texts), NEIGHBOURS):
        chunk = texts[start : start + NEIGHBOURS]
        pool = WordPool(chunk)
        yield from ((text, pool, keyed_random(f"{seed}\n{text}")) for text in chunk)


def distinct_versions(tries: Iterable[Version | None], versions: int) -> list[Version]:
    """The first so many segments of distinct hypotheses; fewer where fewer differ."""
    made: dict[str, Version] = {}
    for found in tries:
        if found is not None:
            made.setdefault(found.hypothesis, found)
        if len(made) == versions:
            break
    return list(made.values())


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
        seed: Seed of sentences, damage and the order of batches; if None, that of its mixture, or 0.
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
        notice = synthetic_notice("damaged sentences")
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"texts": texts}, notice)
        self.column, self.split, self.sentences, self.versions = column, split, sentences, versions
        self.words, self.held_back = check_words(words, (4, 40)), held_back
        self.types = check_damage("types", types, PERTURBATIONS, all_perturbations())

    def read(self) -> list[Source[Any]]:
        """Read the sentences and damage them."""
        _, texts = self._sentences()
        return self._rated(
            "perturbed",
            perturbed_segments(texts, self.types, self.versions, self.seed),
            {"sentences": f"{len(texts)} of {self._named}"},
            drawn=f"Damaged sentences: {plural(len(texts), 'sentence')}",
            unit="sentences",
            way_out=f" of {', '.join(self.files)}: give more sentences, or change `words`",
        )


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
