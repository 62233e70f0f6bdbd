"""Segment-level correlation of a metric with human scores: Pearson, Spearman and Kendall, overall and by group.

All values are float64. An undefined correlation (fewer than three segments or constant scores) is NaN, without a
warning; averages over groups report it. Constant scores are detected by comparison, since a variance is not exact.

Each of :data:`CORRELATIONS` takes ``x`` and ``y`` of broadcastable shapes ``[..., m]`` and returns one value per row.
With ``counts`` ``[draws, m]``, it takes ``x`` and ``y`` of shape ``[m]`` and returns one value per bootstrap draw, in
which each score is repeated ``counts`` times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from textmover.meta_evaluation.statistics.score_arrays import (
    Positions,
    Vector,
    batches,
    chunks,
    group_positions,
    nan_mean,
    paired_scores,
    scaled,
    unit_rows,
)
from textmover.types import InputError

Counts = NDArray[np.int64]

MIN_SEGMENTS = 3  # fewest scores for a defined correlation

LONG_ROW = 64
"""Row length from which SciPy's loop over rows counts pairs, in n log n instead of n² steps."""

CANCELLATION = 0.1
"""Smallest fraction of a sum of squares that must remain after centring for the difference to be accurate."""


def pearson(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Compute Pearson's ``r = Σ c (x - x̄)(y - ȳ) / √(Σ c (x - x̄)² Σ c (y - ȳ)²)`` with ``x̄ = Σ c x / Σ c``."""
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
    # Scores are centred, so a draw's mean is usually near 0; otherwise differences of sums lose precision.
    unsure = (variance_x <= CANCELLATION * square_x) | (variance_y <= CANCELLATION * square_y)
    unsure |= total < MIN_SEGMENTS
    if unsure.any():
        few = counts[unsure]
        exact = _weighted_pearson(scaled_x, scaled_y, few)
        value[unsure] = np.where(_vary(x, few) & _vary(y, few), exact, np.nan)
    return np.clip(value, -1, 1)


def spearman(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Compute Spearman's ρ: Pearson's r of the ranks within a row or draw; equal scores get their mean rank."""
    if counts is None:
        return pearson(stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1))
    return _weighted_pearson(_drawn_ranks(x, counts), _drawn_ranks(y, counts), counts)


def kendall(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Compute Kendall's τ-b, see :func:`tau_b`; copies of a score in a draw are tied with each other."""
    if counts is None and x.shape[-1] >= LONG_ROW:
        return _by_scipy(x, y, "b")
    return np.where(_size(x, counts) >= MIN_SEGMENTS, tau_b(*_pair_sums(x, y, counts)), np.nan)


def kendall_c(x: Vector, y: Vector, counts: Counts | None = None) -> Vector:
    """Compute Kendall's (Stuart's) τ-c, see :func:`tau_c`, for scales with different numbers of values."""
    if counts is None and x.shape[-1] >= LONG_ROW:
        return _by_scipy(x, y, "c")
    size, fewest = _size(x, counts), np.minimum(distinct(x, counts), distinct(y, counts))
    return np.where(size >= MIN_SEGMENTS, tau_c(_pair_sums(x, y, counts)[0], fewest, size), np.nan)


def accuracy(x: Vector, y: Vector) -> Vector:
    """Compute the share of pairs of each row in the order of ``y``; NaN for a constant ``y``, which orders none."""
    x, y = _pair_signs(x), _pair_signs(y)
    alike = np.where(np.isnan(x + y) | ~y.any(axis=-1, keepdims=True), np.nan, x == y)
    return alike.mean(axis=-1) if alike.shape[-1] else np.full(alike.shape[:-1], np.nan)


CORRELATIONS: Mapping[str, Callable[..., Vector]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
    "kendall-c": kendall_c,
}
"""Segment-level correlations by name."""


def check_statistic(statistic: str, known: Mapping[str, object] = CORRELATIONS) -> None:
    """Raise an :class:`InputError` if the statistic is unknown."""
    if statistic not in known:
        raise InputError(f"Expected the statistic to be {', '.join(known)}, but got {statistic!r}: choose one.")


def unit_correlations(x: Vector, y: Vector, units: Sequence[Positions], statistic: str) -> Vector:
    """Correlate scores ``[..., n]`` within each of ``U`` units, ``[..., U]``."""
    values = np.full((*np.broadcast_shapes(x.shape[:-1], y.shape[:-1]), len(units)), np.nan)
    for numbers, members in batches(units):
        values[..., numbers] = CORRELATIONS[statistic](np.take(x, members, axis=-1), np.take(y, members, axis=-1))
    return values


def tau_b(surplus: Vector, untied_x: Vector, untied_y: Vector) -> Vector:
    """Return ``τ_b = (C - D) / √(U_x U_y)``; ``surplus`` is ``C - D``, and ``U`` counts the untied pairs of a list."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(surplus / np.sqrt(untied_x) / np.sqrt(untied_y), -1, 1)


def tau_c(surplus: Vector, fewest: Vector | Counts, size: Vector | float) -> Vector:
    """Return ``τ_c = 2 (C - D) q / (n² (q - 1))``, where ``q`` is the smaller number of distinct scores."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(2 * surplus / np.square(size) * fewest / (fewest - 1.0), -1, 1)


def distinct(x: Vector, counts: Counts | None = None) -> Counts:
    """Count distinct scores in each row or draw."""
    if counts is None:
        return 1 + np.asarray((np.diff(np.sort(x, axis=-1), axis=-1) > 0).sum(axis=-1))
    return np.asarray((_equals(x, counts)[0] > 0).sum(axis=1))


def _pair_sums(x: Vector, y: Vector, counts: Counts | None) -> tuple[Vector, Vector, Vector]:
    """Return ``C - D`` and the numbers of untied pairs of ``x`` and ``y``; for draws exactly ``½ cᵀ S c``."""
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
    """Return the sign of the difference of each pair within each row, ``[..., m (m - 1) / 2]``."""
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
    """Count each distinct score in each draw, ``[draws, levels]``; also return the level of each score."""
    _, level = np.unique(x, return_inverse=True)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))  # first position of each distinct score
    return np.add.reduceat(counts[:, order], starts, axis=1), level


