"""Ranking of systems: means with intervals, and ranks from pairwise significance tests."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.agreement.systems import item_table, soft_pairwise_accuracy, system_agreement
from textmover.meta_evaluation.significance.significance_tests import significance_clusters
from textmover.meta_evaluation.statistics.score_arrays import (
    Vector,
    divide,
    finite_scores,
    group_positions,
    paired_scores,
)
from textmover.meta_evaluation.systems.paired_tests import SEED, bootstrap_pairs, mean_intervals, randomise_pairs
from textmover.types import InputError, Shown, View, plural

RankTest = Literal["randomisation", "bootstrap"]  # pairwise tests of systems

STATISTICS = ("pearson", "kendall", "accuracy")  # agreement of system means


@dataclass(frozen=True, eq=False, repr=False)
class RankedSystems(Shown):
    """Ranked systems of a group, in order of first appearance.

    Attributes:
        group: Name of the group; empty if all segments form a single group.
        systems: Names of the ``S`` systems.
        means: Mean score of each system over all its segments, float64 ``[S]``.
        low: Lower end of the 95 % bootstrap interval of each mean, ``[S]``.
        high: Upper end of the interval.
        segments: Number of segments of each system, ``[S]``.
        ranks: Rank of each system, from 1; systems without a significant difference can share a rank.
        wins: Fraction of comparisons on shared segments that each system wins, ties count ½, ``[S]``; NaN without any.
        p_values: Two-sided p-value of each pair of systems, ``[S, S]``; NaN for too few shared segments.
        shared: Number of segments that each pair of systems shares, ``[S, S]``; the diagonal counts all segments.
        higher_is_better: False for distances.
    """

    group: str
    systems: tuple[str, ...]
    means: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    segments: NDArray[np.int64]
    ranks: tuple[int, ...]
    wins: NDArray[np.float64]
    p_values: NDArray[np.float64]
    shared: NDArray[np.int64]
    higher_is_better: bool

    def view(self) -> View:
        """Show the systems, best first."""
        columns = (self.means.tolist(), self.low.tolist(), self.high.tolist(), self.segments.tolist())
        rows = [(self.systems[one], self.ranks[one], *(column[one] for column in columns)) for one in self.order]
        headline = f"{self.group + ': ' if self.group else ''}{plural(len(self.systems), 'system')}"
        return View(headline, ("system", "rank", "mean", "low", "high", "segments"), rows)

    @property
    def order(self) -> list[int]:
        """Return the system indices from best to worst."""
        return np.argsort(-self.means if self.higher_is_better else self.means, kind="stable").tolist()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Return the index pairs of all pairs of systems."""
        return list(itertools.combinations(range(len(self.systems)), 2))

    @property
    def untested(self) -> list[tuple[str, str]]:
        """Return the pairs of systems that share too few segments for a test."""
        lacking = [pair for pair in self.pairs if np.isnan(self.p_values[pair])]
        return [(self.systems[one], self.systems[other]) for one, other in lacking]

    @property
    def complete(self) -> bool:
        """Return whether all systems have the same segments."""
        return bool((self.shared == self.shared[0, 0]).all())


class SystemMean(NamedTuple):
    """Averages of a system over several groups.

    Attributes:
        system: Name of the system.
        mean: Mean score, averaged over groups.
        rank: Rank, averaged over groups.
    """

    system: str
    mean: float
    rank: float


