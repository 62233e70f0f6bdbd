"""Rating scales: the question, and the values that answer it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from textmover.types import InputError

MOST_POINTS = 9  # that are chosen one by one, each with a key; larger scales are sliders

RESERVED = ("id", "hypothesis", "reference", "score", "annotators", "annotator", "comment", "time")
"""Columns of an export that no criterion can be called."""


@dataclass(frozen=True)
class Criterion:
    """Something that a text is rated for.

    Attributes:
        name: What it is called.
        hint: What annotators are to ask themselves.

    Example:
        >>> Criterion("semantic correctness").column
        'semantic_correctness'
    """

    name: str
    hint: str = ""

    @property
    def column(self) -> str:
        """Its column in an export."""
        return re.sub(r"\W+", "_", self.name.strip().lower()).strip("_")

    def __str__(self) -> str:
        """As :func:`parse_criteria` reads it."""
        return f"{self.name}: {self.hint}" if self.hint else self.name


CRITERIA = (
    Criterion("fluency", "Does it read as if a native speaker had written it?"),
    Criterion("semantic correctness", "Does it say what it should: nothing wrong, left out or made up?"),
    Criterion("grammatical correctness", "Is it free of errors of grammar, spelling and punctuation?"),
)
"""Default criterion."""


@dataclass(frozen=True)
class Scale:
    """Whole numbers from the worst to the best.

    Attributes:
        low: The worst.
        high: The best.

    Raises:
        InputError: If there are no two numbers from 0 to 1000.

    Example:
        >>> Scale.parse("1-3"), Scale.parse("0-100").slider
        (Scale(low=1, high=3), True)
    """

    low: int = 1
    high: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1000:
            raise InputError(
                f"Expected a scale of whole numbers from 0 to 1000, low before high, but got {self.low}-{self.high}: "
                "1-3 and 0-100 are usual."
            )

    @classmethod
    def parse(cls, text: str) -> Scale:
        """The scale that is written as ``LOW-HIGH``.

        Raises:
            InputError: If it is not.
        """
        found = re.fullmatch(r"\s*(\d{1,4})\s*[-–]\s*(\d{1,4})\s*", text, re.ASCII)
        if found is None:
            raise InputError(f"Expected a scale such as 1-3 or 0-100, but got {text!r}.")
        return cls(int(found[1]), int(found[2]))

    @property
    def points(self) -> tuple[int, ...]:
        """All numbers."""
        return tuple(range(self.low, self.high + 1))

    @property
    def slider(self) -> bool:
        """Return whether there are too many points to choose from one by one."""
        return len(self.points) > MOST_POINTS or self.high > 9

    def check(self, value: object) -> float:
        """A rating.

        Raises:
            InputError: If it is none of this scale.
        """
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value not in self.points:
            raise InputError(
                f"Expected a whole number from {self.low} to {self.high} as rating, but got {str(value)[:60]!r}."
            )
        return float(value)

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


def parse_criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Criteria from how they are written: a name, or ``name: hint``.

    Raises:
        InputError: If there is none, one has no name, or two cannot be told apart.

    Example:
        >>> [one.column for one in parse_criteria(["adequacy: Does it say all?", "style"])]
        ['adequacy', 'style']
    """
    usual, found = {one.name: one.hint for one in CRITERIA}, []
    for text in texts:
        name, _, hint = text.partition(":")
        name = " ".join(name.split())
        found.append(Criterion(name, hint.strip() or usual.get(name, "")))
    if not found:
        raise InputError("Expected at least one criterion, but got none: name one.")
    columns = [one.column for one in found]
    for one, column in zip(found, columns, strict=True):
        if not column or len(one.name) > 60:
            raise InputError(f"Expected a criterion to have a name of 1 to 60 characters, but got {one.name!r}.")
        if column in RESERVED or column.startswith(("reference", "given_")):
            raise InputError(
                f"Expected a criterion of another name than {one.name!r}, which is a column of the export: rename it."
            )
        if columns.count(column) > 1:
            raise InputError(f"Expected criteria that differ, but got {one.name!r} twice: rename one.")
    return tuple(found)
