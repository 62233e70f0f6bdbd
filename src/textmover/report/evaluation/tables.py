"""Evaluation tables (terminal, Markdown, LaTeX, CSV and JSON) and coloured matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from textmover.meta_evaluation import Evaluation, MetricAgreement
from textmover.report.evaluation.wording import SIGNIFICANT, mark, overview_rows, remarks, shown_groups, title_of
from textmover.report.figures.colours import DIVERGING, step_of
from textmover.report.figures.scales import MINUS, signed
from textmover.report.table_formats import (
    Section,
    Table,
    best_rows,
    csv_text,
    interval,
    json_text,
    latex,
    markdown,
    number,
    pick,
    print_sections,
)
from textmover.types import InputError

TABLE_FORMATS = ("markdown", "csv", "json", "latex")
"""Formats of :func:`format_evaluations`."""

STATISTIC_SYMBOLS = {"tau23": "τ23", "kendall": "τ-b", "kendall-c": "τ-c", "spearman": "ρ"}  # LaTeX headers


def format_evaluations(
    evaluations: Sequence[Evaluation], table_format: str, *, further: Sequence[Sequence[str]] = ()
) -> str:
    """Render evaluations as Markdown, LaTeX, CSV or JSON.

    Markdown and LaTeX show three digits, the best value of a column in bold, and remarks with signatures below each
    table; several tables are preceded by an overview. CSV and JSON contain all digits, JSON all results. The text ends
    with a newline.

    Args:
        evaluations: One evaluation for each set and dimension.
        table_format: One of :data:`TABLE_FORMATS`.
        further: Additional remarks for each evaluation.

    Raises:
        InputError: If there is no evaluation, or the format is unknown.
    """
    if table_format not in TABLE_FORMATS:
        raise InputError(f"Expected a format of {', '.join(TABLE_FORMATS)}, but got {table_format!r}: choose one.")
    if not evaluations:
        raise InputError("Expected at least one evaluation, but got none: name a judgement set.")
    added = list(further) or [()] * len(evaluations)
    if len(added) != len(evaluations):
        raise ValueError(f"Expected remarks for {len(evaluations)} evaluations, but got {len(added)}.")
    if table_format == "csv":
        return _csv(evaluations)
    if table_format == "json":
        return json_text({"sets": list(map(evaluation_entry, evaluations, added))})
    if table_format == "markdown":
        return markdown(_sections(evaluations, added))
    return latex(_sections(evaluations, added, STATISTIC_SYMBOLS))


def print_evaluations(
    console: Console,
    evaluations: Sequence[Evaluation],
    *,
    further: Sequence[Sequence[str]] = (),
    signatures: bool = True,
) -> None:
    """Print a table with remarks and signatures for each evaluation; several are preceded by an overview.

    On a narrow terminal, a table is split into several that repeat the metrics' names; other outputs get plain lines
    without trailing spaces. ``further`` has additional remarks for each evaluation.
    """
    sections = _sections(evaluations, list(further) or [()] * len(evaluations))
    print_sections(console, sections, signatures=signatures)


# --- tables for reading -----------------------------------------------------------------------------------------------


def _sections(
    evaluations: Sequence[Evaluation], further: Sequence[Sequence[str]], symbols: Mapping[str, str] = {}
) -> list[Section]:
    sections = []
    if len(evaluations) > 1:
        caption = "Agreement with people on all sets."
        rows = overview_rows(evaluations)
        cells = [(name, *map(number, values)) for name, values in rows]
        columns = zip(*(values for _, values in rows), strict=True)
        best = {(row, place) for place, column in enumerate(columns, start=1) for row in best_rows(column)}
        table = Table(["metric", *(title_of(one, evaluations) for one in evaluations)], cells, best)
        sections.append(Section("All sets", table, caption=caption))
    for one, added in zip(evaluations, further, strict=True):
        signatures = [(metric.name, metric.signature) for metric in one.ranked() if metric.signature]
        table = _summary_table(one, symbols)
        sections.append(Section(title_of(one, evaluations), table, remarks(one, added), signatures))
    return sections


def _summary_table(evaluation: Evaluation, symbols: Mapping[str, str]) -> Table:
    ranked, statistic = evaluation.ranked(), evaluation.protocol.statistic
    columns = [("metric", [one.name for one in ranked])]
    best: set[tuple[int, int]] = set()

    def add(header: str, cells: list[str], values: Sequence[float] = ()) -> None:
        best.update((row, len(columns)) for row in best_rows(values))
        columns.append((header, cells))

    add(symbols.get(statistic, statistic), [number(one.value) for one in ranked], [one.value for one in ranked])
    if any(not math.isnan(one.low) for one in ranked):
        add(f"{100 * evaluation.level:g} % interval", [interval(one.low, one.high) for one in ranked])
    if any(one.rank is not None for one in ranked):
        add("rank", ["-" if one.rank is None else str(one.rank) for one in ranked])
    if evaluation.baseline is not None:
        add(f"vs. {evaluation.baseline}", [_against(one, evaluation) for one in ranked])
    for group in shown_groups(evaluation):
        values = [one.by_group.get(group, math.nan) for one in ranked]
        add(group, list(map(number, values)), values)
    headers, cells = zip(*columns, strict=True)
    return Table(headers, list(zip(*cells, strict=True)), best)


def _against(metric: MetricAgreement, evaluation: Evaluation) -> str:
    if metric.name == evaluation.baseline:
        return "baseline"
    gain = number(metric.gain)
    plus = "" if gain.startswith("-") or not gain.strip("0.") else "+"
    return f"{plus}{gain} {mark(metric)}".rstrip()


# --- all digits -------------------------------------------------------------------------------------------------------

BETTER = {"↑": "better", "↓": "worse"}


def _csv(evaluations: Sequence[Evaluation]) -> str:
    groups = list(dict.fromkeys(group for one in evaluations for group in one.groups))
    records = []
    for one in evaluations:
        for metric in one.ranked():
            record = {
                "set": one.name,
                "dimension": one.dimension,
                "protocol": str(one.protocol),
                "metric": metric.name,
                "segments": one.n,
                **pick(metric, "units", "undefined_segments", "value", "low", "high", "rank"),
                "baseline": one.baseline,
                **pick(metric, "gain", "p_value"),
                "against_baseline": BETTER.get(mark(metric)),
                "signature": metric.signature,
            }
            values = {group: metric.by_group.get(group) if group in one.groups else None for group in groups}
            records.append(record | {f"group_{group}" if group in record else group: values[group] for group in groups})
    return csv_text(records)


def evaluation_entry(one: Evaluation, added: Sequence[str]) -> dict[str, Any]:
    """Return the JSON entry of an evaluation, with additional remarks."""
    return {
        "set": one.name,
        "dimension": one.dimension,
        "protocol": pick(one.protocol, "statistic", "level", "pair_rate"),
        "segments": one.n,
        **pick(one, "groups", "baseline"),
        "significant": SIGNIFICANT,
        "bootstrap": {**pick(one, "samples", "seed", "level"), "undefined": one.undefined_samples},
        "test": {"name": "PERM-BOTH", **pick(one, "permutations", "seed")},
        "metrics": [
            {
                **pick(metric, "name", "value", "low", "high", "rank", "gain", "p_value"),
                "against_baseline": BETTER.get(mark(metric)),
                "groups": metric.by_group,
                **pick(metric, "units", "undefined", "undefined_segments", "epsilons", "signature"),
            }
            for metric in one.metrics
        ],
        "p_values": one.p_values,
        "left_out": {
            "rows": one.left_out,
            "missing": one.missing,
            "preferences": one.lost_preferences,
            "excluded": one.excluded,
        },
        **pick(one, "notes"),
        "remarks": remarks(one, added),
    }


# --- matrices ---------------------------------------------------------------------------------------------------------

# Above this p-value a cell shows a dot: the column's metric agrees better, so the mirrored cell has the p-value.
HOPELESS = 0.95
P_STEPS = ((0.001, 5), (0.01, 3), (SIGNIFICANT, 1))  # maximum p-value and its heat map step


class Cell(NamedTuple):
    """Formatted number and CSS class of its colour: ``h0`` … sequential, ``a1`` … above, ``b1`` … below a midpoint."""

    text: str
    shade: str = ""


class MatrixRow(NamedTuple):
    """A row with a name; ``lead`` is text before the name (a rank), ``opens`` separates it from the row above."""

    name: str
    cells: Sequence[Cell]
    opens: bool = False
    lead: str = ""


class Matrix(NamedTuple):
    """Column names and rows of a coloured matrix."""

    columns: Sequence[str]
    rows: Sequence[MatrixRow]


SELF = Cell("", "self")  # diagonal cell


def group_matrix(evaluation: Evaluation) -> Matrix:
    """Return the agreement of each metric (column) in each group (row), coloured by distance from the group's median.

    Distances from the median remove differences in difficulty between groups.
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
    """Return the correlations ``[K, K]`` between metrics, ordered by similarity; the highest correlation is darkest."""
    table = np.asarray(correlations, dtype=np.float64)
    order = similarity_order(table)
    names, table = [names[one] for one in order], table[np.ix_(order, order)]
    off_diagonal = table[~np.eye(len(names), dtype=bool)]
    finite = off_diagonal[~np.isnan(off_diagonal)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)

    def cell(value: float) -> Cell:
        share = (value - low) / (high - low) if high - low > 1e-12 else 0.5
        return Cell(compact(value, 2), "" if math.isnan(value) else f"h{step_of(share)}")

    cells = [[SELF if i == j else cell(value) for j, value in enumerate(row)] for i, row in enumerate(table.tolist())]
    return Matrix(names, list(map(MatrixRow, names, cells)))


