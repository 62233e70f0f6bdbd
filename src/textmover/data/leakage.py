"""Texts that training must not see: pairs of given files, and near-duplicates and prompts of held-back items."""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from textmover.data.split import Item, normalise_reference
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import MemoryTable, open_tables, rows_where
from textmover.types import InputError
from textmover.types.segments import ComparedText

logger = logging.getLogger(__name__)

Pair = frozenset[str]
Unread = Mapping[str, Mapping[str, str]]  # values of columns that the recipe does not read, by column and reference

WORTH_A_WARNING = 0.05  # share of the kept items that share something with training before it is said
FEW_REFERENCES = 30  # references of a group on average up to which its rows belong together, as those of a prompt do
SEVERAL = 1.05  # values of a group to a reference on average, up to which references belong to one but for chance
LIKE = 0.8  # share of their words that near-duplicates have in common (Jaccard)
LOOKED_AT, COMPARED = 2000, 200  # kept texts, and known texts that each is compared with, at most
LONG_WORD = 12  # characters of an average word above which a language writes no spaces, and pairs are compared

# Names of columns whose rows belong together, however many they are and whether or not the recipe reads them.
HOLDS_TOGETHER = re.compile(
    r"(?i).*(prompt|question|query|instruction|context|document|passage|article|paragraph|dialog|conversation|thread"
    r"|topic|story).*|(doc|src|source|input|turn|chat)([_ -]?(id|text))?"
)


@dataclass(frozen=True)
class PairFile:
    """A file of text pairs, such as a test set.

    Attributes:
        path: The file, or ``hub:owner/name``.
        columns: The two columns that hold the texts.
        where: Rows that count, as values by column; all if empty.
        split: Split of a hub or saved data set; plain files have none.
    """

    path: str
    columns: tuple[str, str] = ("hypothesis", "reference")
    where: dict[str, list[str]] = field(default_factory=dict)
    split: str = "test"


def read_pairs(file: PairFile) -> set[Pair]:
    """The pairs of a file, normalised, without order."""
    first, second = file.columns
    columns = Columns(first, second, score=None, groups=tuple(file.where))
    segments = rows_where(read_segments(file.path, columns, split=file.split), file.where, file.path)
    return {normalised_pair(one.hypothesis, one.references[0]) for one in segments}


def without_files(
    parts: Sequence[Sequence[Item]], files: Sequence[PairFile], pairs: Callable[[Item], Iterable[Pair]]
) -> tuple[list[list[Item]], int]:
    """Parts without the items that are pairs of files, in either order, and how many were left out."""
    if not files:
        return [list(part) for part in parts], 0
    left_out = set().union(*map(read_pairs, files))
    kept = [[one for one in part if left_out.isdisjoint(pairs(one))] for part in parts]
    return kept, sum(map(len, parts)) - sum(map(len, kept))


def segment_pairs(segment: ComparedText) -> set[Pair]:
    """The hypothesis with each of its references, normalised."""
    return {normalised_pair(segment.hypothesis, text) for text in segment.references}


def normalised_pair(*texts: str) -> Pair:
    """Texts as they are compared: normalised, without order."""
    return frozenset(map(compared_text, texts))


def compared_text(text: str) -> str:
    """A text without what tells copies of it apart in other files: case, spacing, punctuation, symbols.

    The sequence of letters, marks and numbers counts; a text without any of these is itself.

    Example:
        >>> compared_text("They don't.") == compared_text("they do n't")
        True
    """
    normalised = normalise_reference(text)
    return "".join(one for one in normalised if unicodedata.category(one)[0] in "LMN") or normalised


def unread_columns(files: Iterable[tuple[str | MemoryTable, str]], columns: Columns) -> dict[str, dict[str, str]]:
    """Read columns of files, by their splits, whose rows belong together by their name and that no recipe names."""
    found: dict[str, dict[str, str]] = {}
    for table in chain.from_iterable(open_tables(path, split=split) for path, split in files):
        names = [one for one in table.columns or () if HOLDS_TOGETHER.fullmatch(one) and one not in columns.names]
        for _, cells in table.rows if names else ():
            if isinstance(cells, InputError):
                continue
            reference = cells.get((*columns.reference_columns, columns.source or "")[0])
            for name, value in ((name, cells.get(name)) for name in names):
                if isinstance(reference, str) and isinstance(value, (str, int)) and value != "":
                    found.setdefault(name, {})[normalise_reference(reference)] = normalise_reference(str(value))
    return found


