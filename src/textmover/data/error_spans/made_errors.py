"""Plain sentences with made errors whose places are known."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from textmover.data.datamodule import HELD_BACK
from textmover.data.error_spans.augmentation import GIVEN, KIND, PARAPHRASE, reworded
from textmover.data.error_spans.datamodule import marked_source
from textmover.data.generated.contrasts import RewordedFile, reworded_pairs
from textmover.data.generated.datamodule import (
    ATTEMPTS,
    SentencesDataModule,
    check_damage,
    check_words,
    distinct_versions,
    with_neighbours,
)
from textmover.data.leakage import PairFile, segment_pairs, without_files
from textmover.data.mixture_sources import Source
from textmover.data.split import HELD_BACK_SHARE, split_held_back
from textmover.perturbations.clauses import Parse
from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.sentence_edits import WordPool, mixed
from textmover.perturbations.severity import shipped_table
from textmover.types import InputError, MarkedSegment, check_share
from textmover.types.error_spans import ErrorSpan, Severity
from textmover.types.text_words import text_words

NOTICE = "The errors are made by rules, each kind in a fixed way. Finding them is not finding errors of people."

WRONG = (
    "number", "entity", "roles", "negate", "antonym", "drop", "insert", "replace", "repeat", "truncate", "random-word",
)  # fmt: skip
"""Kinds of damage that change words at known places."""

CLEAN = ("identity", "synonym", "notation")  # kinds that leave what is said, so that nothing is wrong
DEFAULT = (*WRONG[:9], *CLEAN)
BOUNDS = 0.3, 0.6  # severity of the damage, from 0 to 1, from which an error is major, and critical


class MadeErrorsDataModule(SentencesDataModule):
    """Plain sentences as references, and damaged versions of them whose errors are known.

    Args:
        texts: Files of English sentences, one a line; with ``column`` tables.
        column: Column of the sentences where the files are tables.
        split: Split of a hub data set; plain files have none.
        sentences: How many distinct sentences to take, chosen by ``seed``; all if None.
        words: Least and greatest number of words of a sentence.
        versions: Versions of each sentence.
        types: Kinds of damage and their weights. ``identity``, ``synonym`` and ``notation`` leave what is said and make
            no error. If None, these, a number, a name, two names exchanged, a negation, an opposite, and words lost,
            added, replaced or said twice have the same weight. Rare kinds come first where they apply.
        paraphrased: Share of the references that are paraphrased by rules.
        held_back: Share of the sentences to hold back for validation.
        batch_size: Texts to a batch, those of all processes together.
        validation_batch_size: Texts to a batch of validation.
        seed: Seed of sentences, damage and the order of batches; if None, that of its mixture, or 0.
        workers: Processes that tokenise ahead; 0 tokenises in between.
        pairs: Files of texts and their rewordings by people, in place of ``texts``. The rewording is the reference.
        without: Files of text pairs, such as test sets, that must not be trained on, in either order.
        joined: Share of the texts to train on that are 2 to 8 texts joined.
    """

    parse: Parse | None = None
    """Parser of references, with which paraphrases change between active and passive."""

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
        self.column, self.split, self.sentences, self.versions = column, split, sentences, versions
        self.words, self.held_back = check_words(words, (4, 40)), held_back
        self.paraphrased, self.joined = check_share("paraphrased", paraphrased), check_share("joined", joined)
        self.types = check_damage("types", types, DEFAULT, (*WRONG, *CLEAN))

    def read(self) -> list[Source[Any]]:
        """Read the sentences and damage them."""
        reworded = [one for file in self.pairs for one in reworded_pairs(file, self.words)]
        [reworded], _ = without_files([reworded], self.without, segment_pairs)
        rewordings = {one.references[0]: one.hypothesis for one in reworded}
        texts = list(rewordings) if self.pairs else self._sentences()[1]
        made = made_errors(texts, self.types, self.versions, self.seed, self.paraphrased, self.parse, rewordings)
        training, kept = split_held_back(made, self.held_back)
        parts = {"training": training, HELD_BACK: kept}
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
    """Make damaged versions of English texts whose errors are known, by weighted kinds of damage.

    Each text gets the kinds that apply to it and are farthest behind their weights, so that rare ones, such as numbers,
    come as often as the texts allow. Segments have the groups ``kind``, and ``reference``: the text is ``given`` or in
    a ``paraphrase``, by people where ``rewordings`` has one, else by rules.
    """
    kinds = [kind for kind, weight in types.items() if weight > 0]
    counts: Counter[str] = Counter()
    found: list[MarkedSegment] = []
    for text, pool, rng in with_neighbours(texts, seed):
        order = sorted(mixed(kinds, rng), key=lambda kind: counts[kind] / types[kind])
        tries = (_damaged(text, kind, seed + attempt, pool, rng) for attempt in range(ATTEMPTS) for kind in order)
        made = distinct_versions(tries, versions)
        counts.update(one.groups["kind"] for one in made)
        for one in made:
            other = rewordings.get(text)
            if text not in rewordings and rng.random() < paraphrased:
                other = reworded(text, seed, parse)
            groups = {**one.groups, KIND: GIVEN if other is None else PARAPHRASE}
            found.append(replace(one, references=(text if other is None else other,), groups=groups))
    return found


def _damaged(text: str, kind: str, seed: int, pool: WordPool, rng: Random) -> MarkedSegment | None:
    degrees, known = shipped_table().degrees(kind), all_perturbations()
    most = 1 + rng.randrange(len(degrees))
    tries = (perturb(text, kind, one, seed=seed, pool=pool, perturbations=known) for one in reversed(degrees[:most]))
    found = next((one for one in tries if one is not None), None)
    if found is None:
        return None
    errors = () if kind in CLEAN else errors_between(text, found.text, severity_of(found.severity))
    if kind == "roles" and len(errors) < 2:  # names of other lengths move all words between them
        return None
    return MarkedSegment(found.text, errors, (text,), None, text_words(found.text), True, {"kind": kind})


def severity_of(severity: float) -> Severity:
    """Severity of an error from that of the damage to its sentence, by :data:`BOUNDS`.

    Example:
        >>> [severity_of(one) for one in (0.1, 0.3, 0.7)]
        ['minor', 'major', 'critical']
    """
    return "minor" if severity < BOUNDS[0] else "major" if severity < BOUNDS[1] else "critical"


def errors_between(text: str, damaged: str, severity: Severity = "major") -> tuple[ErrorSpan, ...]:
    """Return the errors of a damaged text: other and further words are wrong, and lost ones missing.

    Words are compared without case, and *an* with *a*. Texts of as many words are compared word by word, others by
    their longest common parts. Where words were only added, the second of equal ones is wrong.

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
    old, new = ([one[start:stop].casefold() for start, stop in text_words(one)] for one in (text, damaged))
    old, new = (["a" if word == "an" else word for word in words] for words in (old, new))
    found: list[ErrorSpan] = []
    for start, stop in _changes(old, new):
        if start < stop:
            found.append(ErrorSpan(places[start][0], places[stop - 1][1], severity))
        elif places:
            at = places[start - 1][1] if start else places[0][0]
            found.append(ErrorSpan(at, at, severity))
    return tuple(found)


def _changes(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Places of the new words that differ, none of which where old ones were lost."""
    if len(old) == len(new):
        differ = [one != two for one, two in zip(old, new, strict=True)]
    else:
        rest, differ = [*reversed(old)], []
        for one in new:
            differ.append(not rest or rest[-1] != one)
            if not differ[-1]:
                rest.pop()
        if rest:  # words that were lost or exchanged
            codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
            return [(start, stop) for tag, _, _, start, stop in codes if tag != "equal"]
    runs = [list(run) for changed, run in itertools.groupby(range(len(new)), key=differ.__getitem__) if changed]
    return [(run[0], run[-1] + 1) for run in runs]
