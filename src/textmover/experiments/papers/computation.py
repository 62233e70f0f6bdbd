"""Computation of an experiment: read sets, score them, and fill the blocks of tables and figures."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from textmover.experiments.page import Block, block
from textmover.experiments.papers.config import Experiment
from textmover.experiments.papers.data import absent_files, read_set
from textmover.experiments.papers.layers import SIMILARITIES, LayerResult, analyse, draw_layers, estimates
from textmover.experiments.papers.metrics import ExperimentMetrics, KeptScores, Scored
from textmover.experiments.papers.results import (
    HERE,
    PAPER,
    FigureResult,
    Findings,
    ResultLine,
    TableResult,
    questions,
    unanswerable,
)
from textmover.experiments.papers.specification import MEAN, Column
from textmover.report import Line, Panel, draw_panels
from textmover.report.document import DIGITS, interval, number
from textmover.report.evaluation.wording import STATISTIC_NAMES
from textmover.types import InputError

logger = logging.getLogger(__name__)

Advance = Callable[[str, int, int], None]
"""Called with what is done, how much of it was finished since the last call, and how much there is in all."""


def figure_path(page: Path, name: str) -> Path:
    """Path of a figure, beside its page.

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
    advance: Advance,
) -> tuple[list[Block], list[str]]:
    """All tables and figures, the figures drawn where there is a page for them, and what has no value."""
    analysed: list[Block] = []
    spec = experiment.layers
    if spec is not None:  # first: it keeps nothing, so that nothing is lost where it fails
        layers = analyse(spec, files[spec.file], options, lambda done: advance("reading", done, spec.texts))
        figure = None if output is None else figure_path(output, spec.name)
        if figure is not None:
            draw_layers(layers.analysis, figure, layers.encoder)
        analysed.append(layer_block(layers, figure.name if figure else None))
    if not (experiment.tables or experiment.figures):
        return analysed, []
    blocks: list[Block] = []
    findings = _findings(options, experiment, files, kept, advance)
    for table in experiment.tables:
        blocks += table_blocks(findings.table(table))
    for one in experiment.figures:
        found = findings.figure(one)
        figure = None if output is None or found.empty else figure_path(output, one.name)
        if figure is not None:
            draw_figure(found, str(figure))
        blocks.append(figure_block(found, figure.name if figure else None))
    return [*_signed_once(blocks), *analysed], list(findings.gaps)


def _signed_once(blocks: Sequence[Block]) -> Iterator[Block]:
    seen: set[tuple[str, str]] = set()
    for one in blocks:
        yield replace(one, signatures=tuple(pair for pair in one.signatures if pair not in seen))
        seen.update(one.signatures)


def _findings(
    options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str], kept: KeptScores, advance: Advance
) -> Findings:
    names = experiment.judged_sets
    absent = {name: how for name in names if (how := absent_files(experiment, name, files))}
    sets = {name: read_set(experiment, name, files) for name in names if name not in absent}
    hopeless = unanswerable(experiment, sets, options)
    for asked, reason in hopeless.items():
        logger.warning("%s: %s The rest is computed.", asked, reason)
    worth = {asked.set for asked in questions(experiment, sets) if asked not in hopeless}
    judged = {name: one for name, one in sets.items() if name in worth}
    wanted = {name: experiment.metrics_of_set(name) for name in judged}
    metrics = ExperimentMetrics(options, experiment, {metric for several in wanted.values() for metric in several})
    metrics.load(judged.values())
    total = sum(len(one) * metrics.steps(wanted[name]) for name, one in judged.items())
    scored: dict[str, dict[str, Scored]] = {}
    unscored: dict[str, str] = {}

    def score(name: str) -> None:
        try:
            with kept.keeping(name, judged[name]) as take:
                scored[name] = metrics.scores(
                    judged[name], wanted[name], lambda done: advance("scoring", done, total), take
                )
        except InputError as error:  # told under the tables, and at the end of the command
            unscored[name] = str(error)

    for name in judged:
        score(name)
    if unscored and not scored:
        raise InputError(next(iter(unscored.values())))
    return Findings(options, sets, scored, hopeless, absent, unscored, metrics.failed, metrics.fitted)


SYMBOLS = {"pearson": "r", "spearman": "ρ", "kendall": "τ", "kendall-c": "τ-c", "darr": "τ"}
"""Short names of statistics."""

INTERVAL = "95 % interval"  # header of the intervals
INTERVALS_ARE = " % intervals: bootstrap"  # start of the remark on intervals, which is left out if none is shown
MOST_INTERVALS = 2
"""With more means than this in a table, their intervals would hide them; CSV and JSON have them all the same."""


def table_blocks(result: TableResult) -> list[Block]:
    """A table; one for each statistic where it would have several beside several groups."""
    spec = result.spec
    apart = len(spec.groups) > 1 and len(spec.statistics) > 1
    blocks = []
    for statistics in [(one,) for one in spec.statistics] if apart else [spec.statistics]:
        chosen = [index for index, column in enumerate(spec.columns) if column.statistic in statistics]
        title = f"{spec.title}: {STATISTIC_NAMES[statistics[0]]}" if apart else spec.title
        blocks.append(_table_block(result, title, chosen))
    signatures = tuple((line.name, line.signature) for line in result.lines if line.origin == HERE)
    shown = any(INTERVAL in one.table.headers for one in blocks)
    remarks = (*spec.notes, *(one for one in result.remarks if shown or INTERVALS_ARE not in one))
    return [*blocks[:-1], replace(blocks[-1], remarks=remarks, signatures=signatures)]