def rank_systems(
    scores: ArrayLike,
    systems: Sequence[str],
    items: Sequence[str],
    groups: Sequence[str] | None = None,
    *,
    test: RankTest = "randomisation",
    samples: int = 1000,
    trials: int = 10_000,
    seed: int = SEED,
    significant: float = 0.05,
    fewest: int = 5,
    higher_is_better: bool = True,
) -> list[RankedSystems]:
    """Rank the systems of each group by mean score; return one table per group, in order of first appearance.

    Means are over all segments of a system. Each pair of systems is compared by a two-sided paired test on shared
    items, without correction for multiple comparisons. Ranks are computed from the p-values by
    :func:`~textmover.meta_evaluation.significance_clusters`.

    Args:
        scores: Score of each segment, ``[n]``.
        systems: System of each segment, ``n`` names.
        items: Item of each segment, ``n`` names, unique within a group; one segment per system and item.
        groups: Group of each segment, such as its language pair; ``None`` puts all segments in one group.
        test: ``randomisation`` (:func:`~textmover.meta_evaluation.paired_randomisation`, ``inclusive``) or
            ``bootstrap`` (:func:`~textmover.meta_evaluation.paired_bootstrap`, ``two_sided``).
        samples: Number of bootstrap samples, for the intervals of the means and the bootstrap test.
        trials: Number of randomisation trials.
        seed: Seed of bootstrap and randomisation, reused for each system and pair.
        significant: Largest p-value considered significant.
        fewest: Smallest number of shared items for a test.
        higher_is_better: False for distances.

    Raises:
        InputError: If lists differ in length, a score is not finite, a group has fewer than two systems, a system has
            two segments for an item, or a number is out of range.

    Example:
        >>> scores = [0.9, 0.8, 0.9, 0.7, 0.8, 0.8, 0.5, 0.4, 0.6, 0.4, 0.5, 0.5]
        >>> table, = rank_systems(scores, ["A"] * 6 + ["B"] * 6, list("123456") * 2, trials=1000)
        >>> table.ranks, table.means.round(2).tolist(), table.wins.tolist()
        ((1, 2), [0.82, 0.48], [1.0, 0.0])

    Reference: Riezler and Maxwell (2005) and Koehn (2004) for the tests; the clusters as in Freitag et al. (2023).
    """
    values = finite_scores(scores, "scores")
    if test not in get_args(RankTest):
        raise InputError(f"Expected `test` to be {' or '.join(get_args(RankTest))}, but got {test!r}: choose one.")
    numbers = {"samples": (samples, 1), "trials": (trials, 1), "fewest": (fewest, 2), "seed": (seed, 0)}
    for name, (number, least) in numbers.items():
        if number < least:
            raise InputError(f"Expected `{name}` to be at least {least}, but got {number}.")
    if not len(values) or len(systems) != len(values) or len(items) != len(values):
        raise InputError(
            f"Expected a system and an item for each score, but got {plural(len(systems), 'system')} and "
            f"{plural(len(items), 'item')} for {plural(len(values), 'score')}."
        )
    tables = []
    for group, rows in group_positions([""] * len(values) if groups is None else groups, len(values)).items():
        names, cells = item_table([items[row] for row in rows], [systems[row] for row in rows], len(rows))
        if len(names) < 2:
            where = f" in {group}" if group else ""
            raise InputError(f"Expected at least two systems to rank{where}, but got {names[0]} alone: give another.")
        table = np.where(cells >= 0, values[rows][cells], np.nan)
        better = table if higher_is_better else -table
        p_values, shared = _p_values(better, test, trials if test == "randomisation" else samples, seed, fewest)
        system_scores = [row[~np.isnan(row)] for row in table]
        means = np.array([row.mean() for row in system_scores])
        low, high = mean_intervals([[row] for row in system_scores], samples, seed)
        better_p_values, wins = _better_p_values_and_wins(better, p_values)
        ranks = significance_clusters(means if higher_is_better else -means, better_p_values, threshold=significant)
        tables.append(
            RankedSystems(
                group=group,
                systems=names,
                means=means,
                low=low,
                high=high,
                segments=np.array([len(row) for row in system_scores]),
                ranks=tuple(rank or 1 for rank in ranks),
                wins=wins,
                p_values=p_values,
                shared=shared,
                higher_is_better=higher_is_better,
            )
        )
    return tables


