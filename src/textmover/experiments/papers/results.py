"""Results of an experiment: table cells and figure points, ours and the paper's."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from textmover.experiments.papers.agreement import Agreements, Question
from textmover.experiments.papers.config import Experiment
from textmover.experiments.papers.scores import Scored
from textmover.experiments.papers.specification import MEAN, Column, FigureSpec, MetricSpec, TableRow, TableSpec
from textmover.meta_evaluation import Evaluation
from textmover.types import Judgements

PAPER, HERE = "paper", "here"
"""Sources of a table's lines."""


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
        partial: For each column, how many of its groups a mean is over, such as ``3 of 7``; nothing where it is over
            those of the published one.
        remarks: How it was computed, and what is missing.
    """

    spec: TableSpec
    lines: tuple[ResultLine, ...]
    counts: tuple[int | None, ...]
    partial: tuple[str, ...]
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

    @property
    def empty(self) -> bool:
        """Whether no point has a value."""
        return all(math.isnan(cell.value) for _, cells in self.lines for cell in cells)


def table_sets(experiment: Experiment) -> list[str]:
    """Names of the sets that tables and figures are about, in the order of the experiment."""
    used = {name for table in experiment.tables for name in table.sets} | {one.set for one in experiment.figures}
    return [name for name in experiment.sets if name in used]


def point_name(line: str, value: Any) -> str:
    """Name of the metric behind a point of a figure."""
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


@dataclass(frozen=True)
class Absences:
    """Cells without numbers, known before agreement is computed.

    Attributes:
        sets: For each set that was not given, how to give it.
        unscored: For each set that could not be scored, why.
        metrics: For each metric that could not be loaded, why.
        fitted: Metrics whose statistics were fitted on the texts of the sets, for want of others.
    """

    sets: Mapping[str, str]
    unscored: Mapping[str, str]
    metrics: Mapping[str, str]
    fitted: Collection[str]


class Findings:
    """Tables and figures of what was scored.

    Args:
        sets: The sets that were read.
        scored: For each of them that could be scored the scores of its metrics.
        agreements: Their agreement with people.
        absences: What has no numbers.

    Attributes:
        gaps: What was asked of the data that were given and has no value, as tables and figures were made.
    """

    def __init__(
        self,
        sets: Mapping[str, Judgements],
        scored: Mapping[str, Mapping[str, Scored]],
        agreements: Agreements,
        absences: Absences,
    ) -> None:
        self._sets, self._scored, self._agreements, self._absences = sets, scored, agreements, absences
        self.gaps: dict[str, None] = {}

    def table(self, spec: TableSpec) -> TableResult:
        """The numbers of a table."""
        lines: list[ResultLine] = []
        for row in spec.rows:
            for one in row.published:
                cells = tuple(Cell(math.nan if value is None else value / spec.scale) for value in one.values)
                lines.append(ResultLine(row.name, PAPER, "", one.encoder, "", cells))
            lines += self._computed(spec, row)
        names = _metrics(spec)
        counts = tuple(
            self._agreements.count(column, spec.level, names, whole=column.group == MEAN) for column in spec.columns
        )
        partial = tuple(self._partial(spec, column, names) for column in spec.columns)
        said = [*self._how(spec, names), *self._missing(spec)]
        return TableResult(spec, tuple(lines), counts, partial, tuple(dict.fromkeys(said)))

    def figure(self, spec: FigureSpec) -> FigureResult:
        """The numbers of a figure."""
        (column,) = spec.columns
        names = tuple(point_name(line.name, value) for line, value in product(spec.lines, spec.values))
        found = self._agreements.evaluation(Question.of(column, spec.level), names)
        scored = self._scored.get(spec.set, {})
        lines = []
        for line in spec.lines:
            points = [point_name(line.name, value) for value in spec.values]
            encoder = next((scored[name].encoder for name in points if name in scored), "-")
            lines.append((encoder, tuple(_cell(found, name, MEAN) for name in points)))
            if found is not None:
                self._note_gaps([name for name in points if math.isnan(_cell(found, name, MEAN).value)])
        firsts = (point_name(line.name, spec.values[0]) for line in spec.lines)
        signatures = tuple(scored[name].scores.signature if name in scored else "" for name in firsts)
        said = [*self._how(spec, names), *self._without([spec.set])]
        failed = {name: why for name, why in self._absences.metrics.items() if name in names}
        self._note_gaps(failed)
        said += [f"Not computed: {name}. {why}" for name, why in failed.items()]
        return FigureResult(spec, tuple(lines), None if found is None else found.n, tuple(said), signatures)

    # --- cells --------------------------------------------------------------------------------------------------------

    def _computed(self, spec: TableSpec, row: TableRow) -> list[ResultLine]:
        """The line that was computed for a row, if there is one."""
        name = row.metric
        scored = [found[name] for one in spec.sets if name in (found := self._scored.get(one, {}))] if name else []
        if not scored or name is None:
            return []
        cells = []
        for column in spec.columns:
            asked = Question.of(column, spec.level)
            agreement = self._agreements.evaluation(asked, _metrics(spec))
            cells.append(_cell(agreement, name, column.group))
            if agreement is None or not math.isnan(cells[-1].value):
                continue  # of what could not be computed for any metric the question is named
            if column.group in (MEAN, *self._sets[column.set].groups):
                self._note_gaps([f"{row.name} ({asked}, {column.group})"])
        return [ResultLine(row.name, HERE, name, scored[0].encoder, scored[0].scores.signature, tuple(cells))]

    def _partial(self, spec: TableSpec, column: Column, names: tuple[str, ...]) -> str:
        """Number of the published mean's groups in ours, and of others; nothing if they are the same."""
        found = self._agreements.evaluation(Question.of(column, spec.level), names)
        wanted = set(spec.averaged)
        if column.group != MEAN or spec.level == "pooled" or not wanted or found is None:
            return ""
        shared, more = len(wanted & set(found.groups)), len(set(found.groups) - wanted)
        if shared == len(wanted) and not more:
            return ""
        return f"{shared} of {len(wanted)}" + (f", {more} more" if more else "")

    # --- words --------------------------------------------------------------------------------------------------------

    def _how(self, spec: TableSpec | FigureSpec, names: tuple[str, ...]) -> list[str]:
        """Remarks of the evaluations, and those that failed."""
        asked = list(dict.fromkeys(Question.of(column, spec.level) for column in spec.columns))
        said = self._agreements.remarks(asked, names)
        for one in asked:
            reason = self._agreements.reason(one, names)
            if reason is not None:
                said.append(f"Not computed: {one}. {reason}")
                self._note_gaps([str(one)])
        if fitted := [name for name in names if name in self._absences.fitted]:
            said.append(
                f"Statistics (means, idf) fitted on the texts of the set, for want of others: {', '.join(fitted)}."
            )
        return said

    def _without(self, names: Sequence[str]) -> list[str]:
        """Sets among these that were not given, or could not be scored."""
        said = [f"{name}: not run: data absent; {how}." for name, how in self._absences.sets.items() if name in names]
        for name, reason in self._absences.unscored.items():
            if name in names:
                said.append(f"Not computed: {name}. {reason}")
                self._note_gaps([name])
        return said

    def _missing(self, spec: TableSpec) -> list[str]:
        """Sets, groups and metrics that the table has no numbers of."""
        said = self._without(spec.sets)
        wanted = set(spec.averaged)
        for name in spec.sets:
            if name not in self._sets or not wanted:
                continue
            there = set(self._sets[name].groups)
            if lacking := sorted(wanted - there):
                said.append(f"Not in the data of {name}: {', '.join(lacking)}.")
            if MEAN in spec.groups and (further := sorted(there - wanted)):
                said.append(f"The mean of {name} includes what the table does not name: {', '.join(further)}.")
        reason_of = self._absences.metrics
        failed = [(row.name, reason_of[row.metric]) for row in spec.rows if row.metric and row.metric in reason_of]
        self._note_gaps([name for name, _ in failed])
        said += [f"Not computed: {name}. {reason}" for name, reason in failed]
        reasons: dict[str, list[str]] = {}
        for row in spec.rows:
            if row.unavailable is not None:
                reasons.setdefault(row.unavailable, []).append(row.name)
        return said + [f"Published only: {', '.join(names)} ({reason})." for reason, names in reasons.items()]

    def _note_gaps(self, names: Iterable[str]) -> None:
        self.gaps.update(dict.fromkeys(names))


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
