"""The page of ``textmover evaluate --report``, with the segments on which metrics and people disagree."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from textmover._version import __version__
from textmover.meta_evaluation import Evaluation, MetricScores
from textmover.report import (
    Alignment,
    Disagreement,
    Link,
    ReportHead,
    ReportSection,
    largest_disagreements,
    write_report,
)
from textmover.types import Judgements

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

PACKAGES = ("torch", "transformers", "numpy", "scipy")

FAINT = 0.15
"""Share of the weight of either word below which a link is left out."""


def report_section(
    evaluation: Evaluation,
    judgements: Judgements,
    rows: Sequence[MetricScores],
    notes: Sequence[str],
    scorers: Mapping[str, Scorer],
) -> ReportSection:
    """What the page shows of one set and dimension.

    Args:
        evaluation: How well the metrics agree.
        judgements: The set.
        rows: The scores.
        notes: What is said of the set.
        scorers: Those of the metrics that can say how they matched words.
    """
    shown: list[Disagreement] = []
    if evaluation.dimension is not None:
        found = largest_disagreements(judgements, rows, dimension=evaluation.dimension)
        shown = [replace(one, alignment=_alignment(scorers.get(one.metric), one)) for one in found]
    return ReportSection(evaluation, judgements, rows, shown, notes)


def write_page(folder: str, sections: Sequence[ReportSection], options: argparse.Namespace) -> Path:
    """Write the page.

    Raises:
        InputError: If it cannot be written.
    """
    versions = {"textmover": __version__, **{name: metadata.version(name) for name in PACKAGES}}
    versions["python"] = ".".join(map(str, sys.version_info[:3]))
    command = shlex.join(["textmover", *options.command_line])
    return write_report(folder, ReportHead(datetime.date.today().isoformat(), command, versions), sections)


def _alignment(scorer: Scorer | None, shown: Disagreement) -> Alignment | None:
    """How the metric matched the words of a segment with those of the reference that it took."""
    if scorer is None:
        return None
    from textmover.explaining.alignment import align_words

    number = 0
    if len(shown.references) > 1:
        each = scorer.score_fitted([shown.hypothesis] * len(shown.references), [[one] for one in shown.references])
        number = int(np.argmax(each.scores if scorer.metric.higher_is_better else -each.scores))
    found = align_words(scorer.fitted_metric, shown.hypothesis, shown.references[number])
    if found is None:
        return None
    heaviest = np.minimum(
        found.plan.max(axis=1, keepdims=True, initial=0.0), found.plan.max(axis=0, keepdims=True, initial=0.0)
    )
    links = tuple(
        Link(column, row, float(found.plan[row, column]), float(min(1.0, found.similarity[row, column])))
        for row, column in np.argwhere((found.plan > 0) & (found.plan >= FAINT * heaviest)).tolist()
    )
    return Alignment(found.hypothesis, found.reference, links, number)
