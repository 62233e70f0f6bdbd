"""Bootstrap intervals of a correlation, and of the difference of two metrics.

A draw counts how often each segment was taken, with its whole cluster, from within its group. Correlations have these
counts as weights, and all metrics share one draw. A group of a single cluster leaves its means without an interval.

Reference: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 8 and 13 (percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.statistics.correlation import CORRELATIONS, Counts, check_statistic
from textmover.meta_evaluation.statistics.scores import (
    Vector,
    chunks,
    finite_scores,
    group_positions,
    known_mean,
    label_numbers,
    several_scores,
)
from textmover.types import InputError, plural

FEW = 10
"""With fewer things to draw from, percentiles of a bootstrap say little: they cover too little, or all there is."""

LEAST_DRAWS = 20  # fewest draws that say where the outer hundredths of an interval may lie
LEAST = 2  # with fewer things to draw from, every draw is the same


class Interval(NamedTuple):
    """Mean correlation over groups with its confidence interval.

    Attributes:
        estimate: Of the segments as they are.
        low: Lower end of the interval; NaN where a group has only one cluster to draw.
        high: Upper end of the interval; NaN likewise.
        excluded: Groups left out because their correlation is not defined.
        undefined: How many correlations of a group in a draw were not defined and left out (of samples times groups).
        clusters: Name of each group that counts, with how many there were to draw from in it.
    """

    estimate: float
    low: float
    high: float
    excluded: tuple[str, ...] = ()
    undefined: int = 0
    clusters: tuple[tuple[str, int], ...] = ()


UNKNOWN = Interval(math.nan, math.nan, math.nan)  # value of an undefined figure


class Gain(NamedTuple):
    """By how much the mean correlation over groups rose, with its confidence interval.

    Attributes:
        estimate: ``after - before``, of the segments as they are.
        low: Lower end of the interval; above 0, the gain is significant. NaN if a group has only one cluster.
        high: Upper end of the interval; NaN likewise.
        before: Mean correlation of the first metric.
        after: Mean correlation of the second metric.
        excluded: Groups left out because a correlation is not defined.
        undefined: How many correlations of a group in a draw were not defined and left out (of samples times groups).
        clusters: Name of each group that counts, with how many there were to draw from in it.
        after_low: Lower end of the interval of ``after`` itself, on the same draws; NaN likewise.
        after_high: Upper end of that interval.
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
    """Mean correlation over groups of several metrics, of the segments as they are and of every draw."""

    estimates: Vector  # of the segments as they are, ``[K]`` for ``K`` metrics; NaN if no group has a correlation
    means: Vector  # of the draws, ``[K, samples]``
    excluded: tuple[str, ...]  # groups left out because a correlation of one of the metrics is not defined
    undefined: int  # how many groups of draws were left out for the same reason
    clusters: tuple[tuple[str, int], ...]  # name of each group that counts, with how many there were to draw from in it


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
    """Gain of one metric over another in its agreement with people, by the paired bootstrap.

    Both metrics are judged on the same draws; the interval is that of the percentiles of ``after - before``.

    Args:
        before: Scores of the first metric, ``[n]``.
        after: Scores of the second metric, ``[n]``.
        human: Human scores, ``[n]``.
        groups: Group of each segment; draws stay within groups, and the correlation is the mean over them.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.
        samples: Number of draws.
        seed: Seed of the draws.
        level: Confidence level, between 0 and 1.
        clusters: Label of each segment, such as its reference: segments of one label are drawn together.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or an option is out of range.

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
    own = percentiles(draws.means[1], level)
    return Gain(second - first, low, high, first, second, draws.excluded, draws.undefined, draws.clusters, *own)


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
    """Confidence interval of a metric's mean correlation over groups, by the bootstrap's percentiles.

    Args:
        scores: Scores of the metric, ``[n]``.
        human: Human scores, ``[n]``.
        groups: Group of each segment; draws stay within groups, and the correlation is the mean over them.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.
        samples: Number of draws.
        seed: Seed of the draws.
        level: Confidence level, between 0 and 1.
        clusters: What to draw in place of single segments, as for :func:`bootstrap_gain`.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or an option is out of range.

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
    """Mean correlation of ``K`` metrics on the same draws, over the groups in which all of them have one."""
    check_statistic(statistic)
    check_draws(samples)
    table, people = several_scores(scores, human)
    positions = group_positions(groups, len(people))
    if clusters is not None and len(clusters) != len(people):
        raise InputError(f"Expected {plural(len(people), 'cluster')}, one per segment, but got {len(clusters)}.")
    labels = np.arange(len(people)) if clusters is None else label_numbers(clusters)
    rng = np.random.default_rng(seed)
    correlate = CORRELATIONS[statistic]
    excluded: list[str] = []
    estimates: list[Vector] = []  # of each group, [K]
    drawn: list[Vector] = []  # of each group, [K, samples]
    counted: dict[str, int] = {}  # clusters of each group
    for group, members in positions.items():
        inside, ratings = table[:, members], people[members]
        estimate = np.array([correlate(one, ratings) for one in inside])
        if np.isnan(estimate).any():
            excluded.append(group)
            continue
        estimates.append(estimate)
        counted[group] = len(np.unique(labels[members]))
        parts = draw_counts(labels[members], samples, rng)
        drawn.append(np.hstack([[correlate(one, ratings, counts) for one in inside] for counts in parts]))
    means, undefined = mean_of_draws(drawn, (len(table), samples))
    if min(counted.values(), default=0) < LEAST:
        means[:] = np.nan
    overall = np.mean(estimates, axis=0) if estimates else np.full(len(table), np.nan)
    return Draws(overall, means, tuple(excluded), undefined, tuple(counted.items()))


