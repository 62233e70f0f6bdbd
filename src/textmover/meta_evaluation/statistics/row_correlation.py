"""Correlations of every row of a table at once, and their averages over units.

Agreement is often the mean of a statistic over thousands of items with a few outputs each, or is computed once per
permutation. Numbers are those of :mod:`textmover.meta_evaluation.statistics.correlation`; a row without a correlation
(fewer than three scores, or scores that are all equal) gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from textmover.meta_evaluation.statistics.bootstrap_correlation import CHUNK_ENTRIES, Vector
from textmover.meta_evaluation.statistics.correlation import (
    MIN_SEGMENTS,
    group_positions,
    kendall,
    kendall_c,
    paired_scores,
)
from textmover.types import InputError

LONG_ROW = 64
"""From this length on, pairs within a row are counted by SciPy's loop over rows, in n log n in place of n² steps."""

ROUNDING = 1e-12
"""Sums and means that differ by less, relative to their terms, are equal but for rounding."""

Positions = NDArray[np.int64]


class Batch(NamedTuple):
    """Units of the same size, such as the items with four outputs each.

    Attributes:
        units: Their numbers, ``[U]``.
        members: Positions of their members, ``[U, m]``.
    """

    units: Positions
    members: Positions


def batches(units: Sequence[Positions]) -> Iterator[Batch]:
    """Units collected by their size, so that those of one size form a table.

    Args:
        units: Positions of the members of each unit.

    Example:
        >>> [batch.members.tolist() for batch in batches([np.array([0, 2]), np.array([1]), np.array([3, 4])])]
        [[[1]], [[0, 2], [3, 4]]]
    """
    sizes: dict[int, list[int]] = {}
    for number, members in enumerate(units):
        sizes.setdefault(len(members), []).append(number)
    for _, numbers in sorted(sizes.items()):
        yield Batch(np.asarray(numbers, dtype=np.int64), np.stack([units[number] for number in numbers]))


def row_pearson(x: Vector, y: Vector) -> Vector:
    """Pearson's r of each row of ``x`` with the same row of ``y``.

    Args:
        x: Scores ``[..., m]``.
        y: Scores of a shape that broadcasts with that of ``x``.

    Returns:
        ``[...]``; NaN where there are fewer than three scores or either row is constant.

    Example:
        >>> row_pearson(np.array([[1.0, 2, 3], [1, 1, 1]]), np.array([2.0, 3, 4])).round(6)
        array([ 1., nan])
    """
    if x.shape[-1] < MIN_SEGMENTS:
        return np.full(np.broadcast_shapes(x.shape, y.shape)[:-1], np.nan)
    return np.clip(np.einsum("...m,...m->...", _unit_rows(x), _unit_rows(y)), -1, 1)


def row_spearman(x: Vector, y: Vector) -> Vector:
    """Spearman's ρ of each row of ``x`` with the same row of ``y``.

    Args:
        x: Scores ``[..., m]``.
        y: Scores of a shape that broadcasts with that of ``x``.

    Returns:
        ``[...]``; NaN where there are fewer than three scores or either row is constant.

    Example:
        >>> row_spearman(np.array([[1.0, 8, 64], [3, 2, 1]]), np.array([2.0, 3, 4])).round(6)
        array([ 1., -1.])
    """
    return row_pearson(stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1))


def row_kendall(x: Vector, y: Vector) -> Vector:
    """Kendall's τ-b of each row of ``x`` with the same row of ``y``.

    Args:
        x: Scores ``[..., m]``.
        y: Scores of a shape that broadcasts with that of ``x``.

    Returns:
        ``[...]``; NaN where there are fewer than three scores or either row is constant.

    Example:
        >>> row_kendall(np.array([[1.0, 2, 3], [1, 2, 2]]), np.array([1.0, 2, 3])).round(6)
        array([1.      , 0.816497])
    """
    if x.shape[-1] >= LONG_ROW:
        return _by_loop(kendall, x, y)
    signs_x, signs_y = _pair_signs(x), _pair_signs(y)
    with np.errstate(invalid="ignore", divide="ignore"):
        untied = np.sqrt(np.abs(signs_x).sum(axis=-1)) * np.sqrt(np.abs(signs_y).sum(axis=-1))
        tau = (signs_x * signs_y).sum(axis=-1) / untied
    return np.clip(tau, -1, 1) if x.shape[-1] >= MIN_SEGMENTS else np.full_like(tau, np.nan)


def row_kendall_c(x: Vector, y: Vector) -> Vector:
    """Kendall's τ-c of each row of ``x`` with the same row of ``y``.

    Args:
        x: Scores ``[..., m]``.
        y: Scores of a shape that broadcasts with that of ``x``.

    Returns:
        ``[...]``; NaN where there are fewer than three scores or either row is constant.

    Example:
        >>> row_kendall_c(np.array([[1.0, 2, 3], [1, 2, 2]]), np.array([1.0, 2, 3])).round(6)
        array([1.      , 0.888889])
    """
    size = x.shape[-1]
    if size >= LONG_ROW:
        return _by_loop(kendall_c, x, y)
    difference = (_pair_signs(x) * _pair_signs(y)).sum(axis=-1)
    fewest = np.minimum(_distinct(x), _distinct(y)).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = 2 * difference / size**2 * fewest / (fewest - 1)
    defined = (fewest > 1) & (size >= MIN_SEGMENTS)
    return np.where(defined, np.clip(tau, -1, 1), np.nan)


