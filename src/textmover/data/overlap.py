"""Keep the pairs of a test set out of training, by their normalised text."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from textmover.data.split import normalise_reference
from textmover.readers.segments import Columns, read_segments
from textmover.types import InputError, Segment

Pair = frozenset[str]


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


def rows_where(segments: Sequence[Segment], where: Mapping[str, Sequence[str]], path: str) -> list[Segment]:
    """The segments whose groups have one of the values that are named for each key.

    Example:
        >>> rows = [Segment("a", ("b",), groups={"split": split}) for split in ("train", "test")]
        >>> len(rows_where(rows, {"split": ["train"]}, "pairs.tsv"))
        1
    """
    for key, values in where.items():
        present = {segment.groups[key] for segment in segments}
        missing = [value for value in values if value not in present]
        if missing:
            raise InputError(
                f"Expected rows of {path} whose {key!r} is {missing[0]!r}, but got none: it holds "
                f"{', '.join(sorted(present)[:8])}."
            )
    return [one for one in segments if all(one.groups[key] in values for key, values in where.items())]


def without_pairs(segments: Sequence[Segment], pairs: set[Pair]) -> list[Segment]:
    """The segments that are no pair of a set: neither hypothesis and reference as they are nor the other way round.

    Texts are compared as :func:`compared_text` leaves them.

    Example:
        >>> rows = [Segment("The cat", ("a dog",)), Segment("The cat", ("a cat",))]
        >>> len(without_pairs(rows, {normalised_pair("A dog.", "The cat.")}))
        1
    """
    return [
        one for one in segments if not any(normalised_pair(one.hypothesis, text) in pairs for text in one.references)
    ]


def normalised_pair(first: str, second: str) -> Pair:
    """Two texts as they are compared: normalised, without order."""
    return frozenset((compared_text(first), compared_text(second)))


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
