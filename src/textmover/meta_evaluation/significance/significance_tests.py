"""Tests of the difference between two metrics: PERM-BOTH permutation test, Williams' test, significance clusters.

Reference: Deutsch, Dror and Roth (2021), A Statistical Analysis of Summarization Evaluation Metrics Using Resampling
Methods.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from textmover.meta_evaluation.statistics.correlation import check_statistic, correlation
from textmover.meta_evaluation.statistics.score_arrays import (
    Vector,
    check_segments,
    chunks,
    finite_scores,
    group_positions,
    nan_mean,
    stack_scores,
    standard_scores,
)
from textmover.meta_evaluation.statistics.swapped_correlation import swapped_correlations
from textmover.types import InputError, plural

ROUNDING = 1e-9
"""Tolerance for rounding errors: a permutation that changes nothing counts, and a rescaled metric is the same one."""


class PermutationTest(NamedTuple):
    """Result of the PERM-BOTH test.

    Attributes:
        difference: Agreement of the first metric minus that of the second, over units where both are defined.
        p_value: One-sided probability of at least this difference under the null hypothesis of exchangeable metrics.
        permutations: Number of permutations.
        seed: Seed of the permutations.
    """

    difference: float
    p_value: float
    permutations: int
    seed: int


def permutation_test(
    first: ArrayLike,
    second: ArrayLike,
    human: ArrayLike,
    groups: Sequence[str] | None = None,
    *,
    units: Sequence[str] | None = None,
    statistic: str = "pearson",
    permutations: int = 1000,
    seed: int = 0,
) -> PermutationTest:
    """Test whether the first metric has higher human agreement than the second: ``p = (1 + #(δ* ≥ δ))/(1 + k)``.

    Both metrics are standardised within each group. A permutation exchanges the two scores of each segment with
    probability ½; ``δ*`` is the difference in agreement after that. NaN if no unit has a correlation of both.

    Args:
        first: Scores of the first metric, ``[n]``.
        second: Scores of the second metric, ``[n]``.
        human: Human scores, ``[n]``.
        groups: Group of each segment; agreement is the mean over groups. ``None`` pools all segments.
        units: Unit of each segment within its group, such as its item, to average over; ``None``: groups are units.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.
        permutations: Number of permutations.
        seed: Their seed.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or an option is out of range.

    Example:
        >>> human = np.arange(40.0)
        >>> noise = np.random.default_rng(0).normal(size=40)
        >>> test = permutation_test(human + 5 * noise, human + 30 * noise, human)
        >>> test.difference > 0, test.p_value < 0.05
        (True, True)
    """
    differences = _differences([first, second], human, groups, units, statistic, permutations, seed)
    p_values = p_value_matrix(differences, 2)
    return PermutationTest(float(differences[0, 0]), float(p_values[0, 1]), permutations, seed)


def permutation_p_values(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    groups: Sequence[str] | None = None,
    *,
    units: Sequence[str] | None = None,
    statistic: str = "pearson",
    permutations: int = 1000,
    seed: int = 0,
) -> Vector:
    """Test all pairs of metrics by :func:`permutation_test` on the same permutations.

    Args:
        scores: Scores of ``K`` metrics, ``[n]`` each.
        human: Human scores, ``[n]``.
        groups: As for :func:`permutation_test`.
        units: As for :func:`permutation_test`.
        statistic: As for :func:`permutation_test`.
        permutations: Number of permutations.
        seed: Their seed.

    Returns:
        One-sided p-values ``[K, K]`` that metric i agrees better than metric j; NaN where no test is possible.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or an option is out of range.

    Example:
        >>> human = np.arange(9.0)
        >>> permutation_p_values([human, -human], human, permutations=99).round(2)
        array([[ nan, 0.01],
               [1.  ,  nan]])
    """
    differences = _differences(scores, human, groups, units, statistic, permutations, seed)
    return p_value_matrix(differences, len(scores))


def swap_signs(permutations: int, n: int, rng: np.random.Generator) -> Vector:
    """Return random swap signs, 1 or -1 as int8 ``[1 + permutations, n]``; -1 swaps, the first row swaps nothing."""
    if permutations < 1:
        raise InputError(f"Expected at least one permutation, but got {permutations}: 1000 is usual.")
    signs = rng.integers(2, size=(permutations, n), dtype=np.int8) * np.int8(2) - np.int8(1)
    return np.concatenate([np.ones((1, n), dtype=np.int8), signs])


def p_value_matrix(differences: Vector, metrics: int) -> Vector:
    """Return one-sided p-values ``[K, K]`` from the differences of all pairs, ``[K (K - 1)/2, 1 + permutations]``."""
    p_values = np.full((metrics, metrics), np.nan)
    for (a, b), row in zip(itertools.combinations(range(metrics), 2), differences, strict=True):
        observed, permuted = row[0], row[1:][~np.isnan(row[1:])]
        if np.isnan(observed) or not len(permuted):
            continue
        p_values[a, b] = (1 + (permuted >= observed - ROUNDING).sum()) / (1 + len(permuted))
        p_values[b, a] = (1 + (permuted <= observed + ROUNDING).sum()) / (1 + len(permuted))
    return p_values


def permutation_test_of_sums(
    columns: Vector,
    groups: Sequence[str] | None,
    statistics: Callable[[Vector], Mapping[str, Vector]],
    *,
    permutations: int = 1000,
    seed: int = 0,
) -> dict[str, Vector]:
    """Test statistics of column sums of ``K`` systems ``[K, n, C]`` by exchanging rows between two systems.

    ``statistics`` maps sums ``[…, C]`` to values by name. Differences are averaged over groups, without undefined ones.
    Return, by name, one-sided p-values ``[K, K]`` that system i has a higher value than system j.
    """
    rng = np.random.default_rng(seed)
    pairs = list(itertools.combinations(range(len(columns)), 2))
    differences: dict[str, list[list[Vector]]] = {}  # for each statistic and pair, the differences of each group
    for rows in group_positions(groups, columns.shape[1]).values():
        signs = swap_signs(permutations, len(rows), rng)
        for index, (a, b) in enumerate(pairs):
            half, shift = (columns[a][rows] + columns[b][rows]) / 2, (columns[a][rows] - columns[b][rows]) / 2
            parts = [signs[part].astype(np.float64) @ shift for part in chunks(len(signs), len(rows))]
            middle, moved = half.sum(axis=0), np.concatenate(parts)
            first, second = statistics(middle + moved), statistics(middle - moved)
            for name in first:
                differences.setdefault(name, [[] for _ in pairs])[index].append(first[name] - second[name])
    return {
        name: p_value_matrix(np.stack([nan_mean(np.stack(by_group), axis=0) for by_group in by_pair]), len(columns))
        for name, by_pair in differences.items()
    }


def _differences(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    groups: Sequence[str] | None,
    units: Sequence[str] | None,
    statistic: str,
    permutations: int,
    seed: int,
) -> Vector:
    """Return the observed and permuted differences of each pair of metrics, averaged over groups."""
    check_statistic(statistic)
    table, people = stack_scores(scores, human)
    check_segments(table)
    positions = group_positions(groups, len(people))
    if units is not None and len(units) != len(people):
        raise InputError(f"Expected {plural(len(people), 'unit')}, one per segment, but got {len(units)}.")
    rng = np.random.default_rng(seed)
    differences = []
    for members in positions.values():
        standardised = np.stack([standard_scores(one[members]) for one in table])
        labels = None if units is None else [units[row] for row in members]
        parts = list(group_positions(labels, len(members)).values())
        signs = swap_signs(permutations, len(members), rng)
        differences.append(swapped_correlations(standardised, people[members], parts, signs, statistic))
    return nan_mean(np.stack(differences), axis=0)


def significance_clusters(
    values: Sequence[float] | np.ndarray, p_values: ArrayLike, *, threshold: float = 0.05
) -> tuple[int | None, ...]:
    """Rank metrics by the greedy clustering of the WMT metrics tasks.

    Metrics are visited from best to worst value, equal values in input order. A metric opens the next cluster if *any*
    member of the current cluster is significantly better (``p ≤ threshold``); otherwise it joins the current cluster.
    Members of adjacent clusters need not all differ significantly.

    Args:
        values: Agreement of each of ``K`` metrics; NaN if undefined.
        p_values: One-sided p-values ``[K, K]`` that metric i agrees better than j; NaN (not tested) is not significant.
        threshold: Largest p-value that is significant.

    Returns:
        Rank of each metric, from 1; ``None`` for metrics without a value.

    Raises:
        InputError: If the shapes do not fit.

    Example:
        >>> significance_clusters([0.5, 0.7, 0.69], [[1, 1, 1], [0.01, 1, 0.4], [0.2, 0.6, 1]])
        (2, 1, 1)

    Reference: Freitag et al. (2023), Results of WMT23 Metrics Shared Task.
    """
    scores, tests = np.asarray(values, dtype=np.float64), np.asarray(p_values, dtype=np.float64)
    if scores.ndim != 1 or tests.shape != (len(scores), len(scores)):
        raise InputError(
            f"Expected p-values of shape [{scores.size}, {scores.size}] for {scores.size} metrics, but got "
            f"{list(tests.shape)}: give one for each ordered pair."
        )
    ranks: list[int | None] = [None] * len(scores)
    rank = 1
    cluster: list[int] = []
    for metric in np.argsort(-scores, kind="stable").tolist():
        if np.isnan(scores[metric]):
            continue
        if any(tests[member, metric] <= threshold for member in cluster):
            rank, cluster = rank + 1, []
        cluster.append(metric)
        ranks[metric] = rank
    return tuple(ranks)


class WilliamsTest(NamedTuple):
    """Result of Williams' test.

    Attributes:
        t: Test statistic; positive if the first metric correlates better.
        df: Degrees of freedom, ``n - 3``.
        p_value: One-sided, that the first metric correlates better; ``1 - p_value`` is for the opposite direction.
    """

    t: float
    df: int
    p_value: float


def williams_test(r12: float, r13: float, r23: float, n: int) -> WilliamsTest:
    """Compare two correlations that share a variable by Williams' test.

    ``t = (r12 - r13) √((n-1)(1+r23)) / √(2 (n-1)/(n-3) K + r̄² (1-r23)³)`` with
    ``K = 1 - r12² - r13² - r23² + 2 r12 r13 r23`` and ``r̄ = (r12 + r13)/2``.

    Args:
        r12: Pearson's r of human scores and the first metric.
        r13: Pearson's r of human scores and the second metric.
        r23: Pearson's r of the two metrics.
        n: Number of segments, at least 4.

    Returns:
        The test result; NaN if a correlation is NaN or one metric is a linear function of the other.

    Raises:
        InputError: If there are fewer than four segments, or a correlation is not in [-1, 1].

    Example:
        >>> test = williams_test(0.7, 0.6, 0.8, 103)
        >>> round(test.t, 3), test.df, round(test.p_value, 4)
        (2.214, 100, 0.0146)

    Reference: Williams (1959), Regression Analysis; Graham and Baldwin (2014), Testing for Significance of Increased
    Correlation with Human Judgment.
    """
    if n < 4:
        raise InputError(f"Expected at least four segments for Williams' test, but got {n}: give more.")
    for name, r in (("r12", r12), ("r13", r13), ("r23", r23)):
        if abs(r) > 1:
            raise InputError(f"Expected `{name}` to be a correlation, in [-1, 1], but got {r}: give Pearson's r.")
    k = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    mean = (r12 + r13) / 2
    spread = 2 * (n - 1) / (n - 3) * max(k, 0.0) + mean**2 * (1 - r23) ** 3
    if not spread > 0 or abs(r23) > 1 - ROUNDING:
        return WilliamsTest(math.nan, n - 3, math.nan)
    t = (r12 - r13) * math.sqrt((n - 1) * (1 + r23)) / math.sqrt(spread)
    return WilliamsTest(t, n - 3, float(stats.t.sf(t, n - 3)))


def williams_test_of_scores(first: ArrayLike, second: ArrayLike, human: ArrayLike) -> WilliamsTest:
    """Compare two metrics on the same segments by Williams' test.

    Args:
        first: Scores of the first metric, ``[n]``.
        second: Scores of the second metric, ``[n]``.
        human: Human scores, ``[n]``.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or there are fewer than four segments.

    Example:
        >>> human = np.arange(20.0)
        >>> first, second = np.random.default_rng(0).normal(size=(2, 20)) * [[3], [9]] + human
        >>> williams_test_of_scores(first, second, human).p_value < 0.05
        True
    """
    x, y, z = finite_scores(first, "first scores"), finite_scores(second, "second scores"), np.asarray(human)
    return williams_test(correlation(x, z), correlation(y, z), correlation(x, y), len(x))
