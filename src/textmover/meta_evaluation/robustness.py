"""Robustness of metrics by kind of change: drops, ordered pairs, and agreement with severity.

Kinds that keep the meaning should cost little, all others much. All numbers come from the same draws of whole texts,
with all their versions; those of ρ draw among the texts of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.results import MetricScores
from textmover.meta_evaluation.significance.bootstrap import (
    LEAST,
    UNKNOWN,
    Interval,
    bootstrap_interval,
    check_draws,
    draw_counts,
    percentiles,
)
from textmover.meta_evaluation.statistics.correlation import correlation
from textmover.meta_evaluation.statistics.scores import Vector, divided, finite_scores, group_positions, known_mean
from textmover.types import InputError, Shown, View, plural

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Versions:
    """Changed versions of texts; entry ``i`` of every field but ``texts`` is about version ``i`` of ``m``."""

    texts: int  # how many there are, ``n``
    owners: NDArray[np.int64]  # which text each is a version of, from 0, ``[m]``
    kinds: tuple[str, ...]  # kind of the change
    degrees: tuple[int, ...]  # how much was done, in a unit of the kind's own
    severities: Vector  # how bad it is, from 0 (as good as the text) to 1 (worthless), ``[m]``

    def __post_init__(self) -> None:
        object.__setattr__(self, "owners", np.asarray(self.owners, dtype=np.int64))
        object.__setattr__(self, "severities", finite_scores(self.severities, "severities"))
        lengths = {len(self.owners), len(self.kinds), len(self.degrees), len(self.severities)}
        if len(lengths) > 1 or not len(self.owners):
            raise InputError(
                f"Expected owner, kind, degree and severity of at least one version, but got {sorted(lengths)} of "
                "them: give one of each per version."
            )
        if self.owners.min() < 0 or self.owners.max() >= self.texts:
            raise InputError(
                f"Expected owners from 0 to {self.texts - 1}, but got {self.owners.min()} to {self.owners.max()}: "
                "count all texts in `texts`."
            )

    def __len__(self) -> int:
        return len(self.owners)


@dataclass(frozen=True)
class KindRobustness:
    """Effect of one kind of change on the scores of one metric; pairs and ``auc`` are of versions of mildest degree."""

    kind: str
    degree: int | None  # the one degree that this is about; ``None`` of all together
    keeping: bool  # whether the kind keeps the meaning
    versions: int
    texts: int  # how many have a version
    drop: Interval  # mean of ``score(text) - score(version)``, in the metric's own unit
    share: Interval  # that over the mean drop of the yardstick's versions of the same texts
    below: Interval  # share of versions that score below their text
    pairs: int = 0  # pairs with a version of the same text that keeps the meaning
    below_keeping: Interval = UNKNOWN  # share of these pairs in which this kind's version scores lower
    auc: Interval = UNKNOWN  # chance of dropping more than a version that keeps the meaning, of any text; ties are ½
    spearman: Interval = UNKNOWN  # Spearman's ρ of scores with ``-severity``; unknown where all are as severe
    kendall: float = math.nan  # Kendall's τ-b of the same


@dataclass(frozen=True)
class MetricRobustness:
    """Robustness of one metric; means over kinds that harm are without the yardstick."""

    name: str
    unit: float  # mean drop of the yardstick's versions, in the metric's own unit; NaN where there are none
    harmful: Interval  # mean of ``share`` over the kinds that harm
    keeping: Interval  # mean of ``share`` over the kinds that keep the meaning
    below_keeping: Interval  # mean of ``below_keeping`` over the kinds that harm
    auc: Interval  # mean of ``auc`` over the same: harmful against meaning-keeping in one figure
    spearman: Interval  # Spearman's ρ of the scores with ``-severity`` over the versions of all kinds
    kendall: float  # Kendall's τ-b of the same
    kinds: tuple[KindRobustness, ...]  # each kind, over all its degrees
    by_degree: tuple[KindRobustness, ...]  # each degree of the kinds that have several: ``drop``, ``share``, ``below``
    signature: str = ""


@dataclass(frozen=True, repr=False)
class Robustness(Shown):
    """Robustness of several metrics to the same changes."""

    metrics: tuple[MetricRobustness, ...]
    texts: int
    versions: int
    samples: int  # draws of the bootstrap
    seed: int
    level: float = LEVEL

    def view(self) -> View:
        """Show the summary of each metric."""
        rows = [
            (one.name, one.harmful.estimate, one.keeping.estimate, one.auc.estimate, one.below_keeping.estimate)
            for one in self.metrics
        ]
        headline = f"{plural(self.versions, 'version')} of {plural(self.texts, 'text')}"
        return View(headline, ("metric", "harmful", "preserving", "AUC", "pairs in order"), rows)


TIE = 1e-6
"""Scores of a metric that differ by at most this share of their range are equal: rounding differs by batch mates."""


def robustness(
    versions: Versions,
    metrics: Sequence[MetricScores],
    *,
    keeping: Collection[str] = (),
    yardstick: str = "unrelated",
    samples: int = 1000,
    seed: int = 0,
) -> Robustness:
    """Measure the robustness of metrics to changes of texts, by kind of change.

    ``share = Σ_v (s(t_v) - s(v)) / Σ_v u(t_v)`` over the versions ``v`` of a kind, ``t_v`` the text of a version and
    ``u(t)`` the mean drop of the yardstick's versions of a text: the unit in which metrics compare. Where the
    yardstick does not drop, there is no share. Scores of metrics whose lower scores are better are negated.

    Args:
        versions: What there is.
        metrics: Scores of all texts followed by those of all versions, ``[n + m]``.
        keeping: Kinds that keep the meaning; the others harm.
        yardstick: Kind that stands for the worst; not part of the means over kinds.
        samples: Draws of the bootstrap.
        seed: Of the draws.

    Returns:
        Kinds in the order in which they appear, with 95 % intervals; ``NaN`` where fewer than two texts have a kind.

    Raises:
        InputError: If scores are missing, or there is nothing to draw.

    Example:
        >>> found = Versions(2, [0, 1, 0, 1], ("drop", "drop", "unrelated", "unrelated"), (1,) * 4, [0.2, 0.3, 1, 1])
        >>> (metric,) = robustness(found, [MetricScores("a", [1.0, 1.0, 0.8, 0.6, 0.0, 0.2])]).metrics
        >>> [(one.kind, round(one.drop.estimate, 3), round(one.share.estimate, 3)) for one in metric.kinds]
        [('drop', 0.3, 0.333), ('unrelated', 0.9, 1.0)]
    """
    check_draws(samples)
    rng = np.random.default_rng(seed)
    times = np.vstack(list(draw_counts(np.arange(versions.texts), samples, rng))).astype(np.float64)
    found = []
    for metric in metrics:
        scores = finite_scores(metric.scores, f"scores of {metric.name}")
        if len(scores) != versions.texts + len(versions):
            raise InputError(
                f"Expected scores of {metric.name} for {plural(versions.texts, 'text')} and "
                f"{plural(len(versions), 'version')}, but got {len(scores)}: give those of the texts first."
            )
        sign = 1.0 if metric.higher_is_better else -1.0
        judge = _Judge(versions, sign * scores, times, frozenset(keeping), yardstick, seed)
        found.append(judge.judged(metric.name, metric.signature))
    return Robustness(tuple(found), versions.texts, len(versions), samples, seed)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A number of the texts as they are, and of every draw, NaN where it has none."""

    estimate: float
    draws: Vector

    @property
    def interval(self) -> Interval:
        return Interval(self.estimate, *percentiles(self.draws, LEVEL))


