"""Heat maps of an evaluation: agreement by group, length and quality, metric correlations, and p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from textmover.meta_evaluation import (
    BinAgreement,
    Evaluation,
    IntervalOptions,
    agreement_by_length,
    agreement_by_quantile,
)
from textmover.meta_evaluation.agreement.groups import Selection, draw_labels
from textmover.report.evaluation.wording import SIGNIFICANT, STATISTIC_NAMES, plural
from textmover.report.figures.lines import BinLine, line_plot, value_range
from textmover.report.figures.svg import DIVERGING, SEQUENTIAL, signed
from textmover.types import Judgements

QUARTILES = 4
QUARTILE_NAMES = ("lowest", "low", "high", "highest")

SAMPLES = 200
"""Most bootstrap samples of a bin: enough for the length of a line in a picture."""

MOST_LINES = 5
"""With more metrics only the best one and the baseline stand out; the others come forward when they are pointed at."""


class BinMetric(NamedTuple):
    """A metric.

    Attributes:
        name: Of it.
        colour: Number of its colour.
        scores: ``[n]``, higher is better.
    """

    name: str
    colour: int
    scores: NDArray[np.float64]


def bin_views(
    metrics: Sequence[BinMetric],
    selection: Selection,
    evaluation: Evaluation,
    *,
    groups: Sequence[str] | None,
    statistic: str,
    lengths: tuple[NDArray[np.float64], str] | None,
) -> dict[str, Any]:
    """Agreement by length and by quartile of the rating.

    Args:
        metrics: From the best to the worst.
        selection: The rows that count.
        evaluation: Which says how intervals are drawn, and the baseline.
        groups: Group of each row; ``None`` pools all.
        statistic: A correlation.
        lengths: Length of each row and what is counted; words of the first reference if ``None``.

    Returns:
        ``by_length``, ``by_quality`` and their text.
    """
    values, unit = _lengths(selection.judgements) if lengths is None else lengths
    options = IntervalOptions(
        min(SAMPLES, evaluation.samples), evaluation.seed, evaluation.level, draw_labels(selection.judgements)
    )
    scores, human = [one.scores for one in metrics], selection.human
    by_length = agreement_by_length(scores, human, values, groups, statistic=statistic, intervals=options)
    by_quality = agreement_by_quantile(scores, human, groups, bins=QUARTILES, statistic=statistic, intervals=options)
    ranges = [f"{one.low:g}" if one.low == one.high else f"{one.low:g}–{one.high:g}" for one in by_length]
    quarters = list(QUARTILE_NAMES) if len(by_quality) == QUARTILES else [
        f"{signed(one.low, 1)} to {signed(one.high, 1)}" for one in by_quality
    ]  # fmt: skip
    front: set[str | None] = {one.name for one in metrics[: 1 if len(metrics) > MOST_LINES else None]}
    front.add(evaluation.baseline)
    lines = [_lines(bins, metrics, front) for bins in (by_length, by_quality)]
    span = value_range([line for drawn in lines for line in drawn])
    axis = STATISTIC_NAMES[statistic] + ("" if groups is None else ", mean over groups")
    has_intervals = any(not np.isnan(one.lower).all() for one in (*by_length, *by_quality))
    return {
        "by_length": _view(by_length, ranges, lines[0], axis, span, f"Agreement by length in {unit}"),
        "by_quality": _view(by_quality, quarters, lines[1], axis, span, "Agreement by quartile of the rating"),
        "length_unit": unit,
        "bin_front": [one.name for one in metrics if one.name in front] if len(metrics) > MOST_LINES else [],
        "bin_intervals": f"{100 * evaluation.level:g} % bootstrap intervals, {options.samples} draws"
        if has_intervals
        else "",
    }


def _lines(bins: Sequence[BinAgreement], metrics: Sequence[BinMetric], front: set[str | None]) -> list[BinLine]:
    return [
        BinLine(
            one.name,
            one.colour,
            [float(found.values[index]) for found in bins],
            [(float(found.lower[index]), float(found.upper[index])) for found in bins],
            one.name not in front,
        )
        for index, one in enumerate(metrics)
    ]


def _view(
    bins: Sequence[BinAgreement],
    labels: Sequence[str],
    lines: Sequence[BinLine],
    axis: str,
    span: tuple[float, float],
    title: str,
) -> dict[str, Any]:
    """A picture, its numbers as a table, and what does not count."""
    sizes = [f"n {one.counted:,}" for one in bins]
    some = any(one.groups < one.among for one in bins)
    texts = [
        (label, size, f"{one.groups}/{one.among} groups") if some else (label, size)
        for label, size, one in zip(labels, sizes, bins, strict=True)
    ]
    counts = [
        f"{size}, {one.groups} of {plural(one.among, 'group')}" if one.among > 1 else size
        for size, one in zip(sizes, bins, strict=True)
    ]
    return {
        "picture": line_plot(lines, texts, title=title, axis=axis, span=span),
        "headers": list(zip(labels, counts, strict=True)),
        "rows": [
            (line.name, [_cell(value, ends) for value, ends in zip(line.values, line.ends, strict=True)])
            for line in lines
        ],
        "title": title,
        "drawn": any(math.isfinite(value) for line in lines for value in line.values),
        "left_out": _left_out(bins, labels),
    }


def _cell(value: float, ends: tuple[float, float]) -> tuple[str, str]:
    """A value, and its interval."""
    low, high = ends
    return signed(value, 3), "" if math.isnan(low) else f"{signed(low, 3)} to {signed(high, 3)}"


def _left_out(bins: Sequence[BinAgreement], labels: Sequence[str]) -> str:
    """A sentence on the segments of groups that have no correlation within a bin."""
    lost = [(label, one.segments - one.counted) for label, one in zip(labels, bins, strict=True)]
    listed = ", ".join(f"{count:,} in {label}" for label, count in lost if count)
    if not listed:
        return ""
    total = plural(sum(one.segments for one in bins), "segment")
    several = any(one.among > 1 for one in bins)
    where = "in groups that have" if several else "in bins that have"
    return (
        f"Left out: {sum(count for _, count in lost):,} of {total} ({listed}), {where} fewer than three segments "
        "there, or equal ratings, or equal scores of a metric."
    )


def _lengths(judgements: Judgements) -> tuple[NDArray[np.float64], str]:
    """Length of each text, and what is counted."""
    texts = [
        references[0] if references else hypothesis
        for references, hypothesis in zip(judgements.references, judgements.hypotheses, strict=True)
    ]
    unspaced = sum(len(text) > 12 and len(text.split()) == 1 for text in texts)
    if 2 * unspaced > len(texts):  # such as Chinese, where words are not set apart
        return np.array([len(text) for text in texts], dtype=np.float64), "characters of the reference"
    return np.array([len(text.split()) for text in texts], dtype=np.float64), "words of the reference"


P_STEPS = ((0.001, 5), (0.01, 3), (SIGNIFICANT, 1))
"""Up to a p-value, the step of the heat map."""

HOPELESS = 0.95
"""Above this p-value a cell holds a dot: the metric of the column agrees better, which its own cell says."""


@dataclass(frozen=True)
class Cell:
    """A number on its colour.

    Attributes:
        text: As it is written.
        shade: Class of its colour: ``h0`` and on from low to high, ``a1`` and on above a middle, ``b1`` and on below
            it, ``self`` on the diagonal, ``""`` for none.
    """

    text: str
    shade: str = ""


@dataclass(frozen=True)
class MatrixRow:
    """A row of a matrix.

    Attributes:
        name: Of the row.
        cells: As many as there are columns.
        opens: Whether it is set apart from the row above.
        lead: What stands before the name, such as a rank.
    """

    name: str
    cells: tuple[Cell, ...]
    opens: bool = False
    lead: str = ""


@dataclass(frozen=True)
class Matrix:
    """A table of numbers with colours.

    Attributes:
        columns: Their names.
        rows: Its rows.
    """

    columns: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


def group_matrix(evaluation: Evaluation) -> Matrix:
    """Agreement of each metric in each group; colours say how far it is from the group's median metric.

    Groups differ in how hard they are; the median takes that out. Groups are rows, since there may be many of them.

    Args:
        evaluation: What is shown.
    """
    ranked = evaluation.ranked()
    values = np.array(
        [[one.by_group.get(group, math.nan) for one in ranked] for group in evaluation.groups], dtype=np.float64
    ).reshape(len(evaluation.groups), len(ranked))
    medians = np.array([np.median(row[~np.isnan(row)]) if not np.isnan(row).all() else 0.0 for row in values])
    distances = values - medians[:, None]
    widest = float(np.nanmax(np.abs(distances), initial=0.0, where=~np.isnan(distances)))
    rows = tuple(
        MatrixRow(group, tuple(Cell(compact(v, 3), _diverging(d, widest)) for v, d in zip(line, away, strict=True)))
        for group, line, away in zip(evaluation.groups, values.tolist(), distances.tolist(), strict=True)
    )
    return Matrix(tuple(one.name for one in ranked), rows)


def correlation_matrix(names: Sequence[str], correlations: ArrayLike) -> Matrix:
    """Correlation of metrics with one another, similar ones side by side; the darkest cell holds the highest.

    Args:
        names: Of ``K`` metrics.
        correlations: ``[K, K]``, NaN where not defined.

    Returns:
        The matrix, without its diagonal, in the order of :func:`similarity_order`.
    """
    table = np.asarray(correlations, dtype=np.float64)
    order = similarity_order(table)
    names, table = [names[one] for one in order], table[np.ix_(order, order)]
    others = table[~np.eye(len(names), dtype=bool)]
    known = others[~np.isnan(others)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    rows = tuple(
        MatrixRow(
            name,
            tuple(
                Cell("", "self") if i == j else Cell(compact(value, 2), _sequential(value, low, high))
                for j, value in enumerate(table[i].tolist())
            ),
        )
        for i, name in enumerate(names)
    )
    return Matrix(tuple(names), rows)


def similarity_order(correlations: ArrayLike) -> list[int]:
    """An order in which metrics that correlate highly stand side by side: that of average linkage, best leaf order.

    Args:
        correlations: ``[K, K]``, symmetric; metrics without correlations come last.

    Returns:
        Numbers of the metrics; of both directions the one that starts closer to the first metric.

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
    """One-sided p-values that the row agrees better than the column; clusters are set apart.

    Args:
        evaluation: What is shown.

    Returns:
        The matrix, metrics from the best to the worst; ``None`` where nothing was tested.
    """
    if np.isnan(evaluation.p_values).all():
        return None
    ranked = [one for one in evaluation.ranked() if not math.isnan(one.value)]
    numbers = [evaluation.metrics.index(one) for one in ranked]
    rows = []
    for place, (metric, number) in enumerate(zip(ranked, numbers, strict=True)):
        cells = []
        for other in numbers:
            p = float(evaluation.p_values[number, other])
            shade = next((f"h{step}" for limit, step in P_STEPS if p <= limit), "")
            text = "·" if p > HOPELESS else p_value_text(p)
            cells.append(Cell("", "self") if other == number else Cell(text, shade))
        opens = place > 0 and metric.rank != ranked[place - 1].rank
        rows.append(MatrixRow(metric.name, tuple(cells), opens, "" if metric.rank is None else str(metric.rank)))
    return Matrix(tuple(one.name for one in ranked), tuple(rows))