def shared_with_training(
    training: Sequence[ComparedText], kept: Sequence[ComparedText], unread: Unread | None = None
) -> dict[str, tuple[int, int]]:
    """Numbers of the kept segments that share something with those to train on, and of all, where worth a warning.

    Groups count that hold a prompt or a document together; systems and language pairs do not.
    """
    groups = _nesting_groups([*training, *kept])

    def values(segments: Sequence[ComparedText]) -> dict[str, list[str | None]]:
        texts = [normalise_reference(one.compared.texts[0]) for one in segments]
        return {
            "their source": [normalise_reference(one.source) if one.source else None for one in segments],
            **{f"their `{name}`": [one.groups.get(name) for one in segments] for name in groups},
            **{f"their `{name}`": list(map(of.get, texts)) for name, of in (unread or {}).items()},
        }

    known, found = values(training), {}
    for name, own in values(kept).items():
        seen = set(known[name]) - {None}
        found[name] = (sum(one in seen for one in own), len(own))
    like = near_duplicates([one.compared.texts[0] for one in training], [one.compared.texts[0] for one in kept])
    found["nearly the same reference"] = (sum(like), len(like))
    return {name: one for name, one in found.items() if one[0] > 0 and one[0] >= WORTH_A_WARNING * one[1]}


def warn_of_shared(
    name: str, training: Sequence[ComparedText], kept: Sequence[ComparedText], unread: Unread | None = None
) -> str:
    """Warn where the segments of a part to judge on do not stand apart from those to train on."""
    found = shared_with_training(training, kept, unread)
    shared = "; ".join(f"{count} of {total} share {name}" for name, (count, total) in found.items())
    if shared:
        logger.warning(
            "In the %s part, %s with items to train on. Agreement on them looks better than on new texts: hold back "
            "by a column that keeps them together (`held_back_by`), or split the file and name its parts as `train` "
            "and `validation`.",
            name, shared,
        )  # fmt: skip
    return shared


def near_duplicates(known: Sequence[str], texts: Sequence[str]) -> list[bool]:
    """Return whether a text has nearly the words of a known one, each text once and 2,000 of many.

    Sets of words that have four fifths in common share one of the rarest, by which up to 200 texts to compare with are
    found (prefix filtering, Chaudhuri et al. 2006, A Primitive Operator for Similarity Joins in Data Cleaning).

    Example:
        >>> near_duplicates(["the cat sat on a mat"], ["The cat sat on a mat!", "a dog ran"])
        [True, False]
    """
    distinct = list(dict.fromkeys(texts))
    own = [_words(text) for text in distinct[:: max(1, -(-len(distinct) // LOOKED_AT))]]
    words = [_words(text) for text in dict.fromkeys(known)]
    counts = Counter(word for one in words for word in one)
    places: dict[str, set[int]] = {}
    rarest = [_rarest(one, counts) for one in own]
    for place, some in enumerate(rarest):
        for word in some:
            places.setdefault(word, set()).add(place)
    found, left = [False] * len(own), [COMPARED] * len(own)
    for one in words:
        for place in {place for word in one & places.keys() for place in places[word]}:
            common = len(one & own[place])
            found[place] = common >= LIKE * (len(one) + len(own[place]) - common)
            left[place] -= 1
            for word in rarest[place] if found[place] or not left[place] else ():
                places[word].discard(place)
    return found


def _rarest(words: frozenset[str], counts: Mapping[str, int]) -> list[str]:
    ordered = sorted(words, key=lambda word: (counts[word], word))
    return ordered[: len(words) - math.ceil(LIKE * len(words)) + 1]


def _words(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", normalise_reference(text))
    if sum(map(len, words)) > LONG_WORD * len(words):
        joined = "".join(words)
        return frozenset(joined[at : at + 2] for at in range(len(joined) - 1))
    return frozenset(words)


def _nesting_groups(segments: Sequence[ComparedText]) -> list[str]:
    """Groups whose values hold together several references: few each, or those of a prompt or a document."""
    found = []
    for name in segments[0].groups:
        pairs = {(one.groups.get(name), one.compared.texts[0]) for one in segments}
        references, values = len({reference for _, reference in pairs}), len({value for value, _ in pairs})
        nested = len(pairs) <= SEVERAL * references and values < references <= FEW_REFERENCES * values
        if nested or HOLDS_TOGETHER.fullmatch(name):
            found.append(name)
    return found
