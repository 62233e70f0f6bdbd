"""What an experiment found: the cells of its tables and the points of its figures, ours and those of the paper."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from textmover.cli.experiment_config import Experiment
from textmover.cli.experiment_scores import ExperimentMetrics, Scored
from textmover.cli.experiment_specs import MEAN, Column, FigureSpec, MetricSpec, TableRow, TableSpec
from textmover.meta_evaluation import Evaluation, Protocol, evaluate
from textmover.report.wording import file_remarks, remarks
from textmover.types import Judgements

__all__ = [
    "HERE",
    "PAPER",
    "Cell",
    "FigureResult",
    "Findings",
    "ResultLine",
    "TableResult",
    "figure_metrics",
    "metrics_of_set",
    "point_name",
    "table_sets",
]

PAPER, HERE = "paper", "here"
"""Where a line of a table comes from."""


class Cell(NamedTuple):
    """A value with its interval; NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


NOTHING = Cell(math.nan)


@dataclass(frozen=True)
class ResultLine:
    """A line of a table.

    Attributes:
        name: What the paper calls the metric.
        origin: :data:`PAPER` or :data:`HERE`.
        metric: The metric that was computed; nothing for a published line.
        encoder: Encoder and layers.
        signature: What the scores depend on.
        cells: One for each column.
    """

    name: str
    origin: str
    metric: str
    encoder: str
    signature: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class TableResult:
    """A table with its numbers.

    Attributes:
        spec: The table.
        lines: Published ones, and under each what was computed.
        counts: How many segments (preferences, for DARR) each column is over; ``None`` where nothing was computed.
        remarks: How it was computed, and what is missing.
    """

    spec: TableSpec
    lines: tuple[ResultLine, ...]
    counts: tuple[int | None, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class FigureResult:
    """A figure with its numbers.

    Attributes:
        spec: The figure.
        lines: For each of its lines the encoder and the cell of each value.
        count: How many segments.
        remarks: How it was computed.
        signatures: Signature of each line's first point.
    """

    spec: FigureSpec
    lines: tuple[tuple[str, tuple[Cell, ...]], ...]
    count: int | None
    remarks: tuple[str, ...]
    signatures: tuple[str, ...]


def table_sets(experiment: Experiment) -> list[str]:
    """Names of the sets that tables and figures are about, in the order of the experiment."""
    used = {name for table in experiment.tables for name in table.sets} | {one.set for one in experiment.figures}
    return [name for name in experiment.sets if name in used]


def point_name(line: str, value: Any) -> str:
    """What the metric behind a point of a figure is called."""
    return f"{line} @ {value}"


def figure_metrics(experiment: Experiment) -> dict[str, MetricSpec]:
    """The metric behind every point of the figures."""
    return {
        point_name(line.name, value): MetricSpec(line.model, {**line.fields, figure.field: value})
        for figure in experiment.figures
        for line, value in product(figure.lines, figure.values)
    }


def metrics_of_set(experiment: Experiment, name: str) -> list[str]:
    """Names of the metrics and baselines that a set is scored with, each once."""
    rows = [row.metric for table in experiment.tables if name in table.sets for row in table.rows if row.metric]
    points = [
        point_name(line.name, value)
        for figure in experiment.figures
        if figure.set == name
        for line, value in product(figure.lines, figure.values)
    ]
    return list(dict.fromkeys([*rows, *points]))


class Findings:
    """Agreement of what was scored, computed once for each column.

    Args:
        experiment: The experiment.
        sets: The sets that were read.
        scored: For each of them the scores of its metrics.
        absent: For each set that was not given, how to give it.
        metrics: What scored them: knows which metrics were left out, and which were fitted on these texts.
        options: Samples and seed.
    """

    def __init__(
        self,
        experiment: Experiment,
        sets: Mapping[str, Judgements],
        scored: Mapping[str, Mapping[str, Scored]],
        *,
        absent: Mapping[str, str],
        metrics: ExperimentMetrics,
        options: argparse.Namespace,
    ) -> None:
        self._experiment, self._sets, self._scored = experiment, sets, scored
        self._absent, self._failed, self._fitted = absent, metrics.failed, metrics.fitted
        self._options = options
        self._known: dict[tuple[Any, ...], Evaluation | None] = {}

    def table(self, spec: TableSpec) -> TableResult:
        """The numbers of a table."""
        lines: list[ResultLine] = []
        for row in spec.rows:
            for one in row.published:
                cells = tuple(Cell(math.nan if value is None else value / spec.scale) for value in one.values)
                lines.append(ResultLine(row.name, PAPER, "", one.encoder, "", cells))
            lines += self._computed(spec, row)
        counts = tuple(self._count(column, spec) for column in spec.columns)
        said = [*self._how([(column, spec.level) for column in spec.columns], _metrics(spec)), *self._missing(spec)]
        return TableResult(spec, tuple(lines), counts, tuple(dict.fromkeys(said)))

    def figure(self, spec: FigureSpec) -> FigureResult:
        """The numbers of a figure."""
        column = spec.column
        names = tuple(point_name(line.name, value) for line, value in product(spec.lines, spec.values))
        found = self._evaluation(column, spec.level, names)
        scored = self._scored.get(spec.set, {})
        lines = []
        for line in spec.lines:
            points = [point_name(line.name, value) for value in spec.values]
            encoder = next((scored[name].encoder for name in points if name in scored), "-")
            lines.append((encoder, tuple(_cell(found, name, MEAN) for name in points)))
        firsts = (point_name(line.name, spec.values[0]) for line in spec.lines)
        signatures = tuple(scored[name].scores.signature if name in scored else "" for name in firsts)
        said = self._how([(column, spec.level)], names)
        if spec.set in self._absent:
            said.append(f"{spec.set}: not run: data absent; {self._absent[spec.set]}.")
        return FigureResult(spec, tuple(lines), None if found is None else found.n, tuple(said), signatures)

    # --- cells --------------------------------------------------------------------------------------------------------

    def _computed(self, spec: TableSpec, row: TableRow) -> list[ResultLine]:
        """The line that was computed for a row, if there is one."""
        name = row.metric
        scored = [found[name] for one in spec.sets if name in (found := self._scored.get(one, {}))] if name else []
        if not scored or name is None:
            return []
        cells = tuple(
            _cell(self._evaluation(column, spec.level, _metrics(spec)), name, column.group) for column in spec.columns
        )
        return [ResultLine(row.name, HERE, name, scored[0].encoder, scored[0].scores.signature, cells)]

    def _evaluation(self, column: Column, level: str, names: tuple[str, ...]) -> Evaluation | None:
        """Agreement on a set of those metrics that were scored; nothing where there are none."""
        key = (column.set, column.dimension, column.statistic, level, names)
        if key not in self._known:
            scored = self._scored.get(column.set, {})
            metrics = [scored[name].scores for name in names if name in scored]
            self._known[key] = None
            if metrics:
                self._known[key] = evaluate(
                    self._sets[column.set],
                    metrics,
                    Protocol(column.statistic, level),
                    dimension=column.dimension,
                    samples=self._options.samples,
                    permutations=0,
                    seed=self._options.seed,
                )
        return self._known[key]

    def _count(self, column: Column, spec: TableSpec) -> int | None:
        """How many segments or preferences a column is over."""
        found = self._evaluation(column, spec.level, _metrics(spec))
        if found is None:
            return None
        if column.statistic == "darr":
            one = self._sets[column.set]
            better = [] if one.preferences is None else one.preferences[:, 0].tolist()
            return sum(column.group in (MEAN, one.groups[row]) for row in better)
        return found.n if column.group == MEAN else found.groups.get(column.group)

    # --- words --------------------------------------------------------------------------------------------------------

    def _how(self, columns: list[tuple[Column, str]], names: tuple[str, ...]) -> list[str]:
        """What the evaluations say of themselves, with the set where there are several."""
        several = len({column.set for column, _ in columns}) > 1
        said: list[str] = []
        for column, level in columns:
            found = self._evaluation(column, level, names)
            if found is not None:
                lead = f"{column.set}: " if several else ""
                said += [lead + one for one in remarks(found, file_remarks(self._sets[column.set]))]
        if fitted := [name for name in names if name in self._fitted]:
            said.append(
                f"Statistics (means, idf) fitted on the texts of the set, for want of others: {', '.join(fitted)}."
            )
        return list(dict.fromkeys(said))

    def _missing(self, spec: TableSpec) -> list[str]:
        """Sets, groups and metrics that the table has no numbers of."""
        said = [f"{name}: not run: data absent; {how}." for name, how in self._absent.items() if name in spec.sets]
        shown = set(spec.groups) - {MEAN}
        for name in spec.sets:
            if name not in self._sets or not shown:
                continue
            there = set(self._sets[name].groups)
            if lacking := sorted(shown - there):
                said.append(f"Not in the data of {name}: {', '.join(lacking)}.")
            if MEAN in spec.groups and (further := sorted(there - shown)):
                said.append(f"The mean of {name} includes what has no column here: {', '.join(further)}.")
        failed = [(row.name, self._failed[row.metric]) for row in spec.rows if row.metric in self._failed]
        said += [f"Not computed: {name}. {reason}" for name, reason in failed]
        reasons: dict[str, list[str]] = {}
        for row in spec.rows:
            if row.unavailable is not None:
                reasons.setdefault(row.unavailable, []).append(row.name)
        return said + [f"Published only: {', '.join(names)} ({reason})." for reason, names in reasons.items()]


def _metrics(spec: TableSpec) -> tuple[str, ...]:
    """The metrics that a table shows, each once."""
    return tuple(dict.fromkeys(row.metric for row in spec.rows if row.metric is not None))


def _cell(found: Evaluation | None, name: str, group: str) -> Cell:
    one = None if found is None else next((metric for metric in found.metrics if metric.name == name), None)
    if one is None:
        return NOTHING
    if group == MEAN:
        return Cell(one.value, one.low, one.high)
    return Cell(one.by_group.get(group, math.nan))
