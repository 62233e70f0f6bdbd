"""A correlation averaged over units: groups, items (over the systems of each), or systems (over the items of each)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from textmover.meta_evaluation.statistics.correlation import group_positions, paired_scores
from textmover.meta_evaluation.statistics.row_correlation import unit_correlations
from textmover.types import InputError

CORRELATIONS = ("pearson", "spearman", "kendall", "kendall-c")
"""Names of the correlations of segments."""


class AveragedCorrelation(NamedTuple):
    """Unweighted mean of a correlation over units.

    Attributes:
        value: The mean; NaN if no unit has a correlation.
        units: Over how many units it is averaged.
        segments: How many segments these hold.
        undefined: Names of the units without a correlation: fewer than three segments, or either list constant.
        undefined_segments: How many segments those hold.
        by_unit: The correlation of each unit, NaN where there is none.
    """

    value: float
    units: int
    segments: int
    undefined: tuple[str, ...]
    undefined_segments: int
    by_unit: Mapping[str, float]


def averaged_correlation(
    metric_scores: ArrayLike, human_scores: ArrayLike, units: Sequence[str] | None = None, *, statistic: str = "pearson"
) -> AveragedCorrelation:
    """Correlation within each unit, averaged over units: ``(1/U) Σ_u corr(x_u, y_u)``.

    What the units are says what is asked: with the group of each segment, agreement within groups; with its item,
    whether the metric orders the outputs for one item as people do; with its system, whether it finds the items that
    the system did well on. Units without a correlation are left out of the mean and named.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        units: Unit of each segment, ``n`` names; ``None`` pools all segments as one unit, ``"all"``.
        statistic: ``pearson``, ``spearman``, ``kendall`` (τ-b) or ``kendall-c``.

    Returns:
        The mean, over how many units it is, and which are missing.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or the statistic is unknown.

    Example:
        >>> result = averaged_correlation([1, 2, 3, 4, 4, 4], [1, 3, 2, 1, 2, 3], ["a"] * 3 + ["b"] * 3)
        >>> round(result.value, 6), result.units, result.undefined, result.undefined_segments
        (0.5, 1, ('b',), 3)
    """
    if statistic not in CORRELATIONS:
        raise InputError(f"Expected the statistic to be {', '.join(CORRELATIONS)}, but got {statistic!r}: choose one.")
    metric, human = paired_scores(metric_scores, human_scores)
    positions = group_positions(["all"] * len(metric) if units is None else units, len(metric))
    values = unit_correlations(metric, human, list(positions.values()), statistic)
    by_unit = dict(zip(positions, values.tolist(), strict=True))
    undefined = tuple(name for name, value in by_unit.items() if np.isnan(value))
    missing = sum(len(positions[name]) for name in undefined)
    defined = values[~np.isnan(values)]
    mean = float(defined.mean()) if len(defined) else float("nan")
    return AveragedCorrelation(mean, len(defined), len(metric) - missing, undefined, missing, by_unit)
