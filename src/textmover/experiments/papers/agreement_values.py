"""Computed and published agreement for the tables and figures of an experiment, and missing values."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from textmover.experiments.evaluation.agreement import Failure, evaluated
from textmover.experiments.evaluation.agreement import Question as SetQuestion
from textmover.experiments.evaluation.metrics import KeptScores
from textmover.experiments.papers.experiment import Experiment
from textmover.experiments.papers.metrics import ExperimentMetrics, Scored
from textmover.experiments.papers.specification import MEAN, Column, Question, TableSpec
from textmover.meta_evaluation import Evaluation, MetricScores, Protocol, human_scores
from textmover.report.evaluation.wording import file_remarks, remarks
from textmover.terminal import AdvancePart
from textmover.types import InputError

logger = logging.getLogger(__name__)

PAPER, HERE = "paper", "here"  # origins of table lines


class Cell(NamedTuple):
    """Value with its interval; NaN if missing."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int | None = None  # number of segments (preferences for DARR)
    over: str = ""  # such as ``3 of 7``, if the mean is over other groups than the published one
    gap: bool = False  # whether the value is missing although its data were given


class ResultLine(NamedTuple):
    """Published or computed line of a table or figure, with a cell for each column or value."""

    name: str
    origin: str
    metric: str
    encoder: str
    signature: str
    cells: tuple[Cell, ...]


class Findings:
    """Results for tables and figures; ``gaps`` names the values that are missing although their data were given."""

    def __init__(
        self,
        options: argparse.Namespace,
        experiment: Experiment,
        files: Mapping[str, str],
        kept: KeptScores,
        advance: AdvancePart,
    ) -> None:
        self.options = options
        names = experiment.judged_sets
        self.absent = {name: how for name in names if (how := experiment.absent_files(name, files))}
        self.sets = {name: experiment.read_set(name, files) for name in names if name not in self.absent}
        self._answers: dict[tuple[Question, tuple[str, ...]], Evaluation | Failure | None] = {}
        self.hopeless: dict[Question, Failure] = {}
        self.gaps: dict[str, None] = {}
        self.scored: dict[str, dict[str, Scored]] = {}  # by set and metric
        self.unscored: dict[str, str] = {}  # error message by set
        wanted = self._answerable_metrics(experiment)
        computed = {metric for metrics in wanted.values() for metric in metrics}
        self.metrics = ExperimentMetrics(options, experiment, computed, [self.sets[name] for name in wanted])
        steps = {name: sum(one not in self.metrics.failed for one in metrics) for name, metrics in wanted.items()}
        total = sum(len(self.sets[name]) * count for name, count in steps.items())
        for name, metrics in wanted.items():
            self._score(name, metrics, kept, lambda done: advance("scoring", done, total))
        if self.unscored and not self.scored:
            raise InputError(next(iter(self.unscored.values())))

    def _score(self, name: str, metrics: Sequence[str], kept: KeptScores, on_progress: Callable[[int], None]) -> None:
        try:
            with kept.keeping(name, self.sets[name]) as take:
                self.scored[name] = self.metrics.scores(self.sets[name], metrics, on_progress, take)
        except InputError as error:  # reported below the tables and at the end of the command
            self.unscored[name] = str(error)

    def _answerable_metrics(self, experiment: Experiment) -> dict[str, list[str]]:
        """Return the metrics of each set with an answerable question; raise an error if no question is answerable."""
        all_questions = dict.fromkeys(column.asked for table in experiment.all_tables for column in table.columns)
        questions = [question for question in all_questions if question.set in self.sets]
        for question in questions:
            judgements = self.sets[question.set]
            Protocol(question.statistic, question.level).check(judgements)
            if question.dimension is not None and question.dimension not in judgements.ratings:
                raise InputError(
                    f"Expected the dimensions that {experiment.origin} names for {judgements.name} to be among "
                    f"{', '.join(judgements.ratings) or 'none'}, but got {question.dimension!r}: correct it."
                )
        for question in questions:
            answer = self._evaluate(question, [human_scores(self.sets[question.set], question.dimension)], samples=0)
            if isinstance(answer, Failure):
                self.hopeless[question] = answer
        if questions and len(self.hopeless) == len(questions):
            raise InputError(f"{questions[0]}: {self.hopeless[questions[0]].reason}")
        for question, failure in self.hopeless.items():
            logger.warning("%s: %s Skipping it.", question, failure.reason)
        worth = {question.set for question in questions if question not in self.hopeless}
        return {name: experiment.metrics_of_set(name) for name in self.sets if name in worth}

    # --- numbers ------------------------------------------------------------------------------------------------------

    def lines(self, spec: TableSpec) -> list[ResultLine]:
        """Return the published and the computed lines of a table."""
        lines: list[ResultLine] = []
        columns = [(column.group, *self._column(column, spec)) for column in spec.columns]
        for row in spec.rows:
            for one in row.published:
                cells = tuple(Cell(math.nan if value is None else value / spec.scale) for value in one.values)
                lines.append(ResultLine(row.name, PAPER, "", one.encoder, "", cells))
            name = row.metric
            scored = [found[name] for one in spec.sets if name in (found := self.scored.get(one, {}))] if name else []
            if name is not None and scored:
                cells = tuple(_cell(name, *column) for column in columns)
                lines.append(ResultLine(row.name, HERE, name, scored[0].encoder, scored[0].scores.signature, cells))
        return lines

    def _column(self, column: Column, spec: TableSpec) -> tuple[Evaluation | None, Cell]:
        """Return the agreement of all metrics in a column, and the cell for metrics without a value."""
        evaluation = self._answer(column.asked, spec)
        if not isinstance(evaluation, Evaluation):
            return None, Cell(math.nan)
        judgements, groups, over = self.sets[column.asked.set], set(evaluation.groups), ""
        n = evaluation.n if column.group == MEAN else evaluation.groups.get(column.group)
        if column.asked.statistic == "darr" and judgements.preferences is not None:
            better = judgements.preferences[:, 0].tolist()
            n = sum(column.group in (MEAN, judgements.groups[row]) for row in better)
        averaged = set(spec.averaged)
        if column.group == MEAN and spec.level != "pooled" and averaged and groups != averaged:
            more = f", {len(groups - averaged)} more" if groups - averaged else ""
            over = f"{len(averaged & groups)} of {len(averaged)}{more}"
        return evaluation, Cell(math.nan, n=n, over=over, gap=column.group in (MEAN, *judgements.groups))

    def _answer(self, asked: Question, spec: TableSpec) -> Evaluation | Failure | None:
        if asked in self.hopeless:
            return self.hopeless[asked]
        if (asked, spec.metrics) not in self._answers:
            scored = self.scored.get(asked.set, {})
            metrics = [scored[name].scores for name in spec.metrics if name in scored]
            answer = self._evaluate(asked, metrics, self.options.samples) if metrics else None
            self._answers[asked, spec.metrics] = answer
        return self._answers[asked, spec.metrics]

    def _evaluate(self, asked: Question, metrics: Sequence[MetricScores], samples: int) -> Evaluation | Failure:
        """Compute agreement without tests between metrics; only soft accuracy needs permutations."""
        permutations = self.options.permutations if asked.statistic == "soft-accuracy" else 0
        question, protocol = SetQuestion(self.sets[asked.set], asked.dimension), Protocol(asked.statistic, asked.level)
        return evaluated(question, metrics, protocol, self.options, samples=samples, permutations=permutations)

    # --- words --------------------------------------------------------------------------------------------------------

    def sentences(self, spec: TableSpec) -> list[str]:
        """Return the remarks below a table: how its numbers were computed, and which are missing."""
        answers = {one: self._answer(one, spec) for one in dict.fromkeys(column.asked for column in spec.columns)}
        judged = {one: found for one, found in answers.items() if isinstance(found, Evaluation)}
        notes = [*_labelled({one: remarks(found, file_remarks(self.sets[one.set])) for one, found in judged.items()})]
        failures = {str(one): found.reason for one, found in answers.items() if isinstance(found, Failure)}
        notes += self._not_computed(failures.items())
        if fitted := [name for name in spec.metrics if name in self.metrics.fitted]:
            notes.append(f"Statistics (means, idf) fitted on the texts of the set itself: {', '.join(fitted)}.")
        notes += [f"{name}: not run: data absent; {how}." for name, how in self.absent.items() if name in spec.sets]
        notes += self._not_computed(one for one in self.unscored.items() if one[0] in spec.sets)
        wanted = set(spec.averaged)
        for name in (one for one in spec.sets if one in self.sets and wanted):
            groups = set(self.sets[name].groups)
            if missing := sorted(wanted - groups):
                notes.append(f"Not in the data of {name}: {', '.join(missing)}.")
            if MEAN in spec.groups and (extra := sorted(groups - wanted)):
                notes.append(f"The mean of {name} includes what the table does not name: {', '.join(extra)}.")
        failed = self.metrics.failed
        notes += self._not_computed((row.name, failed[row.metric]) for row in spec.rows if row.metric in failed)
        reasons: dict[str, list[str]] = {}
        for row in spec.rows:
            if row.unavailable is not None:
                reasons.setdefault(row.unavailable, []).append(row.name)
        notes += [f"Published only: {', '.join(names)} ({reason})." for reason, names in reasons.items()]
        return list(dict.fromkeys(notes))

    def _not_computed(self, reasons: Iterable[tuple[str, str]]) -> Iterator[str]:
        for name, reason in reasons:
            self.gaps[name] = None
            yield f"Not computed: {name}. {reason}"


