"""Agreement of a metric with people on segments: Pearson, Spearman and Kendall, overall and averaged over groups.

Everything is float64. A correlation that is not defined (fewer than three segments, or scores that are all equal) is
NaN, without a warning, and is counted wherever groups are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from textmover.meta_evaluation.statistics.kernel import (
    CORRELATIONS,
    check_statistic,
    kendall,
    pearson,
    spearman,
    unit_correlations,
)
from textmover.meta_evaluation.statistics.scores import group_positions, known_mean, paired_scores


class Correlation(NamedTuple):
    """Agreement of two lists of scores.

    Attributes:
        n: Number of segments.
        pearson: Pearson's r, in [-1, 1]; NaN where it is not defined.
        spearman: Spearman's ρ, in [-1, 1]; NaN where it is not defined.
        kendall: Kendall's τ-b, in [-1, 1]; NaN where it is not defined.
    """

    n: int
    pearson: float
    spearman: float
    kendall: float


class MeanCorrelation(NamedTuple):
    """Unweighted mean of the correlations of several groups.

    Attributes:
        n: Number of segments in the groups that were averaged.
        pearson: Mean of Pearson's r; NaN if no group has one.
        spearman: Mean of Spearman's ρ; NaN if no group has one.
        kendall: Mean of Kendall's τ-b; NaN if no group has one.
        groups: Number of groups that were averaged.
        undefined: Names of the groups left out because their correlation is NaN.
    """

    n: int
    pearson: float
    spearman: float
    kendall: float
    groups: int
    undefined: tuple[str, ...]


def correlations(metric_scores: ArrayLike, human_scores: ArrayLike) -> Correlation:
    """Pearson's r, Spearman's ρ and Kendall's τ-b of a metric with people.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.

    Returns:
        The three statistics; NaN for fewer than three segments and where either list is constant.

    Raises:
        InputError: If the lists differ in length or hold NaN or infinity.

    Example:
        >>> [round(value, 3) for value in correlations([0.1, 0.4, 0.2, 0.9], [1, 2, 3, 4])]
        [4, 0.798, 0.8, 0.667]
    """
    metric, human = paired_scores(metric_scores, human_scores)
    return Correlation(len(metric), *(float(one(metric, human)) for one in (pearson, spearman, kendall)))


def grouped_correlations(
    metric_scores: ArrayLike, human_scores: ArrayLike, groups: Sequence[str]
) -> dict[str, Correlation]:
    """Correlations within each group, such as each language pair.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        groups: Group of each segment, ``n`` names.

    Returns:
        Correlation by group, in the order in which the groups appear.

    Raises:
        InputError: If the lists differ in length or hold NaN or infinity.

    Example:
        >>> by_group = grouped_correlations([1, 2, 3, 1, 2, 3], [1, 2, 3, 3, 2, 1], ["a"] * 3 + ["b"] * 3)
        >>> {group: round(correlation.kendall, 6) for group, correlation in by_group.items()}
        {'a': 1.0, 'b': -1.0}
    """
    metric, human = paired_scores(metric_scores, human_scores)
    positions = group_positions(groups, len(metric))
    return {group: correlations(metric[members], human[members]) for group, members in positions.items()}


def mean_correlation(by_group: Mapping[str, Correlation]) -> MeanCorrelation:
    """Mean over groups, each group counting the same; groups without a correlation are left out and named.

    Args:
        by_group: Correlation by group, as from :func:`grouped_correlations`.

    Returns:
        The means, over how many groups they are, and which groups are missing.

    Example:
        >>> mean_correlation({"a": Correlation(9, 0.5, 0.5, 0.5), "b": Correlation(2, *[float("nan")] * 3)})
        MeanCorrelation(n=9, pearson=0.5, spearman=0.5, kendall=0.5, groups=1, undefined=('b',))
    """
    defined = [one for one in by_group.values() if not np.isnan(one[1:]).any()]
    undefined = tuple(group for group, one in by_group.items() if np.isnan(one[1:]).any())
    means = np.mean([one[1:] for one in defined], axis=0) if defined else np.full(3, np.nan)
    r, rho, tau = means.tolist()
    return MeanCorrelation(sum(one.n for one in defined), r, rho, tau, len(defined), undefined)


def correlation(x: ArrayLike, y: ArrayLike, statistic: str = "pearson") -> float:
    """Correlation of two lists ``[n]``; NaN for fewer than three scores and where either list is constant."""
    return float(CORRELATIONS[statistic](*paired_scores(x, y)))


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
    check_statistic(statistic)
    metric, human = paired_scores(metric_scores, human_scores)
    positions = group_positions(units, len(metric))
    values = unit_correlations(metric, human, list(positions.values()), statistic)
    by_unit = dict(zip(positions, values.tolist(), strict=True))
    undefined = tuple(name for name, value in by_unit.items() if np.isnan(value))
    missing = sum(len(positions[name]) for name in undefined)
    mean, units_left = float(known_mean(values, axis=0)), len(positions) - len(undefined)
    return AveragedCorrelation(mean, units_left, len(metric) - missing, undefined, missing, by_unit)
