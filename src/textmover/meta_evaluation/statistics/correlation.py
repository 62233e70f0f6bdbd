"""Agreement of a metric with people on segments: Pearson, Spearman and Kendall, overall and averaged over groups.

Everything is float64. A correlation that is not defined (fewer than three segments, or scores that are all equal: they
are compared, since a variance is not exact) is NaN, without a warning, and is counted wherever groups are averaged.

Each of :data:`CORRELATIONS` takes ``x`` and ``y``, ``[..., m]`` of shapes that broadcast, and gives one value per row.
With ``counts`` ``[draws, m]`` it takes ``x`` and ``y`` ``[m]`` and gives one value per draw of a bootstrap, in which
each score counts as often as it was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from textmover.meta_evaluation.statistics.scores import (
    Positions,
    Vector,
    batches,
    chunks,
    group_positions,
    known_mean,
    paired_scores,
    scaled,
    unit_rows,
)
from textmover.types import InputError

Counts = NDArray[np.int64]

MIN_SEGMENTS = 3  # fewest scores that have a correlation

LONG_ROW = 64
"""From this length on, pairs within a row are counted by SciPy's loop over rows, in n log n in place of n² steps."""

CANCELLATION = 0.1
"""Least share of a sum of squares that has to remain once the mean is taken off, for the difference to be trusted."""


