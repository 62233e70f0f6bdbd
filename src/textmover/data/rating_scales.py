"""Ratings of several files or annotators: scale checks and standardisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from textmover.data.split import partition
from textmover.types import InputError, Segment

Scales = Literal["same", "as-is", "per-file"]
Annotators = Literal["mean", "standardised"]

SHARED = 0.5
"""Minimum overlap of the rating ranges of two files, relative to their joint range, to count as one scale. Language
pairs and years of WMT overlap by .76 or more, tasks of STS by .75, although their means differ by up to three standard
deviations. Scales 0-1 and 0-4 overlap by a quarter, standardised ratings and 1-5 by about a fifth."""

# Common rating scales, narrowest first.
SCALES = ((0, 1), (-1, 1), (1, 3), (0, 3), (1, 4), (0, 4), (1, 5), (0, 5), (1, 6), (1, 7), (1, 10), (0, 10), (0, 100))
# Maximum shares of ratings outside the scale of the others; the second if no scale holds all, by far.
MOST_BEYOND, MOST_FAR = 0.02, 0.05
# Minimum ratings for a single outlier regardless of its share, and for the strictness of large samples.
FEW, ENOUGH = 6, 20
# Minimum width of all ratings relative to the scale of the others; the second for fewer than ENOUGH ratings.
FAR, FARTHER = 2, 9
# Minimum ratings on a narrow scale relative to those above it, as far as it is wide. Sets of one scale have at most 3.
MANY_TIMES = 5


def on_one_scale(
    rated: Mapping[str, Sequence[Segment]], scales: Scales, fitted_on: Mapping[str, Sequence[Segment]] | None = None
) -> dict[str, list[Segment]]:
    """Return the segments of several files with ratings that can be trained on together.

    ``same`` checks that the rating ranges of any two files overlap enough, ``as-is`` skips the check. ``per-file``
    standardises each file by the mean and standard deviation of its segments in ``fitted_on``.
    """
    if scales == "same":
        _check_same(rated)
    if scales != "per-file":
        return {name: list(segments) for name, segments in rated.items()}
    return {name: _standardized(name, segments, (fitted_on or rated)[name]) for name, segments in rated.items()}


def over_annotators(segments: Sequence[Segment], column: str, how: Annotators) -> list[Segment]:
    """Return one segment for each text, with the mean rating of its annotators, who are named by a group column.

    ``standardised`` first maps each annotator's ratings to the overall mean and deviation, constant ones to the mean.

    Example:
        >>> rows = [Segment("h", ("r",), score, groups={"by": name}) for name, score in (("a", 1.0), ("b", 4.0))]
        >>> over_annotators(rows, "by", "mean")
        [Segment(hypothesis='h', references=('r',), score=2.5, source=None, groups={})]
    """
    values = _ratings(segments)
    if how == "standardised" and len(segments):
        names = np.array([segment.groups[column] for segment in segments])
        mean, deviation = values.mean(), values.std()
        for name in np.unique(names):
            scores = values[names == name]
            z = (scores - scores.mean()) / scores.std() if np.ptp(scores) > 0 else 0.0
            values[names == name] = mean + deviation * z
    by_text: dict[tuple[object, ...], list[tuple[Segment, float]]] = {}
    for segment, value in zip(segments, values.tolist(), strict=True):
        groups = {name: text for name, text in segment.groups.items() if name != column}
        key = (segment.hypothesis, segment.references, segment.source, *groups.items())
        by_text.setdefault(key, []).append((replace(segment, groups=groups), value))
    return [replace(rows[0][0], score=sum(value for _, value in rows) / len(rows)) for rows in by_text.values()]


def scale_of(values: np.ndarray) -> tuple[float, float] | None:
    """Return the scale that a few ratings exceed by far; ``None`` if all ratings belong together.

    Example:
        >>> scale_of(np.array([1.0, 2, 3, 4, 5] * 20)), scale_of(np.array([1.0, 2, 3, 4, 5] * 20 + [50]))
        (None, (1, 5))
        >>> scale_of(np.array([1.0, 2, 3, 4, 5] * 20 + [-1, 999, 999]))
        (1, 5)
    """
    if not len(values):
        return None
    coverage = {scale: float(((values >= scale[0]) & (values <= scale[1])).mean()) for scale in SCALES}
    covering_width = min((high - low for (low, high), share in coverage.items() if share == 1), default=np.inf)
    small = len(values) < ENOUGH
    beyond = max(MOST_BEYOND, 1 / len(values) if len(values) >= FEW else 0)
    span = np.ptp(values) if np.isinf(covering_width) else 0
    most = {scale: MOST_FAR if span > FARTHER * (scale[1] - scale[0]) else 0 for scale in coverage}
    nearly = [scale for scale, share in coverage.items() if share >= 1 - max(beyond, most[scale])]
    narrow = min(nearly, key=lambda scale: scale[1] - scale[0], default=None)
    if narrow is None or (small and len({scale for scale in values if narrow[0] <= scale <= narrow[1]}) < 3):
        return None
    return narrow if covering_width > (FARTHER if small else FAR) * (narrow[1] - narrow[0]) else None


def narrow_scale_of(values: np.ndarray) -> tuple[float, float] | None:
    """Return the scale of some ratings among others on a far wider one; ``None`` if all may be of one scale.

    Ratings on one scale do not stop so sharply: few are found above the narrow scale for as far as it is wide.

    Example:
        >>> narrow_scale_of(np.array([1.0, 2, 3, 4, 5] * 20 + [30, 60, 70, 80, 95] * 20))
        (1, 5)
    """
    for low, high in SCALES:
        inside = values[(values >= low) & (values <= high)]
        counts = np.unique(inside, return_counts=True)[1]
        far = values > 2 * high - low
        sharp = len(inside) >= MANY_TIMES * ((values > high) & ~far).sum()
        several = len(counts) > 2 and counts.max() < 0.8 * len(inside)  # not a heap of the worst rating alone
        enough = min(len(inside), far.sum()) >= max(ENOUGH, MOST_FAR * len(values))
        if enough and sharp and several and np.ptp(values) > FARTHER * (high - low):
            return low, high
    return None


def split_by_range(segments: Sequence[Segment], bounds: Sequence[float] | None) -> tuple[list[Segment], list[Segment]]:
    """Split segments by whether their ratings are within bounds; without bounds all are."""
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    return partition(segments, (not low <= (segment.score or 0.0) <= high for segment in segments))


def beyond_range(segment: Segment, name: str, bounds: Sequence[float] | None) -> InputError:
    """Return the error for a rating outside its bounds."""
    low, high = bounds or (-np.inf, np.inf)
    return InputError(
        f"Expected ratings from {low:g} to {high:g} in {name}, but got {segment.score:g} for "
        f"{segment.hypothesis[:60]!r}: correct it."
    )


def _standardized(name: str, segments: Sequence[Segment], fitted_on: Sequence[Segment]) -> list[Segment]:
    ratings = _ratings(fitted_on) if fitted_on else np.zeros(1)
    mean, deviation = float(ratings.mean()), float(ratings.std())
    if not np.ptp(ratings) > 0:
        raise InputError(f"Expected ratings that differ, but those of {name} are all equal: check the column.")
    return [replace(segment, score=(float(segment.score or 0.0) - mean) / deviation) for segment in segments]


def _check_same(rated: Mapping[str, Sequence[Segment]]) -> None:
    """Compare the rating ranges of any two files; distributions within the range may differ."""
    ends = {name: _ratings(segments) for name, segments in rated.items() if segments}
    for (first, own), (second, other) in combinations(ends.items(), 2):
        low, high, other_low, other_high = own.min(), own.max(), other.min(), other.max()
        overlap = min(high, other_high) - max(low, other_low)
        if overlap < SHARED * (max(high, other_high) - min(low, other_low)):
            raise InputError(
                f"Expected ratings on one scale, but those of {first} go from {low:.3g} to {high:.3g}, "
                f"those of {second} from {other_low:.3g} to {other_high:.3g}: set `scales` to per-file to standardise "
                "each file, or to as-is if the scales are equal."
            )


def _ratings(segments: Sequence[Segment]) -> NDArray[np.float64]:
    return np.array([segment.score for segment in segments], dtype=np.float64)
