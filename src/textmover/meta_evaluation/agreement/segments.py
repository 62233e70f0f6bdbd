"""Agreement within a group on segments: correlations and pairwise agreement, over units such as items."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np

from textmover.meta_evaluation.agreement.group_agreement import (
    Agreement,
    Drawn,
    Group,
    draw_units,
    pair_differences,
)
from textmover.meta_evaluation.results import Exclusion, Protocol
from textmover.meta_evaluation.significance.bootstrap import draw_correlations, draw_values
from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS, Counts, unit_correlations
from textmover.meta_evaluation.statistics.scores import Positions, Vector, chunks, divided, group_positions, known_mean
from textmover.meta_evaluation.statistics.swapped_correlation import swapped_correlations
from textmover.meta_evaluation.statistics.ties import agreeing_pairs, calibrated_epsilon, unit_agreement

EQUAL = "all ratings are equal"
"""Reason for which a group has no correlation."""


class _UnitAgreement(Agreement):
    """Mean over units of something that segments have within each; the only unit may be the group."""

    by_unit: Vector
    parts: dict[str, Positions]

    def __init__(self, group: Group, protocol: Protocol) -> None:
        super().__init__(group)
        self.statistic = protocol.statistic
        self.single = protocol.level in ("per-group", "pooled")
        self.word = protocol.level.removeprefix("per-")
        labels: Sequence[str] | None = {"per-item": group.items, "per-system": group.systems}.get(protocol.level)
        self.candidates = group_positions([group.name] * len(group) if labels is None else labels, len(group))

    def _average(self, by_unit: Vector) -> None:
        """Take the mean over units of each metric, and name the units in which it has no value."""
        self.by_unit, known, names = by_unit, ~np.isnan(by_unit), tuple(self.parts)
        self.values, self.units = known_mean(by_unit, axis=1), known.sum(axis=1)
        self.undefined = tuple(tuple(names[unit] for unit in np.flatnonzero(~row)) for row in known)

    def drawn(self) -> Drawn:
        """Clusters of segments where the group is one unit; else units."""
        return self.group.drawn() if self.single else Drawn(len(self.parts), self.word)

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Draw segments (whole clusters of them) where the group is one unit, else units."""
        if not self.single:
            return draw_units(self.by_unit, samples, rng)
        return None if len(np.unique(self.group.clusters)) < 2 else self._drawn_segments(samples, rng)

    @abc.abstractmethod
    def _drawn_segments(self, samples: int, rng: np.random.Generator) -> Vector:
        """Values of bootstrap samples of a group that is one unit, ``[K, samples]``."""


class CorrelationAgreement(_UnitAgreement):
    """Mean over units of a correlation of segments."""

    def __init__(self, group: Group, protocol: Protocol) -> None:
        super().__init__(group, protocol)
        self.parts, self.excluded = _usable(group, self.candidates)
        if not self.parts:
            self.reason = _why_none(group, len(self.candidates), self.single)
            return
        members = list(self.parts.values())
        self._average(unit_correlations(group.scores, group.human, members, self.statistic))
        self.undefined_segments = np.isnan(self.by_unit) @ np.array([len(unit) for unit in members])
        for metric in np.flatnonzero(np.isnan(self.values)).tolist():
            where = "all equal" if self.single else f"all equal within each {self.word}"
            self.reasons[metric] = f"its scores are {where}"

    def _drawn_segments(self, samples: int, rng: np.random.Generator) -> Vector:
        group = self.group
        return draw_correlations(group.scores, group.human, group.clusters, self.statistic, samples, rng)

    def swapped(self, signs: Vector) -> Vector | None:
        """PERM-BOTH: scores that are standardised within the group are exchanged segment by segment."""
        members = list(self.parts.values())
        return swapped_correlations(self.group.standardised(), self.group.human, members, signs, self.statistic)


class PairwiseAgreement(_UnitAgreement):
    """acc23 or τ23, averaged over units, with the threshold of ties that is best for each metric in this group."""

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

    def _drawn_segments(self, samples: int, rng: np.random.Generator) -> Vector:
        return self._scaled(draw_values(self.group.clusters, samples, rng, self._drawn_accuracy))

    def _drawn_accuracy(self, counts: Counts) -> Vector:
        """acc23 of each draw with the thresholds kept; copies of a segment are not compared with each other."""
        assert self.epsilons is not None
        weights = counts.astype(np.float64)
        same = (weights**2).sum(axis=1)
        alike = np.zeros((len(self.group.scores), len(weights)))
        for metric, (one, epsilon) in enumerate(zip(self.group.scores, self.epsilons.tolist(), strict=True)):
            for columns in chunks(len(one), len(one)):
                agrees = agreeing_pairs(one, self.group.human, columns, epsilon).astype(np.float64)
                alike[metric] += np.einsum("sj,sj->s", weights @ agrees, weights[:, columns])
        return divided(alike - same, weights.sum(axis=1) ** 2 - same)

    def swapped(self, signs: Vector) -> Vector | None:
        """The results of whole units are exchanged, since thresholds hold for a metric's own scores alone."""
        if len(self.parts) < 2:
            return None
        first = np.array([members[0] for members in self.parts.values()])
        return pair_differences(self.by_unit) @ signs[:, first].astype(np.float64).T / len(first)

    def _scaled(self, accuracy: Vector) -> Vector:
        return self.scale * accuracy - (self.scale - 1)


def _usable(group: Group, parts: dict[str, Positions]) -> tuple[dict[str, Positions], tuple[Exclusion, ...]]:
    """Units that can have a correlation, and why the others cannot."""
    kept, excluded = {}, []
    for name, members in parts.items():
        human = group.human[members]
        if len(members) < MIN_SEGMENTS:
            reason = f"fewer than {MIN_SEGMENTS} segments"
        elif human.min() == human.max():
            reason = EQUAL
        else:
            kept[name] = members
            continue
        excluded.append(Exclusion(f"{group.name} / {name}", reason, len(members)))
    return kept, tuple(excluded) if kept else ()


def _why_none(group: Group, units: int, single: bool) -> str:
    if not single:
        return f"none of {units} units has {MIN_SEGMENTS} segments of different ratings"
    return f"fewer than {MIN_SEGMENTS} segments" if len(group) < MIN_SEGMENTS else EQUAL