def similarity_order(correlations: ArrayLike) -> list[int]:
    """Order metrics by average-linkage clustering with optimal leaf order, so that correlated metrics are adjacent.

    Metrics without correlations come last. The direction is chosen so that the first metric is in the first half.
    """
    table: NDArray[np.float64] = np.asarray(correlations, dtype=np.float64)
    valid = np.flatnonzero(~np.isnan(table).all(axis=1))
    rest = sorted(set(range(len(table))) - set(valid.tolist()))
    if len(valid) < 3:
        return [*valid.tolist(), *rest]
    distances = np.clip(1 - table[np.ix_(valid, valid)], 0, None)
    np.fill_diagonal(distances, 0)
    tree = hierarchy.linkage(squareform(distances, checks=False), "average", optimal_ordering=True)
    leaves = valid[hierarchy.leaves_list(tree)].tolist()
    if leaves.index(min(leaves)) > len(leaves) // 2:
        leaves.reverse()
    return [*leaves, *rest]


def p_value_matrix(evaluation: Evaluation) -> Matrix | None:
    """Return one-sided p-values that the row's metric beats the column's, best first; ``None`` without tests."""
    if np.isnan(evaluation.p_values).all():
        return None
    ranked = {evaluation.metrics.index(one): one for one in evaluation.ranked() if not math.isnan(one.value)}
    named = [(one.name, one.rank) for one in ranked.values()]
    return p_values_between(named, evaluation.p_values, list(ranked), hopeless=HOPELESS)