def _table_block(result: TableResult, title: str, chosen: Sequence[int]) -> Block:
    spec = result.spec
    columns = [spec.columns[index] for index in chosen]
    means = [index for index in chosen if spec.columns[index].group == MEAN]
    bounded = any(not math.isnan(line.cells[index].low) for line in result.lines for index in means)
    intervals = set(means) if bounded and len(means) <= MOST_INTERVALS else set()

    def spread(values: Mapping[int, str], beside: Mapping[int, str]) -> list[str]:
        """Cells of the columns, each followed by its interval where those are shown."""
        return [one for index in chosen for one in [values[index], *([beside[index]] if index in intervals else [])]]

    labels = dict(zip(chosen, _labels(columns), strict=True))
    headers = ["metric", "from", "encoder", *spread(labels, dict.fromkeys(chosen, INTERVAL))]
    rows = []
    for line in result.lines:
        digits = spec.digits if line.origin == PAPER else DIGITS
        values = {}
        for index in chosen:
            value = line.cells[index].value
            # A mean over other groups than the published one must not be read as if it stood for the same.
            over = result.partial[index] if line.origin == HERE and not math.isnan(value) else ""
            values[index] = number(value, digits) + (f" ({over})" if over else "")
        ends = {index: interval(*line.cells[index][1:], missing="") for index in chosen}
        rows.append((line.name, line.origin, line.encoder, *spread(values, ends)))
    for origin, sizes in _sizes(result).items():
        rows.append(("n", origin, "", *spread(sizes, dict.fromkeys(chosen, ""))))
    records = []
    for line in result.lines:
        for index in chosen:
            count, over = (result.counts[index], result.partial[index]) if line.origin == HERE else (None, "")
            records.append(_record(title, line, index, spec.columns[index], spec.level, count, {}, {"mean_over": over}))
    return block(title, headers, rows, records=records)


def _labels(columns: Sequence[Column]) -> list[str]:
    varying = [len({column[place] for column in columns}) > 1 for place in range(len(Column._fields))]
    found = []
    for column in columns:
        parts = [column.set, column.dimension or "", column.group, SYMBOLS.get(column.statistic, column.statistic)]
        named = [part for part, varies in zip(parts, varying, strict=True) if varies and part]
        found.append(" ".join(named) or parts[-1])
    return found


def _sizes(result: TableResult) -> dict[str, dict[int, str]]:
    spec, found = result.spec, {}
    if spec.n:
        places = [(name, group) for name in spec.sets for group in spec.groups]
        found[PAPER] = {
            index: spec.n[places.index((column.set, column.group))] for index, column in enumerate(spec.columns)
        }
    if any(count is not None for count in result.counts):
        found[HERE] = {index: "-" if count is None else f"{count:,}" for index, count in enumerate(result.counts)}
    return found


def _record(
    title: str,
    line: ResultLine,
    index: int,
    column: Column,
    level: str,
    count: int | None,
    varied: Mapping[str, Any],
    mean: Mapping[str, str],
) -> dict[str, Any]:
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
        "level": level,
        **varied,
        **line.cells[index]._asdict(),
        "n": count,
        **mean,
        "signature": line.signature,
    }


def figure_block(result: FigureResult, path: str | None) -> Block:
    """A figure as a table: a row for each line, a column for each value; ``path`` is its file as the page names it."""
    spec = result.spec
    rows = [(line.name, line.encoder, *(number(cell.value) for cell in line.cells)) for line in result.lines]
    records = [
        _record(spec.title, line, index, spec.columns[0], spec.level, result.n, {spec.field: value}, {})
        for line in result.lines
        for index, value in enumerate(spec.values)
    ]
    headers = ("metric", "encoder", *(f"{spec.field.replace('_', ' ')} {value}" for value in spec.values))
    signatures = tuple((line.name, line.signature) for line in result.lines if line.signature)
    remarks = (*spec.notes, *(one for one in result.remarks if INTERVALS_ARE not in one))
    return block(spec.title, headers, rows, remarks, signatures=signatures, records=records, figure=path)


def layer_block(result: LayerResult, path: str | None) -> Block:
    """The analysis of layers as a table."""
    rows, records = [], []
    for row in result.analysis.rows:
        found = estimates(row)
        shown = [number(one.mean) + ("" if math.isnan(one.error) else f" ± {one.error:.3f}") for one in found.values()]
        rows.append((row.centering, str(row.layer), *shown))
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
    return block(result.spec.title, headers, rows, remarks, records=records, figure=path)


LONGEST_TITLE = 60  # characters of a figure's title


def draw_figure(result: FigureResult, path: str) -> None:
    """Draw a figure; the intervals of its points where it has but one line, since those of several cover each other."""
    spec, bounded = result.spec, len(result.lines) == 1
    lines = []
    for line in result.lines:
        values, low, high = map(list, zip(*line.cells, strict=True))
        lines.append(Line(line.name, values, *((low, high) if bounded else ())))
    encoder = next((line.encoder for line in result.lines if line.encoder != "-"), "")
    draw_panels(
        [Panel("", lines)],
        [str(value) for value in spec.values],
        path,
        x_label=spec.field.replace("_", " "),
        y_label=f"mean {STATISTIC_NAMES[spec.statistic]}",
        title=f"{spec.set}, {encoder}"[:LONGEST_TITLE],
    )
