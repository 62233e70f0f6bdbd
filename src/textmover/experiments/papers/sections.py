"""Computation of an experiment: sections for its tables, figures and layer analysis."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from textmover.experiments.anisotropy import SIMILARITIES, analyse, draw_layers, layer_remarks
from textmover.experiments.evaluation.metrics import KeptScores
from textmover.experiments.papers.agreement_values import HERE, PAPER, Cell, Findings, ResultLine
from textmover.experiments.papers.experiment import Experiment
from textmover.experiments.papers.specification import MEAN, Column, FigureSpec, LayerSpec, TableSpec
from textmover.modules.config import DEFAULT_ENCODER
from textmover.report import Line, Panel, draw_panels
from textmover.report.evaluation.wording import STATISTIC_NAMES
from textmover.report.table_formats import DIGITS, Section, block, interval, number, pick
from textmover.scoring.metric_field_options import FIELD
from textmover.terminal import AdvancePart


def figure_path(page: Path, name: str) -> Path:
    """Return the path of a figure, next to its page.

    Example:
        >>> str(figure_path(Path("pages/twmd.md"), "heat"))
        'pages/twmd_heat.png'
    """
    return page.with_name(f"{page.stem}_{name}.png")


def compute(
    options: argparse.Namespace,
    experiment: Experiment,
    files: Mapping[str, str],
    output: Path | None,
    kept: KeptScores,
    advance: AdvancePart,
) -> tuple[list[Section], list[str]]:
    """Return all tables and figures, and the names of missing values; draw the figures if there is a page."""
    analysed: list[Section] = []
    spec = experiment.layers
    if spec is not None:  # first, so that a failure loses no computed scores
        analysed.append(layer_block(spec, files[spec.file], options, output, advance))
    if not experiment.all_tables:
        return analysed, []
    findings = Findings(options, experiment, files, kept, advance)
    blocks = [one for table in experiment.tables for one in table_blocks(table, findings)]
    blocks += [figure_block(one, findings, output) for one in experiment.figures]
    seen: set[tuple[str, str]] = set()
    for place, section in enumerate(blocks):
        blocks[place] = replace(section, signatures=tuple(pair for pair in section.signatures if pair not in seen))
        seen.update(section.signatures)
    return [*blocks, *analysed], list(findings.gaps)


SYMBOLS = {"pearson": "r", "spearman": "ρ", "kendall": "τ", "kendall-c": "τ-c", "darr": "τ"}
"""Short names of statistics."""

INTERVAL = "95 % interval"  # header of the intervals
INTERVALS_ARE = " % intervals: bootstrap"  # in remarks on intervals, hidden if none is shown
MOST_INTERVALS = 2
"""Largest number of means in a table that are shown with intervals; CSV and JSON always have the intervals."""


def table_blocks(spec: TableSpec, findings: Findings) -> list[Section]:
    """Return the sections of a table; one for each statistic if it has several statistics and several groups."""
    lines = findings.lines(spec)
    findings.gaps |= {
        f"{line.name} ({column.asked}, {column.group})": None
        for line in lines
        for column, cell in zip(spec.columns, line.cells, strict=True)
        if cell.gap
    }
    split = len(spec.groups) > 1 and len(spec.statistics) > 1
    blocks = []
    for statistics in [(one,) for one in spec.statistics] if split else [spec.statistics]:
        chosen = [index for index, column in enumerate(spec.columns) if column.asked.statistic in statistics]
        title = f"{spec.title}: {STATISTIC_NAMES[statistics[0]]}" if split else spec.title
        blocks.append(_table_block(spec, lines, title, chosen))
    signatures = tuple((line.name, line.signature) for line in lines if line.origin == HERE)
    shown = any(INTERVAL in one.table.headers for one in blocks)
    remarks = [one for one in findings.sentences(spec) if shown or INTERVALS_ARE not in one]
    return [*blocks[:-1], replace(blocks[-1], remarks=(*spec.notes, *remarks), signatures=signatures)]


def _table_block(spec: TableSpec, lines: Sequence[ResultLine], title: str, chosen: Sequence[int]) -> Section:
    means = [index for index in chosen if spec.columns[index].group == MEAN]
    bounded = any(not math.isnan(line.cells[index].low) for line in lines for index in means)
    sizes = _sizes(spec, lines)
    columns: list[tuple[str, ...]] = [  # each: header, cells of lines, cells of sizes
        ("metric", *(line.name for line in lines), *("n" for _ in sizes)),
        ("from", *(line.origin for line in lines), *sizes),
        ("encoder", *(line.encoder for line in lines), *("" for _ in sizes)),
    ]
    for index, label in zip(chosen, _labels([spec.columns[index] for index in chosen]), strict=True):
        cells = [line.cells[index] for line in lines]
        values = (
            _format_cell(cell, spec.digits if line.origin == PAPER else DIGITS)
            for cell, line in zip(cells, lines, strict=True)
        )
        columns.append((label, *values, *(one[index] for one in sizes.values())))
        if bounded and index in means and len(means) <= MOST_INTERVALS:
            ends = (interval(cell.low, cell.high, missing="") for cell in cells)
            columns.append((INTERVAL, *ends, *("" for _ in sizes)))
    headers, *rows = zip(*columns, strict=True)
    records = [_record(title, line, line.cells[index], spec.columns[index], {}) for line in lines for index in chosen]
    return block(title, headers, rows, records=records)


def _format_cell(cell: Cell, digits: int) -> str:
    # Mark a mean over other groups than the published one, since the two are not comparable.
    over = f" ({cell.over})" if cell.over and not math.isnan(cell.value) else ""
    return number(cell.value, digits) + over


def _labels(columns: Sequence[Column]) -> Iterator[str]:
    """Yield column labels: the parts in which the columns differ, or the statistic."""
    parts = [(one.asked.set, one.asked.dimension or "", one.group, one.asked.statistic) for one in columns]
    varying = [len(set(several)) > 1 for several in zip(*parts, strict=True)]
    for *others, statistic in parts:
        symbol = SYMBOLS.get(statistic, statistic)
        yield " ".join(itertools.compress((*others, symbol), varying)) or symbol


def _sizes(spec: TableSpec, lines: Sequence[ResultLine]) -> dict[str, list[str]]:
    """Return the published and the computed number of segments of each column."""
    sizes = {}
    if spec.n:
        places = [(name, group) for name in spec.sets for group in spec.groups]
        sizes[PAPER] = [spec.n[places.index((column.asked.set, column.group))] for column in spec.columns]
    counts = next(([cell.n for cell in line.cells] for line in lines if line.origin == HERE), [])
    if any(count is not None for count in counts):
        sizes[HERE] = ["-" if count is None else f"{count:,}" for count in counts]
    return sizes


def _record(title: str, line: ResultLine, cell: Cell, column: Column, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a value with all digits; ``point`` has the field value of a figure."""
    return {
        "table": title,
        "row": line.name,
        "from": line.origin,
        **pick(line, "metric", "encoder"),
        "set": column.asked.set,
        "dimension": column.asked.dimension or "",
        "group": column.group,
        **pick(column.asked, "statistic", "level"),
        **point,
        **pick(cell, "value", "low", "high", "n"),
        **({} if point else {"mean_over": cell.over}),
        "signature": line.signature,
    }


