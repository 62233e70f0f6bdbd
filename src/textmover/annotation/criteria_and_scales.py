"""Criteria and rating scales."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from textmover.types import InputError

MOST_POINTS = 9  # most points of a scale with a button and a key for each; larger scales are sliders

RESERVED = ("id", "hypothesis", "reference", "score", "annotators", "annotator", "comment", "time")
"""Columns of an export, not allowed as names of criteria."""


@dataclass(frozen=True)
class Criterion:
    """Criterion that texts are rated for.

    Attributes:
        name: Name of the criterion.
        hint: Question that annotators answer by the rating.

    Example:
        >>> Criterion("semantic correctness").column
        'semantic_correctness'
    """

    name: str
    hint: str = ""

    @property
    def column(self) -> str:
        """Column of the criterion in an export."""
        return re.sub(r"\W+", "_", self.name.strip().lower()).strip("_")

    def __str__(self) -> str:
        """Return the text that :func:`parse_criteria` reads."""
        return f"{self.name}: {self.hint}" if self.hint else self.name


CRITERIA = (
    Criterion("fluency", "Does it read as if a native speaker had written it?"),
    Criterion("semantic correctness", "Does it say what it should: nothing wrong, left out or made up?"),
    Criterion("grammatical correctness", "Is it free of errors of grammar, spelling and punctuation?"),
)
"""Default criteria."""


@dataclass(frozen=True)
class Scale:
    """Rating scale of whole numbers.

    Attributes:
        low: Worst rating.
        high: Best rating.

    Raises:
        InputError: If not 0 ≤ ``low`` < ``high`` ≤ 1000.

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
        """Parse a scale; raise an :class:`~textmover.types.InputError` unless it is written as ``LOW-HIGH``."""
        match = re.fullmatch(r"\s*(\d{1,4})\s*[-–]\s*(\d{1,4})\s*", text, re.ASCII)
        if match is None:
            raise InputError(f"Expected a scale such as 1-3 or 0-100, but got {text!r}.")
        return cls(int(match[1]), int(match[2]))

    @property
    def points(self) -> tuple[int, ...]:
        """All numbers of the scale."""
        return tuple(range(self.low, self.high + 1))

    @property
    def slider(self) -> bool:
        """Return whether ratings are set by a slider, since the scale has too many points for buttons and keys."""
        return len(self.points) > MOST_POINTS or self.high > 9

    def check(self, value: object) -> float:
        """Return a rating as a float; raise an :class:`~textmover.types.InputError` unless it is on this scale."""
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value not in self.points:
            raise InputError(
                f"Expected a whole number from {self.low} to {self.high} as rating, but got {str(value)[:60]!r}."
            )
        return float(value)

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


def parse_criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Parse criteria written as a name, or as ``name: hint``.

    Raises:
        InputError: If there are no criteria, or a name is empty, too long, reserved or duplicate.

    Example:
        >>> [one.column for one in parse_criteria(["adequacy: Does it say all?", "style"])]
        ['adequacy', 'style']
    """
    default_hints, criteria = {entry.name: entry.hint for entry in CRITERIA}, []
    for text in texts:
        name, _, hint = text.partition(":")
        name = " ".join(name.split())
        criteria.append(Criterion(name, hint.strip() or default_hints.get(name, "")))
    if not criteria:
        raise InputError("Expected at least one criterion, but got none: name one.")
    columns = [entry.column for entry in criteria]
    for entry, column in zip(criteria, columns, strict=True):
        if not column or len(entry.name) > 60:
            raise InputError(f"Expected a criterion to have a name of 1 to 60 characters, but got {entry.name!r}.")
        if column in RESERVED or column.startswith(("reference", "given_")):
            raise InputError(
                f"Expected a criterion of another name than {entry.name!r}, which is a column of the export: rename it."
            )
        if columns.count(column) > 1:
            raise InputError(f"Expected criteria that differ, but got {entry.name!r} twice: rename one.")
    return tuple(criteria)
