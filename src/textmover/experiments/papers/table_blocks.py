"""Results of an experiment as text tables, with the published lines beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from textmover.experiments.papers.layers import SIMILARITIES, LayerResult, estimates
from textmover.experiments.papers.results import HERE, PAPER, Cell, FigureResult, ResultLine, TableResult
from textmover.experiments.papers.specification import MEAN, Column
from textmover.modules.analysis import Estimate
from textmover.report.evaluation.wording import DIGITS, STATISTIC_NAMES, number

SYMBOLS = {"pearson": "r", "spearman": "ρ", "kendall": "τ", "kendall-c": "τ-c", "darr": "τ"}
"""Short names of statistics."""

INTERVAL = "95 % interval"
"""Header of the intervals."""

INTERVALS_ARE = " % intervals: bootstrap"
"""Start of the remark on intervals, which is left out if none is shown."""

MOST_INTERVALS = 2
"""With more means than this in a table, their intervals would hide them; CSV and JSON have them all the same."""


@dataclass(frozen=True)
class Block:
    """A table with a heading and what is to be said of it.

    Attributes:
        title: The heading.
        headers: Of the columns.
        rows: Cells, as many as there are headers.
        remarks: Sentences.
        signatures: What scores depend on, by the name of their line.
        records: The same numbers with all digits, one record each.
        figure: File of a figure that belongs to it.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    signatures: tuple[tuple[str, str], ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    figure: str | None = None


def table_blocks(result: TableResult) -> list[Block]:
    """A table; one for each statistic where it would have several beside several groups.

    Args:
        result: The table with its numbers.
    """
    spec = result.spec
    apart = len(spec.groups) > 1 and len(spec.statistics) > 1
    blocks = []
    for statistics in [(one,) for one in spec.statistics] if apart else [spec.statistics]:
        chosen = [index for index, column in enumerate(spec.columns) if column.statistic in statistics]
        title = f"{spec.title}: {STATISTIC_NAMES[statistics[0]]}" if apart else spec.title
        blocks.append(_table_block(result, title, chosen))
    last = blocks[-1]
    signatures = [(line.name, line.signature) for line in result.lines if line.origin == HERE]
    shown = any(INTERVAL in block.headers for block in blocks)
    said = result.remarks if shown else (one for one in result.remarks if INTERVALS_ARE not in one)
    remarks = (*spec.notes, *said)
    return [*blocks[:-1], replace(last, remarks=remarks, signatures=tuple(signatures))]


def _table_block(result: TableResult, title: str, chosen: Sequence[int]) -> Block:
    spec = result.spec
    columns = [spec.columns[index] for index in chosen]
    means = [index for index in chosen if spec.columns[index].group == MEAN]
    bounded = any(not math.isnan(line.cells[index].low) for line in result.lines for index in means)
    intervals = set(means) if bounded and len(means) <= MOST_INTERVALS else set()
    headers = ["metric", "from", "encoder"]
    for index, label in zip(chosen, _labels(columns), strict=True):
        headers += [label, INTERVAL] if index in intervals else [label]
    rows = []
    for line in result.lines:
        digits = spec.digits if line.origin == PAPER else DIGITS
        cells = [line.name, line.origin, line.encoder]
        for index in chosen:
            cell = line.cells[index]
            # A mean over other groups than the published one must not be read as if it stood for the same.
            over = result.partial[index] if line.origin == HERE and not math.isnan(cell.value) else ""
            cells.append(number(cell.value, digits) + (f" ({over})" if over else ""))
            if index in intervals:
                cells.append(_interval(cell))
        rows.append(tuple(cells))
    rows += _sizes(result, chosen, intervals)
    records = [_record(result, title, line, index) for line in result.lines for index in chosen]
    return Block(title, tuple(headers), tuple(rows), records=tuple(records))


def _labels(columns: Sequence[Column]) -> list[str]:
    """Labels that tell columns apart; the statistic if nothing does."""
    varying = [len({column[place] for column in columns}) > 1 for place in range(len(Column._fields))]
    found = []
    for column in columns:
        parts = [column.set, column.dimension or "", column.group, SYMBOLS.get(column.statistic, column.statistic)]
        named = [part for part, varies in zip(parts, varying, strict=True) if varies and part]
        found.append(" ".join(named) or parts[-1])
    return found


def _sizes(result: TableResult, chosen: Sequence[int], intervals: set[int]) -> list[tuple[str, ...]]:
    """The lines that say how many segments each column is over."""
    spec = result.spec
    places = {
        (name, group): index
        for index, (name, group) in enumerate((name, group) for name in spec.sets for group in spec.groups)
    }
    lines: list[tuple[str, list[str]]] = []
    if spec.n:
        lines.append((PAPER, [spec.n[places[spec.columns[index].set, spec.columns[index].group]] for index in chosen]))
    if any(count is not None for count in result.counts):
        counts = (result.counts[index] for index in chosen)
        lines.append((HERE, ["-" if count is None else f"{count:,}" for count in counts]))
    rows = []
    for origin, cells in lines:
        spread = [one for index, cell in zip(chosen, cells, strict=True) for one in _beside(cell, index in intervals)]
        rows.append(("n", origin, "", *spread))
    return rows


def _beside(cell: str, interval: bool) -> list[str]:
    return [cell, ""] if interval else [cell]


def _record(result: TableResult, title: str, line: ResultLine, index: int) -> dict[str, Any]:
    """The cell of a line in a column, with all digits."""
    column, cell = result.spec.columns[index], line.cells[index]
    return {
        "table": title,
        "row": line.name,
        "from": line.origin,
        "metric": line.metric,
        "encoder": line.encoder,
        "set": column.set,
        "dimension": column.dimension or "",
        "group": column.group,
        "statistic": column.statistic,
        "level": result.spec.level,
        "value": cell.value,
        "low": cell.low,
        "high": cell.high,
        "n": result.counts[index] if line.origin == HERE else None,
        "mean_over": result.partial[index] if line.origin == HERE else "",
        "signature": line.signature,
    }


def figure_block(result: FigureResult, path: str | None) -> Block:
    """A figure as a table: a line for each line, a column for each value.

    Args:
        result: The figure with its numbers.
        path: Where it was drawn, as the page names it.
    """
    spec = result.spec
    rows, records = [], []
    for line, (encoder, cells), signature in zip(spec.lines, result.lines, result.signatures, strict=True):
        rows.append((line.name, encoder, *(number(cell.value) for cell in cells)))
        for value, cell in zip(spec.values, cells, strict=True):
            records.append(
                {
                    "table": spec.title,
                    "row": line.name,
                    "from": HERE,
                    "metric": line.model,
                    "encoder": encoder,
                    "set": spec.set,
                    "dimension": spec.dimension or "",
                    "group": MEAN,
                    "statistic": spec.statistic,
                    "level": spec.level,
                    spec.field: value,
                    "value": cell.value,
                    "low": cell.low,
                    "high": cell.high,
                    "n": result.count,
                    "signature": signature,
                }
            )
    headers = ("metric", "encoder", *(f"{spec.field.replace('_', ' ')} {value}" for value in spec.values))
    signatures = tuple((line.name, one) for line, one in zip(spec.lines, result.signatures, strict=True) if one)
    return Block(
        spec.title,
        headers,
        tuple(rows),
        (*spec.notes, *(one for one in result.remarks if INTERVALS_ARE not in one)),
        signatures,
        tuple(records),
        path,
    )


def layer_block(result: LayerResult, path: str | None) -> Block:
    """The analysis of layers as a table.

    Args:
        result: What was found.
        path: Where it was drawn, as the page names it.
    """
    rows, records = [], []
    for row in result.analysis.rows:
        found = estimates(row)
        rows.append((row.centering, str(row.layer), *(_with_error(one) for one in found.values())))
        for name, one in found.items():
            records.append(
                {
                    "table": result.spec.title,
                    "from": HERE,
                    "encoder": result.encoder,
                    "centering": row.centering,
                    "layer": row.layer,
                    "similarity": name,
                    "value": one.mean,
                    "standard_error": one.error,
                    "pairs": one.pairs,
                    "n": result.analysis.texts,
                }
            )
    remarks = (f"Encoder: {result.encoder}.", *result.spec.notes, *result.remarks)
    headers = ("centering", "layer", *SIMILARITIES.values())
    return Block(result.spec.title, headers, tuple(rows), remarks, (), tuple(records), path)


def _with_error(one: Estimate) -> str:
    error = "" if math.isnan(one.error) else f" ± {one.error:.3f}"
    return f"{number(one.mean)}{error}"


def _interval(cell: Cell) -> str:
    return "" if math.isnan(cell.low) else f"{number(cell.low)} to {number(cell.high)}"