def figure_block(spec: FigureSpec, findings: Findings, page: Path | None) -> Section:
    """Return a figure as a table with a row per line and a column per value; draw it if it has a page and a value."""
    lines = list(_lines_of_points(spec, findings))
    findings.gaps |= {
        name: None
        for one, line in zip(spec.lines, lines, strict=True)
        for name, cell in zip(spec.points(one), line.cells, strict=True)
        if cell.gap
    }
    empty = all(math.isnan(cell.value) for line in lines for cell in line.cells)
    figure = None if page is None or empty else figure_path(page, spec.name)
    if figure is not None:
        draw_figure(spec, lines, figure)
    rows = [(line.name, line.encoder, *(number(cell.value) for cell in line.cells)) for line in lines]
    column = spec.table.columns[0]
    records = [
        _record(spec.title, line, cell, column, {spec.field: value})
        for line in lines
        for value, cell in zip(spec.values, line.cells, strict=True)
    ]
    headers = ("metric", "encoder", *(f"{spec.field.replace('_', ' ')} {value}" for value in spec.values))
    signatures = tuple((line.name, line.signature) for line in lines if line.signature)
    remarks = (*spec.notes, *(one for one in findings.sentences(spec.table) if INTERVALS_ARE not in one))
    name = figure.name if figure else None
    return block(spec.title, headers, rows, remarks, signatures=signatures, records=records, figure=name)