def _cell(name: str, group: str, agreement: Evaluation | None, empty: Cell) -> Cell:
    metrics = () if agreement is None else agreement.metrics
    result = next((metric for metric in metrics if metric.name == name), None)
    if result is None:
        return empty
    cell = Cell(result.value, result.low, result.high) if group == MEAN else Cell(result.by_group.get(group, math.nan))
    return cell._replace(n=empty.n, over=empty.over, gap=empty.gap and math.isnan(cell.value))


def _labelled(said: Mapping[Question, Sequence[str]]) -> Iterator[str]:
    """Yield each sentence once, prefixed with its sets and dimensions unless it applies to all of them."""
    subjects = dict.fromkeys((asked.set, asked.dimension) for asked, sentences in said.items() if sentences)
    for sentence in dict.fromkeys(sentence for sentences in said.values() for sentence in sentences):
        matching = dict.fromkeys((asked.set, asked.dimension) for asked, own in said.items() if sentence in own)
        if len(matching) == len(subjects):
            yield sentence
            continue
        for name in dict.fromkeys(name for name, _ in matching):
            own = [str(dimension) for other, dimension in matching if other == name]
            several = len({other for other, _ in subjects}) > 1
            some = len(own) < sum(other == name for other, _ in subjects)
            yield f"{', '.join([*([name] if several else []), *(own if some else [])])}: {sentence}"
