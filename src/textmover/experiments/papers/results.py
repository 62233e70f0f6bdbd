"""Agreement that the tables and figures of an experiment ask for, with the published numbers and the gaps."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from textmover.experiments.papers.config import Experiment
from textmover.experiments.papers.metrics import Scored
from textmover.experiments.papers.specification import MEAN, Column, FigureSpec, TableRow, TableSpec
from textmover.meta_evaluation import Evaluation, MetricScores, Protocol, evaluate, people
from textmover.report.evaluation.wording import STATISTIC_NAMES, file_remarks, remarks
from textmover.types import InputError, Judgements

PAPER, HERE = "paper", "here"  # sources of a table's lines


class Question(NamedTuple):
    """An agreement to compute, whatever the metrics and groups.

    Example:
        >>> str(Question("SFHOTEL", "quality", "spearman", "per-group"))
        "SFHOTEL, quality, Spearman's ρ"
    """

    set: str
    dimension: str | None
    statistic: str
    level: str

    @classmethod
    def of(cls, column: Column, level: str) -> Question:
        """Return the question of a column."""
        return cls(column.set, column.dimension, column.statistic, level)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.set, self.dimension, STATISTIC_NAMES[self.statistic])))


def questions(experiment: Experiment, sets: Collection[str]) -> list[Question]:
    """Questions of tables and figures about the given sets, each once."""
    specs: list[TableSpec | FigureSpec] = [*experiment.tables, *experiment.figures]
    asked = (Question.of(column, spec.level) for spec in specs for column in spec.columns if column.set in sets)
    return list(dict.fromkeys(asked))


def unanswerable(
    experiment: Experiment, sets: Mapping[str, Judgements], options: argparse.Namespace
) -> dict[Question, InputError]:
    """Questions that no scores can answer; refuses sets that lack a dimension, and questions without any answer."""
    asked = questions(experiment, sets)
    for one in asked:
        judgements = sets[one.set]
        Protocol(one.statistic, one.level).check(judgements)
        if one.dimension is not None and one.dimension not in judgements.ratings:
            raise InputError(
                f"Expected the dimensions that {experiment.origin} names for {judgements.name} to be among "
                f"{', '.join(judgements.ratings) or 'none'}, but got {one.dimension!r}: correct it."
            )
    found: dict[Question, InputError] = {}
    for one in asked:
        judgements = sets[one.set]
        answer = _evaluated(one, judgements, [people(judgements, one.dimension)], options, samples=0)
        if isinstance(answer, InputError):
            found[one] = answer
    if asked and len(found) == len(asked):
        raise InputError(f"{asked[0]}: {found[asked[0]]}")
    return found


def _evaluated(
    asked: Question,
    judgements: Judgements,
    metrics: Sequence[MetricScores],
    options: argparse.Namespace,
    *,
    samples: int,
) -> Evaluation | InputError:
    """Agreement without tests between metrics; soft accuracy alone is made of permutations."""
    try:
        return evaluate(
            judgements,
            metrics,
            Protocol(asked.statistic, asked.level),
            dimension=asked.dimension,
            samples=samples,
            permutations=options.permutations if asked.statistic == "soft-accuracy" else 0,
            seed=options.seed,
        )
    except InputError as error:  # reported under the table, and at the end of the command
        return error


class Cell(NamedTuple):
    """A value with its interval; NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


class ResultLine(NamedTuple):
    """A published or a computed line of a table or figure, with a cell for each column or value."""

    name: str
    origin: str
    metric: str
    encoder: str
    signature: str
    cells: tuple[Cell, ...]


class TableResult(NamedTuple):
    """A table with its numbers."""

    spec: TableSpec
    lines: list[ResultLine]
    counts: list[int | None]  # segments (preferences, for DARR) behind each column
    partial: list[str]  # such as ``3 of 7``, where a mean is over other groups than the published one
    remarks: list[str]


class FigureResult(NamedTuple):
    """A figure with its numbers; the signatures are those of each line's first point."""

    spec: FigureSpec
    lines: list[ResultLine]
    n: int | None
    remarks: list[str]

    @property
    def empty(self) -> bool:
        """Return whether no point has a value."""
        return all(math.isnan(cell.value) for line in self.lines for cell in line.cells)


