"""Agreement of several metrics with people within one group, for ratings, preferences and systems."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.agreement.preferences import darr_outcomes
from textmover.meta_evaluation.agreement.systems import STATISTICS, largest_terms, levelled_means, soft_accuracies
from textmover.meta_evaluation.results import Exclusion, Protocol
from textmover.meta_evaluation.significance.bootstrap import draw_sums, draw_values
from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS, Counts
from textmover.meta_evaluation.statistics.scores import (
    Vector,
    divided,
    group_positions,
    known_mean,
    levelled,
    standard_scores,
)


class Drawn(NamedTuple):
    """Units that a bootstrap draws."""

    number: int
    noun: str  # what one is called, such as ``item``


@dataclass(frozen=True, eq=False)
class Group:
    """The segments of one group, ``n`` of them, with the scores of ``K`` metrics."""

    name: str
    metrics: tuple[str, ...]
    scores: Vector  # their scores, higher is better, ``[K, n]``
    human: Vector  # ratings ``[n]``; NaN where preferences are all there is
    clusters: NDArray[np.int64]  # number of what each segment is drawn with in a bootstrap: its item or its references
    items: tuple[str, ...] | None  # item of each segment, where known
    systems: tuple[str, ...] | None  # system of each segment, where known
    preferences: NDArray[np.int64]  # rows of the better and of the worse output of each pair, ``[m, 2]``

    def __len__(self) -> int:
        return len(self.human)

    def drawn(self, rows: NDArray[np.int64] | slice = slice(None)) -> Drawn:
        """Units that a bootstrap draws, among the segments that count."""
        clusters = self.clusters[rows]
        count = len(np.unique(clusters))
        if self.items is not None:
            return Drawn(count, "item")
        return Drawn(count, "segment" if count == len(clusters) else "reference")

    def standardised(self) -> Vector:
        """Scores of mean 0 and standard deviation 1, ``[K, n]``."""
        return np.stack([standard_scores(one) for one in self.scores])


class Agreement:
    """Agreement of ``K`` metrics with people within a group."""

    values: Vector  # agreement of each metric, ``[K]``; NaN where it has none
    reason: str | None = None  # why no metric can have one; ``None`` where some can
    reasons: dict[int, str]  # why single metrics have none, by their number
    excluded: tuple[Exclusion, ...] = ()  # units that have no part for any metric
    units: NDArray[np.int64]  # over how many units each metric's value is averaged, ``[K]``
    undefined: tuple[tuple[str, ...], ...]  # for each metric the units left out for it alone
    undefined_segments: NDArray[np.int64]  # how many segments those hold, ``[K]``
    epsilons: Vector | None = None  # for each metric its threshold of ties, where it has one
    without_draws = "group {group} has only one thing to draw"
    without_test = "group {group} has only one unit, and thresholds of ties cannot be exchanged within a unit"
    by_unit: Vector | None = None  # value of each metric in each unit that its own is the mean of

    def __init__(self, group: Group) -> None:
        count = len(group.metrics)
        self.group = group
        self.values = np.full(count, np.nan)
        self.reasons = {}
        self.units = np.zeros(count, dtype=np.int64)
        self.undefined = ((),) * count
        self.undefined_segments = np.zeros(count, dtype=np.int64)

    def gain(self, metric: int, reference: int) -> float:
        """Gain over another metric over the units in which both have a value, which is what the tests compare."""
        if self.by_unit is None:
            return float(self.values[metric] - self.values[reference])
        return float(known_mean(self.by_unit[metric] - self.by_unit[reference], axis=0))

    def drawn(self) -> Drawn:
        """Units that :meth:`draws` draws."""
        return self.group.drawn()

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Values of bootstrap samples ``[K, samples]``, NaN where one has none; ``None`` without a bootstrap here."""
        return None

    def swapped(self, signs: Vector) -> Vector | None:
        """Differences of all pairs of metrics under signs ``[permutations, n]``; ``None`` where there is no test."""
        return None


def pair_differences(values: Vector) -> Vector:
    """Differences of all pairs of rows of ``[K, …]``, ``(0, 1), (0, 2), …``: ``[K (K - 1)/2, …]``."""
    pairs = list(itertools.combinations(range(len(values)), 2))
    return np.stack([values[a] - values[b] for a, b in pairs]) if pairs else np.zeros((0, *values.shape[1:]))


def draw_units(values: Vector, samples: int, rng: np.random.Generator) -> Vector | None:
    """Means over drawn units ``[K, samples]`` of values ``[K, U]``; ``None`` if there are fewer than two units."""
    number = values.shape[1]
    if number < 2:
        return None
    known = ~np.isnan(values)
    columns = np.concatenate([np.where(known, values, 0.0), known]).T
    totals, sizes = np.split(draw_sums(columns, samples, rng), 2, axis=1)
    return divided(totals, sizes).T


