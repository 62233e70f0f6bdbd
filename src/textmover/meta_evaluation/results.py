"""Protocols, inputs and results of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.statistics.correlation import CORRELATIONS, check_statistic
from textmover.meta_evaluation.statistics.score_arrays import Vector, as_vector
from textmover.types import InputError, Judgements, Shown, View, fixed, plural

LEVELS = {
    "per-group": "within each group, mean over groups",
    "pooled": "over all segments together, whatever their group",
    "per-item": "over the outputs for each item, mean over the items of a group, then over groups",
    "per-system": "over the outputs of each system, mean over the systems of a group, then over groups",
    "systems": "over the mean scores of the systems of each group, mean over groups",
}
"""Levels at which a statistic can be computed, with a description of each."""

_SEGMENT_LEVELS = ("per-group", "pooled", "per-item", "per-system")

STATISTICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(CORRELATIONS, (*_SEGMENT_LEVELS, "systems")),
    "acc23": _SEGMENT_LEVELS,
    "tau23": _SEGMENT_LEVELS,
    "darr": ("per-group", "pooled"),
    "accuracy": ("systems",),
    "soft-accuracy": ("systems",),
}
"""Supported levels of each statistic."""


@dataclass(frozen=True)
class Protocol:
    """Statistic and level at which agreement is measured.

    Attributes:
        statistic: ``pearson``, ``spearman``, ``kendall`` (τ-b), ``kendall-c``, ``acc23``, ``tau23`` (pairwise agreement
            with calibrated ties), ``darr`` (preferences), ``accuracy`` or ``soft-accuracy`` (pairs of systems).
        level: A key of :data:`LEVELS`.
        pair_rate: Fraction of pairs used to calibrate ties, for ``acc23`` and ``tau23``; 1 is exact.

    Raises:
        InputError: If a name is unknown, the statistic does not support the level, or ``pair_rate`` is out of range.

    Example:
        >>> str(Protocol("kendall", "per-item"))
        'kendall per-item'
    """

    statistic: str = "pearson"
    level: str = "per-group"
    pair_rate: float = 1.0

    def __post_init__(self) -> None:
        check_statistic(self.statistic, STATISTICS)
        if self.level not in LEVELS:
            raise InputError(f"Expected the level to be {', '.join(LEVELS)}, but got {self.level!r}: choose one.")
        levels = STATISTICS[self.statistic]
        if self.level not in levels:
            raise InputError(
                f"Expected the level of {self.statistic} to be {' or '.join(levels)}, but got {self.level!r}: "
                f"{_LEVEL_HINTS.get(self.statistic, 'use accuracy to compare pairs of systems')}."
            )
        if not 0 < self.pair_rate <= 1:
            raise InputError(f"Expected `pair_rate` to be above 0 and at most 1, but got {self.pair_rate}: 1 is exact.")
        if self.pair_rate != 1 and self.statistic not in ("acc23", "tau23"):
            raise InputError(
                f"Expected `pair_rate` to be 1 for {self.statistic}, but got {self.pair_rate}: only acc23 and tau23 "
                "calibrate ties."
            )

    def __str__(self) -> str:
        return f"{self.statistic} {self.level}"

    def check(self, judgements: Judgements) -> None:
        """Raise an :class:`InputError` if a judgement set lacks the required systems, items or preferences."""
        needs_items = self.level == "per-item" or self.statistic == "soft-accuracy"
        for needed, field, value in (
            (self.level in ("per-system", "systems"), "systems", judgements.systems),
            (needs_items, "items", judgements.items),
            (self.statistic == "darr", "preferences", judgements.preferences),
        ):
            if needed and value is None:
                raise InputError(
                    f"Expected `{judgements.name}` to have {field} for {self}, but got none: name the column that "
                    "holds them, or choose another statistic or level."
                )


_LEVEL_HINTS = {
    "darr": "preferences are counted together (micro average)",
    "accuracy": "it compares systems",
    "soft-accuracy": "it compares systems",
}


class Exclusion(NamedTuple):
    """Group, unit or metric that is excluded from the result.

    Attributes:
        name: Name of the group, unit or metric.
        reason: Reason for the exclusion.
        segments: Number of its segments.
    """

    name: str
    reason: str
    segments: int


@dataclass(frozen=True, eq=False, repr=False)
class MetricScores(Shown):
    """Scores of one metric for the texts of a judgement set.

    Attributes:
        name: Name of the metric in tables.
        scores: float64 ``[n]``, in the order of the set; NaN where missing.
        higher_is_better: False for distances, whose scores are negated before comparison with human ratings.
        signature: Settings that the scores depend on.

    Raises:
        InputError: If the scores are not a list of numbers, or contain infinity.
    """

    name: str
    scores: NDArray[np.float64]
    higher_is_better: bool = True
    signature: str = ""

    def __post_init__(self) -> None:
        scores = as_vector(self.scores, f"the scores of {self.name!r}")
        if np.isinf(scores).any():
            raise InputError(
                f"Expected finite scores of {self.name!r}, but got infinity for {int(np.isinf(scores).sum())} of "
                f"{plural(len(scores), 'segment')}: correct them, or write NaN for what is missing."
            )
        object.__setattr__(self, "scores", scores)

    def view(self) -> View:
        """Show the number of scores and their mean."""
        known = self.scores[~np.isnan(self.scores)]
        mean = f", mean {fixed(known.mean(), 4)}" if len(known) else ""
        return View(f"{self.name}: {plural(len(known), 'score')}{mean}")


@dataclass(frozen=True, eq=False, repr=False)
class MetricAgreement(Shown):
    """Agreement of one metric with human judgements.

    Attributes:
        name: Name of the metric.
        value: Mean agreement over groups; NaN if undefined.
        low: Lower end of the bootstrap interval; NaN if not computed.
        high: Upper end of the bootstrap interval.
        by_group: Agreement in each group; NaN where undefined.
        rank: Rank of its significance cluster, from 1; ``None`` if untested or undefined.
        gain: Difference in agreement from the baseline over the units in which both are defined; NaN without baseline.
        p_value: p-value against the baseline, one-sided in the direction of the gain; NaN if not tested.
        units: Number of units averaged over: items or systems (``per-item``, ``per-system``), systems (``systems``),
            pairs of systems (``soft-accuracy``), preferences (``darr``), otherwise groups.
        undefined: Units excluded for this metric only, because its scores are constant there.
        undefined_segments: Number of segments in these units.
        epsilons: Tie threshold in each group, for ``acc23`` and ``tau23``.
        signature: Settings that the scores depend on.
    """

    name: str
    value: float
    low: float
    high: float
    by_group: Mapping[str, float]
    rank: int | None
    gain: float
    p_value: float
    units: int
    undefined: tuple[str, ...]
    undefined_segments: int
    epsilons: Mapping[str, float]
    signature: str

    def view(self) -> View:
        """Show the overall agreement and that of each group."""
        interval = "" if math.isnan(self.low) else f" ({fixed(self.low, 4)} to {fixed(self.high, 4)})"
        return View(f"{self.name}: {fixed(self.value, 4)}{interval}", ("group", "value"), list(self.by_group.items()))

    @property
    def better(self) -> bool | None:
        """Return whether agreement is higher than the baseline's; ``None`` if equal or without a baseline."""
        return None if math.isnan(self.gain) or self.gain == 0 else self.gain > 0


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """Agreement of several metrics with the judgements of one set.

    Attributes:
        name: Name of the judgement set.
        protocol: Statistic and level of agreement.
        dimension: Dimension of the ratings; ``None`` for preferences.
        metrics: Result of each metric, in input order.
        n: Number of segments in the included groups.
        groups: Number of segments in each included group.
        excluded: Excluded groups, units and metrics, with reasons.
        missing: Number of rows without a score or rating, by metric name or ``"rating"``; a row can count repeatedly.
        left_out: Number of rows excluded for missing values, for all metrics.
        lost_preferences: Number of preferences dropped because a side was excluded or the sides differ in group.
        p_values: One-sided p-values ``[K, K]`` that metric i agrees better than metric j; NaN if not tested.
        baseline: Name of the metric that the others are compared with.
        samples: Number of bootstrap samples.
        undefined_samples: Number of bootstrap samples that were excluded because a group had no value in them.
        permutations: Number of permutations.
        seed: Seed of samples and permutations.
        level: Confidence level of the intervals.
        notes: Warnings, such as why there are no intervals or tests.
    """

    name: str
    protocol: Protocol
    dimension: str | None
    metrics: tuple[MetricAgreement, ...]
    n: int
    groups: Mapping[str, int]
    excluded: tuple[Exclusion, ...]
    missing: Mapping[str, int]
    left_out: int
    lost_preferences: int
    p_values: Vector
    baseline: str | None
    samples: int
    undefined_samples: int
    permutations: int
    seed: int
    level: float
    notes: tuple[str, ...] = ()

    def view(self) -> View:
        """Show the agreement of each metric, best first."""
        rows = [(one.name, one.value, one.low, one.high, "" if one.rank is None else one.rank) for one in self.ranked()]
        name = f"{self.name}, {self.dimension}" if self.dimension else self.name
        headline = f"{name}: {self.protocol}, {plural(self.n, 'segment')}"
        return View(headline, ("metric", "agreement", "low", "high", "rank"), rows)

    def metric(self, name: str) -> MetricAgreement:
        """Return the result of a metric by name, or raise an :class:`InputError` if it is unknown."""
        by_name = {one.name: one for one in self.metrics}
        if name not in by_name:
            raise InputError(f"Expected one of {', '.join(by_name)}, but got {name!r}: choose one.")
        return by_name[name]

    def ranked(self) -> tuple[MetricAgreement, ...]:
        """Return the metrics from best to worst; undefined ones come last."""
        return tuple(sorted(self.metrics, key=lambda one: -one.value if not math.isnan(one.value) else math.inf))


def human_scores(judgements: Judgements, dimension: str | None) -> MetricScores:
    """Return the ratings as scores of a perfect metric; where its agreement is undefined, so is any metric's.

    Args:
        judgements: The judgement set.
        dimension: Dimension of the ratings. ``None`` takes the only one, or distinct dummy scores if it is ambiguous.

    Example:
        >>> ratings = {"score": np.array([1.0, 2.0])}
        >>> rated = Judgements("a set", ("h", "h"), (("r",), ("r",)), ratings, ("all", "all"))
        >>> human_scores(rated, None).scores.tolist()
        [1.0, 2.0]
    """
    if dimension is None and judgements.preferences is None and len(judgements.ratings) == 1:
        dimension = next(iter(judgements.ratings))
    scores = np.arange(float(len(judgements))) if dimension is None else judgements.ratings[dimension]
    return MetricScores("people", np.asarray(scores, dtype=np.float64))