def _p_values(better: Vector, test: RankTest, draws: int, seed: int, fewest: int) -> tuple[Vector, NDArray[np.int64]]:
    """Return two-sided p-values and shared item counts of all pairs, ``[S, S]``, from scores ``[S, items]``."""
    present = ~np.isnan(better)
    shared = present.astype(np.int64) @ present.T.astype(np.int64)
    p_values = np.full(shared.shape, np.nan)
    by_items: dict[bytes, list[tuple[int, int]]] = {}  # pairs with the same shared items are tested together
    for first, second in itertools.combinations(range(len(better)), 2):
        if shared[first, second] >= fewest:
            by_items.setdefault((present[first] & present[second]).tobytes(), []).append((first, second))
    for items, pairs in by_items.items():
        systems = sorted({system for pair in pairs for system in pair})
        scores = list(better[systems][:, np.frombuffer(items, dtype=bool)])
        index_pairs = [(systems.index(first), systems.index(second)) for first, second in pairs]
        if test == "bootstrap":
            comparisons = bootstrap_pairs(scores, index_pairs, samples=draws, seed=seed, two_sided=True)
        else:
            comparisons = randomise_pairs(scores, index_pairs, samples=draws, seed=seed, inclusive=True)
        for (first, second), comparison in zip(pairs, comparisons, strict=True):
            p_values[first, second] = p_values[second, first] = comparison.p_value
    return p_values, shared


def _better_p_values_and_wins(better: Vector, p_values: Vector) -> tuple[Vector, Vector]:
    """Return p-values where the row's system is better on shared items, else 1; and each system's fraction of wins."""
    better_p_values, won, compared = np.ones(p_values.shape), np.zeros(len(better)), np.zeros(len(better))
    for first, second in itertools.permutations(range(len(better)), 2):
        difference = better[first] - better[second]
        won[first] += (difference > 0).sum() + 0.5 * (difference == 0).sum()
        compared[first] += (~np.isnan(difference)).sum()
        if not np.isnan(p_values[first, second]) and np.nansum(difference) > 0:
            better_p_values[first, second] = p_values[first, second]
    return better_p_values, divide(won, compared)


def ranking_agreement(
    scores: ArrayLike,
    ratings: ArrayLike,
    systems: Sequence[str],
    items: Sequence[str],
    *,
    permutations: int = 1000,
    seed: int = SEED,
    higher_is_better: bool = True,
) -> dict[str, float]:
    """Compute the agreement between system rankings by mean scores and by mean ratings.

    Args:
        scores: Score of each segment of one group, ``[n]``.
        ratings: Human rating of each segment, higher is better, ``[n]``.
        systems: System of each segment.
        items: Item of each segment.
        permutations: Number of permutations in soft pairwise accuracy.
        seed: Seed of the permutations.
        higher_is_better: False for distances.

    Returns:
        ``pearson``, ``kendall``, ``accuracy`` and ``soft-accuracy``; NaN for too few systems or constant ratings.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or a system has two segments for an item.

    Example:
        >>> found = ranking_agreement([1, 2, 3], [2, 4, 5], ["a", "b", "c"], ["1"] * 3)
        >>> {name: round(value, 3) for name, value in found.items()}
        {'pearson': 0.982, 'kendall': 1.0, 'accuracy': 1.0, 'soft-accuracy': 1.0}
    """
    metric, human = paired_scores(scores, ratings)
    metric = metric if higher_is_better else -metric
    results = {name: system_agreement(metric, human, systems, statistic=name).value for name in STATISTICS}
    soft = soft_pairwise_accuracy(metric, human, items, systems, permutations=permutations, seed=seed)
    return {**results, "soft-accuracy": soft.value}


def mean_over_groups(tables: Sequence[RankedSystems]) -> list[SystemMean]:
    """Average the systems that are in every group; return them from best to worst.

    Args:
        tables: Table of each group, at least one.

    Example:
        >>> tables = rank_systems([1, 2, 3, 5], list("abab"), list("1111"), list("xxyy"), samples=20, trials=9)
        >>> mean_over_groups(tables)
        [SystemMean(system='b', mean=3.5, rank=1.0), SystemMean(system='a', mean=2.0, rank=1.0)]
    """
    means = []
    for name in tables[0].systems:
        if all(name in table.systems for table in tables):
            entries = [(table, table.systems.index(name)) for table in tables]
            mean = np.mean([table.means[index] for table, index in entries])
            rank = np.mean([table.ranks[index] for table, index in entries])
            means.append(SystemMean(name, float(mean), float(rank)))
    return sorted(means, key=lambda one: one.mean, reverse=tables[0].higher_is_better)