class PreferenceAgreement(Agreement):
    """DARR's τ over all preferences of a group."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.better, self.worse = group.preferences.T
        if not len(self.better):
            self.reason = "no preference"
            return
        self.outcomes = darr_outcomes(group.scores[:, self.better], group.scores[:, self.worse])  # [K, pairs]
        self.values = self.outcomes.mean(axis=1)
        self.units = np.full(len(self.values), len(self.better))

    def drawn(self) -> Drawn:
        """Clusters that hold preferences."""
        return self.group.drawn(self.better)

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Preferences are drawn together with all others of their item (their references, where it is not known)."""
        _, cluster = np.unique(self.group.clusters[self.better], return_inverse=True)
        if cluster.max() < 1:
            return None
        return draw_values(cluster, samples, rng, lambda counts: self.outcomes @ counts.T / counts.sum(axis=1))

    def swapped(self, signs: Vector) -> Vector | None:
        """PERM-BOTH; the outcome of a pair is bilinear in the signs of its segments, the difference linear."""
        scores = self.group.standardised()
        pairs = list(itertools.combinations(range(len(scores)), 2))
        slopes = np.zeros((len(pairs), len(self.group)))
        for number, (a, b) in enumerate(pairs):
            aa, ab, ba, bb = (
                darr_outcomes(scores[one][self.better], scores[other][self.worse])
                for one, other in itertools.product((a, b), repeat=2)
            )
            np.add.at(slopes[number], self.better, (aa + ab - ba - bb) / 2)
            np.add.at(slopes[number], self.worse, (aa - ab + ba - bb) / 2)
        return slopes @ signs.astype(np.float64).T / len(self.better)


class SystemAgreement(Agreement):
    """A correlation, or pairwise accuracy, of the mean scores of systems."""

    def __init__(self, group: Group, protocol: Protocol) -> None:
        super().__init__(group)
        assert group.systems is not None
        self.statistic = protocol.statistic
        least = 2 if self.statistic == "accuracy" else MIN_SEGMENTS
        self.systems = group_positions(group.systems, len(group))
        self.human_means = levelled_means(group.human, self.systems.values())
        if len(self.systems) < least:
            self.reason = f"fewer than {least} systems"
            return
        if self.statistic != "accuracy" and self.human_means.min() == self.human_means.max():
            self.reason = "the mean ratings of its systems are all equal"
            return
        means = levelled_means(group.scores, self.systems.values())
        self.values = STATISTICS[self.statistic](means, self.human_means)
        self.units = np.full(len(self.values), len(self.systems))
        for metric in np.flatnonzero(np.isnan(self.values)).tolist():
            self.reasons[metric] = "its mean scores of the systems are all equal"

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Items (or references) are drawn, with the segments of all systems for them."""
        if len(np.unique(self.group.clusters)) < 2:
            return None
        return draw_values(self.group.clusters, samples, rng, self._drawn_values)

    def _drawn_values(self, counts: Counts) -> Vector:
        weights = counts.astype(np.float64)
        human = self._drawn_means(self.group.human, weights)
        correlate = STATISTICS[self.statistic]
        return np.stack([correlate(self._drawn_means(one, weights), human) for one in self.group.scores])

    def swapped(self, signs: Vector) -> Vector | None:
        """PERM-BOTH: scores that are standardised within the group are exchanged segment by segment."""
        scores = self.group.standardised()
        rows_of = list(self.systems.values())
        plain = np.stack([scores[:, rows].mean(axis=1) for rows in rows_of], axis=-1)  # [K, systems]
        sizes = largest_terms(scores, rows_of)
        signed = np.stack(
            [signs[:, rows].astype(np.float64) @ scores[:, rows].T / len(rows) for rows in rows_of], axis=-1
        )  # [permutations, K, systems]
        statistic = STATISTICS[self.statistic]
        differences = []
        for a, b in itertools.combinations(range(len(scores)), 2):
            half, shift = (plain[a] + plain[b]) / 2, (signed[:, a] - signed[:, b]) / 2
            size = np.maximum(sizes[a], sizes[b])
            first, second = (levelled(one, size) for one in (half + shift, half - shift))
            differences.append(statistic(first, self.human_means) - statistic(second, self.human_means))
        return np.stack(differences)

    def _drawn_means(self, scores: Vector, weights: Vector) -> Vector:
        """Mean of each system in each draw, ``[draws, systems]``; NaN throughout a draw that lacks a system."""
        columns = [weights[:, rows] @ scores[rows] for rows in self.systems.values()]
        sizes = np.stack([weights[:, rows].sum(axis=1) for rows in self.systems.values()], axis=-1)
        means = np.stack(columns, axis=-1) / np.maximum(sizes, 1.0)
        means = levelled(means, largest_terms(scores, self.systems.values()))
        return np.where((sizes > 0).all(axis=1, keepdims=True), means, np.nan)


class SoftSystemAgreement(Agreement):
    """Soft pairwise accuracy; it has neither bootstrap nor test, since each sample would need its own permutations."""

    without_draws, without_test = "soft accuracy has no bootstrap here", "soft accuracy has none here"

    def __init__(self, group: Group, permutations: int, seed: int) -> None:
        super().__init__(group)
        assert group.items is not None
        assert group.systems is not None
        self.values, pairs, undefined = soft_accuracies(
            group.scores, group.human, group.items, group.systems, permutations, seed
        )
        if not pairs:
            self.reason = "no two systems have outputs for the same item"
            return
        self.excluded = tuple(
            Exclusion(f"{group.name} / {first} and {second}", "no item in common", 0) for first, second in undefined
        )
        self.units = np.full(len(self.values), pairs)
