"""Agreement by text length and by rating quantile, and correlations between metrics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.significance.bootstrap import bootstrap_draws, percentiles
from textmover.meta_evaluation.statistics.correlation import check_statistic, unit_correlations
from textmover.meta_evaluation.statistics.score_arrays import Vector, finite_scores, group_positions
from textmover.types import InputError, View, plural
from textmover.types.display import shown_tuple


@shown_tuple
class BinAgreement(NamedTuple):
    """Agreement on the segments of one length or rating bin.

    All metrics are averaged over the groups in which all have a correlation, ignoring metrics without any.

    Attributes:
        low: Smallest length or rating in the bin.
        high: Largest length or rating in the bin.
        segments: Number of segments in the bin.
        values: Agreement of each of ``K`` metrics, mean over the included groups; NaN if undefined in the bin.
        groups: Number of included groups.
        among: Number of all groups, including those outside the bin.
        counted: Number of segments of the bin in included groups.
        lower: Lower end of the bootstrap interval of each metric, ``[K]``; NaN if not computed.
        upper: Upper end of the bootstrap interval of each metric.
    """

    low: float
    high: float
    segments: int
    values: Vector
    groups: int
    among: int
    counted: int
    lower: Vector
    upper: Vector

    def view(self) -> View:
        """Show the range of the bin and the agreement of each metric."""
        rows = list(zip(itertools.count(1), self.values, self.lower, self.upper, strict=False))
        size = f"{plural(self.segments, 'segment')}, {self.groups} of {plural(self.among, 'group')}"
        headline = f"{self.low:g} to {self.high:g}: {size}"
        return View(headline, ("metric", "agreement", "low", "high"), rows)


class MetricCorrelations(NamedTuple):
    """Correlations between metrics.

    Attributes:
        values: ``[K, K]``, symmetric, mean over the included groups; NaN if a metric is undefined in all groups.
        groups: Number of included groups: all metrics are defined there, ignoring those defined nowhere.
        among: Number of all groups.
        counted: Number of segments in included groups.
    """

    values: Vector
    groups: int
    among: int
    counted: int


class IntervalOptions(NamedTuple):
    """Options of bootstrap intervals.

    Attributes:
        samples: Number of bootstrap samples; 0 disables intervals.
        seed: Seed of the bootstrap.
        level: Confidence level.
        clusters: Cluster label of each segment; clusters are drawn as a whole. ``None`` draws single segments.
    """

    samples: int = 0
    seed: int = 0
    level: float = 0.95
    clusters: Sequence[str] | None = None


NO_INTERVALS = IntervalOptions()


def metric_correlations(
    scores: Sequence[ArrayLike], groups: Sequence[str] | None = None, *, statistic: str = "pearson"
) -> MetricCorrelations:
    """Correlate metrics with each other, averaged over the same groups for all pairs.

    Args:
        scores: Scores of ``K`` metrics, ``[n]`` each, without NaN.
        groups: Group of each segment; ``None`` pools all.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or the statistic is unknown.

    Example:
        >>> metric_correlations([[1, 2, 3], [1, 3, 2], [4, 4, 4]]).values
        array([[1. , 0.5, nan],
               [0.5, 1. , nan],
               [nan, nan, nan]])
    """
    columns = _columns(scores, None, statistic)
    parts = list(group_positions(groups, columns.shape[1]).values())
    # A metric's correlation with itself is defined wherever any correlation is.
    active, common = _defined_everywhere(unit_correlations(columns, columns, parts, statistic))
    table = np.full((len(columns), len(columns)), np.nan)
    included = [parts[index] for index in common.tolist()]
    for i, j in itertools.combinations_with_replacement(active.tolist() if included else [], 2):
        table[i, j] = table[j, i] = unit_correlations(columns[i], columns[j], included, statistic).mean()
    return MetricCorrelations(table, len(included), len(parts), sum(map(len, included)))


def agreement_by_length(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    lengths: ArrayLike,
    groups: Sequence[str] | None = None,
    *,
    bins: int = 4,
    statistic: str = "pearson",
    intervals: IntervalOptions = NO_INTERVALS,
) -> list[BinAgreement]:
    """Compute agreement by text length, in bins of about equal size, from short to long.

    Args:
        scores: Scores of ``K`` metrics, higher is better, ``[n]`` each.
        human: Human scores ``[n]``.
        lengths: Length of each text, such as its number of words, ``[n]``.
        groups: Group of each segment; agreement is the mean over groups, ``None`` pools all.
        bins: Maximum number of bins; equal lengths share a bin.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.
        intervals: Options of the bootstrap intervals.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or an option is out of range.

    Example:
        >>> human = [1, 2, 3, 3, 2, 1]
        >>> [(one.low, one.high, float(one.values[0])) for one in
        ...     agreement_by_length([[1, 2, 3, 1, 2, 3]], human, [4, 5, 6, 7, 8, 9], bins=2)]
        [(4.0, 6.0, 1.0), (7.0, 9.0, -1.0)]
    """
    values = finite_scores(lengths, "lengths")
    return _binned(scores, human, values, _bins(values, bins), groups, statistic, intervals)


def agreement_by_quantile(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    groups: Sequence[str] | None = None,
    *,
    bins: int = 4,
    statistic: str = "pearson",
    intervals: IntervalOptions = NO_INTERVALS,
) -> list[BinAgreement]:
    """Compute agreement by rating quantile, from low to high.

    Quantiles are computed within each group. Ratings have a smaller range within a bin, so all correlations are lower:
    compare metrics, not bins.

    Args:
        scores: Scores of ``K`` metrics, higher is better, ``[n]`` each.
        human: Human scores ``[n]``.
        groups: As for :func:`agreement_by_length`.
        bins: Maximum number of bins; equal ratings share a bin, and empty bins are omitted.
        statistic: As for :func:`agreement_by_length`.
        intervals: As for :func:`agreement_by_length`.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or an option is out of range.

    Example:
        >>> [one.segments for one in agreement_by_quantile([[1, 2, 3, 4, 5]], [1, 2, 3, 4, 5], bins=2)]
        [3, 2]
    """
    ratings = finite_scores(human, "human scores")
    numbers = np.zeros(len(ratings), dtype=np.int64)
    for members in group_positions(groups, len(ratings)).values():
        numbers[members] = _bins(ratings[members], bins)
    return _binned(scores, human, ratings, numbers, groups, statistic, intervals)


def _bins(values: Vector, bins: int) -> np.ndarray:
    """Return the quantile index of each value, ``[n]``; a value on an edge belongs to the lower bin."""
    if bins < 1:
        raise InputError(f"Expected at least one bin, but got {bins}: 4 makes quartiles.")
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    return np.searchsorted(np.quantile(values, np.arange(1, bins) / bins), values, side="left")


def _binned(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    values: Vector,
    bin_indices: np.ndarray,
    groups: Sequence[str] | None,
    statistic: str,
    intervals: IntervalOptions,
) -> list[BinAgreement]:
    ratings = finite_scores(human, "human scores")
    columns = _columns(scores, len(values), statistic)
    _same_length(len(ratings), len(values))
    labels = np.array(["all"] * len(values) if groups is None else list(groups), dtype=object)
    clusters = None if intervals.clusters is None else np.array(list(intervals.clusters), dtype=object)
    among = len(group_positions(labels.tolist(), len(values)))
    results = []
    for bin_index in np.unique(bin_indices):
        rows = np.flatnonzero(bin_indices == bin_index)
        parts = [rows[one] for one in group_positions(labels[rows].tolist(), len(rows)).values()]
        table = unit_correlations(columns, ratings, parts, statistic)
        active, common = _defined_everywhere(table)
        included = [parts[one] for one in common.tolist()]
        means, ends = np.full(len(columns), np.nan), np.full((2, len(columns)), np.nan)
        if included:
            means[active] = table[np.ix_(active, common)].mean(axis=1)
        if included and intervals.samples:
            drawn = np.concatenate(included)
            draws = bootstrap_draws(
                list(columns[active][:, drawn]),
                ratings[drawn],
                labels[drawn].tolist(),
                statistic=statistic,
                samples=intervals.samples,
                seed=intervals.seed,
                clusters=None if clusters is None else clusters[drawn].tolist(),
            )
            ends[:, active] = np.array([percentiles(one, intervals.level) for one in draws.means]).T
        low, high = float(values[rows].min()), float(values[rows].max())
        results.append(BinAgreement(low, high, len(rows), means, len(included), among, sum(map(len, included)), *ends))
    return results


def _columns(scores: Sequence[ArrayLike], size: int | None, statistic: str) -> Vector:
    check_statistic(statistic)
    columns = [finite_scores(column, "metric scores") for column in scores]
    if size is None:
        size = len(columns[0]) if columns else 0
    for column in columns:
        _same_length(len(column), size)
    return np.array(columns, dtype=np.float64).reshape(len(columns), size)


def _same_length(found: int, expected: int) -> None:
    if found != expected:
        raise InputError(
            f"Expected a score, a rating and a length for each segment, but got {found} and {expected}: give all in "
            "the same order."
        )


def _defined_everywhere(table: Vector) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return indices of the metrics defined in any unit, and of the units in which all of these are defined."""
    known = ~np.isnan(table)
    active = np.flatnonzero(known.any(axis=1))
    common = np.flatnonzero(known[active].all(axis=0)) if len(active) else active
    return active, common
