"""Inputs and results of a robustness test: versions of texts, and figures by metric and kind of change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.significance.bootstrap import Interval
from textmover.meta_evaluation.statistics.scores import Vector, finite_scores
from textmover.types import InputError

UNKNOWN = Interval(math.nan, math.nan, math.nan)
"""Value of an undefined figure."""

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Versions:
    """Changed versions of texts; entry ``i`` of every field but ``texts`` is about version ``i`` of ``m``.

    Attributes:
        texts: Number of texts ``n``.
        owners: Which text it is a version of, from 0, int64 ``[m]``.
        kinds: Kind of the change.
        degrees: How much was done, in a unit of the kind's own.
        severities: How bad it is, from 0 (as good as the text) to 1 (worthless), float64 ``[m]``.

    Raises:
        InputError: If the lengths differ, there is no version, or one belongs to no text.
    """

    texts: int
    owners: NDArray[np.int64]
    kinds: tuple[str, ...]
    degrees: tuple[int, ...]
    severities: Vector

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
    """Effect of one kind of change on the scores of one metric.

    Attributes:
        kind: The kind.
        degree: The one degree that this is about; ``None`` of all degrees together.
        keeping: Whether the kind keeps the meaning.
        versions: Number of versions.
        texts: Number of texts that have one.
        drop: Mean of ``score(text) - score(version)``, in the metric's own unit.
        share: That over the mean drop of the yardstick's versions of the same texts: 0 like the text, 1 like the
            yardstick.
        below: Share of versions that score below their text.
        pairs: Number of pairs with a version of the same text that keeps the meaning, both of the mildest degree.
        below_keeping: Share of these pairs in which this kind's version scores lower; undefined of a kind that keeps
            the meaning.
        auc: Chance that a version of this kind drops more than one that keeps the meaning, of any text, both of the
            mildest degree; ties count one half.
        spearman: Spearman's ρ of the scores with ``-severity`` over all versions; undefined where all are as severe.
        kendall: Kendall's τ-b of the same.
    """

    kind: str
    degree: int | None
    keeping: bool
    versions: int
    texts: int
    drop: Interval
    share: Interval
    below: Interval
    pairs: int = 0
    below_keeping: Interval = UNKNOWN
    auc: Interval = UNKNOWN
    spearman: Interval = UNKNOWN
    kendall: float = math.nan


@dataclass(frozen=True)
class MetricRobustness:
    """Robustness of one metric.

    Attributes:
        name: Of the metric.
        unit: Mean drop of the yardstick's versions, in the metric's own unit; NaN where there are none.
        harmful: Mean of ``share`` over the kinds that harm, without the yardstick.
        keeping: Mean of ``share`` over the kinds that keep the meaning.
        below_keeping: Mean of ``below_keeping`` over the kinds that harm, without the yardstick.
        auc: Mean of ``auc`` over the same: harmful against meaning-keeping in one figure.
        spearman: Spearman's ρ of the scores with ``-severity`` over the versions of all kinds.
        kendall: Kendall's τ-b of the same.
        kinds: Each kind, over all its degrees.
        by_degree: Each degree of the kinds that have several, with ``drop``, ``share`` and ``below`` alone.
        signature: What its scores depend on.
    """

    name: str
    unit: float
    harmful: Interval
    keeping: Interval
    below_keeping: Interval
    auc: Interval
    spearman: Interval
    kendall: float
    kinds: tuple[KindRobustness, ...]
    by_degree: tuple[KindRobustness, ...]
    signature: str = ""


@dataclass(frozen=True)
class Robustness:
    """Robustness of several metrics to the same changes.

    Attributes:
        metrics: The metrics, in the order given.
        texts: Number of texts.
        versions: Number of versions.
        samples: Draws of the bootstrap.
        seed: Of the draws.
        level: Confidence level of the intervals.
    """

    metrics: tuple[MetricRobustness, ...]
    texts: int
    versions: int
    samples: int
    seed: int
    level: float = LEVEL