def _drawn_ranks(x: Vector, counts: Counts) -> Vector:
    """Return the rank of each score within each draw, ``[draws, m]``; equal scores get their mean rank."""
    equals, level = _equals(x, counts)
    return (equals.cumsum(axis=1) - (equals - 1) / 2)[:, level]


def _weighted_pearson(x: Vector, y: Vector, counts: Counts) -> Vector:
    """Compute Pearson's r of each draw from scores ``[n]`` or ``[draws, n]``, centred on the mean of the draw."""
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
    """Correlations of two lists of scores.

    Attributes:
        n: Number of segments.
        pearson: Pearson's r, in [-1, 1]; NaN if undefined.
        spearman: Spearman's ρ, in [-1, 1]; NaN if undefined.
        kendall: Kendall's τ-b, in [-1, 1]; NaN if undefined.
    """

    n: int
    pearson: float
    spearman: float
    kendall: float


class MeanCorrelation(NamedTuple):
    """Unweighted mean of the correlations of several groups.

    Attributes:
        n: Number of segments in the averaged groups.
        pearson: Mean of Pearson's r; NaN if no group has one.
        spearman: Mean of Spearman's ρ; NaN if no group has one.
        kendall: Mean of Kendall's τ-b; NaN if no group has one.
        groups: Number of averaged groups.
        undefined: Names of the groups excluded because their correlation is NaN.
    """

    n: int
    pearson: float
    spearman: float
    kendall: float
    groups: int
    undefined: tuple[str, ...]


def correlations(metric_scores: ArrayLike, human_scores: ArrayLike) -> Correlation:
    """Compute Pearson's r, Spearman's ρ and Kendall's τ-b; NaN for fewer than three scores or a constant list.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.

    Raises:
        InputError: If the lists differ in length or contain NaN or infinity.

    Example:
        >>> [round(value, 3) for value in correlations([0.1, 0.4, 0.2, 0.9], [1, 2, 3, 4])]
        [4, 0.798, 0.8, 0.667]
    """
    metric, human = paired_scores(metric_scores, human_scores)
    return Correlation(len(metric), *(float(one(metric, human)) for one in (pearson, spearman, kendall)))


def grouped_correlations(
    metric_scores: ArrayLike, human_scores: ArrayLike, groups: Sequence[str]
) -> dict[str, Correlation]:
    """Compute correlations within each group, such as each language pair, in order of first appearance.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        groups: Group of each segment, ``n`` names.

    Raises:
        InputError: If the lists differ in length or contain NaN or infinity.

    Example:
        >>> by_group = grouped_correlations([1, 2, 3, 1, 2, 3], [1, 2, 3, 3, 2, 1], ["a"] * 3 + ["b"] * 3)
        >>> {group: round(correlation.kendall, 6) for group, correlation in by_group.items()}
        {'a': 1.0, 'b': -1.0}
    """
    metric, human = paired_scores(metric_scores, human_scores)
    positions = group_positions(groups, len(metric))
    return {group: correlations(metric[members], human[members]) for group, members in positions.items()}


def mean_correlation(by_group: Mapping[str, Correlation]) -> MeanCorrelation:
    """Average correlations over groups with equal weight; exclude undefined groups and return their names.

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
    """Correlate two lists ``[n]``; NaN for fewer than three scores or if a list is constant."""
    return float(CORRELATIONS[statistic](*paired_scores(x, y)))


class AveragedCorrelation(NamedTuple):
    """Unweighted mean of a correlation over units.

    Attributes:
        value: Mean correlation; NaN if no unit has one.
        units: Number of averaged units.
        segments: Number of segments in the averaged units.
        undefined: Names of units without a correlation: fewer than three segments, or a constant list.
        undefined_segments: Number of segments in the undefined units.
        by_unit: Correlation of each unit; NaN if undefined.
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
    """Average the correlation within each unit over units: ``(1/U) Σ_u corr(x_u, y_u)``.

    If units are groups, this measures agreement within groups. If units are items, it measures whether the metric
    orders the outputs for an item as people do. If units are systems, it measures whether the metric finds the items
    that a system did well on. Units without a correlation are excluded, and their names returned.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        units: Unit of each segment, ``n`` names; ``None`` pools all segments as one unit, ``"all"``.
        statistic: ``pearson``, ``spearman``, ``kendall`` (τ-b) or ``kendall-c``.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or the statistic is unknown.

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
    mean, units_left = float(nan_mean(values, axis=0)), len(positions) - len(undefined)
    return AveragedCorrelation(mean, units_left, len(metric) - missing, undefined, missing, by_unit)
