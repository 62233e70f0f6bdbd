"""Judged texts one by one, put together to the set that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from textmover.types import InputError, Judgements

ALL = "all"
"""The group of texts that belong to none."""


class JudgedText(NamedTuple):
    """A text that people judged, and where it stands.

    Attributes:
        place: Line and file, or whatever else leads to it.
        hypothesis: The text.
        references: Its references, at least one.
        ratings: Its ratings, one for each dimension of the set.
        group: Its group.
        item: What it is an output for; empty where the file does not say.
        system: What produced it; empty where the file does not say.
        source: What it was made from; empty where the file does not say.
        scores: Scores that the file brings along, one for each metric.
    """

    place: str
    hypothesis: str
    references: tuple[str, ...]
    ratings: tuple[float, ...]
    group: str = ALL
    item: str = ""
    system: str = ""
    source: str = ""
    scores: tuple[float, ...] = ()


def assembled(
    name: str,
    texts: Sequence[JudgedText],
    dimensions: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    left_out: Mapping[str, int] | None = None,
    preferences: np.ndarray | None = None,
) -> Judgements:
    """The set that judged texts make; what none of them names (item, system, source) is ``None``.

    Args:
        name: What tables call the set.
        texts: The texts, at least one.
        dimensions: Names of the ratings.
        metrics: Names of the scores.
        left_out: How many rows of the file are not among these, by the reason.
        preferences: Pairs of texts, the better one first, int64 ``[m, 2]``.
    """

    def unless_empty(values: tuple[str, ...]) -> tuple[str, ...] | None:
        return values if any(values) else None

    return Judgements(
        name=name,
        hypotheses=tuple(one.hypothesis for one in texts),
        references=tuple(one.references for one in texts),
        ratings=_columns(dimensions, [one.ratings for one in texts]),
        groups=tuple(one.group for one in texts),
        items=unless_empty(tuple(one.item for one in texts)),
        systems=unless_empty(tuple(one.system for one in texts)),
        preferences=preferences,
        scores=_columns(metrics, [one.scores for one in texts]),
        sources=unless_empty(tuple(one.source for one in texts)),
        left_out=dict(left_out or {}),
    )


def check_unique(texts: Sequence[JudgedText], way_out: str) -> None:
    """Make sure that each text has a group, item and system of its own, as far as items are known.

    Args:
        texts: The texts.
        way_out: What to do about two of the same, beside removing one.

    Raises:
        InputError: If two have the same.
    """
    if not any(one.item for one in texts):
        return
    first: dict[tuple[str, str, str], str] = {}
    for one in texts:
        key = (one.group, one.item, one.system)
        if key in first:
            group = "" if one.group == ALL else f"group {one.group!r}, "
            system = f", system {one.system!r}" if one.system else ""
            raise InputError(
                f"Expected one text for {group}item {one.item!r}{system}, but got one in {first[key]} and another in "
                f"{one.place}: remove one of them, or {way_out}."
            )
        first[key] = one.place


def repeated_rows(judgements: Judgements) -> int:
    """How many rows have the group, item and system of an earlier row; 0 where items are not known.

    Args:
        judgements: The set.

    Returns:
        Their number.

    Example:
        >>> repeated_rows(Judgements("a", ("x",) * 3, (("y",),) * 3, {}, ("all",) * 3, items=("1", "2", "1")))
        1
    """
    if judgements.items is None:
        return 0
    systems = judgements.systems or ("",) * len(judgements)
    return len(judgements) - len(set(zip(judgements.groups, judgements.items, systems, strict=True)))


def _columns(names: Sequence[str], rows: Sequence[tuple[float, ...]]) -> dict[str, np.ndarray]:
    """Numbers by name, float64."""
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(names)}
