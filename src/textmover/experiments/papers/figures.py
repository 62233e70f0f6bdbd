"""Figures of an experiment: agreement over the values of a field."""

from __future__ import annotations

from textmover.experiments.papers.results import FigureResult
from textmover.report import Line, Panel, draw_panels
from textmover.report.evaluation.wording import STATISTIC_NAMES

LONGEST_TITLE = 60
"""Characters of a figure's title."""


def draw_figure(result: FigureResult, path: str) -> None:
    """Draw a figure; the intervals of its points where it has but one line, since those of several cover each other."""
    spec = result.spec
    alone = len(spec.lines) == 1
    lines = [
        Line(
            line.name,
            [cell.value for cell in cells],
            [cell.low for cell in cells] if alone else None,
            [cell.high for cell in cells] if alone else None,
        )
        for line, (_, cells) in zip(spec.lines, result.lines, strict=True)
    ]
    encoder = next((name for name, _ in result.lines if name != "-"), "")
    draw_panels(
        [Panel("", lines)],
        [str(value) for value in spec.values],
        path,
        x_label=spec.field.replace("_", " "),
        y_label=f"mean {STATISTIC_NAMES[spec.statistic]}",
        title=f"{spec.set}, {encoder}"[:LONGEST_TITLE],
    )
