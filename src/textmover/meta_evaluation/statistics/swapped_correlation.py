"""Null distribution of PERM-BOTH: correlation differences after random exchange of two metrics' scores.

A permutation is a row of signs; -1 exchanges the scores of a segment. The first metric's scores become
``((1 + s) a + (1 - s) b)/2``. They are linear in ``s``, as are sums of squares and products, so for Pearson one matrix
product serves all pairs and permutations. Differences of rank statistics are linear only without ties.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import stats

from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS, distinct, pearson, tau_b, tau_c
from textmover.meta_evaluation.statistics.score_arrays import (
    CHUNK_ENTRIES,
    Positions,
    Vector,
    batches,
    chunks,
    divide,
    unit_rows,
)

CANCELLATION = 1e-6
"""Smallest fraction of a sum of squares that must remain after centring for the difference to be accurate."""


def swapped_correlations(
    scores: Vector, human: Vector, units: Sequence[Positions], signs: Vector, statistic: str
) -> Vector:
    """Return ``corr(a*, h) - corr(b*, h)`` of each pair under each permutation, ``[K (K - 1)/2, permutations]``."""
    # Correlations are defined only in units of three or more members with varying human scores.
    defined_units = [unit for unit in units if len(unit) >= MIN_SEGMENTS and human[unit].min() < human[unit].max()]
    if statistic == "pearson":
        return _swapped_pearson(scores, human, defined_units, signs)
    return _swapped_ranks(scores, human, defined_units, signs, statistic)


def _swapped_pearson(scores: Vector, human: Vector, units: Sequence[Positions], signs: Vector) -> Vector:
    pairs = list(itertools.combinations(range(len(scores)), 2))
    totals = np.zeros((len(pairs), len(signs)))
    counts = np.zeros((len(pairs), len(signs)))
    for _, table in batches(units):
        for rows in chunks(len(table), len(signs) * max(table.shape[1], 3 * len(scores)) // 8):
            members = table[rows]
            sums = _sums(scores, human, members, signs)
            for number, pair in enumerate(pairs):
                difference = _pearson_difference(pair, sums, scores, human, members, signs)  # [U, permutations]
                known = ~np.isnan(difference)
                totals[number] += np.where(known, difference, 0.0).sum(axis=0)
                counts[number] += known.sum(axis=0)
    return divide(totals, counts)


def _sums(scores: Vector, human: Vector, members: Positions, signs: Vector) -> tuple[Vector, Vector]:
    """Sum scores, squares and products with human scores in each unit: ``[3, U, 1, K]`` and ``[3, U, k, K]``.

    The second array weights each segment by its sign.
    """
    inside = np.moveaxis(scores[:, members], 0, -1)  # [U, m, K]
    unit = unit_rows(human[members])
    columns = np.concatenate([inside, inside**2, inside * unit[:, :, None]], axis=-1)  # [U, m, 3 K]
    here = np.ascontiguousarray(np.moveaxis(signs[:, members], 0, 1), dtype=np.float64)  # [U, k, m]
    plain, signed = columns.sum(axis=1, keepdims=True), here @ columns
    return np.stack(np.split(plain, 3, axis=-1)), np.stack(np.split(signed, 3, axis=-1))


def _pearson_difference(
    pair: tuple[int, int], sums: tuple[Vector, Vector], scores: Vector, human: Vector, members: Positions, signs: Vector
) -> Vector:
    """Return ``r(a*, h) - r(b*, h)`` in each unit, ``[U, permutations]``."""
    a, b = pair
    plain, signed = sums
    half, shift = (plain[..., a] + plain[..., b]) / 2, (signed[..., a] - signed[..., b]) / 2
    values = []
    for sign in (1, -1):
        total, square, product = half + sign * shift
        variance = square - total**2 / members.shape[1]
        unsure = variance <= CANCELLATION * square
        with np.errstate(invalid="ignore", divide="ignore"):
            value = product / np.sqrt(variance)
        if unsure.any():
            unit, permutation = np.nonzero(unsure)
            rows = members[unit]
            keeps = sign * signs[permutation[:, None], rows] > 0
            value[unsure] = pearson(np.where(keeps, scores[a][rows], scores[b][rows]), human[rows])
        values.append(np.clip(value, -1, 1))
    return values[0] - values[1]


def _swapped_ranks(scores: Vector, human: Vector, units: Sequence[Positions], signs: Vector, statistic: str) -> Vector:
    """Compute permuted differences of Spearman's ρ or Kendall's τ.

    Let ``x = (a, b)`` be the concatenated scores of both metrics. Weights ``p = (1 + (s, -s))/2`` select the entries
    of the permuted first metric. The covariance of ranks (Spearman) and ``C - D`` (Kendall) are both ``½ pᵀ G p`` with
    ``G[e, f] = sign(x_e - x_f) w[e, f]``, where ``w`` is half the difference of human ranks (Spearman) or its sign
    (Kendall). Their difference for both metrics is ``½ 1ᵀ G (s, -s)``.
    """
    pairs = list(itertools.combinations(range(len(scores)), 2))
    slopes = np.zeros((len(pairs), scores.shape[1]))  # coefficients of the signs, for units without ties
    totals = np.zeros((len(pairs), len(signs)))  # differences of units with ties
    counts = np.zeros((len(pairs), len(signs)))
    for _, table in batches(units):
        for rows in chunks(len(table), table.shape[1] ** 2):
            members = table[rows]
            unit_scores, people = scores[:, members], _HumanRanks(human[members], statistic)
            own_sums = [people.both_sums(one, one)[0] for one in unit_scores]  # [U, m] for each metric
            for number, (a, b) in enumerate(pairs):
                tied = _tied(unit_scores[a], unit_scores[b])
                counts[number] += (~tied).sum()
                cross = people.both_sums(unit_scores[a], unit_scores[b])
                sums = own_sums[a] + cross[0], own_sums[b] + cross[1]  # G 1
                slope = (sums[0] - sums[1]) / 2 / people.scale[:, None]
                slopes[number, members[~tied]] += slope[~tied]
                for unit in np.flatnonzero(tied).tolist():
                    here = np.asarray(signs[:, members[unit]], dtype=np.float64)
                    difference = _tied_difference(
                        unit_scores[a][unit], unit_scores[b][unit], people, unit, (sums[0][unit], sums[1][unit]), here
                    )
                    known = ~np.isnan(difference)
                    totals[number] += np.where(known, difference, 0.0)
                    counts[number] += known
    for rows in chunks(len(signs), scores.shape[1]):
        totals[:, rows] += slopes @ np.asarray(signs[rows], dtype=np.float64).T
    return divide(totals, counts)


class _HumanRanks:
    """Human side of a rank statistic, for units of equal size, ``[U, m]``."""

    def __init__(self, human: Vector, statistic: str) -> None:
        self.statistic = statistic
        self.size = size = human.shape[1]
        self.table: Vector | None = None  # cache of all weights, if small enough
        self.distinct = distinct(human)
        if statistic == "spearman":
            self.values = unit_rows(stats.rankdata(human, axis=1))
            self.scale = np.full(len(human), np.sqrt((size**3 - size) / 12))
            return
        self.values = human
        pairs = size * (size - 1) / 2
        if statistic == "kendall":
            self.untied = pairs - np.array([_pairs(np.unique(row, return_counts=True)[1]) for row in human])
            self.scale = np.sqrt(pairs) * np.sqrt(self.untied)
        else:
            self.scale = size**2 * (self.distinct - 1) / self.distinct / 2

    def weights(self, columns: slice, unit: int | slice = slice(None)) -> Vector:
        """Return weights ``w`` of the pairs whose second segment is in ``columns``, ``[(U,) m, columns]``."""
        if self.table is None and self.values.size * self.size <= CHUNK_ENTRIES:
            self.table = self._weights(slice(None), slice(None))
        return self._weights(columns, unit) if self.table is None else self.table[unit][..., columns]

    def _weights(self, columns: slice, unit: int | slice) -> Vector:
        values = self.values[unit]
        difference = values[..., :, None] - values[..., None, columns]
        return difference / 2 if self.statistic == "spearman" else np.sign(difference)

    def both_sums(self, x: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Return weighted sign sums over the second and over the first segment of the pairs."""
        over_second, over_first = np.zeros_like(x), np.zeros_like(x)
        for columns in chunks(self.size, self.size * len(x)):
            block = np.sign(x[:, :, None] - y[:, None, columns]) * self.weights(columns)
            over_second += block.sum(axis=2)
            over_first[:, columns] = block.sum(axis=1)
        return over_second, over_first


