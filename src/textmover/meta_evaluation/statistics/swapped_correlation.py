"""Two metrics with their scores exchanged at random: what PERM-BOTH compares a difference with.

A permutation is a row of signs, -1 where two metrics exchange their scores. The first one's become
``((1 + s) a + (1 - s) b)/2``, linear in ``s``, as are sums of squares and products; so for Pearson one matrix product
serves all pairs and permutations. A rank statistic is quadratic in ``s``, but its difference without ties is linear.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import stats

from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS, distinct, pearson, tau_b, tau_c
from textmover.meta_evaluation.statistics.scores import (
    CHUNK_ENTRIES,
    Positions,
    Vector,
    batches,
    chunks,
    divided,
    unit_rows,
)

CANCELLATION = 1e-6
"""Least share of a sum of squares that has to remain once the mean is taken off, for the difference to be trusted."""


def swapped_correlations(
    scores: Vector, human: Vector, units: Sequence[Positions], signs: Vector, statistic: str
) -> Vector:
    """``corr(a*, h) - corr(b*, h)`` of each pair of metrics under each permutation, ``[K (K - 1)/2, permutations]``."""
    # Units have three members or more, and people's scores vary in each.
    kept = [unit for unit in units if len(unit) >= MIN_SEGMENTS and human[unit].min() < human[unit].max()]
    if statistic == "pearson":
        return _swapped_pearson(scores, human, kept, signs)
    return _swapped_ranks(scores, human, kept, signs, statistic)


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
    return divided(totals, counts)


def _sums(scores: Vector, human: Vector, members: Positions, signs: Vector) -> tuple[Vector, Vector]:
    """Sums within each unit of scores, of squares and of products with people's: ``[3, U, 1, K]`` and ``[3, U, k, K]``.

    The second have the sign of every segment as a factor.
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
    """``r(a*, h) - r(b*, h)`` in each unit, ``[U, permutations]``."""
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
    """The same for Spearman's ρ and Kendall's τ.

    With ``x = (a, b)`` the scores of both metrics one behind the other, weights ``p = (1 + (s, -s))/2`` say which of
    them the first metric holds. The covariance of ranks (Spearman) and the surplus of concordant pairs (Kendall) are
    both ``½ pᵀ G p`` with ``G[e, f] = sign(x_e - x_f) w[e, f]``, where ``w`` is half the difference of people's ranks,
    or its sign. Their difference for both metrics is ``½ 1ᵀ G (s, -s)``.
    """
    pairs = list(itertools.combinations(range(len(scores)), 2))
    slopes = np.zeros((len(pairs), scores.shape[1]))  # difference of the units without ties, by sign
    totals = np.zeros((len(pairs), len(signs)))  # difference of the units with ties
    counts = np.zeros((len(pairs), len(signs)))
    for _, table in batches(units):
        for rows in chunks(len(table), table.shape[1] ** 2):
            members = table[rows]
            inside, people = scores[:, members], _People(human[members], statistic)
            own = [people.both_sums(one, one)[0] for one in inside]  # [U, m] for each metric
            for number, (a, b) in enumerate(pairs):
                tied = _tied(inside[a], inside[b])
                counts[number] += (~tied).sum()
                cross = people.both_sums(inside[a], inside[b])
                sums = own[a] + cross[0], own[b] + cross[1]  # G 1
                slope = (sums[0] - sums[1]) / 2 / people.scale[:, None]
                slopes[number, members[~tied]] += slope[~tied]
                for unit in np.flatnonzero(tied).tolist():
                    here = np.asarray(signs[:, members[unit]], dtype=np.float64)
                    difference = _tied_difference(
                        inside[a][unit], inside[b][unit], people, unit, (sums[0][unit], sums[1][unit]), here
                    )
                    known = ~np.isnan(difference)
                    totals[number] += np.where(known, difference, 0.0)
                    counts[number] += known
    for rows in chunks(len(signs), scores.shape[1]):
        totals[:, rows] += slopes @ np.asarray(signs[rows], dtype=np.float64).T
    return divided(totals, counts)


