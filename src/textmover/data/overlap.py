"""Keep the pairs of a test set out of training, by their normalised text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from textmover.data.split import normalise_reference
from textmover.readers.rows_where import rows_where
from textmover.readers.segments import Columns, read_segments
from textmover.types import Segment

Pair = frozenset[str]


Item = TypeVar("Item")


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
    left_out = set().union(*map(read_pairs, files))
    kept = [[one for one in part if left_out.isdisjoint(pairs(one))] for part in parts]
    return kept, sum(map(len, parts)) - sum(map(len, kept))


def segment_pairs(segment: Segment) -> set[Pair]:
    """The hypothesis with each of its references, normalised."""
    return {normalised_pair(segment.hypothesis, text) for text in segment.references}


def normalised_pair(*texts: str) -> Pair:
    """Texts as they are compared: normalised, without order."""
    return frozenset(map(compared_text, texts))


def compared_text(text: str) -> str:
    """A text without what tells copies of it apart in other files: case, spacing, punctuation, symbols.

    One set ends its sentences in full stops and another leaves them out, or writes "do n't" for "don't": what counts
    is the sequence of letters, marks and numbers. A text without any of these is itself.

    Example:
        >>> compared_text("They don't.") == compared_text("they do n't")
        True
    """
    normalised = normalise_reference(text)
    return "".join(one for one in normalised if unicodedata.category(one)[0] in "LMN") or normalised
