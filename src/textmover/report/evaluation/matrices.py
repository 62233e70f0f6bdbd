"""Matrices of numbers on colours: agreement by group, correlations of metrics, and p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from textmover.meta_evaluation import Evaluation
from textmover.report.evaluation.wording import SIGNIFICANT
from textmover.report.figures.colours import DIVERGING, step_of
from textmover.report.figures.scales import MINUS, signed

P_STEPS = ((0.001, 5), (0.01, 3), (SIGNIFICANT, 1))  # up to a p-value, the step of the heat map
HOPELESS = 0.95
"""Above this p-value a cell holds a dot: the metric of the column agrees better, which its own cell says."""


class Cell(NamedTuple):
    """A number and the class of its colour: ``h0`` … from low to high, ``a1`` … above and ``b1`` … below a middle."""

    text: str
    shade: str = ""


class MatrixRow(NamedTuple):
    """A row, perhaps with a rank before its name, or set apart from the row above."""

    name: str
    cells: Sequence[Cell]
    opens: bool = False
    lead: str = ""


class Matrix(NamedTuple):
    """Names of the columns, and the rows."""

    columns: Sequence[str]
    rows: Sequence[MatrixRow]


SELF = Cell("", "self")  # cell of the diagonal


def group_matrix(evaluation: Evaluation) -> Matrix:
    """Agreement of each metric in each group; colours say how far it is from the group's median metric.

    Groups differ in how hard they are; the median takes that out. Groups are rows, since there may be many of them.
    """
    ranked = evaluation.ranked()
    values = np.array(
        [[one.by_group.get(group, math.nan) for one in ranked] for group in evaluation.groups], dtype=np.float64
    ).reshape(len(evaluation.groups), len(ranked))
    medians = np.array([np.median(row[~np.isnan(row)]) if not np.isnan(row).all() else 0.0 for row in values])
    distances = values - medians[:, None]
    widest = float(np.nanmax(np.abs(distances), initial=0.0, where=~np.isnan(distances)))
    rows = [
        MatrixRow(group, [Cell(compact(v, 3), _diverging(d, widest)) for v, d in zip(line, away, strict=True)])
        for group, line, away in zip(evaluation.groups, values.tolist(), distances.tolist(), strict=True)
    ]
    return Matrix([one.name for one in ranked], rows)


def correlation_matrix(names: Sequence[str], correlations: ArrayLike) -> Matrix:
    """Correlation ``[K, K]`` of metrics with one another, similar ones side by side; the highest cell is darkest."""
    table = np.asarray(correlations, dtype=np.float64)
    order = similarity_order(table)
    names, table = [names[one] for one in order], table[np.ix_(order, order)]
    others = table[~np.eye(len(names), dtype=bool)]
    known = others[~np.isnan(others)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)

    def cell(value: float) -> Cell:
        share = (value - low) / (high - low) if high - low > 1e-12 else 0.5
        return Cell(compact(value, 2), "" if math.isnan(value) else f"h{step_of(share)}")

    rows = []
    for i, name in enumerate(names):
        cells = list(map(cell, table[i].tolist()))
        cells[i] = SELF
        rows.append(MatrixRow(name, cells))
    return Matrix(names, rows)


def similarity_order(correlations: ArrayLike) -> list[int]:
    """An order in which metrics that correlate highly stand side by side: that of average linkage, best leaf order.

    Metrics without correlations come last. Of both directions it is the one that starts closer to the first metric.

    Example:
        >>> similarity_order([[1, 0.1, 0.9, 0.2], [0.1, 1, 0.3, 0.8], [0.9, 0.3, 1, 0.1], [0.2, 0.8, 0.1, 1]])
        [0, 2, 1, 3]
    """
    table: NDArray[np.float64] = np.asarray(correlations, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(table).all(axis=1))
    rest = sorted(set(range(len(table))) - set(known.tolist()))
    if len(known) < 3:
        return [*known.tolist(), *rest]
    distances = np.clip(1 - table[np.ix_(known, known)], 0, None)
    np.fill_diagonal(distances, 0)
    tree = hierarchy.linkage(squareform(distances, checks=False), "average", optimal_ordering=True)
    leaves = known[hierarchy.leaves_list(tree)].tolist()
    if leaves.index(min(leaves)) > len(leaves) // 2:
        leaves.reverse()
    return [*leaves, *rest]


def p_value_matrix(evaluation: Evaluation) -> Matrix | None:
    """One-sided p-values that the row agrees better than the column, best first; ``None`` where nothing was tested."""
    if np.isnan(evaluation.p_values).all():
        return None
    ranked = [one for one in evaluation.ranked() if not math.isnan(one.value)]
    numbers = [evaluation.metrics.index(one) for one in ranked]
    names, ranks = [one.name for one in ranked], [one.rank for one in ranked]
    return p_values_between(names, ranks, evaluation.p_values[np.ix_(numbers, numbers)], hopeless=HOPELESS)


def p_values_between(
    names: Sequence[str], ranks: Sequence[int | None], p_values: NDArray[np.float64], *, hopeless: float = 1.0
) -> Matrix:
    """p-values ``[K, K]`` coloured from significance on; ranks are set apart."""
    rows = []
    for place, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        cells = []
        for p in p_values[place].tolist():
            shade = next((f"h{step}" for limit, step in P_STEPS if p <= limit), "")
            cells.append(Cell("·" if p > hopeless else p_value_text(p), shade))
        cells[place] = SELF
        opens = place > 0 and rank != ranks[place - 1]
        rows.append(MatrixRow(name, cells, opens, "" if rank is None else str(rank)))
    return Matrix(names, rows)


def compact(value: float, digits: int) -> str:
    """A number at most 1 without the 0 before its point; what only rounds to 1 is not written as 1.

    Example:
        >>> compact(0.5, 2), compact(-0.25, 2), compact(1.0, 2), compact(0.999, 2), compact(float("nan"), 2)
        ('.50', '−.25', '1', '>.99', '–')
    """
    text = signed(value, digits)
    if text.lstrip(MINUS) == f"{1:.{digits}f}":
        sign = MINUS if value < 0 else ""
        if abs(value) > 1 - 1e-9:
            return f"{sign}1"
        return f"{'<' if value < 0 else '>'}{sign}.{'9' * digits}"
    return text.replace("0.", ".", 1) if text.lstrip(MINUS).startswith("0.") else text


def p_value_text(p: float) -> str:
    """A p-value in three digits.

    Example:
        >>> p_value_text(0.0004), p_value_text(0.05), p_value_text(1.0)
        ('<.001', '.050', '1')
    """
    if p < 0.0005:
        return "<.001"
    return "1" if p > 0.9995 else compact(p, 3)


def _diverging(distance: float, widest: float) -> str:
    """Class of a distance from the middle; the middle fifth or so has no colour."""
    if math.isnan(distance) or widest <= 1e-12:
        return ""
    step = round(abs(distance) / widest * DIVERGING)
    return "" if step == 0 else f"{'a' if distance > 0 else 'b'}{step}"