def pearson(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Pearson's ``r = Σ c (x - x̄)(y - ȳ) / √(Σ c (x - x̄)² Σ c (y - ȳ)²)`` with ``x̄ = Σ c x / Σ c``."""
    if x.shape[-1] < MIN_SEGMENTS:
        return np.full(np.broadcast_shapes(x.shape, y.shape)[:-1] if counts is None else len(counts), np.nan)
    if counts is None:
        value = np.einsum("...m,...m->...", unit_rows(x), unit_rows(y))
        return np.where(_vary(x) & _vary(y), np.clip(value, -1, 1), np.nan)
    scaled_x, scaled_y = scaled(x), scaled(y)
    columns = np.stack([np.ones_like(scaled_x), scaled_x, scaled_y, scaled_x**2, scaled_y**2, scaled_x * scaled_y])
    total, sum_x, sum_y, square_x, square_y, product = (counts.astype(np.float64) @ columns.T).T
    total = np.maximum(total, 1.0)
    variance_x, variance_y = square_x - sum_x**2 / total, square_y - sum_y**2 / total
    with np.errstate(invalid="ignore", divide="ignore"):
        value = (product - sum_x * sum_y / total) / np.sqrt(variance_x) / np.sqrt(variance_y)
    # Scores are centred, so that a draw's mean is near 0; where it is not, differences of sums lose digits.
    unsure = (variance_x <= CANCELLATION * square_x) | (variance_y <= CANCELLATION * square_y)
    unsure |= total < MIN_SEGMENTS
    if unsure.any():
        few = counts[unsure]
        exact = _weighted_pearson(scaled_x, scaled_y, few)
        value[unsure] = np.where(_vary(x, few) & _vary(y, few), exact, np.nan)
    return np.clip(value, -1, 1)


def spearman(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Spearman's ρ: Pearson's r of the ranks within a row or a draw, equal scores sharing their mean rank."""
    if counts is None:
        return pearson(stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1))
    return _weighted_pearson(_drawn_ranks(x, counts), _drawn_ranks(y, counts), counts)


def kendall(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Kendall's τ-b, see :func:`tau_b`; copies of one score in a draw are tied with each other."""
    if counts is None and x.shape[-1] >= LONG_ROW:
        return _by_scipy(x, y, "b")
    return np.where(_size(x, counts) >= MIN_SEGMENTS, tau_b(*_pair_sums(x, y, counts)), np.nan)


def kendall_c(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Kendall's (Stuart's) τ-c, see :func:`tau_c`: for scales of unequal length."""
    if counts is None and x.shape[-1] >= LONG_ROW:
        return _by_scipy(x, y, "c")
    size, fewest = _size(x, counts), np.minimum(distinct(x, counts), distinct(y, counts))
    return np.where(size >= MIN_SEGMENTS, tau_c(_pair_sums(x, y, counts)[0], fewest, size), np.nan)


def accuracy(x: Vector, y: Vector) -> Vector:
    """Share of the pairs within each row that ``x`` and ``y`` order alike: ``mean [sign(Δx) = sign(Δy)]``."""
    alike = _pair_signs(x) == _pair_signs(y)
    return alike.mean(axis=-1) if alike.shape[-1] else np.full(alike.shape[:-1], np.nan)


CORRELATIONS: Mapping[str, Callable[..., Vector]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
    "kendall-c": kendall_c,
}
"""Correlations of segments."""


def check_statistic(statistic: str, known: Mapping[str, object] = CORRELATIONS) -> None:
    """Refuse a statistic that is not among those known."""
    if statistic not in known:
        raise InputError(f"Expected the statistic to be {', '.join(known)}, but got {statistic!r}: choose one.")


def unit_correlations(x: Vector, y: Vector, units: Sequence[Positions], statistic: str) -> Vector:
    """A correlation of scores ``[..., n]`` within each of ``U`` units, ``[..., U]``."""
    values = np.full((*np.broadcast_shapes(x.shape[:-1], y.shape[:-1]), len(units)), np.nan)
    for numbers, members in batches(units):
        values[..., numbers] = CORRELATIONS[statistic](np.take(x, members, axis=-1), np.take(y, members, axis=-1))
    return values


def tau_b(surplus: Vector, untied_x: Vector, untied_y: Vector) -> Vector:
    """``τ_b = (C - D) / √(U_x U_y)``: surplus of concordant pairs, and pairs that are not tied in each list."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(surplus / np.sqrt(untied_x) / np.sqrt(untied_y), -1, 1)


def tau_c(surplus: Vector, fewest: Vector | Counts, size: Vector | float) -> Vector:
    """``τ_c = 2 (C - D) q / (n² (q - 1))``, ``q`` the smaller number of distinct scores."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(2 * surplus / np.square(size) * fewest / (fewest - 1.0), -1, 1)


def distinct(x: Vector, counts: Counts | None = None) -> Counts:
    """Number of distinct scores in each row or draw."""
    if counts is None:
        return 1 + np.asarray((np.diff(np.sort(x, axis=-1), axis=-1) > 0).sum(axis=-1))
    return np.asarray((_equals(x, counts)[0] > 0).sum(axis=1))


def _pair_sums(x: Vector, y: Vector, counts: Counts | None) -> tuple[Vector, Vector, Vector]:
    """Surplus of concordant pairs, and pairs not tied in ``x`` and ``y``; in draws ``½ cᵀ S c``, exactly."""
    if counts is None:
        signs_x, signs_y = _pair_signs(x), _pair_signs(y)
        return (signs_x * signs_y).sum(axis=-1), np.abs(signs_x).sum(axis=-1), np.abs(signs_y).sum(axis=-1)
    weights = counts.astype(np.float64)
    sums = np.zeros((3, len(weights)))
    for columns in chunks(len(x), len(x)):
        sign_x, sign_y = np.sign(x[:, None] - x[columns]), np.sign(y[:, None] - y[columns])
        for row, signs in enumerate((sign_x * sign_y, np.abs(sign_x), np.abs(sign_y))):
            sums[row] += np.einsum("sj,sj->s", weights @ signs, weights[:, columns]) / 2
    return sums[0], sums[1], sums[2]


def _pair_signs(x: Vector) -> Vector:
    """Sign of the difference of each pair within each row, ``[..., m (m - 1) / 2]``."""
    first, second = np.triu_indices(x.shape[-1], 1)
    return np.sign(x[..., first] - x[..., second])


def _by_scipy(x: Vector, y: Vector, variant: Literal["b", "c"]) -> Vector:
    x, y = np.broadcast_arrays(x, y)
    pairs = zip(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]), strict=True)
    values = [stats.kendalltau(one, other, variant=variant, method="asymptotic").statistic for one, other in pairs]
    return np.array(values, dtype=np.float64).reshape(x.shape[:-1])


def _size(x: Vector, counts: Counts | None) -> Vector:
    return np.asarray(x.shape[-1] if counts is None else counts.sum(axis=1), dtype=np.float64)


def _vary(x: Vector, counts: Counts | None = None) -> NDArray[np.bool_]:
    high, low = (x, x) if counts is None else (np.where(counts > 0, x, end) for end in (-np.inf, np.inf))
    return high.max(axis=-1) > low.min(axis=-1)


def _equals(x: Vector, counts: Counts) -> tuple[Counts, Positions]:
    """Count of each distinct score in each draw, ``[draws, levels]``, and the level of each score."""
    _, level = np.unique(x, return_inverse=True)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))  # where the sorted scores change
    return np.add.reduceat(counts[:, order], starts, axis=1), level


def _drawn_ranks(x: Vector, counts: Counts) -> Vector:
    """Rank of each score within each draw, ``[draws, m]``: the mean rank of all its equals that were drawn."""
    equals, level = _equals(x, counts)
    return (equals.cumsum(axis=1) - (equals - 1) / 2)[:, level]


def _weighted_pearson(x: Vector, y: Vector, counts: Counts) -> Vector:
    """Pearson's r of every draw, of scores ``[n]`` or ``[draws, n]``, by the deviations from the mean of the draw."""
    weights = counts.astype(np.float64)
    total = weights.sum(axis=1, keepdims=True)
    total[total < MIN_SEGMENTS] = np.nan
    x = x - (weights * x).sum(axis=1, keepdims=True) / total
    y = y - (weights * y).sum(axis=1, keepdims=True) / total
    weighted_x = weights * x
    covariance = np.einsum("sn,sn->s", weighted_x, y)
    variance_x = np.einsum("sn,sn->s", weighted_x, x)
    variance_y = np.einsum("sn,sn->s", weights * y, y)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(covariance / np.sqrt(variance_x) / np.sqrt(variance_y), -1, 1)


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
    """Pearson's r, Spearman's ρ and Kendall's τ-b; NaN for fewer than three scores or a constant list.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.

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
    """Correlations within each group, such as each language pair, in the order in which the groups appear.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        groups: Group of each segment, ``n`` names.

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
