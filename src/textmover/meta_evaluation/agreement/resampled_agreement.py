"""Human agreement of several metrics within one group, for segments, preferences and systems."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.agreement.systems import STATISTICS, largest_terms, soft_accuracies, tied_means
from textmover.meta_evaluation.results import Exclusion, Protocol
from textmover.meta_evaluation.significance.bootstrap import draw_sums, draw_values
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS, MIN_SEGMENTS, Counts, unit_correlations
from textmover.meta_evaluation.statistics.score_arrays import (
    Positions,
    Vector,
    chunks,
    divide,
    group_positions,
    nan_mean,
    restore_ties,
    standard_scores,
)
from textmover.meta_evaluation.statistics.swapped_correlation import swapped_correlations
from textmover.meta_evaluation.statistics.ties import agreeing_pairs, calibrated_epsilon, unit_agreement
from textmover.types import Judgements


class DrawUnits(NamedTuple):
    """Number and name of the units that a bootstrap resamples."""

    number: int
    noun: str  # singular, such as ``item``


@dataclass(frozen=True, eq=False)
class Group:
    """``n`` segments of one group, with the scores of ``K`` metrics."""

    name: str
    judgements: Judgements
    scores: Vector  # metric scores, higher is better, ``[K, n]``
    human: Vector  # ratings ``[n]``; NaN for preferences
    clusters: NDArray[np.int64]  # bootstrap cluster of each segment: its item, or its references or source

    def __len__(self) -> int:
        return len(self.human)

    def standardised(self) -> Vector:
        """Return scores with mean 0 and standard deviation 1, ``[K, n]``."""
        return np.stack([standard_scores(one) for one in self.scores])


class Agreement:
    """Human agreement of ``K`` metrics within a group."""

    values: Vector  # agreement of each metric, ``[K]``; NaN if undefined
    reason: str | None = None  # why all metrics are undefined; ``None`` otherwise
    reasons: dict[int, str]  # why a metric is undefined, by its index
    excluded: tuple[Exclusion, ...] = ()  # units excluded for all metrics
    units: NDArray[np.int64]  # number of units that each metric's value averages, ``[K]``
    undefined: tuple[tuple[str, ...], ...]  # for each metric, units excluded for it only
    undefined_segments: NDArray[np.int64]  # number of segments in these units, ``[K]``
    epsilons: Vector | None = None  # tie threshold of each metric, for acc23 and tau23
    without_draws = "group {group} has a single cluster to resample"
    without_test = "group {group} has a single unit, and thresholds of ties cannot be permuted within a unit"
    resampled: NDArray[np.int64]  # label of each row of a draw; rows of one label are drawn together
    by_unit: Vector | None = None  # value of each metric in each unit, ``[K, U]``; ``values`` are means of these

    def __init__(self, group: Group) -> None:
        count = len(group.scores)
        self.group = group
        self.pairs = list(itertools.combinations(range(count), 2))  # of metrics, in the order of the tests
        self.values = np.full(count, np.nan)
        self.reasons = {}
        self.units = np.zeros(count, dtype=np.int64)
        self.undefined = ((),) * count
        self.undefined_segments = np.zeros(count, dtype=np.int64)
        self.resampled = group.clusters

    def _explain_lacking(self, reason: str) -> None:
        self.reasons = dict.fromkeys(np.flatnonzero(np.isnan(self.values)).tolist(), reason)

    def gain(self, metric: int, reference: int) -> float:
        """Return the gain over a reference metric, on units where both are defined; tests use the same difference."""
        if self.by_unit is None:
            return float(self.values[metric] - self.values[reference])
        return float(nan_mean(self.by_unit[metric] - self.by_unit[reference], axis=0))

    def draw_units(self) -> DrawUnits:
        """Return the units that :meth:`draws` resamples."""
        count = len(np.unique(self.resampled))
        if self.group.judgements.items is not None:
            return DrawUnits(count, "item")
        compared = "reference" if any(self.group.judgements.references) else "source"
        return DrawUnits(count, "segment" if count == len(self.resampled) else compared)

    def draws(self, samples: int, rng: np.random.Generator) -> Vector:
        """Return values of bootstrap draws of two or more units, ``[K, samples]``."""
        return draw_values(self.resampled, samples, rng, self.drawn_values)

    def drawn_values(self, counts: Counts) -> Vector:
        """Return values ``[K, draws]`` for draws given as counts of each row, ``[draws, rows]``."""
        raise NotImplementedError

    def swapped(self, signs: Vector) -> Vector | None:
        """Return differences of all pairs of metrics under signs ``[permutations, n]``; ``None`` if not testable."""
        return None


class PreferenceAgreement(Agreement):
    """daRR τ over all preferences of a group."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.better, self.worse = np.asarray(group.judgements.preferences).T
        if not len(self.better):
            self.reason = "no preference"
            return
        self.outcomes = _outcomes(group.scores[:, self.better], group.scores[:, self.worse])  # [K, pairs]
        self.values = self.outcomes.mean(axis=1)
        self.units = np.full(len(self.values), len(self.better))
        self.resampled = group.clusters[self.better]

    def drawn_values(self, counts: Counts) -> Vector:
        """Average the outcomes of the drawn preferences."""
        return self.outcomes @ counts.T / counts.sum(axis=1)

    def swapped(self, signs: Vector) -> Vector | None:
        """Compute PERM-BOTH differences: outcomes are bilinear in the signs of a pair, but differences are linear."""
        scores = self.group.standardised()
        slopes = np.zeros((len(self.pairs), len(self.group)))
        for number, (a, b) in enumerate(self.pairs):
            aa, ab, ba, bb = (
                _outcomes(scores[i][self.better], scores[j][self.worse]) for i, j in itertools.product((a, b), repeat=2)
            )
            np.add.at(slopes[number], self.better, (aa + ab - ba - bb) / 2)
            np.add.at(slopes[number], self.worse, (aa - ab + ba - bb) / 2)
        return slopes @ signs.astype(np.float64).T / len(self.better)


