"""Ratings of several files: on one scale, or each standardised by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from textmover.types import InputError, Segment

Scales = Literal["same", "as-is", "per-file"]

SHARED = 0.5
"""Part of what two files' ratings span together that both of them have to span, lest they be taken for ratings on
different scales. Language pairs and years of WMT share .76 of it or more, tasks of STS .75, although the means of these
lie up to three standard deviations apart; 0-1 and 0-4 share a quarter, standardised ratings and 1-5 about a fifth."""


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
    return {
        name: _standardized(name, segments, rated[name] if fitted_on is None else fitted_on[name])
        for name, segments in rated.items()
    }


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
                f"Expected files whose ratings are on one scale, but those of {first} go from {low:.3g} to {high:.3g}, "
                f"those of {second} from {other_low:.3g} to {other_high:.3g}: set `scales` to per-file to standardise "
                "each file, or to as-is if the scale is the same after all."
            )


def _ratings(segments: Sequence[Segment]) -> NDArray[np.float64]:
    return np.array([one.score for one in segments], dtype=np.float64)
