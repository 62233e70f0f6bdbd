"""What a training run brought: agreement with people before and after, on parts kept from training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from textmover._version import __version__
from textmover.checkpoints.folder import METRIC_USAGE
from textmover.data.datamodule import SourcesDataModule
from textmover.data.sources import RatedSource
from textmover.markdown import markdown_code, markdown_fence, markdown_text
from textmover.meta_evaluation.significance.bootstrap import Gain, bootstrap_gain, few_to_draw
from textmover.scoring.scorer import Scorer
from textmover.training.reports.tasks import TaskReport, judge_tasks
from textmover.training.stage import StageModule
from textmover.training.tasks.ratings import STATISTICS
from textmover.types import Signature

HEADERS = ("before", "after", "its interval", "gain", "its interval")
"""Columns of the correlations."""

TOO_FEW = "too few references"
"""In place of an interval where all segments of a group have one reference, so that every draw is the same."""


@dataclass(frozen=True)
class PartReport:
    """Gains on one part, by statistic, each a mean over the part's groups."""

    name: str
    segments: int
    groups: int
    gains: dict[str, Gain]


@dataclass(frozen=True)
class FitReport:
    """Gains on all parts that were kept from training, and what they were measured with."""

    parts: list[PartReport]
    signature: Signature
    start: str
    data: dict[str, str]
    notices: list[str]
    tasks: list[TaskReport] = field(default_factory=list)

    def tables(self) -> list[Table]:
        """The report for the terminal: that of the ratings, and those of other tasks."""
        return [*([self.table()] if self.parts else []), *(one.table() for one in self.tasks)]

    def table(self) -> Table:
        """The gains on rated parts."""
        table = Table(title="Agreement with the ratings on parts kept from training (95 % interval by bootstrap)")
        for header in ("part", "segments", "groups", "statistic"):
            table.add_column(header)
        for header in HEADERS:
            table.add_column(header, justify="right")
        for part in self.parts:
            for row, (name, gain) in enumerate(part.gains.items()):
                first = (part.name, str(part.segments), str(part.groups)) if row == 0 else ("", "", "")
                table.add_row(*first, name, *_cells(gain))
        table.caption = "\n".join(self._warnings()) or None
        return table

    def card(self, recipe: str) -> str:
        """The model card, Markdown."""
        about = "\n".join(f"* {markdown_text(key)}: {markdown_text(value)}" for key, value in self.data.items())
        notice = "".join(f"\n**{markdown_text(one)}**\n" for one in self.notices)
        return (
            "---\nlibrary_name: textmover\ntags: [textmover, text-generation-metric]\n---\n\n"
            f"# A text-generation metric trained from {markdown_code(str(self.start))}\n{notice}\n"
            f"Signature: {markdown_code(str(self.signature))}\n\n"
            f"{METRIC_USAGE}\n"
            f"## Data\n\n{about}\n\n"
            + "".join(f"{one}\n" for one in (*self._agreement(), *(task.markdown() for task in self.tasks)))
            + f"## Recipe\n\nMade by textmover {__version__} with\n\n{markdown_fence(recipe.strip(), 'yaml')}"
        )

    def _agreement(self) -> list[str]:
        """The section of the card on rated parts; none where there are none."""
        rows = "\n".join(
            f"| {markdown_text(part.name)} | {part.segments} | {name} | " + " | ".join(_cells(gain)) + " |"
            for part in self.parts
            for name, gain in part.gains.items()
        )
        if not rows:
            return []
        headers = ("part", "segments", "statistic", *HEADERS)
        return [
            "## Agreement with the ratings on parts kept from training\n\n"
            "Mean over groups, before and after training. The intervals (95 %) are those of the correlation after it "
            "and of the gain, by a bootstrap that draws whole references.\n\n"
            f"| {' | '.join(headers)} |\n{'|---' * len(headers)}|\n{rows}\n"
            + "".join(f"\n{one}\n" for one in self._warnings())
        ]

    def _warnings(self) -> list[str]:
        """For each part with too few references to rely on its intervals, a sentence."""
        found = []
        for part in self.parts:
            numbers = dict(next(iter(part.gains.values())).clusters)  # any statistic: they differ in groups left out
            note = few_to_draw(numbers, "reference")
            if note is not None:
                found.append(note if len(self.parts) == 1 else f"{part.name}: {note}")
        return found


def judge(module: StageModule, data: SourcesDataModule, *, samples: int = 1000) -> FitReport:
    """Score every rated part with the metric as it was and as it is, and compare both with the ratings.

    Parts of labels and of paraphrases are judged by what their tasks are after.

    Args:
        module: The trained module, with the weights to judge.
        data: Its data, with the parts kept from training.
        samples: Draws of the bootstrap.

    Returns:
        The report.
    """
    after = Scorer(module.metric)
    rated = [(source, name) for source, name in data.judged if isinstance(source, RatedSource)]
    before = Scorer(module.untrained()) if rated else after
    parts = [
        PartReport(
            name=data.label(source, name),
            segments=len(source.parts[name]),
            groups=len(set(source.groups_of(source.parts[name]))),
            gains=_gains(before, after, source, name, samples),
        )
        for source, name in rated
    ]
    tasks = judge_tasks(module, data, samples=samples)
    return FitReport(parts, after.signature, module.start, data.describe(), data.notices, tasks)


def _gains(before: Scorer, after: Scorer, source: RatedSource, part: str, samples: int) -> dict[str, Gain]:
    segments = source.parts[part]
    hypotheses, references = [one.hypothesis for one in segments], [one.references for one in segments]
    first, second = (_upwards(scorer, hypotheses, references) for scorer in (before, after))
    human = source.ratings_of(segments)
    clusters = ["\n".join(one.references) for one in segments]
    groups = source.groups_of(segments)
    return {
        name: bootstrap_gain(first, second, human, groups, statistic=name, samples=samples, clusters=clusters)
        for name in STATISTICS
    }


def _upwards(scorer: Scorer, hypotheses: list[str], references: list[tuple[str, ...]]) -> NDArray[np.float64]:
    """Scores of which higher is better: a distance, which a metric may have been before training, with its sign turned.

    Otherwise the turn itself would pass for a gain.
    """
    scores = scorer.score(hypotheses, references).scores
    return scores if scorer.metric.higher_is_better else -scores


def _cells(gain: Gain) -> tuple[str, ...]:
    return (
        f"{gain.before:.3f}",
        f"{gain.after:.3f}",
        _interval(gain, gain.after_low, gain.after_high, ".3f"),
        f"{gain.estimate:+.3f}",
        _interval(gain, gain.low, gain.high, "+.3f"),
    )


def _interval(gain: Gain, low: float, high: float, form: str) -> str:
    if math.isnan(low):
        return TOO_FEW if gain.clusters else "-"  # or no group has a correlation
    return f"{low:{form}} … {high:{form}}"
