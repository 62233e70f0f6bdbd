"""Agreement within a group on preferences and on systems."""

from __future__ import annotations

import itertools

import numpy as np

from textmover.meta_evaluation.agreement.group_agreement import Agreement, Drawn, Exclusion, Group
from textmover.meta_evaluation.agreement.preferences import darr_outcomes
from textmover.meta_evaluation.agreement.protocol import Protocol
from textmover.meta_evaluation.agreement.systems import (
    item_table,
    largest_terms,
    levelled_means,
    pairwise_p_values,
    random_signs,
)
from textmover.meta_evaluation.significance.bootstrap import draw_counts
from textmover.meta_evaluation.statistics.bootstrap_correlation import Vector
from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS, group_positions, standard_scores
from textmover.meta_evaluation.statistics.row_correlation import ROW_STATISTICS, levelled


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
        """Of the clusters, those that preferences lie in."""
        return self.group.drawn(self.better)

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Preferences are drawn together with all others of their item (their references, where it is not known)."""
        _, cluster = np.unique(self.group.clusters[self.better], return_inverse=True)
        if cluster.max() < 1:
            return None
        found = []
        for counts in draw_counts(cluster, samples, rng):
            weights = counts.astype(np.float64)
            found.append(self.outcomes @ weights.T / weights.sum(axis=1))
        return np.hstack(found)

    def swapped(self, signs: Vector) -> Vector | None:
        """PERM-BOTH: scores that are standardised within the group are exchanged segment by segment.

        The outcome of a pair is bilinear in the signs of its two segments, so that the difference of two metrics is
        linear in them.
        """
        scores = [standard_scores(one) for one in self.group.scores]
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
        self.least = 2 if self.statistic == "accuracy" else MIN_SEGMENTS
        self.systems = group_positions(group.systems, len(group))
        self.human_means = self._means(group.human)
        if len(self.systems) < self.least:
            self.reason = f"fewer than {self.least} systems"
            return
        if self.statistic != "accuracy" and self.human_means.min() == self.human_means.max():
            self.reason = "the mean ratings of its systems are all equal"
            return
        self.values = ROW_STATISTICS[self.statistic](self._means(group.scores), self.human_means)
        self.units = np.full(len(self.values), len(self.systems))
        for metric in np.flatnonzero(np.isnan(self.values)).tolist():
            self.reasons[metric] = "its mean scores of the systems are all equal"

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Items (or references) are drawn, with the segments of all systems for them."""
        if len(np.unique(self.group.clusters)) < 2:
            return None
        found = []
        for counts in draw_counts(self.group.clusters, samples, rng):
            weights = counts.astype(np.float64)
            human = self._drawn_means(self.group.human, weights)
            found.append(
                [
                    ROW_STATISTICS[self.statistic](self._drawn_means(one, weights), human)
                    for one in self.group.scores
                ]
            )  # fmt: skip
        return np.hstack(found)

    def swapped(self, signs: Vector) -> Vector | None:
        """PERM-BOTH: scores that are standardised within the group are exchanged segment by segment."""
        scores = np.stack([standard_scores(one) for one in self.group.scores])
        rows_of = list(self.systems.values())
        plain = np.stack([scores[:, rows].mean(axis=1) for rows in rows_of], axis=-1)  # [K, systems]
        sizes = largest_terms(scores, rows_of)
        signed = np.stack(
            [signs[:, rows].astype(np.float64) @ scores[:, rows].T / len(rows) for rows in rows_of],
            axis=-1,
        )  # [permutations, K, systems]
        statistic = ROW_STATISTICS[self.statistic]
        differences = []
        for a, b in itertools.combinations(range(len(scores)), 2):
            half, shift = (plain[a] + plain[b]) / 2, (signed[:, a] - signed[:, b]) / 2
            size = np.maximum(sizes[a], sizes[b])
            first, second = (levelled(one, size) for one in (half + shift, half - shift))
            differences.append(statistic(first, self.human_means) - statistic(second, self.human_means))
        return np.stack(differences)

    def _means(self, scores: Vector) -> Vector:
        """Mean of each system, ``[..., systems]``."""
        return levelled_means(scores, self.systems.values())

    def _drawn_means(self, scores: Vector, weights: Vector) -> Vector:
        """Mean of each system in each draw, ``[draws, systems]``; NaN throughout a draw that lacks a system."""
        columns = [weights[:, rows] @ scores[rows] for rows in self.systems.values()]
        sizes = np.stack([weights[:, rows].sum(axis=1) for rows in self.systems.values()], axis=-1)
        means = np.stack(columns, axis=-1) / np.maximum(sizes, 1.0)
        means = levelled(means, largest_terms(scores, self.systems.values()))
        return np.where((sizes > 0).all(axis=1, keepdims=True), means, np.nan)


class SoftSystemAgreement(Agreement):
    """Soft pairwise accuracy; it has neither bootstrap nor test, since each sample would need its own permutations."""

    def __init__(self, group: Group, permutations: int, seed: int) -> None:
        super().__init__(group)
        assert group.items is not None
        assert group.systems is not None
        names, cells = item_table(group.items, group.systems, len(group))
        signs = random_signs(permutations, cells.shape[1], seed)
        human = pairwise_p_values(group.human, cells, signs)
        known = ~np.isnan(human)
        if not known.any():
            self.reason = "no two systems have outputs for the same item"
            return
        pairs = itertools.combinations(names, 2)
        self.excluded = tuple(
            Exclusion(f"{group.name} / {first} and {second}", "no item in common", 0)
            for (first, second), shared in zip(pairs, known, strict=True)
            if not shared
        )
        self.values = np.array(
            [1 - np.abs(human - pairwise_p_values(one, cells, signs))[known].mean() for one in group.scores]
        )
        self.units = np.full(len(self.values), int(known.sum()))

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """None."""
        return None

    def swapped(self, signs: Vector) -> Vector | None:
        """None."""
        return None