def mean_of_draws(
    drawn: Sequence[Vector], shape: tuple[int, int], active: NDArray[np.bool_] | slice = slice(None)
) -> tuple[Vector, int]:
    """Mean over groups of draws that all active metrics have, and how many of a group were left out."""
    table = np.array(drawn).reshape(-1, *shape)
    usable = ~np.isnan(table[:, active]).any(axis=1, keepdims=True)
    return known_mean(np.where(usable, table, np.nan), axis=0), int((~usable).sum())


def draw_values(
    labels: NDArray[np.int64],
    samples: int,
    rng: np.random.Generator,
    values_of: Callable[[Counts], Vector | Sequence[Vector]],
) -> Vector:
    """Values ``[K, samples]`` of draws of whole clusters, from a function of counts ``[draws, n]``."""
    return np.hstack([values_of(counts) for counts in draw_counts(labels, samples, rng)])


def check_draws(samples: int) -> None:
    """Refuse a number of draws that is too small for an interval."""
    if samples < LEAST_DRAWS:
        raise InputError(f"Expected at least {LEAST_DRAWS} bootstrap samples, but got {samples}: 1000 is usual.")


def draw_counts(labels: NDArray[np.int64], samples: int, rng: np.random.Generator) -> Iterator[Counts]:
    """Yield chunks of draws of whole clusters, as counts of how often each segment was taken, ``[chunk, n]``."""
    names, cluster = np.unique(labels, return_inverse=True)
    for rows in chunks(samples, len(labels)):
        chunk = rows.stop - rows.start
        drawn = rng.integers(len(names), size=(chunk, len(names)))
        cells = drawn + len(names) * np.arange(chunk)[:, None]  # number of the cell (draw, cluster)
        times = np.bincount(cells.ravel(), minlength=chunk * len(names)).reshape(chunk, len(names))
        yield times[:, cluster]


def draw_sums(columns: Vector, samples: int, rng: np.random.Generator) -> Vector:
    """Sums of columns ``[n, K]`` over as many rows as there are, drawn with replacement, ``[samples, K]``."""
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
    """Statistics of the sums of columns ``[n, C]``, means over groups, with intervals from rows drawn within groups.

    ``statistics`` takes sums ``[…, C]`` and gives values by name, NaN where one is not defined: that group is excluded.
    """
    if samples:
        check_draws(samples)
    rng = np.random.default_rng(seed)
    parts = group_positions(groups, len(columns))
    values = [statistics(columns[rows].sum(axis=0)) for rows in parts.values()]
    drawn = [statistics(draw_sums(columns[rows], samples, rng)) for rows in parts.values()] if samples else []
    found = {}
    for name in values[0] if values else ():
        estimates = np.array([one[name] for one in values])
        known = dict(zip(parts, (~np.isnan(estimates)).tolist(), strict=True))
        clusters = tuple((group, len(rows)) for group, rows in parts.items() if known[group])
        kept = [one[name] for one, chosen in zip(drawn, known.values(), strict=False) if chosen]
        ends, undefined = (math.nan, math.nan), 0
        if kept and min(number for _, number in clusters) >= LEAST:
            ends = percentiles(known_mean(np.stack(kept), axis=0), level)
            undefined = int(np.isnan(kept).sum())
        excluded = tuple(group for group in parts if not known[group])
        found[name] = Interval(float(known_mean(estimates, axis=0)), *ends, excluded, undefined, clusters)
    return found


def percentiles(values: Vector, level: float) -> tuple[float, float]:
    """Ends of the percentile interval over the draws that are not NaN; NaN if there is none."""
    if not 0 < level < 1:
        raise InputError(f"Expected a confidence level between 0 and 1, but got {level}: 0.95 is usual.")
    values = values[~np.isnan(values)]
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def few_to_draw(numbers: Mapping[str, int], noun: str) -> str | None:
    """Warn where some group has fewer than :data:`FEW` things to draw from; the noun names one of them."""
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