def _tied(a: Vector, b: Vector) -> np.ndarray:
    """Return in which units two different segments can have equal scores, ``[U]``."""
    size = a.shape[1]
    both = np.concatenate([a, b], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    ordered = np.take_along_axis(both, order, axis=1)
    segment = order % size
    equal = ordered[:, 1:] == ordered[:, :-1]
    # Among three equal scores, two belong to different segments, even if neighbours share a segment.
    other = segment[:, 1:] != segment[:, :-1]
    three = equal[:, 1:] & equal[:, :-1] if size > 1 else equal[:, :0]
    return (equal & other).any(axis=1) | three.any(axis=1)


def _tied_difference(
    a: Vector, b: Vector, people: _HumanRanks, unit: int, row_sums: tuple[Vector, Vector], signs: Vector
) -> Vector:
    """Return the difference in a unit with ties, where denominators vary; NaN if a metric's scores are constant."""
    size = people.size
    quadratic = np.zeros(len(signs))
    for columns in chunks(size, size):
        second_difference = np.sign(a[:, None] - a[columns]) + np.sign(b[:, None] - b[columns])
        second_difference -= np.sign(a[:, None] - b[columns])
        second_difference -= np.sign(b[:, None] - a[columns])
        second_difference *= people.weights(columns, unit)
        quadratic += np.einsum("kj,kj->k", signs @ second_difference, signs[:, columns])
    constant = float(row_sums[0].sum() + row_sums[1].sum()) + quadratic
    change = 2 * (signs @ (row_sums[0] - row_sums[1]))
    total_sizes, first_sizes = _class_sizes(a, b, signs)
    first = _statistic((constant + change) / 8, people, unit, first_sizes)  # ½ pᵀ G p
    second = _statistic((constant - change) / 8, people, unit, total_sizes - first_sizes)
    return first - second


def _class_sizes(a: Vector, b: Vector, signs: Vector) -> tuple[Vector, Vector]:
    """Count scores of both metrics at each tied value ``[values]``, and of the first ``[permutations, values]``."""
    _, number = np.unique(np.concatenate([a, b]), return_inverse=True)
    counts = np.bincount(number)
    tied = counts > 1
    column = np.cumsum(tied) - 1
    decides = np.zeros((len(a), int(tied.sum())))  # 1 (-1): the first metric has the tied score if the sign is 1 (-1)
    for numbers, factor in ((number[: len(a)], 1.0), (number[len(a) :], -1.0)):
        rows = np.flatnonzero(tied[numbers])
        decides[rows, column[numbers[rows]]] += factor
    total_sizes = counts[tied].astype(np.float64)
    return total_sizes, total_sizes / 2 + signs @ decides / 2


def _statistic(surplus: Vector, people: _HumanRanks, unit: int, classes: Vector) -> Vector:
    """Compute the statistic from its numerator and the sizes of tie classes; NaN if all scores are equal."""
    size = people.size
    if people.statistic == "spearman":
        variance = (size**3 - size - (classes**3 - classes).sum(axis=1)) / 12
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.clip(surplus / np.sqrt(variance), -1, 1)
    elif people.statistic == "kendall":
        value = tau_b(surplus, size * (size - 1) / 2 - _pairs(classes), people.untied[unit])
    else:
        distinct_scores = size - (classes - (classes > 0)).sum(axis=1)
        value = tau_c(surplus, np.minimum(distinct_scores, people.distinct[unit]), size)
    return np.where((classes == size).any(axis=1), np.nan, value)


def _pairs(sizes: Vector | Positions) -> Vector:
    return (sizes * (sizes - 1) / 2).sum(axis=-1)
