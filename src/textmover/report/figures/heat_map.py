"""A heat map as a figure: rows in groups, a number in every cell, readable without colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textmover.markdown import figure_label
from textmover.report.figures.colours import DIVERGING, INK, SEQUENTIAL, Shade, diverging, sequential, step_of
from textmover.report.figures.panels import figure_path, save_figure
from textmover.report.figures.scales import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL_WIDTH, CELL_HEIGHT = 0.72, 0.3  # size of a cell, in inches
CHARACTER = 0.075  # width of a label's character, in inches
BETWEEN = 0.85  # rows that the heading of a group takes
TURN = 40  # degrees by which the names of columns are turned, so that long ones stand beside each other


class HeatGroup(NamedTuple):
    """Named rows of a heat map under a heading, which may be empty; values are NaN where there are none."""

    title: str
    names: Sequence[str]
    values: Sequence[Sequence[float]]


def draw_heat_map(
    groups: Sequence[HeatGroup], columns: Sequence[str], path: Path | str, *, title: str, low: str, high: str
) -> None:
    """Draw values, of which 0 and 1 have a meaning (``low`` and ``high``), into a file.

    Cells are the darker blue the nearer they are to 1, as dark as it gets above 1, and orange below 0.
    """
    path = figure_path(path)
    rows = [row for group in groups for row in group.values]
    if not rows or not columns:
        raise ValueError("Expected at least one row and one column, but got none.")
    if any(len(row) != len(columns) for row in rows) or any(len(one.names) != len(one.values) for one in groups):
        raise ValueError(f"Expected {len(columns)} values and a name for each row, but got others.")
    save_figure(_figure(groups, columns, title, low, high), path)


def shade(value: float) -> Shade | None:
    """The colour of a value: none where it has none or is 0 as far as two digits show.

    Example:
        >>> shade(float("nan")), shade(-0.001) == shade(0.004), shade(3.0) == shade(1.0), shade(-0.5) == shade(0.5)
        (None, True, True, False)
    """
    if math.isnan(value):
        return None
    if round(value, 2) < 0:
        return diverging("light")[0][step_of(-value, DIVERGING)]
    return sequential("light")[step_of(value)]


def _figure(groups: Sequence[HeatGroup], columns: Sequence[str], title: str, low: str, high: str) -> Figure:
    from matplotlib.figure import Figure

    headed = sum(bool(group.title) for group in groups)
    rows = sum(len(group.names) for group in groups) + BETWEEN * headed
    labels = max(len(name) for group in groups for name in group.names)
    longest, turn = CHARACTER * max(map(len, columns)), math.radians(TURN)
    width = 0.5 + CHARACTER * labels + CELL_WIDTH * len(columns) + longest * math.cos(turn)
    figure = Figure(
        figsize=(max(width, 5.2), 1.5 + CELL_HEIGHT * rows + longest * math.sin(turn)), layout="constrained"
    )
    axes, legend = figure.subplots(2, 1, height_ratios=[rows, 0.7])
    place, ticks = 0.0, []
    for group in groups:
        if group.title:
            heading = {"va": "center", "fontsize": 9, "color": INK["light"], "style": "italic"}
            axes.text(0, place + 0.5 * BETWEEN, figure_label(group.title), **heading)
            place += BETWEEN
        for name, values in zip(group.names, group.values, strict=True):
            ticks.append((place + 0.5, name))
            for column, value in enumerate(values):
                _cell(axes, column, place, value, "–" if math.isnan(value) else signed(value, 2))
            place += 1
    axes.set_xlim(0, len(columns))
    axes.set_ylim(place, 0)
    axes.set_yticks([at for at, _ in ticks], labels=[figure_label(name) for _, name in ticks])
    axes.set_xticks([column + 0.5 for column in range(len(columns))])
    axes.set_xticklabels(list(map(figure_label, columns)), rotation=TURN, ha="left", rotation_mode="anchor")
    axes.tick_params(length=0, labelsize=9, top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    _legend(legend, low, high)
    figure.suptitle(figure_label(title), fontsize=11)
    return figure


def _cell(axes: Axes, column: float, row: float, value: float, text: str) -> None:
    from matplotlib.patches import Rectangle

    colours = shade(value)
    if colours is not None:
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colours.fill, edgecolor="white", linewidth=1.2))
    ink = INK["light"] if colours is None else colours.text
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=9, color=ink)


def _legend(axes: Axes, low: str, high: str) -> None:
    values = [-1 / DIVERGING, *((step + 0.5) / SEQUENTIAL for step in range(SEQUENTIAL))]
    labels = ["< 0", "0", *[""] * (SEQUENTIAL - 2), "1"]
    for column, (value, text) in enumerate(zip(values, labels, strict=True)):
        _cell(axes, column, 0, value, text)
    axes.set_xlim(0, len(values))
    axes.set_ylim(1, 0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"below 0: higher than the text    0: {low}    1: {high}", fontsize=9)