@dataclass
class Findings:
    """Tables and figures of what was scored."""

    options: argparse.Namespace
    sets: Mapping[str, Judgements]  # those that were read
    scored: Mapping[str, Mapping[str, Scored]]  # for each set that could be scored its metrics
    hopeless: Mapping[Question, InputError]
    absent: Mapping[str, str]  # how to give each set that was not given
    unscored: Mapping[str, str]  # why a set could not be scored
    failed: Mapping[str, str]  # why a metric could not be loaded
    fitted: Collection[str]  # metrics whose statistics were fitted on the texts of the sets
    gaps: dict[str, None] = field(default_factory=dict)  # what has no value though its data were given
    _known: dict[tuple[Question, tuple[str, ...]], Evaluation | InputError | None] = field(default_factory=dict)

    def table(self, spec: TableSpec) -> TableResult:
        """The numbers of a table."""
        lines: list[ResultLine] = []
        for row in spec.rows:
            for one in row.published:
                cells = tuple(Cell(math.nan if value is None else value / spec.scale) for value in one.values)
                lines.append(ResultLine(row.name, PAPER, "", one.encoder, "", cells))
            lines += self._computed(spec, row)
        counts = [self._count(column, spec) for column in spec.columns]
        partial = [self._partial(column, spec) for column in spec.columns]
        said = [*self._how(spec), *self._missing(spec)]
        return TableResult(spec, lines, counts, partial, list(dict.fromkeys(said)))

    def figure(self, spec: FigureSpec) -> FigureResult:
        """The numbers of a figure."""
        found = self._evaluation(spec.columns[0], spec)
        scored = self.scored.get(spec.set, {})
        lines = []
        for line in spec.lines:
            points = list(spec.points(line))
            cells = tuple(_cell(found, name, MEAN) for name in points)
            encoder = next((scored[name].encoder for name in points if name in scored), "-")
            signature = scored[points[0]].scores.signature if points[0] in scored else ""
            lines.append(ResultLine(line.name, HERE, line.model, encoder, signature, cells))
            if found is not None:
                self._note_gaps(name for name, cell in zip(points, cells, strict=True) if math.isnan(cell.value))
        failed = {name: why for name, why in self.failed.items() if name in spec.metrics}
        said = [*self._how(spec), *self._without([spec.set]), *self._not_computed(failed.items())]
        return FigureResult(spec, lines, None if found is None else found.n, said)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def _evaluation(self, column: Column, spec: TableSpec | FigureSpec) -> Evaluation | None:
        found = self._answer(Question.of(column, spec.level), tuple(spec.metrics))
        return found if isinstance(found, Evaluation) else None

    def _answer(self, asked: Question, names: tuple[str, ...]) -> Evaluation | InputError | None:
        if asked in self.hopeless:
            return self.hopeless[asked]
        if (asked, names) not in self._known:
            scored = self.scored.get(asked.set, {})
            metrics = [scored[name].scores for name in names if name in scored]
            answer = None
            if metrics:
                answer = _evaluated(asked, self.sets[asked.set], metrics, self.options, samples=self.options.samples)
            self._known[asked, names] = answer
        return self._known[asked, names]

    def _computed(self, spec: TableSpec, row: TableRow) -> list[ResultLine]:
        name = row.metric
        scored = [found[name] for one in spec.sets if name in (found := self.scored.get(one, {}))] if name else []
        if not scored or name is None:
            return []
        cells = []
        for column in spec.columns:
            agreement = self._evaluation(column, spec)
            cells.append(_cell(agreement, name, column.group))
            if agreement is None or not math.isnan(cells[-1].value):
                continue  # of what could not be computed for any metric the question is named
            if column.group in (MEAN, *self.sets[column.set].groups):
                self._note_gaps([f"{row.name} ({Question.of(column, spec.level)}, {column.group})"])
        return [ResultLine(row.name, HERE, name, scored[0].encoder, scored[0].scores.signature, tuple(cells))]

    def _count(self, column: Column, spec: TableSpec) -> int | None:
        found = self._evaluation(column, spec)
        if found is None:
            return None
        if column.statistic == "darr":
            one = self.sets[column.set]
            better = [] if one.preferences is None else one.preferences[:, 0].tolist()
            return sum(column.group in (MEAN, one.groups[row]) for row in better)
        return found.n if column.group == MEAN else found.groups.get(column.group)

    def _partial(self, column: Column, spec: TableSpec) -> str:
        """Number of the published mean's groups in ours, and of others; nothing if they are the same."""
        found = self._evaluation(column, spec)
        wanted = set(spec.averaged)
        if column.group != MEAN or spec.level == "pooled" or not wanted or found is None:
            return ""
        shared, more = len(wanted & set(found.groups)), len(set(found.groups) - wanted)
        if shared == len(wanted) and not more:
            return ""
        return f"{shared} of {len(wanted)}" + (f", {more} more" if more else "")

    # --- words --------------------------------------------------------------------------------------------------------

    def _how(self, spec: TableSpec | FigureSpec) -> list[str]:
        names = tuple(spec.metrics)
        asked = list(dict.fromkeys(Question.of(column, spec.level) for column in spec.columns))
        said = self._remarks(asked, names)
        for one in asked:
            found = self._answer(one, names)
            if isinstance(found, InputError):
                said.append(f"Not computed: {one}. {found}")
                self._note_gaps([str(one)])
        if fitted := [name for name in names if name in self.fitted]:
            said.append(
                f"Statistics (means, idf) fitted on the texts of the set, for want of others: {', '.join(fitted)}."
            )
        return said

    def _remarks(self, asked: Sequence[Question], names: tuple[str, ...]) -> list[str]:
        said: dict[str, dict[tuple[str, str | None], None]] = {}
        answered: dict[str, dict[str | None, None]] = {}
        for one in asked:
            found = self._answer(one, names)
            if isinstance(found, Evaluation):
                answered.setdefault(one.set, {})[one.dimension] = None
                for sentence in remarks(found, file_remarks(self.sets[one.set])):
                    said.setdefault(sentence, {})[one.set, one.dimension] = None
        everyone = {(name, dimension) for name, dimensions in answered.items() for dimension in dimensions}
        lines = []
        for sentence, speakers in said.items():
            if set(speakers) == everyone:
                lines.append(sentence)
                continue
            for name in dict.fromkeys(name for name, _ in speakers):
                own = [dimension for other, dimension in speakers if other == name]
                parts = [name] if len(answered) > 1 else []
                if len(own) < len(answered[name]):
                    parts += [str(dimension) for dimension in own]
                lines.append(f"{', '.join(parts)}: {sentence}")
        return lines

    def _without(self, names: Sequence[str]) -> list[str]:
        """Sets among these that were not given, or could not be scored."""
        said = [f"{name}: not run: data absent; {how}." for name, how in self.absent.items() if name in names]
        return said + self._not_computed((name, why) for name, why in self.unscored.items() if name in names)

    def _missing(self, spec: TableSpec) -> list[str]:
        said = self._without(spec.sets)
        wanted = set(spec.averaged)
        for name in spec.sets:
            if name not in self.sets or not wanted:
                continue
            there = set(self.sets[name].groups)
            if lacking := sorted(wanted - there):
                said.append(f"Not in the data of {name}: {', '.join(lacking)}.")
            if MEAN in spec.groups and (further := sorted(there - wanted)):
                said.append(f"The mean of {name} includes what the table does not name: {', '.join(further)}.")
        said += self._not_computed(
            (row.name, self.failed[row.metric]) for row in spec.rows if row.metric and row.metric in self.failed
        )
        reasons: dict[str, list[str]] = {}
        for row in spec.rows:
            if row.unavailable is not None:
                reasons.setdefault(row.unavailable, []).append(row.name)
        return said + [f"Published only: {', '.join(names)} ({reason})." for reason, names in reasons.items()]

    def _not_computed(self, reasons: Iterable[tuple[str, str]]) -> list[str]:
        found = list(reasons)
        self._note_gaps(name for name, _ in found)
        return [f"Not computed: {name}. {reason}" for name, reason in found]

    def _note_gaps(self, names: Iterable[str]) -> None:
        self.gaps.update(dict.fromkeys(names))


def _cell(found: Evaluation | None, name: str, group: str) -> Cell:
    one = None if found is None else next((metric for metric in found.metrics if metric.name == name), None)
    if one is None:
        return Cell(math.nan)
    return Cell(one.value, one.low, one.high) if group == MEAN else Cell(one.by_group.get(group, math.nan))
