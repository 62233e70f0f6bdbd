"""Agreement of several metrics with people within one group: the parts that every protocol has.

Each kind of statistic is a class that knows the value of every metric, what became of units without a value, bootstrap
draws of the values, and differences under permutations. The module ``evaluation`` puts groups together.
"""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.statistics.bootstrap_correlation import Vector


class Exclusion(NamedTuple):
    """Something that has no part in the result.

    Attributes:
        name: The group, unit or metric.
        reason: Why.
        segments: How many segments it holds.
    """

    name: str
    reason: str
    segments: int


class Drawn(NamedTuple):
    """What a bootstrap draws from.

    Attributes:
        number: How many there are.
        noun: What one is called, such as ``item``.
    """

    number: int
    noun: str


@dataclass(frozen=True, eq=False)
class Group:
    """The segments of one group, ``n`` of them, with the scores of ``K`` metrics.

    Attributes:
        name: Of the group.
        metrics: Names of the metrics.
        scores: Their scores, higher is better, ``[K, n]``.
        human: Ratings ``[n]``; NaN where preferences are all there is.
        clusters: Number of what each segment is drawn with in a bootstrap: its item or its references.
        items: Item of each segment, where known.
        systems: System of each segment, where known.
        preferences: Rows of the better and of the worse output of each pair, ``[m, 2]``.
    """

    name: str
    metrics: tuple[str, ...]
    scores: Vector
    human: Vector
    clusters: NDArray[np.int64]
    items: tuple[str, ...] | None
    systems: tuple[str, ...] | None
    preferences: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.human)

    def drawn(self, rows: NDArray[np.int64] | slice = slice(None)) -> Drawn:
        """The clusters that segments are drawn in.

        Args:
            rows: Segments that count; all by default.

        Returns:
            Their number and what they are.
        """
        clusters = self.clusters[rows]
        count = len(np.unique(clusters))
        if self.items is not None:
            return Drawn(count, "item")
        return Drawn(count, "segment" if count == len(clusters) else "reference")


class Agreement(abc.ABC):
    """Agreement of ``K`` metrics with people within a group.

    Attributes:
        values: Agreement of each metric, ``[K]``; NaN where it has none.
        reason: Why no metric can have one; ``None`` where some can.
        reasons: Why single metrics have none, by their number.
        excluded: Units that have no part for any metric.
        units: Over how many units each metric's value is averaged, ``[K]``.
        undefined: For each metric the units left out for it alone.
        undefined_segments: How many segments those hold, ``[K]``.
        epsilons: For each metric its threshold of ties, where it has one.
        by_unit: Value of each metric in each unit that its own is the mean of, ``[K, U]``, where there are such units.
    """

    values: Vector
    reason: str | None = None
    reasons: dict[int, str]
    excluded: tuple[Exclusion, ...] = ()
    units: NDArray[np.int64]
    undefined: tuple[tuple[str, ...], ...]
    undefined_segments: NDArray[np.int64]
    epsilons: Vector | None = None
    by_unit: Vector | None = None

    def __init__(self, group: Group) -> None:
        count = len(group.metrics)
        self.group = group
        self.values = np.full(count, np.nan)
        self.reasons = {}
        self.units = np.zeros(count, dtype=np.int64)
        self.undefined = ((),) * count
        self.undefined_segments = np.zeros(count, dtype=np.int64)

    def gain(self, metric: int, reference: int) -> float:
        """By how much a metric agrees better than another, over the units in which both have a value.

        That is what the tests compare, and can deviate from the difference of the two values.

        Args:
            metric: Number of the one.
            reference: Number of the other.

        Returns:
            The difference; NaN if there is no such unit.
        """
        if self.by_unit is None:
            return float(self.values[metric] - self.values[reference])
        differences = self.by_unit[metric] - self.by_unit[reference]
        known = differences[~np.isnan(differences)]
        return float(known.mean()) if len(known) else float("nan")

    def drawn(self) -> Drawn:
        """What :meth:`draws` draws from."""
        return self.group.drawn()

    @abc.abstractmethod
    def draws(self, samples: int, rng: np.random.Generator) -> Vector | None:
        """Values of bootstrap samples.

        Args:
            samples: Number of samples.
            rng: Where chance comes from.

        Returns:
            ``[K, samples]``, NaN where a sample has no value; ``None`` if the statistic has no bootstrap here.
        """

    @abc.abstractmethod
    def swapped(self, signs: Vector) -> Vector | None:
        """Differences of the pairs of metrics under permutations.

        Args:
            signs: 1 or -1 for each segment, ``[permutations, n]``.

        Returns:
            For the pairs ``(0, 1), (0, 2), …`` ``[K (K - 1)/2, permutations]``; ``None`` if there is no test here.
        """


def pair_differences(values: Vector) -> Vector:
    """Differences of all pairs of rows, ``(0, 1), (0, 2), …``.

    Args:
        values: ``[K, …]``.

    Returns:
        ``[K (K - 1)/2, …]``.

    Example:
        >>> pair_differences(np.array([[1.0], [3.0], [7.0]])).ravel()
        array([-2., -6., -4.])
    """
    pairs = list(itertools.combinations(range(len(values)), 2))
    return np.stack([values[a] - values[b] for a, b in pairs]) if pairs else np.zeros((0, *values.shape[1:]))


def draw_units(values: Vector, samples: int, rng: np.random.Generator) -> Vector | None:
    """Means over units that are drawn with replacement, each metric over the drawn units where it has a value.

    Args:
        values: Value of each metric in each unit, NaN where it has none, ``[K, U]``.
        samples: Number of samples.
        rng: Where chance comes from.

    Returns:
        ``[K, samples]``; ``None`` if there are fewer than two units.
    """
    number = values.shape[1]
    if number < 2:
        return None
    counts = rng.multinomial(number, np.full(number, 1 / number), size=samples).astype(np.float64)
    known = ~np.isnan(values)
    totals, sizes = np.where(known, values, 0.0) @ counts.T, known.astype(np.float64) @ counts.T
    return np.divide(totals, sizes, out=np.full_like(totals, np.nan), where=sizes > 0)
