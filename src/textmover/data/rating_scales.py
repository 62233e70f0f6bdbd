"""Ratings of several files: on one scale, or each standardised by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from textmover.types import InputError, Segment

__all__ = ["Scales", "on_one_scale"]

Scales = Literal["same", "as-is", "per-file"]

SPREADS = 4.0
"""How many times wider one file's ratings may spread than another's, and how many spreads their means may lie apart,
before they are taken for ratings on different scales."""


def on_one_scale(
    rated: Mapping[str, Sequence[Segment]], scales: Scales, fitted_on: Mapping[str, Sequence[Segment]] | None = None
) -> dict[str, list[Segment]]:
    """The segments of several files with ratings that can be trained on together.

    Args:
        rated: Rated segments by file.
        scales: ``same`` checks that the files' ratings look alike, ``as-is`` takes them unchecked, ``per-file`` gives
            each file's ratings mean 0 and standard deviation 1.
        fitted_on: The segments that mean and deviation of a file come from; those of ``rated`` if ``None``.

    Returns:
        The segments by file.

    Raises:
        InputError: If scales differ where one is expected, or a file's ratings are all equal where they are
            standardised.

    Example:
        >>> files = {"a": [Segment("h", ("r",), score=one) for one in (1.0, 3.0)]}
        >>> [one.score for one in on_one_scale(files, "per-file")["a"]]
        [-1.0, 1.0]
    """
    if scales == "same":
        _check_same(rated)
    if scales != "per-file":
        return {name: list(segments) for name, segments in rated.items()}
    return {
        name: _standardized(name, segments, rated[name] if fitted_on is None else fitted_on[name])
        for name, segments in rated.items()
    }


def _standardized(name: str, segments: Sequence[Segment], fitted_on: Sequence[Segment]) -> list[Segment]:
    mean, deviation = _moments(fitted_on)
    if not deviation > 0:
        raise InputError(f"Expected ratings that differ, but those of {name} are all equal: check the column.")
    return [replace(one, score=(float(one.score or 0.0) - mean) / deviation) for one in segments]


def _check_same(rated: Mapping[str, Sequence[Segment]]) -> None:
    (first, *others), moments = list(rated), {name: _moments(segments) for name, segments in rated.items()}
    mean, deviation = moments[first]
    for name in others:
        other_mean, other_deviation = moments[name]
        narrow, wide = sorted((deviation, other_deviation))
        if wide > SPREADS * narrow or abs(mean - other_mean) > SPREADS * wide:
            raise InputError(
                f"Expected files whose ratings are on one scale, but those of {first} have mean {mean:.3g} and "
                f"standard deviation {deviation:.3g}, those of {name} {other_mean:.3g} and {other_deviation:.3g}: set "
                "`scales` to per-file to standardise each file, or to as-is if the scale is the same after all."
            )


def _moments(segments: Sequence[Segment]) -> tuple[float, float]:
    ratings = np.array([one.score for one in segments], dtype=np.float64)
    return (float(ratings.mean()), float(ratings.std())) if len(ratings) else (0.0, 0.0)