def _outcomes(better: Vector, worse: Vector) -> Vector:
    """Return 1 where the better output scores higher, else -1."""
    return np.where(better > worse, 1.0, -1.0)


class SystemAgreement(Agreement):
    """Correlation or pairwise accuracy of mean system scores."""

    def __init__(self, group: Group, protocol: Protocol) -> None:
        super().__init__(group)
        self.statistic = protocol.statistic
        least = 2 if self.statistic == "accuracy" else MIN_SEGMENTS
        self.systems = group_positions(group.judgements.systems, len(group))
        self.human_means = tied_means(group.human, self.systems.values())
        if len(self.systems) < least:
            self.reason = f"fewer than {least} systems"
            return
        if self.human_means.min() == self.human_means.max():
            self.reason = "the mean ratings of its systems are all equal"
            return
        means = tied_means(group.scores, self.systems.values())
        self.values = STATISTICS[self.statistic](means, self.human_means)
        self.units = np.full(len(self.values), len(self.systems))
        self._explain_lacking("its mean scores of the systems are all equal")

    def drawn_values(self, counts: Counts) -> Vector:
        """Correlate system means over drawn items (or references); all systems share the draw."""
        weights = counts.astype(np.float64)
        human = self._drawn_means(self.group.human, weights)
        correlate = STATISTICS[self.statistic]
        return np.stack([correlate(self._drawn_means(one, weights), human) for one in self.group.scores])

    def swapped(self, signs: Vector) -> Vector | None:
        """Compute PERM-BOTH differences: scores standardised within the group are exchanged by segment."""
        scores = self.group.standardised()
        rows_of = list(self.systems.values())
        plain = np.stack([scores[:, rows].mean(axis=1) for rows in rows_of], axis=-1)  # [K, systems]
        sizes = largest_terms(scores, rows_of)
        signed = np.stack(
            [signs[:, rows].astype(np.float64) @ scores[:, rows].T / len(rows) for rows in rows_of], axis=-1
        )  # [permutations, K, systems]
        statistic = STATISTICS[self.statistic]
        differences = []
        for a, b in self.pairs:
            half, shift = (plain[a] + plain[b]) / 2, (signed[:, a] - signed[:, b]) / 2
            largest = np.maximum(sizes[a], sizes[b])
            first, second = (restore_ties(means, largest) for means in (half + shift, half - shift))
            differences.append(statistic(first, self.human_means) - statistic(second, self.human_means))
        return np.stack(differences)

    def _drawn_means(self, scores: Vector, weights: Vector) -> Vector:
        """Return the mean of each system in each draw, ``[draws, systems]``; all NaN if a draw lacks a system."""
        columns = [weights[:, rows] @ scores[rows] for rows in self.systems.values()]
        sizes = np.stack([weights[:, rows].sum(axis=1) for rows in self.systems.values()], axis=-1)
        means = np.stack(columns, axis=-1) / np.maximum(sizes, 1.0)
        means = restore_ties(means, largest_terms(scores, self.systems.values()))
        return np.where((sizes > 0).all(axis=1, keepdims=True), means, np.nan)


