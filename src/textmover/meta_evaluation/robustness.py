"""Robustness of metrics by kind of text change: score drops, pairwise order, and correlation with severity.

Meaning-preserving kinds should change scores little, all others much. Bootstrap draws resample texts together with all
their versions. All intervals share the same draws, except those of ρ, which resample the texts of their kind.
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
    MIN_CLUSTERS,
    UNKNOWN,
    Interval,
    bootstrap_interval,
    check_draws,
    draw_counts,
    percentiles,
)
from textmover.meta_evaluation.statistics.correlation import correlation
from textmover.meta_evaluation.statistics.score_arrays import Vector, divide, finite_scores, group_positions
from textmover.types import InputError, Shown, View, plural

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Versions:
    """Changed versions of texts; entry ``i`` of each field except ``texts`` describes version ``i`` of ``m``."""

    texts: int  # number of texts, ``n``
    owners: NDArray[np.int64]  # index of the original text, from 0, ``[m]``
    kinds: tuple[str, ...]  # kind of the change
    degrees: tuple[int, ...]  # amount of change, in a unit specific to the kind
    severities: Vector  # from 0 (as good as the original) to 1 (worthless), ``[m]``

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
    """Effect of one kind of change on one metric; ``pairs``, ``below_keeping`` and ``auc`` use the mildest degree."""

    kind: str
    degree: int | None  # ``None``: all degrees together
    keeping: bool  # whether the kind preserves the meaning
    versions: int
    texts: int  # number of texts with such a version
    drop: Interval  # mean of ``score(text) - score(version)``, in the metric's unit
    share: Interval  # ``drop`` relative to the mean drop of the yardstick's versions of the same texts
    below: Interval  # fraction of versions that score below their original
    pairs: int = 0  # number of pairs with a meaning-preserving version of the same text
    below_keeping: Interval = UNKNOWN  # fraction of these pairs in which the version of this kind scores lower
    auc: Interval = UNKNOWN  # probability of a larger drop than a meaning-preserving version of any text; ties count ½
    spearman: Interval = UNKNOWN  # Spearman's ρ of scores with ``-severity``; NaN if severity is constant
    kendall: float = math.nan  # Kendall's τ-b of scores with ``-severity``


@dataclass(frozen=True)
class MetricRobustness:
    """Robustness of one metric; means over harmful kinds exclude the yardstick."""

    name: str
    unit: float  # mean drop of the yardstick's versions, in the metric's unit; NaN without such versions
    harmful: Interval  # mean of ``share`` over harmful kinds
    keeping: Interval  # mean of ``share`` over meaning-preserving kinds
    below_keeping: Interval  # mean of ``below_keeping`` over harmful kinds
    auc: Interval  # mean of ``auc`` over harmful kinds
    spearman: Interval  # Spearman's ρ of scores with ``-severity`` over all versions
    kendall: float  # Kendall's τ-b of scores with ``-severity`` over all versions
    kinds: tuple[KindRobustness, ...]  # each kind, all degrees together
    by_degree: tuple[KindRobustness, ...]  # ``drop``, ``share`` and ``below`` of each degree, if a kind has several
    signature: str = ""


@dataclass(frozen=True, repr=False)
class Robustness(Shown):
    """Robustness of several metrics to the same text changes."""

    metrics: tuple[MetricRobustness, ...]
    texts: int
    versions: int
    samples: int  # number of bootstrap samples
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
"""Tie threshold, relative to the range of scores: rounding depends on the other texts of a batch."""


def robustness(
    versions: Versions,
    metrics: Sequence[MetricScores],
    *,
    keeping: Collection[str] = (),
    yardstick: str = "unrelated",
    samples: int = 1000,
    seed: int = 0,
) -> Robustness:
    """Measure the robustness of metrics to text changes, by kind of change.

    ``share = Σ_v (s(t_v) - s(v)) / Σ_v u(t_v)`` over the versions ``v`` of a kind, where ``t_v`` is the original of a
    version and ``u(t)`` the mean drop of the yardstick's versions of a text. It makes metrics comparable. The share is
    NaN if the yardstick's drop is not positive. Scores of distances are negated.

    Args:
        versions: Changed versions of the texts.
        metrics: Scores of all texts, then of all versions, ``[n + m]``.
        keeping: Meaning-preserving kinds; all others are harmful.
        yardstick: Kind that represents the worst case; excluded from means over kinds.
        samples: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Returns:
        Kinds in order of first appearance, with 95 % intervals; the ends are NaN if fewer than two texts have the kind.

    Raises:
        InputError: If scores are missing or NaN, or there are too few samples.

    Example:
        >>> found = Versions(2, [0, 1, 0, 1], ("drop", "drop", "unrelated", "unrelated"), (1,) * 4, [0.2, 0.3, 1, 1])
        >>> (metric,) = robustness(found, [MetricScores("a", [1.0, 1.0, 0.8, 0.6, 0.0, 0.2])]).metrics
        >>> [(one.kind, round(one.drop.estimate, 3), round(one.share.estimate, 3)) for one in metric.kinds]
        [('drop', 0.3, 0.333), ('unrelated', 0.9, 1.0)]
    """
    check_draws(samples)
    rng = np.random.default_rng(seed)
    times = np.vstack(list(draw_counts(np.arange(versions.texts), samples, rng))).astype(np.float64)
    results = []
    for metric in metrics:
        scores = finite_scores(metric.scores, f"scores of {metric.name}")
        if len(scores) != versions.texts + len(versions):
            raise InputError(
                f"Expected scores of {metric.name} for {plural(versions.texts, 'text')} and "
                f"{plural(len(versions), 'version')}, but got {len(scores)}: give those of the texts first."
            )
        sign = 1.0 if metric.higher_is_better else -1.0
        evaluator = _MetricEvaluator(versions, sign * scores, times, frozenset(keeping), yardstick, seed)
        results.append(evaluator.evaluate(metric.name, metric.signature))
    return Robustness(tuple(results), versions.texts, len(versions), samples, seed)


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Estimate on all texts, and its value in each bootstrap draw; NaN where undefined."""

    estimate: float
    draws: Vector

    @property
    def interval(self) -> Interval:
        return Interval(self.estimate, *percentiles(self.draws, LEVEL), undefined=int(np.isnan(self.draws).sum()))