def p_values_between(
    named: Sequence[tuple[str, int | None]], p_values: NDArray[np.float64], order: Sequence[int], hopeless: float = 1.0
) -> Matrix:
    """Return p-values ``[K, K]`` in an order of names and ranks, coloured if significant; ranks are set apart."""

    def cell(p: float) -> Cell:
        shade = next((f"h{step}" for limit, step in P_STEPS if p <= limit), "")
        return Cell("·" if p > hopeless else p_value_text(p), shade)

    rows = []
    for place, (name, rank) in enumerate(named):
        cells = list(map(cell, p_values[order[place], order].tolist()))
        cells[place] = SELF
        opens = place > 0 and rank != named[place - 1][1]
        rows.append(MatrixRow(name, cells, opens, "" if rank is None else str(rank)))
    return Matrix([name for name, _ in named], rows)


def compact(value: float, digits: int) -> str:
    """Format a number between -1 and 1 without leading zero; numbers that only round to ±1 get ``>`` or ``<``.

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
    """Format a p-value with three digits.

    Example:
        >>> p_value_text(0.0004), p_value_text(0.05), p_value_text(1.0)
        ('<.001', '.050', '1')
    """
    if p < 0.0005:
        return "<.001"
    return "1" if p > 0.9995 else compact(p, 3)


def _diverging(distance: float, widest: float) -> str:
    """Return the CSS class of a distance from the median; small distances have no colour."""
    if math.isnan(distance) or widest <= 1e-12:
        return ""
    step = round(abs(distance) / widest * DIVERGING)
    return "" if step == 0 else f"{'a' if distance > 0 else 'b'}{step}"
