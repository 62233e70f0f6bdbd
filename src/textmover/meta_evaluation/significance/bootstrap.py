"""Bootstrap intervals of a correlation, and of the difference between two metrics.

Draws resample whole clusters of segments within each group. A draw is stored as the count of each segment, which
weights the correlations; all metrics share the draws. If a group has a single cluster, intervals are NaN.

Reference: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 8 and 13 (percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.statistics.correlation import CORRELATIONS, Counts, check_statistic
from textmover.meta_evaluation.statistics.score_arrays import (
    Vector,
    chunks,
    divide,
    finite_scores,
    group_positions,
    label_numbers,
    nan_mean,
    stack_scores,
)
from textmover.types import InputError, check_whole, plural

FEW = 10
"""Number of clusters below which percentile intervals are unreliable."""

MIN_SAMPLES = 20  # fewest samples for percentiles in the tails
MIN_CLUSTERS = 2  # fewest clusters: with a single one, all draws are equal


class Interval(NamedTuple):
    """Mean correlation over groups with its confidence interval.

    Attributes:
        estimate: Value on the original segments.
        low: Lower end of the interval; NaN if a group has a single cluster.
        high: Upper end of the interval; NaN in the same case.
        excluded: Groups excluded because their correlation is undefined.
        undefined: Number of draws that are left out because the correlation of an included group is undefined.
        clusters: Name and number of clusters of each included group.
    """

    estimate: float
    low: float
    high: float
    excluded: tuple[str, ...] = ()
    undefined: int = 0
    clusters: tuple[tuple[str, int], ...] = ()


UNKNOWN = Interval(math.nan, math.nan, math.nan)  # undefined result


class Gain(NamedTuple):
    """Increase of the mean correlation over groups, with its confidence interval.

    Attributes:
        estimate: ``after - before`` on the original segments.
        low: Lower end of the interval; the gain is significant if it is above 0. NaN if a group has a single cluster.
        high: Upper end of the interval; NaN in the same case.
        before: Mean correlation of the first metric.
        after: Mean correlation of the second metric.
        excluded: Groups excluded because a correlation is undefined.
        undefined: Number of draws that are left out because a correlation of an included group is undefined.
        clusters: Name and number of clusters of each included group.
        after_low: Lower end of the interval of ``after``, from the same draws; NaN in the same case.
        after_high: Upper end of the interval of ``after``.
    """

    estimate: float
    low: float
    high: float
    before: float
    after: float
    excluded: tuple[str, ...] = ()
    undefined: int = 0
    clusters: tuple[tuple[str, int], ...] = ()
    after_low: float = math.nan
    after_high: float = math.nan


class Draws(NamedTuple):
    """Mean correlation over groups of several metrics, on the original segments and in each bootstrap draw."""

    estimates: Vector  # on the original segments, ``[K]`` for ``K`` metrics; NaN if no group has a correlation
    means: Vector  # in each draw, ``[K, samples]``
    excluded: tuple[str, ...]  # groups in which the correlation of some metric is undefined
    undefined: int  # number of draws without a mean, since a correlation of an included group is undefined there
    clusters: tuple[tuple[str, int], ...]  # name and number of clusters of each included group


def bootstrap_gain(
    before: ArrayLike,
    after: ArrayLike,
    human: ArrayLike,
    groups: Sequence[str],
    *,
    statistic: str = "pearson",
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    clusters: Sequence[str] | None = None,
) -> Gain:
    """Compute the gain in human agreement of one metric over another, by the paired bootstrap.

    Both metrics use the same draws; the interval consists of percentiles of ``after - before``.

    Args:
        before: Scores of the first metric, ``[n]``.
        after: Scores of the second metric, ``[n]``.
        human: Human scores, ``[n]``.
        groups: Group of each segment; draws stay within groups, and the correlation is the mean over them.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.
        samples: Number of draws.
        seed: Seed of the draws.
        level: Confidence level, between 0 and 1.
        clusters: Label of each segment, such as its reference; segments with equal labels are drawn together.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or an option is out of range.

    Example:
        >>> human = np.arange(40.0)
        >>> noise = np.random.default_rng(0).normal(size=40)
        >>> gain = bootstrap_gain(human + 30 * noise, human + 10 * noise, human, ["de-en"] * 40)
        >>> gain.low > 0, gain.low < gain.estimate < gain.high
        (True, True)
    """
    scores = [finite_scores(before, "scores before"), finite_scores(after, "scores after")]
    draws = bootstrap_draws(scores, human, groups, statistic=statistic, samples=samples, seed=seed, clusters=clusters)
    first, second = draws.estimates.tolist()
    low, high = percentiles(draws.means[1] - draws.means[0], level)
    after_ends = percentiles(draws.means[1], level)
    return Gain(second - first, low, high, first, second, draws.excluded, draws.undefined, draws.clusters, *after_ends)


def bootstrap_interval(
    scores: ArrayLike,
    human: ArrayLike,
    groups: Sequence[str],
    *,
    statistic: str = "pearson",
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    clusters: Sequence[str] | None = None,
) -> Interval:
    """Compute the percentile bootstrap interval of a metric's mean correlation over groups.

    Args:
        scores: Scores of the metric, ``[n]``.
        human: Human scores, ``[n]``.
        groups: Group of each segment; draws stay within groups, and the correlation is the mean over them.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.
        samples: Number of draws.
        seed: Seed of the draws.
        level: Confidence level, between 0 and 1.
        clusters: Cluster label of each segment, as for :func:`bootstrap_gain`.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or an option is out of range.

    Example:
        >>> interval = bootstrap_interval([1, 3, 2, 5, 4, 6], [1, 2, 3, 4, 5, 6], ["all"] * 6, statistic="kendall")
        >>> round(interval.estimate, 3), round(interval.high, 3)
        (0.733, 1.0)
    """
    vector = finite_scores(scores, "metric scores")
    draws = bootstrap_draws([vector], human, groups, statistic=statistic, samples=samples, seed=seed, clusters=clusters)
    low, high = percentiles(draws.means[0], level)
    return Interval(float(draws.estimates[0]), low, high, draws.excluded, draws.undefined, draws.clusters)


def bootstrap_draws(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    groups: Sequence[str],
    *,
    statistic: str = "pearson",
    samples: int = 1000,
    seed: int = 0,
    clusters: Sequence[str] | None = None,
) -> Draws:
    """Compute the mean correlation of ``K`` metrics on the same draws, over groups in which all are defined."""
    check_statistic(statistic)
    check_draws(samples)
    table, people = stack_scores(scores, human)
    positions = group_positions(groups, len(people))
    if clusters is not None and len(clusters) != len(people):
        raise InputError(f"Expected {plural(len(people), 'cluster')}, one per segment, but got {len(clusters)}.")
    labels = np.arange(len(people)) if clusters is None else label_numbers(clusters)
    rng = np.random.default_rng(seed)
    correlate = CORRELATIONS[statistic]
    excluded: list[str] = []
    estimates: list[Vector] = []  # for each group, [K]
    drawn: list[Vector] = []  # for each group, [K, samples]
    cluster_counts: dict[str, int] = {}  # number of clusters of each group
    for group, members in positions.items():
        group_scores, ratings = table[:, members], people[members]
        estimate = np.array([correlate(row, ratings) for row in group_scores])
        if np.isnan(estimate).any():
            excluded.append(group)
            continue
        estimates.append(estimate)
        cluster_counts[group] = len(np.unique(labels[members]))
        count_chunks = draw_counts(labels[members], samples, rng)
        drawn.append(np.hstack([[correlate(row, ratings, counts) for row in group_scores] for counts in count_chunks]))
    means, undefined = mean_of_draws(drawn, (len(table), samples))
    if min(cluster_counts.values(), default=0) < MIN_CLUSTERS:
        means[:] = np.nan
    overall = np.mean(estimates, axis=0) if estimates else np.full(len(table), np.nan)
    return Draws(overall, means, tuple(excluded), undefined, tuple(cluster_counts.items()))


def mean_of_draws(
    drawn: Sequence[Vector], shape: tuple[int, int], active: NDArray[np.bool_] | slice = slice(None)
) -> tuple[Vector, int]:
    """Average draws over groups; return and count as NaN those in which an active metric is undefined in any group."""
    table = np.array(drawn).reshape(-1, *shape)
    lacking = np.isnan(table[:, active]).any(axis=(0, 1))
    return divide(np.where(lacking, np.nan, table).sum(axis=0), np.full(shape, len(table))), int(lacking.sum())


def draw_values(
    labels: NDArray[np.int64],
    samples: int,
    rng: np.random.Generator,
    values_of: Callable[[Counts], Vector | Sequence[Vector]],
) -> Vector:
    """Compute values ``[K, samples]`` of cluster draws by a function of counts ``[draws, n]``."""
    return np.hstack([values_of(counts) for counts in draw_counts(labels, samples, rng)])


def check_draws(samples: int) -> None:
    """Raise an :class:`InputError` unless there is a whole number of samples, enough for an interval."""
    check_whole("samples", samples, least=MIN_SAMPLES, way_out=": 1000 is usual")


def draw_counts(labels: NDArray[np.int64], samples: int, rng: np.random.Generator) -> Iterator[Counts]:
    """Yield chunks of cluster draws, as the count of each segment, ``[chunk, n]``."""
    names, cluster = np.unique(labels, return_inverse=True)
    for rows in chunks(samples, len(labels)):
        chunk = rows.stop - rows.start
        drawn = rng.integers(len(names), size=(chunk, len(names)))
        cells = drawn + len(names) * np.arange(chunk)[:, None]  # flat index of (draw, cluster)
        times = np.bincount(cells.ravel(), minlength=chunk * len(names)).reshape(chunk, len(names))
        yield times[:, cluster]


def draw_sums(columns: Vector, samples: int, rng: np.random.Generator) -> Vector:
    """Sum columns ``[n, K]`` over ``n`` rows drawn with replacement, ``[samples, K]``."""
    number = len(columns)
    shares = np.full(number, 1 / number)
    parts = [rng.multinomial(number, shares, size=len(range(samples)[rows])) for rows in chunks(samples, number)]
    return np.concatenate([counts.astype(np.float64) @ columns for counts in parts])


def bootstrap_sums(
    columns: Vector,
    groups: Sequence[str] | None,
    statistics: Callable[[Vector], Mapping[str, Vector]],
    *,
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Interval]:
    """Compute statistics of column sums ``[n, C]``, averaged over groups, with intervals from rows drawn within groups.

    ``statistics`` maps sums ``[…, C]`` to values by name. A group whose value is NaN is excluded from that statistic.
    """
    if samples:
        check_draws(samples)
    rng = np.random.default_rng(seed)
    parts = group_positions(groups, len(columns))
    values = [statistics(columns[rows].sum(axis=0)) for rows in parts.values()]
    drawn = [statistics(draw_sums(columns[rows], samples, rng)) for rows in parts.values()] if samples else []
    intervals = {}
    for name in values[0] if values else ():
        estimates = np.array([row[name] for row in values])
        defined = dict(zip(parts, (~np.isnan(estimates)).tolist(), strict=True))
        clusters = tuple((group, len(rows)) for group, rows in parts.items() if defined[group])
        defined_draws = [row[name] for row, chosen in zip(drawn, defined.values(), strict=False) if chosen]
        ends, undefined = (math.nan, math.nan), 0
        if defined_draws and min(number for _, number in clusters) >= MIN_CLUSTERS:
            means = np.mean(defined_draws, axis=0)
            ends, undefined = percentiles(means, level), int(np.isnan(means).sum())
        excluded = tuple(group for group in parts if not defined[group])
        intervals[name] = Interval(float(nan_mean(estimates, axis=0)), *ends, excluded, undefined, clusters)
    return intervals


def percentiles(values: Vector, level: float) -> tuple[float, float]:
    """Return the ends of the percentile interval over the draws that are not NaN; NaN if :func:`too_few` are left."""
    if not 0 < level < 1:
        raise InputError(f"Expected a confidence level between 0 and 1, but got {level}: 0.95 is usual.")
    known = values[~np.isnan(values)]
    if too_few(len(known), len(values)):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def too_few(usable: int, samples: int) -> bool:
    """Return whether so few draws have a value, a tenth of them or :data:`MIN_SAMPLES`, that there is no interval."""
    return usable < max(MIN_SAMPLES, samples / 10)


def undefined_draws(number: int) -> str:
    """Describe the draws that :func:`mean_of_draws` left out."""
    return f"{plural(number, 'bootstrap sample')} without a value in some group left out"


def few_to_draw(numbers: Mapping[str, int], noun: str) -> str | None:
    """Return a warning if a group has fewer than :data:`FEW` clusters, each called ``noun``, else ``None``."""
    few = [group for group, number in numbers.items() if number < FEW]
    if not few:
        return None
    fewest = min(few, key=numbers.__getitem__)
    number = numbers[fewest]
    if len(numbers) == 1:
        there = f"is only {number} {noun}" if number == 1 else f"are only {number} {noun}s"
        return f"Intervals are unreliable: there {there} to draw from."
    return (
        f"Intervals are unreliable: fewer than {FEW} {noun}s to draw from in {len(few)} of {len(numbers)} groups, "
        f"only {number} in {fewest}."
    )