class SoftSystemAgreement(Agreement):
    """Soft pairwise accuracy, without bootstrap and test: each sample would need its own permutations."""

    without_draws, without_test = "soft accuracy has no bootstrap", "soft accuracy has no permutation test"

    def __init__(self, group: Group, permutations: int, seed: int) -> None:
        super().__init__(group)
        items, systems = group.judgements.items or (), group.judgements.systems or ()
        self.values, pairs, undefined = soft_accuracies(group.scores, group.human, items, systems, permutations, seed)
        if not pairs or group.human.min() == group.human.max():
            self.reason = EQUAL if pairs else "no two systems have outputs for the same item"
            return
        self.excluded = tuple(
            Exclusion(f"{group.name} / {first} and {second}", "no item in common", 0) for first, second in undefined
        )
        self.units = np.full(len(self.values), pairs)
        self.resampled = np.zeros(0, dtype=np.int64)


EQUAL = "all ratings are equal"  # reason for an undefined correlation


class _UnitAgreement(Agreement):
    """Mean over units of a segment-level statistic; the group itself can be the only unit."""

    by_unit: Vector
    parts: dict[str, Positions]

    def __init__(self, group: Group, protocol: Protocol) -> None:
        super().__init__(group)
        self.statistic = protocol.statistic
        self.single = protocol.level in ("per-group", "pooled")
        self.word = protocol.level.removeprefix("per-")
        units = {"per-item": group.judgements.items, "per-system": group.judgements.systems}
        self.candidates = group_positions(units.get(protocol.level) or (group.name,) * len(group), len(group))

    def _average(self, by_unit: Vector) -> None:
        """Average each metric over units, and record the units in which it is undefined."""
        self.by_unit, known, names = by_unit, ~np.isnan(by_unit), tuple(self.parts)
        self.values, self.units = nan_mean(by_unit, axis=1), known.sum(axis=1)
        self.undefined = tuple(tuple(names[unit] for unit in np.flatnonzero(~row)) for row in known)

    def draw_units(self) -> DrawUnits:
        """Return clusters of segments if the group is a single unit, else units."""
        return super().draw_units() if self.single else DrawUnits(len(self.parts), self.word)

    def draws(self, samples: int, rng: np.random.Generator) -> Vector:
        """Draw whole clusters of segments if the group is a single unit, else draw units."""
        if self.single:
            return super().draws(samples, rng)
        known = ~np.isnan(self.by_unit)
        columns = np.concatenate([np.where(known, self.by_unit, 0.0), known]).T
        totals, sizes = np.split(draw_sums(columns, samples, rng), 2, axis=1)
        return divide(totals, sizes).T


