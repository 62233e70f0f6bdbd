"""Agreement within a group on segments: correlations and pairwise agreement, over units such as items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from textmover.meta_evaluation.agreement.group_agreement import (
    Agreement,
    Drawn,
    Exclusion,
    Group,
    draw_units,
    pair_differences,
)
from textmover.meta_evaluation.agreement.protocol import Protocol
from textmover.meta_evaluation.significance.bootstrap import STATISTICS, draw_counts
from textmover.meta_evaluation.statistics.bootstrap_correlation import Vector
from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS, group_positions, standard_scores
from textmover.meta_evaluation.statistics.row_correlation import Positions, chunks, unit_correlations
from textmover.meta_evaluation.statistics.swapped_correlation import swapped_correlations
from textmover.meta_evaluation.statistics.ties import agreeing_pairs, calibrated_epsilon, unit_agreement


class _UnitAgreement(Agreement):
    """Mean over units of something that segments have within each; the only unit may be the group."""

    by_unit: Vector
    parts: dict[str, Positions]
    single: bool
    word: str

    def drawn(self) -> Drawn:
        """Clusters of segments where the group is one unit; else units."""
        return self.group.drawn() if self.single else Drawn(len(self.parts), self.word)


class CorrelationAgreement(_UnitAgreement):
    """Mean over units of a correlation of segments."""

    def __init__(self, group: Group, protocol: Protocol) -> None:
        super().__init__(group)
        self.statistic = protocol.statistic
        self.single = protocol.level in ("per-group", "pooled")
        self.word = _word(protocol)
        parts = _units(group, protocol)
        self.parts, self.excluded = _usable(group, parts)
        if not self.parts:
            self.reason = _why_none(group, len(parts), self.single)
            return
        members = list(self.parts.values())
        self.by_unit = np.stack([unit_correlations(one, group.human, members, self.statistic) for one in group.scores])
        self.values, self.units, self.undefined = _averaged(self.by_unit, tuple(self.parts))
        self.undefined_segments = np.isnan(self.by_unit) @ np.array([len(unit) for unit in members])
        for metric in np.flatnonzero(np.isnan(self.values)).tolist():
            where = "all equal" if self.single else f"all equal within each {_word(protocol)}"
            self.reasons[metric] = f"its scores are {where}"

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Draw segments (whole clusters of them) where the group is one unit, else units."""
        if not self.single:
            return draw_units(self.by_unit, samples, rng)
        if len(np.unique(self.group.clusters)) < 2:
            return None
        _, draws_of = STATISTICS[self.statistic]
        found = [
            [draws_of(one, self.group.human, counts) for one in self.group.scores]
            for counts in draw_counts(self.group.clusters, samples, rng)
        ]
        return np.hstack(found)

    def swapped(self, signs: Vector) -> Vector | None:
        """PERM-BOTH: scores that are standardised within the group are exchanged segment by segment."""
        scores = np.stack([standard_scores(one) for one in self.group.scores])
        return swapped_correlations(scores, self.group.human, list(self.parts.values()), signs, self.statistic)