def row_accuracy(x: Vector, y: Vector) -> Vector:
    """Share of the pairs within each row that ``x`` and ``y`` order alike: ``mean [sign(Δx) = sign(Δy)]``.

    Args:
        x: Scores ``[..., m]``.
        y: Scores of a shape that broadcasts with that of ``x``.

    Returns:
        ``[...]``, in [0, 1]; NaN where there are fewer than two scores.

    Example:
        >>> row_accuracy(np.array([[1.0, 2, 3], [1, 3, 2]]), np.array([1.0, 2, 3])).round(6)
        array([1.      , 0.666667])
    """
    alike = _pair_signs(x) == _pair_signs(y)
    if not alike.shape[-1]:
        return np.full(alike.shape[:-1], np.nan)
    return alike.mean(axis=-1)


ROW_STATISTICS: Mapping[str, Callable[[Vector, Vector], Vector]] = {
    "pearson": row_pearson,
    "spearman": row_spearman,
    "kendall": row_kendall,
    "kendall-c": row_kendall_c,
    "accuracy": row_accuracy,
}
"""Each statistic as a function of the rows of two tables."""


def unit_correlations(x: Vector, y: Vector, units: Sequence[Positions], statistic: str) -> Vector:
    """A correlation within each unit.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.
        units: Positions of the members of each of ``U`` units.
        statistic: A key of :data:`ROW_STATISTICS`.

    Returns:
        ``[U]``; NaN where it is not defined.

    Example:
        >>> x, y = np.array([1.0, 2, 3, 5, 5, 5]), np.array([2.0, 3, 4, 1, 2, 3])
        >>> unit_correlations(x, y, [np.arange(3), np.arange(3, 6)], "kendall")
        array([ 1., nan])
    """
    values = np.full(len(units), np.nan)
    for batch in batches(units):
        values[batch.units] = ROW_STATISTICS[statistic](x[batch.members], y[batch.members])
    return values


def levelled(means: Vector, sizes: Vector) -> Vector:
    """Means with those made equal that are equal but for rounding, so that comparing them finds the tie.

    Means are equal if ``|x - y| ≤ ROUNDING (size(x) + size(y))``; of a run of such neighbours all become the lowest.

    Args:
        means: ``[..., m]``; NaN stays.
        sizes: Size of the terms of each mean, such as their largest absolute value, of a shape that broadcasts.

    Returns:
        ``[..., m]``.

    Example:
        >>> means = np.array([0.1 + 0.2, 0.5, 0.3])
        >>> bool(means[0] == means[2]), levelled(means, np.ones(3)).tolist()
        (False, [0.3, 0.5, 0.3])
    """
    sizes = np.broadcast_to(sizes, means.shape)
    order = np.argsort(means, axis=-1, kind="stable")
    ordered, terms = np.take_along_axis(means, order, axis=-1), np.take_along_axis(sizes, order, axis=-1)
    opens = np.ones(means.shape, dtype=bool)  # where a run of equals starts; NaN, at the end, always does
    opens[..., 1:] = ~(np.diff(ordered, axis=-1) <= ROUNDING * (terms[..., 1:] + terms[..., :-1]))
    starts = np.maximum.accumulate(np.where(opens, np.arange(means.shape[-1]), 0), axis=-1)
    found = np.empty_like(means)
    np.put_along_axis(found, order, np.take_along_axis(ordered, starts, axis=-1), axis=-1)
    return found


def _unit_rows(x: Vector) -> Vector:
    """Rows centred and of norm 1; NaN where they are constant."""
    varies = x.max(axis=-1, keepdims=True) > x.min(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Divided by the largest entry first, so that no square over- or underflows.
        x = x / np.abs(x).max(axis=-1, keepdims=True)
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.abs(x).max(axis=-1, keepdims=True)
        x = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return np.where(varies, x, np.nan)


def _pair_signs(x: Vector) -> Vector:
    """Sign of the difference of each pair within each row, ``[..., m (m - 1) / 2]``."""
    first, second = np.triu_indices(x.shape[-1], 1)
    return np.sign(x[..., first] - x[..., second])


def _distinct(x: Vector) -> NDArray[np.int64]:
    """Number of distinct scores in each row."""
    return 1 + np.asarray((np.diff(np.sort(x, axis=-1), axis=-1) > 0).sum(axis=-1))


def _by_loop(statistic: Callable[[Vector, Vector], float], x: Vector, y: Vector) -> Vector:
    """A statistic of each row, one at a time."""
    x, y = np.broadcast_arrays(x, y)
    pairs = zip(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]), strict=True)
    return np.array([statistic(one, other) for one, other in pairs]).reshape(x.shape[:-1])


def chunks(rows: int, entries: int) -> Iterator[slice]:
    """Slices of at most so many rows that a table of ``entries`` entries a row is held in memory at once.

    Args:
        rows: Number of rows in all.
        entries: Entries of the table for each row.

    Example:
        >>> list(chunks(3, 2**19))
        [slice(0, 2, None), slice(2, 3, None)]
    """
    step = max(1, CHUNK_ENTRIES // max(1, entries))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


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