def compact(value: float, digits: int) -> str:
    """A number at most 1 without the 0 before its point; what only rounds to 1 is not written as 1.

    Example:
        >>> compact(0.5, 2), compact(-0.25, 2), compact(1.0, 2), compact(0.999, 2), compact(float("nan"), 2)
        ('.50', '−.25', '1', '>.99', '–')
    """
    text = signed(value, digits)
    if text.lstrip("\N{MINUS SIGN}") == f"{1:.{digits}f}":
        sign = "\N{MINUS SIGN}" if value < 0 else ""
        if abs(value) > 1 - 1e-9:
            return f"{sign}1"
        return f"{'<' if value < 0 else '>'}{sign}.{'9' * digits}"
    return text.replace("0.", ".", 1) if text.lstrip("\N{MINUS SIGN}").startswith("0.") else text


def p_value_text(p: float) -> str:
    """A p-value in three digits.

    Example:
        >>> p_value_text(0.0004), p_value_text(0.05), p_value_text(1.0)
        ('<.001', '.050', '1')
    """
    if math.isnan(p):
        return "\N{EN DASH}"
    if p < 0.0005:
        return "<.001"
    return "1" if p > 0.9995 else compact(p, 3)


def _sequential(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return ""
    share = (value - low) / (high - low) if high - low > 1e-12 else 0.5
    return f"h{min(SEQUENTIAL - 1, int(share * SEQUENTIAL))}"


def _diverging(distance: float, widest: float) -> str:
    """Class of a distance from the middle; the middle fifth or so has no colour."""
    if math.isnan(distance) or widest <= 1e-12:
        return ""
    step = round(abs(distance) / widest * DIVERGING)
    return "" if step == 0 else f"{'a' if distance > 0 else 'b'}{step}"
