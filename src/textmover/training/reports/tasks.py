"""What a run brought for tasks other than ratings: classes told and partners found on parts kept from training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table

from textmover.data.batching import PartLoader
from textmover.data.datamodule import SourcesDataModule
from textmover.markdown import markdown_text
from textmover.meta_evaluation.agreement.labels import (
    bootstrap_labels,
    bootstrap_share,
    confusion_matrix,
    label_statistics,
)
from textmover.meta_evaluation.significance.bootstrap import Interval
from textmover.modules.devices import evaluating
from textmover.training.stage import StageModule
from textmover.training.tasks.classification import ClassificationTask
from textmover.training.tasks.paraphrases import ALONE, ContrastiveTask


@dataclass(frozen=True)
class StatisticRow:
    """One statistic of one part.

    Attributes:
        part: Name of the part.
        items: How many items it has.
        statistic: Name of the statistic.
        before: What it is compared with.
        after: After training, with its confidence interval.
    """

    part: str
    items: int
    statistic: str
    before: float
    after: Interval


@dataclass(frozen=True)
class TaskReport:
    """The statistics of all tasks of a kind.

    Attributes:
        title: What was measured.
        note: How to read it.
        before: What the first of the two values is.
        rows: The statistics.
    """

    title: str
    note: str
    before: str
    rows: list[StatisticRow]

    @property
    def headers(self) -> tuple[str, ...]:
        """Names of the columns."""
        return ("part", "items", "statistic", self.before, "trained", "interval")

    def table(self) -> Table:
        """The report for the terminal."""
        table = Table(title=f"{self.title} on parts kept from training (95 % interval by bootstrap)", caption=self.note)
        for place, header in enumerate(self.headers):
            table.add_column(header, justify="left" if place in (0, 2) else "right")
        for row in self.rows:
            table.add_row(*_task_cells(row))
        return table

    def markdown(self) -> str:
        """The report for a model card, a section of Markdown."""
        lines = [" | ".join(map(markdown_text, _task_cells(row))) for row in self.rows]
        body = "\n".join(f"| {line} |" for line in lines)
        title = markdown_text(self.title)
        return (
            f"## {title} on parts kept from training\n\n{self.note} The interval (95 %) is by a bootstrap.\n\n"
            f"| {' | '.join(map(markdown_text, self.headers))} |\n|{'---|' * len(self.headers)}\n{body}\n"
        )


def judge_tasks(module: StageModule, data: SourcesDataModule, *, samples: int = 1000) -> list[TaskReport]:
    """Judge every part of the tasks that have no ratings.

    Args:
        module: The trained module, with the weights to judge.
        data: Its data.
        samples: Draws of the bootstrap.

    Returns:
        A report for each kind of task that there is.
    """
    labels: list[StatisticRow] = []
    partners: list[StatisticRow] = []
    start: Any = None
    for source, part in data.judged:
        task, name = module.tasks[source.name], data.label(source, part)
        if isinstance(task, ClassificationTask):
            labels += _label_rows(task, module.metric, part, name, samples)
        if isinstance(task, ContrastiveTask):
            start = module.untrained() if start is None else start
            partners.append(_partner_row(task, start, module.metric, part, name, samples))
    found = []
    if labels:
        found.append(
            TaskReport("Classes told", "Beside always saying the most frequent class.", "most frequent", labels)
        )
    if partners:
        read = {
            source.validation_batch_size
            for source, _ in data.judged
            if isinstance(module.tasks[source.name], ContrastiveTask)
        }
        sizes = " or ".join(map(str, sorted(read)))
        note = f"How often a text's partner scores highest among the second texts of its batch of up to {sizes}."
        found.append(TaskReport("Partners found", note, "untrained", partners))
    return found


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


def _partner_row(task: ContrastiveTask, start: Any, metric: Any, part: str, name: str, samples: int) -> StatisticRow:
    before, after = _outcomes(task, start, part), _outcomes(task, metric, part)
    told = after != ALONE
    if not told.any():  # all are of one cluster
        return StatisticRow(name, 0, "recall@1", math.nan, Interval(math.nan, math.nan, math.nan))
    clusters = [str(item.cluster) for item, one in zip(task.source.parts[part], told, strict=True) if one]
    found = bootstrap_share(after[told], clusters, samples=samples)
    return StatisticRow(name, int(told.sum()), "recall@1", float(before[told].mean()), found)


@torch.no_grad()
def _outcomes(task: ClassificationTask | ContrastiveTask, metric: Any, part: str) -> NDArray[np.float64]:
    """What the task says of each item of a part, read by this process alone."""
    found = np.zeros(len(task.source.parts[part]))
    with evaluating(task), evaluating(metric):
        for batch in PartLoader(task.source, part, metric.tokenize):
            outcome = task.outcome(metric, batch.to(metric.device))
            found[batch.positions.numpy()] = outcome.double().cpu().numpy()
    return found


def _task_cells(row: StatisticRow) -> tuple[str, ...]:
    return (
        row.part,
        str(row.items),
        row.statistic,
        f"{row.before:.3f}",
        f"{row.after.estimate:.3f}",
        "too few texts" if math.isnan(row.after.low) else f"{row.after.low:.3f} … {row.after.high:.3f}",
    )