class _MetricEvaluator:
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
        preserving = [self.mildest[kind] for kind in self.rows if kind in keeping]
        self.preserving = np.concatenate(preserving) if preserving else np.empty(0, dtype=np.int64)
        rows = self.rows.get(self.yardstick, np.empty(0, dtype=np.int64))
        owners = self.versions.owners[rows]
        counts = np.bincount(owners, minlength=self.versions.texts)
        sums = np.bincount(owners, self.drops[rows], self.versions.texts)
        self.worst = divide(sums.astype(np.float64), counts)  # for each text, NaN without a yardstick version

    def evaluate(self, name: str, signature: str) -> MetricRobustness:
        """Compute all results of the metric."""
        shares, pairs, chances, kinds, by_degree = {}, {}, {}, [], []
        for kind, rows in self.rows.items():
            shares[kind] = self._share(rows)
            results: dict[str, Any] = {}
            if kind not in self.keeping:
                count, pairs[kind] = self._pairs(self.mildest[kind])
                chances[kind] = self._auc(self.mildest[kind])
                results = {"pairs": count, "below_keeping": pairs[kind].interval, "auc": chances[kind].interval}
            kinds.append(self._kind(kind, None, rows, **results, **self._with_severity(rows)))
            degrees = np.unique(self.degrees[rows]).tolist()
            if len(degrees) > 1:
                by_degree += [self._kind(kind, degree, rows[self.degrees[rows] == degree]) for degree in degrees]
        harmful = [kind for kind in pairs if kind != self.yardstick]
        yardstick = self.rows.get(self.yardstick)
        return MetricRobustness(
            name,
            unit=math.nan if yardstick is None else float(self.drops[yardstick].mean()),
            harmful=_mean(shares[kind] for kind in harmful).interval,
            keeping=_mean(shares[kind] for kind in self.rows if kind in self.keeping).interval,
            below_keeping=_mean(pairs[kind] for kind in harmful).interval,
            auc=_mean(chances[kind] for kind in harmful).interval,
            **self._with_severity(np.arange(len(self.versions))),
            kinds=tuple(kinds),
            by_degree=tuple(by_degree),
            signature=signature,
        )

    def _kind(self, kind: str, degree: int | None, rows: NDArray[np.int64], **results: Any) -> KindRobustness:
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
            **results,
        )

    def _share(self, rows: NDArray[np.int64]) -> _Estimate:
        """Compute the drop relative to the yardstick's, over texts with a yardstick version."""
        units = self.worst[self.versions.owners[rows]]
        known = ~np.isnan(units)
        return self._ratio(rows[known], self.drops[rows[known]], units[known])

    def _pairs(self, rows: NDArray[np.int64]) -> tuple[int, _Estimate]:
        """Compare with meaning-preserving versions of the same text: number of pairs, and fraction scored lower."""
        same = self.versions.owners[rows][:, None] == self.versions.owners[self.preserving][None, :]
        lower = self.drops[rows][:, None] - self.drops[self.preserving][None, :] > self.tie
        pairs = same.sum(axis=1).astype(np.float64)
        return int(pairs.sum()), self._ratio(rows, (same & lower).sum(axis=1).astype(np.float64), pairs)

    def _auc(self, rows: NDArray[np.int64]) -> _Estimate:
        """Compare with meaning-preserving versions of any text."""
        if not len(self.preserving):
            return _Estimate(math.nan, np.full(len(self.times), np.nan))
        difference = self.drops[rows][:, None] - self.drops[self.preserving][None, :]
        wins = np.where(np.abs(difference) <= self.tie, 0.5, (difference > 0).astype(np.float64))  # [H, K]
        harm, keep = self.times[:, self.versions.owners[rows]], self.times[:, self.versions.owners[self.preserving]]
        draws = divide(((harm @ wins) * keep).sum(axis=1), harm.sum(axis=1) * keep.sum(axis=1))
        return _Estimate(float(wins.mean()), self._nan_if_constant(np.concatenate([rows, self.preserving]), draws))

    def _ratio(self, rows: NDArray[np.int64], values: Vector, units: Vector) -> _Estimate:
        """Compute ``Σ values / Σ units`` over versions, on all texts and in each draw."""
        owners, texts = self.versions.owners[rows], self.versions.texts
        numerator, denominator = np.bincount(owners, values, texts), np.bincount(owners, units, texts)
        draws = divide(self.times @ numerator, self.times @ denominator)
        estimate = float(divide(np.array([values.sum()]), np.array([units.sum()]))[0])
        return _Estimate(estimate, self._nan_if_constant(rows[units != 0], draws))

    def _nan_if_constant(self, rows: NDArray[np.int64], draws: Vector) -> Vector:
        """Return the draws, or NaN if there are too few texts for draws to differ."""
        return draws if len(np.unique(self.versions.owners[rows])) >= MIN_CLUSTERS else np.full_like(draws, np.nan)

    def _with_severity(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Correlate scores with ``-severity``, by Spearman's ρ and Kendall's τ-b."""
        scores, goodness = self.scores[rows], -self.versions.severities[rows]
        if len(np.unique(goodness)) < 2:
            return {"spearman": UNKNOWN, "kendall": math.nan}
        options: dict[str, Any] = {"statistic": "spearman", "samples": len(self.times), "seed": self.seed}
        owners = [str(one) for one in self.versions.owners[rows]]
        rho = bootstrap_interval(scores, goodness, ["all"] * len(rows), **options, level=LEVEL, clusters=owners)
        return {"spearman": rho, "kendall": correlation(scores, goodness, "kendall")}


def _mean(estimates: Iterable[_Estimate]) -> _Estimate:
    """Average the defined estimates; a draw counts if all of these are defined in it, else its mean is NaN."""
    defined = [estimate for estimate in estimates if not math.isnan(estimate.estimate)]
    if not defined:
        return _Estimate(math.nan, np.empty(0))
    draws = np.mean([estimate.draws for estimate in defined], axis=0)
    return _Estimate(math.fsum(estimate.estimate for estimate in defined) / len(defined), draws)