class _Judge:
    def __init__(
        self, versions: Versions, scores: Vector, times: Vector, keeping: frozenset[str], yardstick: str, seed: int
    ) -> None:
        self.versions, self.times, self.keeping, self.yardstick, self.seed = versions, times, keeping, yardstick, seed
        self.scores = scores[versions.texts :]
        self.drops = scores[versions.owners] - self.scores
        self.tie = TIE * float(np.ptp(scores))
        self.degrees = np.asarray(versions.degrees, dtype=np.int64)
        self.rows = group_positions(versions.kinds, len(versions))
        self.mildest = {kind: rows[self.degrees[rows] == self.degrees[rows].min()] for kind, rows in self.rows.items()}
        kept = [self.mildest[kind] for kind in self.rows if kind in keeping]
        self.kept = np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)
        rows = self.rows.get(self.yardstick, np.empty(0, dtype=np.int64))
        owners = self.versions.owners[rows]
        counts = np.bincount(owners, minlength=self.versions.texts)
        sums = np.bincount(owners, self.drops[rows], self.versions.texts)
        self.worst = divided(sums.astype(np.float64), counts)  # of each text, NaN where it has no such version

    def judged(self, name: str, signature: str) -> MetricRobustness:
        """Everything about the metric."""
        shares, pairs, chances, kinds, by_degree = {}, {}, {}, [], []
        for kind, rows in self.rows.items():
            shares[kind] = self._share(rows)
            more: dict[str, Any] = {}
            if kind not in self.keeping:
                number, pairs[kind] = self._pairs(self.mildest[kind])
                chances[kind] = self._auc(self.mildest[kind])
                more = {"pairs": number, "below_keeping": pairs[kind].interval, "auc": chances[kind].interval}
            kinds.append(self._kind(kind, None, rows, **more, **self._with_severity(rows)))
            degrees = np.unique(self.degrees[rows]).tolist()
            if len(degrees) > 1:
                by_degree += [self._kind(kind, one, rows[self.degrees[rows] == one]) for one in degrees]
        counted = [kind for kind in pairs if kind != self.yardstick]
        unrelated = self.rows.get(self.yardstick)
        return MetricRobustness(
            name,
            unit=math.nan if unrelated is None else float(self.drops[unrelated].mean()),
            harmful=_mean(shares[kind] for kind in counted).interval,
            keeping=_mean(shares[kind] for kind in self.rows if kind in self.keeping).interval,
            below_keeping=_mean(pairs[kind] for kind in counted).interval,
            auc=_mean(chances[kind] for kind in counted).interval,
            **self._with_severity(np.arange(len(self.versions))),
            kinds=tuple(kinds),
            by_degree=tuple(by_degree),
            signature=signature,
        )

    def _kind(self, kind: str, degree: int | None, rows: NDArray[np.int64], **more: Any) -> KindRobustness:
        ones, lower = np.ones(len(rows)), (self.drops[rows] > self.tie).astype(np.float64)
        return KindRobustness(
            kind,
            degree,
            kind in self.keeping,
            len(rows),
            len(np.unique(self.versions.owners[rows])),
            drop=self._ratio(rows, self.drops[rows], ones).interval,
            share=self._share(rows).interval,
            below=self._ratio(rows, lower, ones).interval,
            **more,
        )

    def _share(self, rows: NDArray[np.int64]) -> _Drawn:
        """Drop over that of the yardstick's versions of the same texts; only of texts that have one."""
        units = self.worst[self.versions.owners[rows]]
        known = ~np.isnan(units)
        return self._ratio(rows[known], self.drops[rows[known]], units[known])

    def _pairs(self, rows: NDArray[np.int64]) -> tuple[int, _Drawn]:
        """Versions against those of the same text that keep the meaning: how many pairs, and the share in order."""
        same = self.versions.owners[rows][:, None] == self.versions.owners[self.kept][None, :]
        lower = self.drops[rows][:, None] - self.drops[self.kept][None, :] > self.tie
        pairs = same.sum(axis=1).astype(np.float64)
        return int(pairs.sum()), self._ratio(rows, (same & lower).sum(axis=1).astype(np.float64), pairs)

    def _auc(self, rows: NDArray[np.int64]) -> _Drawn:
        """Versions against those of any text that keep the meaning."""
        if not len(self.kept):
            return _Drawn(math.nan, np.full(len(self.times), np.nan))
        apart = self.drops[rows][:, None] - self.drops[self.kept][None, :]
        wins = np.where(np.abs(apart) <= self.tie, 0.5, (apart > 0).astype(np.float64))  # [H, K]
        ours, theirs = self.times[:, self.versions.owners[rows]], self.times[:, self.versions.owners[self.kept]]
        drawn = divided(((ours @ wins) * theirs).sum(axis=1), ours.sum(axis=1) * theirs.sum(axis=1))
        return _Drawn(float(wins.mean()), self._few(np.concatenate([rows, self.kept]), drawn))

    def _ratio(self, rows: NDArray[np.int64], values: Vector, units: Vector) -> _Drawn:
        """``Σ values / Σ units`` over versions, of the texts as they are and of every draw."""
        owners, texts = self.versions.owners[rows], self.versions.texts
        above, below = np.bincount(owners, values, texts), np.bincount(owners, units, texts)
        drawn = divided(self.times @ above, self.times @ below)
        whole = float(divided(np.array([values.sum()]), np.array([units.sum()]))[0])
        return _Drawn(whole, self._few(rows[units != 0], drawn))

    def _few(self, rows: NDArray[np.int64], drawn: Vector) -> Vector:
        """The draws, but none where every one of them would be the same."""
        return drawn if len(np.unique(self.versions.owners[rows])) >= LEAST else np.full_like(drawn, np.nan)

    def _with_severity(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Spearman's ρ and Kendall's τ-b of scores with how good the versions are."""
        scores, goodness = self.scores[rows], -self.versions.severities[rows]
        if len(np.unique(goodness)) < 2:
            return {"spearman": UNKNOWN, "kendall": math.nan}
        options: dict[str, Any] = {"statistic": "spearman", "samples": len(self.times), "seed": self.seed}
        owners = [str(one) for one in self.versions.owners[rows]]
        found = bootstrap_interval(scores, goodness, ["all"] * len(rows), **options, level=LEVEL, clusters=owners)
        return {"spearman": found, "kendall": correlation(scores, goodness, "kendall")}


def _mean(several: Iterable[_Drawn]) -> _Drawn:
    """The mean of those that are defined, in each draw of those that are defined there; without draws of one, none."""
    known = [one for one in several if not math.isnan(one.estimate)]
    if not known:
        return _Drawn(math.nan, np.empty(0))
    drawn = np.vstack([one.draws for one in known])
    if np.isnan(drawn).all(axis=1).any():  # the other means would be of other kinds than the estimate
        drawn[:] = np.nan
    return _Drawn(math.fsum(one.estimate for one in known) / len(known), known_mean(drawn, axis=0))
