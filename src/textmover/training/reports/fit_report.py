"""Report of a training run: results before and after on held-back and held-out parts, for all tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table

from textmover._version import __version__
from textmover.checkpoints.saving import METRIC_USAGE
from textmover.data.batching import PartLoader
from textmover.data.datamodule import SourcesDataModule
from textmover.data.error_spans import MarkedSource
from textmover.data.training_sources import RatedSource
from textmover.markdown_escaping import markdown_code, markdown_fence, markdown_text
from textmover.meta_evaluation.agreement.labels import (
    bootstrap_labels,
    bootstrap_share,
    confusion_matrix,
    label_statistics,
)
from textmover.meta_evaluation.error_spans.agreement import judge_errors
from textmover.meta_evaluation.significance.bootstrap import (
    UNKNOWN,
    Gain,
    Interval,
    bootstrap_gain,
    few_to_draw,
    undefined_draws,
)
from textmover.modules.devices import evaluating
from textmover.modules.error_spans.head import by_rule
from textmover.report import table_formats
from textmover.scoring.error_spans.marking import mark_fitted
from textmover.scoring.scorer import Scorer
from textmover.training.base_module import BaseTrainingModule
from textmover.training.tasks.classification import ClassificationTask
from textmover.training.tasks.paraphrases import ALONE, ContrastiveTask
from textmover.training.tasks.ratings import STATISTICS
from textmover.types import Shown, Signature, View, fixed, plural


@dataclass(frozen=True)
class StatisticRow:
    """One statistic of one part, before and after training."""

    part: str
    items: int
    statistic: str
    before: float  # value to compare with
    after: Interval

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the row as text."""
        interval = _ends(self.after.low, self.after.high, "too few texts")
        figures = (fixed(self.before, 3), fixed(self.after.estimate, 3), interval)
        return (self.part, str(self.items), self.statistic, *figures)


@dataclass(frozen=True)
class TaskReport:
    """Statistics of all tasks of one kind; ``before`` is the heading of the first value."""

    title: str
    note: str
    before: str
    rows: list[StatisticRow]

    @property
    def headers(self) -> tuple[str, ...]:
        """Column headings."""
        return ("part", "items", "statistic", self.before, "trained", "interval")

    def table(self) -> Table:
        """The report for the terminal."""
        rows = [row.cells for row in self.rows]
        return _terminal_table(self.title, self.headers, ("part", "statistic"), rows, self.note)

    def markdown(self) -> str:
        """The report for a model card, a section of Markdown."""
        note = f"{self.note} The interval (95 %) is by a bootstrap."
        return _section(self.title, note, self.headers, [row.cells for row in self.rows])