class PairwiseAgreement(_UnitAgreement):
    """acc23 or τ23, averaged over units, with the threshold of ties that is best for each metric in this group."""

    def __init__(self, group: Group, protocol: Protocol, seed: int) -> None:
        super().__init__(group)
        self.scale = 2.0 if protocol.statistic == "tau23" else 1.0  # τ23 = 2 acc23 - 1
        self.single = protocol.level in ("per-group", "pooled")
        self.word = _word(protocol)
        parts = _units(group, protocol)
        self.parts = {name: members for name, members in parts.items() if len(members) > 1}
        if not self.parts:
            self.reason = "no two segments to compare" + ("" if self.single else f" within any {_word(protocol)}")
            return
        if not self.single:
            self.excluded = tuple(
                Exclusion(f"{group.name} / {name}", "a single segment", 1) for name in parts if name not in self.parts
            )
        members = list(self.parts.values())
        self.epsilons = np.array(
            [
                calibrated_epsilon(one, group.human, members, pair_rate=protocol.pair_rate, seed=seed)
                for one in group.scores
            ]
        )
        self.by_unit = np.stack(
            [
                self._scaled(unit_agreement(one, group.human, members, epsilon))
                for one, epsilon in zip(group.scores, self.epsilons.tolist(), strict=True)
            ]
        )
        self.values, self.units, self.undefined = _averaged(self.by_unit, tuple(self.parts))

    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """As for correlations, with the thresholds kept; copies of a segment are not compared with each other."""
        if not self.single:
            return draw_units(self.by_unit, samples, rng)
        if len(np.unique(self.group.clusters)) < 2:
            return None
        assert self.epsilons is not None
        found = []
        for counts in draw_counts(self.group.clusters, samples, rng):
            weights = counts.astype(np.float64)
            same = (weights**2).sum(axis=1)
            pairs = weights.sum(axis=1) ** 2 - same
            alike = np.zeros((len(self.group.scores), len(weights)))
            for metric, (one, epsilon) in enumerate(zip(self.group.scores, self.epsilons.tolist(), strict=True)):
                for columns in chunks(len(one), len(one)):
                    agrees = agreeing_pairs(one, self.group.human, columns, epsilon).astype(np.float64)
                    alike[metric] += np.einsum("sj,sj->s", weights @ agrees, weights[:, columns])
            found.append(np.divide(alike - same, pairs, out=np.full_like(alike, np.nan), where=pairs > 0))
        return self._scaled(np.hstack(found))

    def swapped(self, signs: Vector) -> Vector | None:
        """The results of whole units are exchanged, since thresholds hold for a metric's own scores alone."""
        if len(self.parts) < 2:
            return None
        first = np.array([members[0] for members in self.parts.values()])
        return pair_differences(self.by_unit) @ signs[:, first].astype(np.float64).T / len(first)

    def _scaled(self, accuracy: Vector) -> Vector:
        return self.scale * accuracy - (self.scale - 1)


def _word(protocol: Protocol) -> str:
    return protocol.level.removeprefix("per-")


def _units(group: Group, protocol: Protocol) -> dict[str, Positions]:
    labels: Sequence[str] | None = {"per-item": group.items, "per-system": group.systems}.get(protocol.level)
    return group_positions([group.name] * len(group) if labels is None else labels, len(group))


def _usable(group: Group, parts: dict[str, Positions]) -> tuple[dict[str, Positions], tuple[Exclusion, ...]]:
    """Units that can have a correlation, and why the others cannot."""
    kept, excluded = {}, []
    for name, members in parts.items():
        human = group.human[members]
        if len(members) < MIN_SEGMENTS:
            reason = f"fewer than {MIN_SEGMENTS} segments"
        elif human.min() == human.max():
            reason = "its ratings are all equal"
        else:
            kept[name] = members
            continue
        excluded.append(Exclusion(f"{group.name} / {name}", reason, len(members)))
    return kept, tuple(excluded) if kept else ()


def _why_none(group: Group, units: int, single: bool) -> str:
    if not single:
        return f"none of {units} units has {MIN_SEGMENTS} segments of different ratings"
    return f"fewer than {MIN_SEGMENTS} segments" if len(group) < MIN_SEGMENTS else "its ratings are all equal"


def _averaged(by_unit: Vector, names: tuple[str, ...]) -> tuple[Vector, np.ndarray, tuple[tuple[str, ...], ...]]:
    """Mean over units of each metric, over how many it is, and the names of the others."""
    known = ~np.isnan(by_unit)
    counts = known.sum(axis=1)
    totals = np.where(known, by_unit, 0.0).sum(axis=1)
    means = np.divide(totals, counts, out=np.full(len(by_unit), np.nan), where=counts > 0)
    missing = tuple(tuple(names[unit] for unit in np.flatnonzero(~row)) for row in known)
    return means, counts, missing
