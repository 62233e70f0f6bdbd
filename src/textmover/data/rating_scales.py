"""Ratings of several files or annotators: on one scale, or each standardised by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from textmover.data.split import parted
from textmover.types import InputError, Segment

Scales = Literal["same", "as-is", "per-file"]
Annotators = Literal["mean", "standardised"]

SHARED = 0.5
"""Part of what two files' ratings span together that both of them have to span, lest they be taken for ratings on
different scales. Language pairs and years of WMT share .76 of it or more, tasks of STS .75, although the means of these
lie up to three standard deviations apart; 0-1 and 0-4 share a quarter, standardised ratings and 1-5 about a fifth."""

# Scales of ratings, the narrowest first.
SCALES = ((0, 1), (-1, 1), (1, 3), (0, 3), (1, 4), (0, 4), (1, 5), (0, 5), (1, 6), (1, 7), (1, 10), (0, 10), (0, 100))
# Shares of the ratings that may lie beyond the scale of the others; the second where no scale holds all, by far.
MOST_BEYOND, MOST_FAR = 0.02, 0.05
# Ratings of which a single one may, whatever its share; from the second on as lightly as where there are many.
FEW, ENOUGH = 6, 20
# Widths of the others' scale that all ratings span; the second below ENOUGH, where three values differ.
FAR, FARTHER = 2, 9


def on_one_scale(
    rated: Mapping[str, Sequence[Segment]], scales: Scales, fitted_on: Mapping[str, Sequence[Segment]] | None = None
) -> dict[str, list[Segment]]:
    """The segments of several files with ratings that can be trained on together.

    ``same`` checks that the ratings of any two files go from one end to the other alike, ``as-is`` takes them
    unchecked, ``per-file`` gives each file's ratings mean 0 and standard deviation 1, those of ``fitted_on``.
    """
    if scales == "same":
        _check_same(rated)
    if scales != "per-file":
        return {name: list(segments) for name, segments in rated.items()}
    return {name: _standardized(name, segments, (fitted_on or rated)[name]) for name, segments in rated.items()}


def over_annotators(segments: Sequence[Segment], column: str, how: Annotators) -> list[Segment]:
    """One segment for each text, with the mean rating of its annotators, whom a group names.

    ``standardised`` first gives each annotator's ratings the mean and deviation of all; equal ones become that mean.

    Example:
        >>> rows = [Segment("h", ("r",), score, groups={"by": name}) for name, score in (("a", 1.0), ("b", 4.0))]
        >>> over_annotators(rows, "by", "mean")
        [Segment(hypothesis='h', references=('r',), score=2.5, source=None, groups={})]
    """
    values = _ratings(segments)
    if how == "standardised" and len(segments):
        names = np.array([one.groups[column] for one in segments])
        mean, deviation = values.mean(), values.std()
        for name in np.unique(names):
            own = values[names == name]
            spread = own.std()
            values[names == name] = mean + (deviation * (own - own.mean()) / spread if spread > 0 else 0.0)
    together: dict[tuple[object, ...], list[tuple[Segment, float]]] = {}
    for one, value in zip(segments, values.tolist(), strict=True):
        groups = {name: text for name, text in one.groups.items() if name != column}
        key = (one.hypothesis, one.references, one.source, *groups.items())
        together.setdefault(key, []).append((replace(one, groups=groups), value))
    return [replace(rows[0][0], score=sum(one for _, one in rows) / len(rows)) for rows in together.values()]


def scale_of(values: np.ndarray) -> tuple[float, float] | None:
    """The scale that a few ratings lie beyond, far away; ``None`` where all belong together.

    Example:
        >>> scale_of(np.array([1.0, 2, 3, 4, 5] * 20)), scale_of(np.array([1.0, 2, 3, 4, 5] * 20 + [50]))
        (None, (1, 5))
        >>> scale_of(np.array([1.0, 2, 3, 4, 5] * 20 + [-1, 999, 999]))
        (1, 5)
    """
    if not len(values):
        return None
    held = {one: float(((values >= one[0]) & (values <= one[1])).mean()) for one in SCALES}
    whole = min((high - low for (low, high), share in held.items() if share == 1), default=np.inf)
    small = len(values) < ENOUGH
    beyond = max(MOST_BEYOND, 1 / len(values) if len(values) >= FEW else 0)
    span = np.ptp(values) if np.isinf(whole) else 0
    most = {one: MOST_FAR if span > FARTHER * (one[1] - one[0]) else 0 for one in held}
    nearly = [one for one, share in held.items() if share >= 1 - max(beyond, most[one])]
    narrow = min(nearly, key=lambda one: one[1] - one[0], default=None)
    if narrow is None or (small and len({one for one in values if narrow[0] <= one <= narrow[1]}) < 3):
        return None
    return narrow if whole > (FARTHER if small else FAR) * (narrow[1] - narrow[0]) else None


def split_by_range(segments: Sequence[Segment], bounds: Sequence[float] | None) -> tuple[list[Segment], list[Segment]]:
    """Segments whose ratings lie within bounds, and the others; all where there are none."""
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    return parted(segments, (not low <= (one.score or 0.0) <= high for one in segments))


def beyond_range(segment: Segment, name: str, bounds: Sequence[float] | None) -> InputError:
    """The error of a rating beyond its bounds."""
    low, high = bounds or (-np.inf, np.inf)
    return InputError(
        f"Expected ratings from {low:g} to {high:g} in {name}, but got {segment.score:g} for "
        f"{segment.hypothesis[:60]!r}: correct it, or set `unusable` to leave-out."
    )


def _standardized(name: str, segments: Sequence[Segment], fitted_on: Sequence[Segment]) -> list[Segment]:
    ratings = _ratings(fitted_on) if fitted_on else np.zeros(1)
    mean, deviation = float(ratings.mean()), float(ratings.std())
    if not deviation > 0:
        raise InputError(f"Expected ratings that differ, but those of {name} are all equal: check the column.")
    return [replace(one, score=(float(one.score or 0.0) - mean) / deviation) for one in segments]


def _check_same(rated: Mapping[str, Sequence[Segment]]) -> None:
    """Compare the lowest and highest ratings of any two files; what lies between may differ with the texts."""
    ends = {name: _ratings(segments) for name, segments in rated.items() if segments}
    for (first, own), (second, other) in combinations(ends.items(), 2):
        low, high, other_low, other_high = own.min(), own.max(), other.min(), other.max()
        both = min(high, other_high) - max(low, other_low)
        if both < SHARED * (max(high, other_high) - min(low, other_low)):
            raise InputError(
                f"Expected ratings on one scale, but those of {first} go from {low:.3g} to {high:.3g}, "
                f"those of {second} from {other_low:.3g} to {other_high:.3g}: set `scales` to per-file to standardise "
                "each file, or to as-is if the scales are equal."
            )


def _ratings(segments: Sequence[Segment]) -> NDArray[np.float64]:
    return np.array([one.score for one in segments], dtype=np.float64)