def _terminal_table(
    title: str, headers: Sequence[str], left: Collection[str], rows: Iterable[Sequence[str]], caption: str | None
) -> Table:
    table = Table(title=f"{title} on parts kept from training (95 % interval by bootstrap)", caption=caption)
    for header in headers:
        table.add_column(header, justify="left" if header in left else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _section(title: str, note: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = table_formats.markdown_table(table_formats.Table(headers, rows, texts=len(headers)))
    return f"## {markdown_text(title)} on parts kept from training\n\n{note}\n\n{table}"


def _ends(low: float, high: float, missing: str, *, plus: bool = False) -> str:
    return missing if math.isnan(low) else f"{fixed(low, 3, plus=plus)} … {fixed(high, 3, plus=plus)}"


def judge_tasks(module: BaseTrainingModule, data: SourcesDataModule, *, samples: int = 1000) -> list[TaskReport]:
    """Evaluate every part of the tasks without ratings, with the given number of bootstrap samples."""
    labels: list[StatisticRow] = []
    partners: list[StatisticRow] = []
    errors: list[StatisticRow] = []
    batches: set[int] = set()
    start = cache(lambda: module.untrained(data))
    for source, part in data.judged:
        task, name = module.tasks[source.name], data.label(source, part)
        if isinstance(task, ClassificationTask):
            labels += _label_rows(task, module.metric, part, name, samples)
        if isinstance(source, MarkedSource):
            errors += _error_rows(source, start(), module.metric, part, name, samples)
        if isinstance(task, ContrastiveTask):
            partners.append(_partner_row(task, start(), module.metric, part, name, samples))
            batches.add(source.validation_batch_size)
    sizes = " or ".join(map(str, sorted(batches)))
    note = f"How often a text's partner scores highest among the second texts of its batch of up to {sizes}."
    reports = [
        TaskReport("Classes predicted", "Compared with the most frequent class of training.", "most frequent", labels),
        TaskReport("Partners found", note, "untrained", partners),
        TaskReport("Errors marked", "A metric without a head marks by the rule of its plan.", "before", errors),
    ]
    return [one for one in reports if one.rows]


def _label_rows(task: ClassificationTask, metric: Any, part: str, name: str, samples: int) -> list[StatisticRow]:
    items, classes = task.source.parts[part], len(task.source.classes)
    labels = [item.label for item in items]
    predicted = _outcomes(task, metric, part).astype(np.int64)
    most = int(np.bincount([item.label for item in task.source.items]).argmax())
    before = label_statistics(confusion_matrix(labels, [most] * len(labels), classes))
    clusters = [item.texts[0] for item in items]
    after = bootstrap_labels(labels, predicted.tolist(), classes, clusters, samples=samples)
    return [
        StatisticRow(name, len(items), statistic, float(before[statistic]), value) for statistic, value in after.items()
    ]


MARKED = {"mcc_words": "MCC of words", "mcc_gaps": "MCC of gaps", "span_f1": "F1 of characters", "ece": "error of p"}
"""Statistics of marked errors, and their headings in reports."""


def _error_rows(
    source: MarkedSource, start: Any, metric: Any, part: str, name: str, samples: int
) -> list[StatisticRow]:
    items = source.parts[part]
    first = start if getattr(start.config, "mark_errors", False) else by_rule(metric)
    texts = [one.hypothesis for one in items], [one.compared for one in items]
    before, after = (
        judge_errors(items, tuple(mark_fitted(Scorer(one), *texts, warn=False)), samples=samples)
        for one in (first, metric)
    )
    return [
        StatisticRow(name, len(items), told, before.figures[statistic].estimate, after.figures[statistic])
        for statistic, told in MARKED.items()
    ]


def _partner_row(task: ContrastiveTask, start: Any, metric: Any, part: str, name: str, samples: int) -> StatisticRow:
    before, after = _outcomes(task, start, part), _outcomes(task, metric, part)
    told = after != ALONE
    if not told.any():  # all items are of one cluster
        return StatisticRow(name, 0, "recall@1", math.nan, UNKNOWN)
    clusters = [str(item.cluster) for item, one in zip(task.source.parts[part], told, strict=True) if one]
    found = bootstrap_share(after[told], clusters, samples=samples)
    return StatisticRow(name, int(told.sum()), "recall@1", float(before[told].mean()), found)


@torch.no_grad()
def _outcomes(task: ClassificationTask | ContrastiveTask, metric: Any, part: str) -> NDArray[np.float64]:
    """Return the outcome of each item of a part, computed by this process."""
    found = np.zeros(len(task.source.parts[part]))
    with evaluating(task), evaluating(metric):
        for batch in PartLoader(task.source, part, metric.tokenize):
            outcome = task.outcome(metric, batch.to(metric.device))
            found[batch.positions.numpy()] = outcome.cpu().double().numpy()
    return found


HEADERS = ("before", "after", "interval after", "gain", "interval of gain")
GAIN_HEADERS = ("part", "segments", "statistic", *HEADERS)
AGREEMENT = "Agreement with the ratings"


@dataclass(frozen=True)
class PartReport:
    """Gains on one part by statistic, each a mean over groups; segments and groups that enter the means."""

    name: str
    segments: int
    groups: int
    gains: dict[str, Gain]
    compared: str = "reference"  # what the bootstrap draws: ``reference`` or ``source``


@dataclass(frozen=True, repr=False)
class FitReport(Shown):
    """Gains on all held-back and held-out parts, and how they were measured."""

    parts: list[PartReport]
    signature: Signature
    start: str
    data: dict[str, str]
    notices: list[str]
    tasks: list[TaskReport] = field(default_factory=list)

    def view(self) -> View:
        """Show the gains on rated parts, and the statistics of other tasks."""
        tasks = [(*one.cells, "", "") for task in self.tasks for one in task.rows]
        rows = [*self._gain_rows(), *tasks]
        return View("Agreement on parts kept from training (95 % intervals)", GAIN_HEADERS, rows)

    def tables(self) -> list[Table]:
        """Tables for the terminal: ratings first, then other tasks."""
        return [*([self.table()] if self.parts else []), *(one.table() for one in self.tasks)]

    def table(self) -> Table:
        """The gains on rated parts."""
        first = ("part", "segments", "groups", "statistic")
        rows = []
        for part in self.parts:
            about = (part.name, str(part.segments), str(part.groups))
            for name, gain in part.gains.items():
                rows.append((*about, name, *_cells(gain, part.compared)))
                about = ("", "", "")
        return _terminal_table(AGREEMENT, (*first, *HEADERS), first, rows, "\n".join(self._warnings()) or None)

    def card(self, recipe: str = "") -> str:
        """The model card, Markdown; the recipe is YAML."""
        about = "\n".join(f"* {markdown_text(key)}: {markdown_text(value)}" for key, value in self.data.items())
        notice = "".join(f"\n**{markdown_text(one)}**\n" for one in self.notices)
        return (
            "---\nlibrary_name: textmover\ntags: [textmover, text-generation-metric]\n---\n\n"
            f"# A text-generation metric trained from {markdown_code(str(self.start))}\n{notice}\n"
            f"Signature: {markdown_code(str(self.signature))}\n\n"
            f"{METRIC_USAGE}\n"
            f"## Data\n\n{about}\n\n"
            + "".join(f"{one}\n" for one in (*self._agreement(), *(task.markdown() for task in self.tasks)))
            + (
                f"## Recipe\n\nMade by textmover {__version__} with\n\n{markdown_fence(recipe.strip(), 'yaml')}"
                if recipe
                else f"Made by textmover {__version__}\n"
            )
        )

    def _agreement(self) -> list[str]:
        """Return the card section on rated parts; empty without rated parts."""
        rows = [tuple(map(str, row)) for row in self._gain_rows()]
        if not rows:
            return []
        drawn = " and ".join(dict.fromkeys(f"{one.compared}s" for one in self.parts))
        note = (
            "Mean over groups, before and after training. The intervals (95 %) of the correlation after training and "
            f"of the gain are from a bootstrap over {drawn}."
        )
        return [_section(AGREEMENT, note, GAIN_HEADERS, rows) + "".join(f"\n{one}\n" for one in self._warnings())]

    def _gain_rows(self) -> list[tuple[Any, ...]]:
        return [
            (part.name, part.segments, name, *_cells(gain, part.compared))
            for part in self.parts
            for name, gain in part.gains.items()
        ]

    def _warnings(self) -> list[str]:
        """Return sentences for each part with groups or draws left out, or too few to draw for intervals."""
        found = []
        for part in self.parts:
            gain = next(iter(part.gains.values()))  # any statistic: they differ in groups left out
            notes = [few_to_draw(dict(gain.clusters), part.compared)]
            if gain.excluded:
                names = ", ".join((*gain.excluded[:5], *(("…",) if gain.excluded[5:] else ())))
                groups = f"{plural(len(gain.excluded), 'group')} without a correlation"
                notes.append(f"Left out {groups} (fewer than 3 segments, or equal ratings or scores): {names}.")
            if most := max(one.undefined for one in part.gains.values()):
                notes.append(f"Up to {undefined_draws(most)}.")
            found += [note if len(self.parts) == 1 else f"{part.name}: {note}" for note in notes if note is not None]
        return found


def judge(module: BaseTrainingModule, data: SourcesDataModule, *, samples: int = 1000) -> FitReport:
    """Score every rated part with the metric before and after training, and compare both with the ratings.

    Parts with labels, paraphrases or marked errors are evaluated by their tasks.
    """
    data.setup()
    module.build_tasks(data)
    after = Scorer(module.metric)
    rated = [(source, name) for source, name in data.judged if isinstance(source, RatedSource)]
    before = Scorer(module.untrained(data)) if rated else after
    parts = []
    for source, name in rated:
        gains, groups = _gains(before, after, source, name, samples), Counter(source.groups_of(source.parts[name]))
        counted = groups.keys() - next(iter(gains.values())).excluded
        compared = "reference" if any(one.references for one in source.parts[name]) else "source"
        size = sum(groups[one] for one in counted), len(counted)
        parts.append(PartReport(data.label(source, name), *size, gains, compared))
    tasks = judge_tasks(module, data, samples=samples)
    return FitReport(parts, after.signature, module.start, data.describe(), data.notices, tasks)


def _gains(before: Scorer, after: Scorer, source: RatedSource, part: str, samples: int) -> dict[str, Gain]:
    segments = source.parts[part]
    hypotheses, references = [one.hypothesis for one in segments], [one.compared for one in segments]
    texts = hypotheses, references
    # Distances are negated: a metric may be one before training and not after, which must not count as a gain.
    first, second = (
        one.for_call(*texts).score_fitted(*texts, warn=one is after).scores * (1 if one.metric.higher_is_better else -1)
        for one in (before, after)
    )
    human = source.ratings_of(segments)
    clusters = ["\n".join(one.compared.texts) for one in segments]
    groups = source.groups_of(segments)
    return {
        name: bootstrap_gain(first, second, human, groups, statistic=name, samples=samples, clusters=clusters)
        for name in STATISTICS
    }


def _cells(gain: Gain, compared: str) -> tuple[str, ...]:
    # All segments of a group share a reference or source, so all samples are equal, or no group has a correlation.
    missing = f"too few {compared}s" if gain.clusters else "-"
    after, ends = fixed(gain.after, 3), _ends(gain.after_low, gain.after_high, missing)
    change = fixed(gain.estimate, 3, plus=True), _ends(gain.low, gain.high, missing, plus=True)
    return (fixed(gain.before, 3), after, ends, *change)
