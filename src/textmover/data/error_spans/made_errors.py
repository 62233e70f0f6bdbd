"""Plain sentences with rule-based errors at known positions."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from textmover.data.datamodule import HELD_BACK
from textmover.data.error_spans.datamodule import marked_source
from textmover.data.error_spans.segment_augmentation import GIVEN, KIND, PARAPHRASE, reworded
from textmover.data.generated.contrasts import RewordedFile, reworded_pairs
from textmover.data.generated.datamodule import (
    ATTEMPTS,
    SentencesDataModule,
    check_kinds,
    check_words,
    distinct_versions,
    with_neighbours,
)
from textmover.data.leakage import PairFile, segment_pairs, without_files
from textmover.data.split import HELD_BACK_SHARE, split_held_back
from textmover.data.training_sources import Source
from textmover.perturbations.editable_sentences import WordPool, shuffled
from textmover.perturbations.parsed_clauses import Parse
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.registry import all_perturbations
from textmover.perturbations.severity import shipped_table
from textmover.types import InputError, MarkedSegment, check_share
from textmover.types.error_spans import ErrorSpan, Severity
from textmover.types.word_splitting import text_words

NOTICE = "The errors are synthetic, made by rules. Finding them does not measure how well real errors are found."

WRONG = (
    "number", "entity", "roles", "negate", "antonym", "drop", "insert", "replace", "repeat", "truncate", "random-word",
)  # fmt: skip
"""Kinds of damage that change words at known positions."""

CLEAN = ("identity", "synonym", "notation")  # meaning-preserving kinds, without errors
DEFAULT = (*WRONG[:9], *CLEAN)
BOUNDS = 0.3, 0.6  # minimum severity of damage, from 0 to 1, of a major and of a critical error


class MadeErrorsDataModule(SentencesDataModule):
    """Plain sentences as references, and damaged versions of them with known errors.

    Args:
        texts: Files of English sentences, one a line, or tables if ``column`` is given.
        column: Column of the sentences if the files are tables.
        split: Split of a hub data set; plain files have none.
        sentences: Number of distinct sentences, chosen by ``seed``; all if None.
        words: Minimum and maximum number of words of a sentence.
        versions: Versions of each sentence.
        types: Kinds of damage and their weights. ``identity``, ``synonym`` and ``notation`` keep the meaning and make
            no error. If None, equal weights for these and for a changed number or name, two swapped names, a negation,
            an antonym, and dropped, added, replaced or repeated words. Rare kinds come first where they apply.
        paraphrased: Share of the references that are paraphrased by rules.
        held_back: Share of the sentences to hold back for validation.
        batch_size: Texts per batch over all processes.
        validation_batch_size: Texts per validation batch.
        seed: Seed of sentences, damage and batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
        pairs: Files of texts and human paraphrases, instead of ``texts``. The paraphrase is the reference.
        without: Files of text pairs, such as test sets, to exclude from training, in either order.
        joined: Share of the training texts that join 2 to 8 texts.
    """

    parse: Parse | None = None
    """Parser of references, for paraphrases in active or passive voice."""

    def __init__(
        self,
        texts: list[str] | None = None,
        column: str | None = None,
        split: str = "train",
        sentences: int | None = None,
        words: tuple[int, int] = (4, 40),
        versions: int = 2,
        types: dict[str, float] | None = None,
        paraphrased: float = 0.3,
        held_back: float = HELD_BACK_SHARE,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
        pairs: list[RewordedFile] | None = None,
        without: list[PairFile] | None = None,
        joined: float = 0.0,
    ) -> None:
        if bool(texts) == bool(pairs):
            raise InputError("Expected `texts` or `pairs` to name files, but got both or neither: give one of them.")
        self.pairs, self.without = list(pairs or []), list(without or [])
        texts = texts or [file.path for file in self.pairs]
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"texts": texts}, NOTICE)
        self.column, self.splits, self.sentences, self.versions = column, (split,), sentences, versions
        self.words, self.held_back = check_words(words, (4, 40)), held_back
        self.paraphrased, self.joined = check_share("paraphrased", paraphrased), check_share("joined", joined)
        self.types = check_kinds("types", types, DEFAULT, (*WRONG, *CLEAN))

    def read(self) -> list[Source[Any]]:
        """Read the sentences and damage them."""
        reworded = [pair for file in self.pairs for pair in reworded_pairs(file, self.words)]
        [reworded], _ = without_files([reworded], self.without, segment_pairs)
        rewordings = {pair.references[0]: pair.hypothesis for pair in reworded}
        texts = list(rewordings) if self.pairs else self._sentences()[1]
        segments = made_errors(texts, self.types, self.versions, self.seed, self.paraphrased, self.parse, rewordings)
        training, held = split_held_back(segments, self.held_back)
        parts = {"training": training, HELD_BACK: held}
        self._check_sizes("texts", parts, "give more sentences, or change `words`")
        about = {
            "sentences": f"{len(texts)} of {self._named}",
            "held back": f"{100 * self.held_back:g}% of the sentences by a hash of their text",
        }
        return [marked_source(self, "made-errors", parts, about)]


def made_errors(
    texts: Sequence[str],
    types: Mapping[str, float],
    versions: int,
    seed: int,
    paraphrased: float = 0.0,
    parse: Parse | None = None,
    rewordings: Mapping[str, str] = {},
) -> list[MarkedSegment]:
    """Return damaged versions of English texts with known errors, by weighted kinds of damage.

    Each text gets the applicable kinds that are farthest below their weights, so that rare ones, such as numbers, come
    as often as possible. Segments have the groups ``kind`` and ``reference``: the text is ``given``, or a
    ``paraphrase`` from ``rewordings`` or by rules.
    """
    kinds = [kind for kind, weight in types.items() if weight > 0]
    counts: Counter[str] = Counter()
    result: list[MarkedSegment] = []
    for text, pool, rng in with_neighbours(texts, seed):
        order = sorted(shuffled(kinds, rng), key=lambda kind: counts[kind] / types[kind])
        tries = (_damaged(text, kind, seed + attempt, pool, rng) for attempt in range(ATTEMPTS) for kind in order)
        versions_of_text = distinct_versions(tries, versions)
        counts.update(version.groups["kind"] for version in versions_of_text)
        for version in versions_of_text:
            rewording = rewordings.get(text)
            if text not in rewordings and rng.random() < paraphrased:
                rewording = reworded(text, seed, parse)
            groups = {**version.groups, KIND: GIVEN if rewording is None else PARAPHRASE}
            result.append(replace(version, references=(text if rewording is None else rewording,), groups=groups))
    return result


def _damaged(text: str, kind: str, seed: int, pool: WordPool, rng: Random) -> MarkedSegment | None:
    degrees, available = shipped_table().degrees(kind), all_perturbations()
    most = 1 + rng.randrange(len(degrees))
    tries = (perturb(text, kind, n, seed=seed, pool=pool, perturbations=available) for n in reversed(degrees[:most]))
    found = next((result for result in tries if result is not None), None)
    if found is None:
        return None
    errors = () if kind in CLEAN else errors_between(text, found.text, severity_of(found.severity))
    if kind == "roles" and len(errors) < 2:  # swapped names of different lengths shift all words between them
        return None
    return MarkedSegment(found.text, errors, (text,), None, text_words(found.text), True, {"kind": kind})


def severity_of(severity: float) -> Severity:
    """Return the severity of an error from the severity of its damage, by :data:`BOUNDS`.

    Example:
        >>> [severity_of(one) for one in (0.1, 0.3, 0.7)]
        ['minor', 'major', 'critical']
    """
    return "minor" if severity < BOUNDS[0] else "major" if severity < BOUNDS[1] else "critical"


def errors_between(text: str, damaged: str, severity: Severity = "major") -> tuple[ErrorSpan, ...]:
    """Return the errors of a damaged text: changed and added words are wrong, lost words are missing.

    Words are compared without case, and *an* with *a*. Texts with equal word counts are compared word by word, others
    by their longest common parts. If words were only added, the second of equal words is wrong.

    Example:
        >>> [(one.start, one.end) for one in errors_between("The lake was frozen.", "The lake was not frozen.")]
        [(13, 16)]
        >>> [(one.start, one.end) for one in errors_between("The big lake froze.", "The lake froze.")]
        [(3, 3)]
        >>> [(one.start, one.end) for one in errors_between("The lake was frozen.", "The lake lake was frozen.")]
        [(9, 13)]
        >>> [(one.start, one.end) for one in errors_between("Red and blue.", "Red red and and blue.")]
        [(4, 7), (12, 15)]
    """
    places = text_words(damaged)
    old, new = ([version[start:stop].casefold() for start, stop in text_words(version)] for version in (text, damaged))
    old, new = (["a" if word == "an" else word for word in words] for words in (old, new))
    errors: list[ErrorSpan] = []
    for start, stop in _changes(old, new):
        if start < stop:
            errors.append(ErrorSpan(places[start][0], places[stop - 1][1], severity))
        elif places:
            position = places[start - 1][1] if start else places[0][0]
            errors.append(ErrorSpan(position, position, severity))
    return tuple(errors)


def _changes(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return ranges of the new words that differ; a range is empty where old words were lost."""
    if len(old) == len(new):
        differ = [word != new_word for word, new_word in zip(old, new, strict=True)]
    else:
        rest, differ = [*reversed(old)], []
        for word in new:
            differ.append(not rest or rest[-1] != word)
            if not differ[-1]:
                rest.pop()
        if rest:  # words were lost or replaced
            codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
            return [(start, stop) for tag, _, _, start, stop in codes if tag != "equal"]
    runs = [list(run) for changed, run in itertools.groupby(range(len(new)), key=differ.__getitem__) if changed]
    return [(run[0], run[-1] + 1) for run in runs]
