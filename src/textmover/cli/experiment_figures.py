"""Figures of an experiment: agreement over the values of a field, and the similarities of layers."""

from __future__ import annotations

from textmover.cli.analyse import SIMILARITIES
from textmover.cli.experiment_layers import LayerResult, estimates
from textmover.cli.experiment_results import FigureResult
from textmover.report import Line, Panel, draw_panels
from textmover.report.wording import STATISTIC_NAMES

__all__ = ["draw_figure", "draw_layers"]

LONGEST_TITLE = 60
"""Characters of a figure's title."""

CONFIDENCE = 1.96
"""Standard errors that a 95 % interval reaches to each side."""


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


def draw_layers(result: LayerResult, path: str) -> None:
    """Draw the analysis of layers: one panel for each centring, one line for each similarity."""
    panels = []
    for centering in result.spec.centerings:
        members = [estimates(row) for row in result.analysis.rows if row.centering == centering]
        lines = []
        for name, label in SIMILARITIES.items():
            means, errors = [one[name].mean for one in members], [one[name].error for one in members]
            low, high = (
                [m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-CONFIDENCE, CONFIDENCE)
            )
            lines.append(Line(label, means, low, high))
        panels.append(Panel(f"centring: {centering}", lines))
    layers = list(dict.fromkeys(str(row.layer) for row in result.analysis.rows))
    draw_panels(panels, layers, path, x_label="layer", y_label="mean cosine", title=result.encoder[:LONGEST_TITLE])