class _People:
    """People's side of a rank statistic, in units of one size, ``[U, m]``."""

    def __init__(self, human: Vector, statistic: str) -> None:
        self.statistic = statistic
        self.size = size = human.shape[1]
        self.table: Vector | None = None  # all weights, where there is room for them
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
        """Weights ``w`` of the pairs with the given second segments, ``[(U,) m, columns]``."""
        if self.table is None and self.values.size * self.size <= CHUNK_ENTRIES:
            self.table = self._weights(slice(None), slice(None))
        return self._weights(columns, unit) if self.table is None else self.table[unit][..., columns]

    def _weights(self, columns: slice, unit: int | slice) -> Vector:
        values = self.values[unit]
        difference = values[..., :, None] - values[..., None, columns]
        return difference / 2 if self.statistic == "spearman" else np.sign(difference)

    def both_sums(self, x: Vector, y: Vector) -> tuple[Vector, Vector]:
        """The sums over the second and over the first segment of the pairs."""
        over_second, over_first = np.zeros_like(x), np.zeros_like(x)
        for columns in chunks(self.size, self.size * len(x)):
            block = np.sign(x[:, :, None] - y[:, None, columns]) * self.weights(columns)
            over_second += block.sum(axis=2)
            over_first[:, columns] = block.sum(axis=1)
        return over_second, over_first


def _tied(a: Vector, b: Vector) -> np.ndarray:
    """Units in which two different segments can come to the same score, ``[U]``."""
    size = a.shape[1]
    both = np.concatenate([a, b], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    ordered = np.take_along_axis(both, order, axis=1)
    segment = order % size
    equal = ordered[:, 1:] == ordered[:, :-1]
    # Of three equal scores two are of different segments, though neighbours may be of one.
    other = segment[:, 1:] != segment[:, :-1]
    three = equal[:, 1:] & equal[:, :-1] if size > 1 else equal[:, :0]
    return (equal & other).any(axis=1) | three.any(axis=1)


def _tied_difference(
    a: Vector, b: Vector, people: _People, unit: int, row_sums: tuple[Vector, Vector], signs: Vector
) -> Vector:
    """Difference in one unit with ties, where denominators change; NaN where a metric's scores are all equal."""
    size = people.size
    quadratic = np.zeros(len(signs))
    for columns in chunks(size, size):
        mixed = np.sign(a[:, None] - a[columns]) + np.sign(b[:, None] - b[columns])
        mixed -= np.sign(a[:, None] - b[columns])
        mixed -= np.sign(b[:, None] - a[columns])
        mixed *= people.weights(columns, unit)
        quadratic += np.einsum("kj,kj->k", signs @ mixed, signs[:, columns])
    constant = float(row_sums[0].sum() + row_sums[1].sum()) + quadratic
    change = 2 * (signs @ (row_sums[0] - row_sums[1]))
    possible, held = _class_sizes(a, b, signs)
    first = _statistic((constant + change) / 8, people, unit, held)  # ½ pᵀ G p
    second = _statistic((constant - change) / 8, people, unit, possible - held)
    return first - second


def _class_sizes(a: Vector, b: Vector, signs: Vector) -> tuple[Vector, Vector]:
    """Entries of both metrics at each tied score ``[scores]``, and the first metric's ``[permutations, scores]``."""
    _, number = np.unique(np.concatenate([a, b]), return_inverse=True)
    counts = np.bincount(number)
    several = counts > 1
    place = np.cumsum(several) - 1
    decides = np.zeros((len(a), int(several.sum())))  # 1 where a sign of 1 gives it to the first metric, -1 where -1
    for own, factor in ((number[: len(a)], 1.0), (number[len(a) :], -1.0)):
        rows = np.flatnonzero(several[own])
        decides[rows, place[own[rows]]] += factor
    possible = counts[several].astype(np.float64)
    return possible, possible / 2 + signs @ decides / 2


def _statistic(surplus: Vector, people: _People, unit: int, classes: Vector) -> Vector:
    """The statistic from its numerator and the sizes of the classes of ties; NaN where all scores are equal."""
    size = people.size
    if people.statistic == "spearman":
        variance = (size**3 - size - (classes**3 - classes).sum(axis=1)) / 12
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.clip(surplus / np.sqrt(variance), -1, 1)
    elif people.statistic == "kendall":
        value = tau_b(surplus, size * (size - 1) / 2 - _pairs(classes), people.untied[unit])
    else:
        held = size - (classes - (classes > 0)).sum(axis=1)
        value = tau_c(surplus, np.minimum(held, people.distinct[unit]), size)
    return np.where((classes == size).any(axis=1), np.nan, value)


def _pairs(sizes: Vector | Positions) -> Vector:
    return (sizes * (sizes - 1) / 2).sum(axis=-1)