def _lines_of_points(spec: FigureSpec, findings: Findings) -> Iterator[ResultLine]:
    """Yield the lines of a figure with a cell for each value and the signature of the first point."""
    points = {line.name: line for line in findings.lines(spec.table)}
    n = next((one.cells[0].n for one in points.values()), None)
    for line in spec.lines:
        lines = [points.get(name) for name in spec.points(line)]
        cells = tuple(Cell(math.nan, n=n, gap=n is not None) if one is None else one.cells[0] for one in lines)
        encoder = next((one.encoder for one in lines if one is not None), "-")
        yield ResultLine(line.name, HERE, line.model, encoder, lines[0].signature if lines[0] else "", cells)


def layer_block(
    spec: LayerSpec, file: str, options: argparse.Namespace, page: Path | None, advance: AdvancePart
) -> Section:
    """Return the layer analysis as a table; draw its figure if there is a page."""
    analysis, encoder = analyse(spec, file, getattr(options, f"{FIELD}encoder", DEFAULT_ENCODER), options, advance)
    encoder = encoder.split("@")[0]
    figure = None if page is None else figure_path(page, spec.name)
    if figure is not None:
        draw_layers(analysis, figure, encoder)
    rows, records = [], []
    for row in analysis.rows:
        found = pick(row, *SIMILARITIES)
        rows.append((row.centering, str(row.layer), *map(str, found.values())))
        for name, one in found.items():
            records.append(
                {
                    "table": spec.title,
                    "from": HERE,
                    "encoder": encoder,
                    **pick(row, "centering", "layer"),
                    "similarity": name,
                    "value": one.mean,
                    "standard_error": one.error,
                    "pairs": one.pairs,
                    "n": analysis.texts,
                }
            )
    remarks = (f"Encoder: {encoder}.", *spec.notes, *layer_remarks(analysis, spec, options.seed))
    headers = ("centering", "layer", *SIMILARITIES.values())
    return block(spec.title, headers, rows, remarks, records=records, figure=figure.name if figure else None)


LONGEST_TITLE = 60  # characters of a figure's title


def draw_figure(spec: FigureSpec, lines: Sequence[ResultLine], path: Path) -> None:
    """Draw a figure; intervals only if it has a single line, since those of several lines would overlap."""
    drawn = []
    for line in lines:
        values, low, high = ([getattr(cell, end) for cell in line.cells] for end in ("value", "low", "high"))
        drawn.append(Line(line.name, values, *((low, high) if len(lines) == 1 else ())))
    encoder = next((line.encoder for line in lines if line.encoder != "-"), "")
    draw_panels(
        [Panel("", drawn)],
        [str(value) for value in spec.values],
        path,
        x_label=spec.field.replace("_", " "),
        y_label=f"mean {STATISTIC_NAMES[spec.statistic]}",
        title=f"{spec.set}, {encoder}"[:LONGEST_TITLE],
    )
