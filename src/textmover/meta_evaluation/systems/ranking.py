"""A table of systems: means with intervals, and ranks that systems share where no test tells them apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.agreement.systems import item_table, soft_pairwise_accuracy, system_agreement
from textmover.meta_evaluation.significance.permutation import significance_clusters
from textmover.meta_evaluation.statistics.scores import Vector, divided, finite_scores, group_positions, paired_scores
from textmover.meta_evaluation.systems.paired_tests import SEED, bootstrap_pairs, mean_intervals, randomise_pairs
from textmover.types import InputError, Shown, View, plural

RankTest = Literal["randomisation", "bootstrap"]  # tests that set two systems apart

STATISTICS = ("pearson", "kendall", "accuracy")  # agreement of the means of systems


@dataclass(frozen=True, eq=False, repr=False)
class RankedSystems(Shown):
    """The systems of a group, in the order in which they appear.

    Attributes:
        group: Name of the group; empty where there is but one.
        systems: Names, ``S`` of them.
        means: Mean score of each over all its segments, float64 ``[S]``.
        low: Lower end of the 95 % bootstrap interval of each mean, ``[S]``.
        high: Upper end.
        segments: How many segments each mean is of, ``[S]``.
        ranks: Of each, from 1: systems share one where no test tells them apart.
        wins: Share of the segments shared with others on which it is better, ties counted half, ``[S]``; NaN for none.
        p_values: Two-sided p-value for each two systems, ``[S, S]``; NaN for too few shared segments.
        shared: How many segments each two systems share, ``[S, S]``; on the diagonal how many a system has.
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
        """Show the systems, the best first."""
        columns = (self.means.tolist(), self.low.tolist(), self.high.tolist(), self.segments.tolist())
        rows = [(self.systems[one], self.ranks[one], *(column[one] for column in columns)) for one in self.order]
        headline = f"{self.group + ': ' if self.group else ''}{plural(len(self.systems), 'system')}"
        return View(headline, ("system", "rank", "mean", "low", "high", "segments"), rows)

    @property
    def order(self) -> list[int]:
        """The systems from best to worst."""
        return np.argsort(-self.means if self.higher_is_better else self.means, kind="stable").tolist()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Places of each two systems."""
        return list(itertools.combinations(range(len(self.systems)), 2))

    @property
    def untested(self) -> list[tuple[str, str]]:
        """Each two systems that share too few segments to be compared."""
        lacking = [pair for pair in self.pairs if np.isnan(self.p_values[pair])]
        return [(self.systems[one], self.systems[other]) for one, other in lacking]

    @property
    def complete(self) -> bool:
        """Return whether all systems have the same segments."""
        return bool((self.shared == self.shared[0, 0]).all())


class SystemMean(NamedTuple):
    """A system over several groups.

    Attributes:
        system: Its name.
        mean: Mean over the groups of its mean score.
        rank: Mean over the groups of its rank.
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
    """Rank the systems of each group by their mean scores; one table for each group, in their order.

    A mean is over all segments of a system. Each two systems are compared by a two-sided paired test on the items that
    both have, without correction for the number of comparisons; ranks follow from the p-values by the rule of
    :func:`~textmover.meta_evaluation.significance_clusters`.

    Args:
        scores: Score of each segment, ``[n]``.
        systems: What produced each segment, ``n`` names.
        items: What each segment is an output for, ``n`` names within its group; one segment per system and item.
        groups: Group of each segment, such as its language pair; all are one group if ``None``.
        test: ``randomisation`` (:func:`~textmover.meta_evaluation.paired_randomisation`, ``inclusive``) or
            ``bootstrap`` (:func:`~textmover.meta_evaluation.paired_bootstrap`, ``two_sided``).
        samples: Bootstrap samples, for the intervals of the means and for the test.
        trials: Trials of the randomisation.
        seed: Seed of both, for each system and each two systems again.
        significant: Largest p-value that sets two systems apart.
        fewest: Shared items below which two systems are not compared.
        higher_is_better: False for distances.

    Raises:
        InputError: If lists differ in length or are not finite, a group has fewer than two systems, a system has two
            segments for an item, or a number is out of range.

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
        p_values, shared = _tested(better, test, trials if test == "randomisation" else samples, seed, fewest)
        own = [row[~np.isnan(row)] for row in table]
        means = np.array([one.mean() for one in own])
        low, high = mean_intervals([[one] for one in own], samples, seed)
        apart, wins = _beside_others(better, p_values)
        ranks = significance_clusters(means if higher_is_better else -means, apart, threshold=significant)
        tables.append(
            RankedSystems(
                group=group,
                systems=names,
                means=means,
                low=low,
                high=high,
                segments=np.array([len(one) for one in own]),
                ranks=tuple(rank or 1 for rank in ranks),
                wins=wins,
                p_values=p_values,
                shared=shared,
                higher_is_better=higher_is_better,
            )
        )
    return tables


def _tested(better: Vector, test: RankTest, draws: int, seed: int, fewest: int) -> tuple[Vector, NDArray[np.int64]]:
    """Two-sided p-value of each two systems, and how many items they share, ``[S, S]``; scores are ``[S, items]``."""
    known = ~np.isnan(better)
    shared = known.astype(np.int64) @ known.T.astype(np.int64)
    p_values = np.full(shared.shape, np.nan)
    by_items: dict[bytes, list[tuple[int, int]]] = {}  # what is drawn depends on the number of items alone
    for one, other in itertools.combinations(range(len(better)), 2):
        if shared[one, other] >= fewest:
            by_items.setdefault((known[one] & known[other]).tobytes(), []).append((one, other))
    for items, pairs in by_items.items():
        systems = sorted({system for pair in pairs for system in pair})
        scores = list(better[systems][:, np.frombuffer(items, dtype=bool)])
        places = [(systems.index(one), systems.index(other)) for one, other in pairs]
        if test == "bootstrap":
            found = bootstrap_pairs(scores, places, samples=draws, seed=seed, two_sided=True)
        else:
            found = randomise_pairs(scores, places, samples=draws, seed=seed, inclusive=True)
        for (one, other), tested in zip(pairs, found, strict=True):
            p_values[one, other] = p_values[other, one] = tested.p_value
    return p_values, shared


def _beside_others(better: Vector, p_values: Vector) -> tuple[Vector, Vector]:
    """The p-value where the system of the row is better on the items that both have, else 1; and its share of wins."""
    apart, won, met = np.ones(p_values.shape), np.zeros(len(better)), np.zeros(len(better))
    for one, other in itertools.permutations(range(len(better)), 2):
        difference = better[one] - better[other]
        won[one] += (difference > 0).sum() + 0.5 * (difference == 0).sum()
        met[one] += (~np.isnan(difference)).sum()
        if not np.isnan(p_values[one, other]) and np.nansum(difference) > 0:
            apart[one, other] = p_values[one, other]
    return apart, divided(won, met)


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
    """Agreement between the orders of systems by mean scores and by mean ratings.

    Args:
        scores: Score of each segment of one group, ``[n]``.
        ratings: Human rating of each, higher is better, ``[n]``.
        systems: What produced each segment.
        items: What each segment is an output for.
        permutations: Of the tests in soft pairwise accuracy.
        seed: Seed of them.
        higher_is_better: False for distances.

    Returns:
        ``pearson``, ``kendall``, ``accuracy`` and ``soft-accuracy``; NaN where there are too few systems.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or a system has two segments for an item.

    Example:
        >>> found = ranking_agreement([1, 2, 3], [2, 4, 5], ["a", "b", "c"], ["1"] * 3)
        >>> {name: round(value, 3) for name, value in found.items()}
        {'pearson': 0.982, 'kendall': 1.0, 'accuracy': 1.0, 'soft-accuracy': 1.0}
    """
    metric, human = paired_scores(scores, ratings)
    metric = metric if higher_is_better else -metric
    found = {name: system_agreement(metric, human, systems, statistic=name).value for name in STATISTICS}
    soft = soft_pairwise_accuracy(metric, human, items, systems, permutations=permutations, seed=seed)
    return {**found, "soft-accuracy": soft.value}


def mean_over_groups(tables: Sequence[RankedSystems]) -> list[SystemMean]:
    """The systems that are in every group, from best to worst.

    Args:
        tables: One for each group, at least one.

    Example:
        >>> tables = rank_systems([1, 2, 3, 5], list("abab"), list("1111"), list("xxyy"), samples=20, trials=9)
        >>> mean_over_groups(tables)
        [SystemMean(system='b', mean=3.5, rank=1.0), SystemMean(system='a', mean=2.0, rank=1.0)]
    """
    found = []
    for name in tables[0].systems:
        if all(name in table.systems for table in tables):
            places = [(table, table.systems.index(name)) for table in tables]
            mean = np.mean([table.means[place] for table, place in places])
            rank = np.mean([table.ranks[place] for table, place in places])
            found.append(SystemMean(name, float(mean), float(rank)))
    return sorted(found, key=lambda one: one.mean, reverse=tables[0].higher_is_better)