class CorrelationAgreement(_UnitAgreement):
    """Mean over units of a segment-level correlation."""

    def __init__(self, group: Group, protocol: Protocol) -> None:
        super().__init__(group, protocol)
        self.parts = {}
        excluded = []
        for name, members in self.candidates.items():
            if len(members) < MIN_SEGMENTS:
                reason = f"fewer than {MIN_SEGMENTS} segments"
            elif group.human[members].min() == group.human[members].max():
                reason = EQUAL
            else:
                self.parts[name] = members
                continue
            excluded.append(Exclusion(f"{group.name} / {name}", reason, len(members)))
        if not self.parts:
            no_units = f"none of {len(self.candidates)} units has {MIN_SEGMENTS} segments of different ratings"
            self.reason = excluded[0].reason if self.single else no_units
            return
        self.excluded = tuple(excluded)
        units = list(self.parts.values())
        self._average(unit_correlations(group.scores, group.human, units, self.statistic))
        self.undefined_segments = np.isnan(self.by_unit) @ np.array([len(unit) for unit in units])
        self._explain_lacking("its scores are all equal" + ("" if self.single else f" within each {self.word}"))

    def drawn_values(self, counts: Counts) -> Vector:
        """Correlate the drawn segments of a group that is a single unit."""
        return np.stack([CORRELATIONS[self.statistic](one, self.group.human, counts) for one in self.group.scores])

    def swapped(self, signs: Vector) -> Vector | None:
        """Compute PERM-BOTH differences: scores standardised within the group are exchanged by segment."""
        members = list(self.parts.values())
        return swapped_correlations(self.group.standardised(), self.group.human, members, signs, self.statistic)


class PairwiseAgreement(_UnitAgreement):
    """acc23 or τ23, averaged over units, with the tie threshold calibrated for each metric in this group."""

    def __init__(self, group: Group, protocol: Protocol, seed: int) -> None:
        super().__init__(group, protocol)
        self.scale = 2.0 if protocol.statistic == "tau23" else 1.0  # τ23 = 2 acc23 - 1
        self.parts = {name: members for name, members in self.candidates.items() if len(members) > 1}
        if not self.parts:
            self.reason = "no two segments to compare" + ("" if self.single else f" within any {self.word}")
            return
        if not self.single:
            self.excluded = tuple(
                Exclusion(f"{group.name} / {name}", "a single segment", 1)
                for name in self.candidates
                if name not in self.parts
            )
        members = list(self.parts.values())
        human, rate = group.human, protocol.pair_rate
        epsilons = [calibrated_epsilon(one, human, members, pair_rate=rate, seed=seed) for one in group.scores]
        pairs = zip(group.scores, epsilons, strict=True)
        self.epsilons = np.array(epsilons)
        self._average(self._scaled(np.stack([unit_agreement(one, human, members, epsilon) for one, epsilon in pairs])))

    def drawn_values(self, counts: Counts) -> Vector:
        """Compute values with the original thresholds; copies of a segment are not compared with each other."""
        assert self.epsilons is not None
        weights = counts.astype(np.float64)
        same = (weights**2).sum(axis=1)
        agreeing = np.zeros((len(self.group.scores), len(weights)))
        for metric, (scores, epsilon) in enumerate(zip(self.group.scores, self.epsilons.tolist(), strict=True)):
            for columns in chunks(len(scores), len(scores)):
                agrees = agreeing_pairs(scores, self.group.human, columns, epsilon).astype(np.float64)
                agreeing[metric] += np.einsum("sj,sj->s", weights @ agrees, weights[:, columns])
        return self._scaled(divide(agreeing - same, weights.sum(axis=1) ** 2 - same))

    def swapped(self, signs: Vector) -> Vector | None:
        """Exchange the results of whole units, since a threshold is only valid for its own metric."""
        if len(self.parts) < 2:
            return None
        first = np.array([members[0] for members in self.parts.values()])
        differences = np.stack([self.by_unit[a] - self.by_unit[b] for a, b in self.pairs])
        return differences @ signs[:, first].astype(np.float64).T / len(first)

    def _scaled(self, accuracy: Vector) -> Vector:
        return self.scale * accuracy - (self.scale - 1)
