"""Matplotlib figures that are readable without colour: line panels with shared axes, heat maps, and font selection."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from textmover.files import atomic_bytes, names_another_format
from textmover.markdown_escaping import figure_label
from textmover.report.figures.colours import DIVERGING, INK, SEQUENTIAL, Shade, shades, step_of
from textmover.report.figures.scales import signed
from textmover.types import InputError, needs_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
"""Supported suffixes of figure files; the first is the default."""

DOTS_PER_INCH = 150
PANEL_WIDTH, PANEL_HEIGHT = 3.4, 2.6  # size of a panel, in inches
WIDEST_ROW = 3  # maximum panels in one row; more panels are drawn in rows of two
MOST_TICKS = 13  # maximum labels of a panel's horizontal axis; with more values, some are not labelled
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, distinguishable with colour blindness; more lines than these use a continuous colour map."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("solid", (0, (5, 2)), (0, (1, 1.5)))  # gaps keep overlapping lines visible


class Line(NamedTuple):
    """A line of a panel.

    Attributes:
        name: Name in the legend; lines with the same name in several panels look the same.
        values: One value for each position on the horizontal axis; NaN leaves a gap.
        low: Lower ends of the shaded intervals, if any.
        high: Upper ends of the shaded intervals.
        best: Index of the value to mark as best, if any.
    """

    name: str
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    best: int | None = None


class Panel(NamedTuple):
    """One pair of axes: an optional title, and lines."""

    title: str
    lines: Sequence[Line]


def check_matplotlib() -> None:
    """Raise an :class:`~textmover.types.InputError` before any expensive work unless matplotlib is installed."""
    with needs_extra("report", "matplotlib for the figure", ", or leave the figure out"):
        import matplotlib  # noqa: F401


def figure_path(path: Path | str) -> Path:
    """Return the path of a figure; raise an error if its suffix is not supported or matplotlib is missing."""
    check_matplotlib()
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"Expected a figure to end in {', '.join(FORMATS)}, but got {path}: give another name.")
    return path


def report_files(output: str, name: str) -> tuple[Path, Path]:
    """Return the paths of a table (TSV) and of its figure for one output path.

    Args:
        output: A folder, or a name for both files. A figure suffix sets the figure's format.
        name: Base name of both files if ``output`` is a folder.

    Example:
        >>> [path.name for path in report_files("layers.svg", "")], [path.name for path in report_files("out/", "a")]
        (['layers.tsv', 'layers.svg'], ['a.tsv', 'a.png'])
    """
    path = Path(output)
    suffix = path.suffix.lower()
    if output == "-":
        raise InputError("Expected `--output` to name a folder or table and figure, but got -: give a name.")
    if path.is_dir() or output.endswith(("/", os.sep)):
        path, suffix = path / name, ""
    elif suffix in (*FORMATS, ".tsv"):
        path = path.with_suffix("")
    elif names_another_format(path, ()):
        raise InputError(
            f"Expected `--output` to name a folder or table and figure, but got {path}: leave the ending out."
        )
    return Path(f"{path}.tsv"), Path(f"{path}{suffix if suffix in FORMATS else FORMATS[0]}")


def draw_panels(
    panels: Sequence[Panel], x: Sequence[str], path: Path | str, *, x_label: str, y_label: str, title: str = ""
) -> None:
    """Draw panels with shared axes into a file, which is written atomically.

    Args:
        panels: At least one panel, all with the same lines.
        x: Labels of the evenly spaced positions on the horizontal axis, in order.
        path: Output file with a suffix of :data:`FORMATS`.
        x_label: Label of the horizontal axis.
        y_label: Label of the vertical axis.
        title: Title of the figure.

    Raises:
        InputError: If matplotlib is not installed, or the file cannot be written.
        ValueError: If there is no panel, or a line has a wrong number of values.
    """
    path = figure_path(path)
    if not panels:
        raise ValueError("Expected at least one panel, but got none.")
    for line in (one for panel in panels for one in panel.lines):
        if any(values is not None and len(values) != len(x) for values in (line.values, line.low, line.high)):
            raise ValueError(f"Expected {len(x)} values of the line {line.name!r}, but got {len(line.values)}.")
    from matplotlib.figure import Figure

    rows, columns = rows_and_columns(len(panels))
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    width = PANEL_WIDTH * max(columns, 1.6)
    legend_rows = -(-len(names) // max(1, int(width / (0.5 + 0.08 * max(map(len, names))))))
    figure = Figure(figsize=(width, PANEL_HEIGHT * max(rows, 1.3) + 0.22 * legend_rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    styles = {
        name: {"marker": MARKERS[index % len(MARKERS)], **line_style(index, len(names))}
        for index, name in enumerate(names)
    }
    signs = {value < 0 for panel in panels for line in panel.lines for value in line.values if value == value}
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        for line in panel.lines:
            handles.setdefault(line.name, _draw_line(axes, line, styles[line.name]))
        _format_axes(axes, x, panel.title)
        if len(signs) == 2:
            axes.axhline(0, color="#888888", linewidth=0.8, zorder=0)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(figure_label(y_label), fontsize=10)
    for axes in grid.flat[max(0, len(panels) - columns) : len(panels)]:
        axes.set_xlabel(figure_label(x_label), fontsize=10)
    if title:
        figure.suptitle(figure_label(title), fontsize=11)
    if any(names):
        style: dict[str, Any] = {"loc": "outside lower center", "fontsize": 9, "frameon": False}
        columns = -(-len(names) // legend_rows)
        figure.legend(handles.values(), map(figure_label, handles), ncols=columns, **style)
    save_figure(figure, path)


def rows_and_columns(panels: int) -> tuple[int, int]:
    """Return the number of rows and columns for a number of panels."""
    columns = panels if panels <= WIDEST_ROW else 2
    return -(-panels // columns), columns


def line_style(index: int, count: int) -> dict[str, Any]:
    """Return colour and dashes of line ``index`` out of ``count``."""
    from matplotlib import colormaps

    colour = COLOURS[index] if count <= len(COLOURS) else colormaps["viridis"](0.88 * index / (count - 1))
    return {"color": colour, "linestyle": DASHES[index % len(DASHES)]}


def _draw_line(axes: Axes, line: Line, style: dict[str, Any]) -> Any:
    places = range(len(line.values))
    (drawn,) = axes.plot(places, line.values, markersize=4, linewidth=1.4, label=line.name, **style)
    if line.low is not None and line.high is not None:
        axes.fill_between(places, line.low, line.high, color=style["color"], alpha=0.15, linewidth=0)
    if line.best is not None:
        axes.plot([line.best], [line.values[line.best]], "o", markersize=13, color="#333333", fillstyle="none")
        offset: dict[str, Any] = {"xytext": (0, 10), "textcoords": "offset points", "ha": "center"}
        axes.annotate("best", (line.best, line.values[line.best]), fontsize=9, **offset)
    return drawn


def _format_axes(axes: Axes, x: Sequence[str], title: str) -> None:
    step = -(-len(x) // MOST_TICKS)
    axes.set_xticks(range(0, len(x), step), labels=list(map(figure_label, x))[::step])
    axes.tick_params(labelbottom=True)
    plain_axes(axes)
    axes.margins(y=0.15)
    if title:
        axes.set_title(figure_label(title), fontsize=10)


def plain_axes(axes: Axes) -> None:
    """Set small labels and light horizontal grid lines instead of a frame."""
    axes.tick_params(labelsize=9)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically and reproducibly: the same figure gives the same bytes."""
    from matplotlib import rc_context

    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    with atomic_bytes(path) as stream, rc_context({"svg.hashsalt": "textmover"}):
        figure.savefig(stream, format=path.suffix.lower()[1:], dpi=DOTS_PER_INCH, metadata=metadata)


# --- heat maps --------------------------------------------------------------------------------------------------------

CELL_WIDTH, CELL_HEIGHT = 0.72, 0.3  # size of a cell, in inches
CHARACTER = 0.075  # width of a label's character, in inches
HEADING_HEIGHT = 0.85  # height of a group's heading, in rows
ROTATION = 40  # rotation of column names in degrees, so that long names do not overlap


class HeatGroup(NamedTuple):
    """Named rows of a heat map with an optional heading; missing values are NaN."""

    title: str
    names: Sequence[str]
    values: Sequence[Sequence[float]]


def draw_heat_map(
    groups: Sequence[HeatGroup], columns: Sequence[str], path: Path | str, *, title: str, low: str, high: str
) -> None:
    """Draw values as a heat map into a file; ``low`` and ``high`` describe the values 0 and 1 in the legend.

    Cells are light to dark blue from 0 to 1, darkest above 1, and orange below 0.
    """
    path = figure_path(path)
    rows = [row for group in groups for row in group.values]
    if not rows or not columns:
        raise ValueError("Expected at least one row and one column, but got none.")
    if any(len(row) != len(columns) for row in rows) or any(len(one.names) != len(one.values) for one in groups):
        raise ValueError(f"Expected {len(columns)} values and a name for each row, but got more or fewer.")
    save_figure(_heat_figure(groups, columns, title, low, high), path)


def shade(value: float) -> Shade | None:
    """Return the heat map colour of a value; ``None`` for NaN.

    Example:
        >>> shade(float("nan")), shade(-0.001) == shade(0.004), shade(3.0) == shade(1.0), shade(-0.5) == shade(0.5)
        (None, True, True, False)
    """
    if math.isnan(value):
        return None
    if round(value, 2) < 0:
        return shades("below")[step_of(-value, DIVERGING)]
    return shades("sequential")[step_of(value)]


def _heat_figure(groups: Sequence[HeatGroup], columns: Sequence[str], title: str, low: str, high: str) -> Figure:
    from matplotlib.figure import Figure

    headed = sum(bool(group.title) for group in groups)
    rows = sum(len(group.names) for group in groups) + HEADING_HEIGHT * headed
    labels = max(len(name) for group in groups for name in group.names)
    longest, rotation = CHARACTER * max(map(len, columns)), math.radians(ROTATION)
    width = 0.5 + CHARACTER * labels + CELL_WIDTH * len(columns) + longest * math.cos(rotation)
    figure = Figure(
        figsize=(max(width, 5.2), 1.5 + CELL_HEIGHT * rows + longest * math.sin(rotation)), layout="constrained"
    )
    axes, legend = figure.subplots(2, 1, height_ratios=[rows, 0.7])
    y, ticks = 0.0, []
    for group in groups:
        if group.title:
            heading = {"va": "center", "fontsize": 9, "color": INK["light"], "style": "italic"}
            axes.text(0, y + 0.5 * HEADING_HEIGHT, figure_label(group.title), **heading)
            y += HEADING_HEIGHT
        for name, values in zip(group.names, group.values, strict=True):
            ticks.append((y + 0.5, name))
            for column, value in enumerate(values):
                _cell(axes, column, y, value, "–" if math.isnan(value) else signed(value, 2))
            y += 1
    axes.set(xlim=(0, len(columns)), ylim=(y, 0))
    axes.set_yticks([y for y, _ in ticks], labels=[figure_label(name) for _, name in ticks])
    axes.set_xticks([column + 0.5 for column in range(len(columns))])
    axes.set_xticklabels(list(map(figure_label, columns)), rotation=ROTATION, ha="left", rotation_mode="anchor")
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
    axes.set(xlim=(0, len(values)), ylim=(1, 0), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"below 0: higher than the text    0: {low}    1: {high}", fontsize=9)


# --- fonts ------------------------------------------------------------------------------------------------------------

DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
SHAPED = (("\u0590", "\u08ff"), ("\u0900", "\u0dff"), ("\u0e00", "\u109f"), ("\u1780", "\u18af"), ("\ufb1d", "\ufefc"))
"""Ranges of scripts that run from right to left, or whose letters change shape next to each other."""


class Fonts(NamedTuple):
    """Font families in fallback order, and the characters that none of them can show."""

    families: tuple[str, ...]
    lacking: frozenset[str]


@functools.lru_cache(maxsize=64)
def fonts_for(characters: frozenset[str]) -> Fonts:
    """Choose installed fonts that cover the characters: matplotlib's default, then greedily by coverage."""
    missing = {one for one in characters if not (one.isspace() or ord(one) in _characters(_installed()[DEFAULT_FONT]))}
    families = [DEFAULT_FONT]
    if missing:
        sets = {name: {one for one in missing if ord(one) in _characters(path)} for name, path in _installed().items()}
        while sets:
            best = max(sorted(sets), key=lambda name: len(sets[name] & missing))
            gained = sets.pop(best) & missing
            if not gained:
                break
            families.append(best)
            missing -= gained
    if not _supports_complex_scripts():
        missing |= {one for one in characters if any(low <= one <= high for low, high in SHAPED)}
    return Fonts(tuple(families), frozenset(missing))


def _supports_complex_scripts() -> bool:
    """Return whether this matplotlib (3.11 or later) supports right-to-left and joining scripts."""
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


@functools.lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    """Return the files of installed fonts with normal style and weight, by name."""
    from matplotlib.font_manager import findfont, fontManager

    paths = {DEFAULT_FONT: str(findfont(DEFAULT_FONT))}
    for one in fontManager.ttflist:
        if one.style == "normal" and one.weight in (400, "normal", "regular") and "Last Resort" not in one.name:
            paths.setdefault(one.name, one.fname)
    return paths


@functools.lru_cache(maxsize=256)
def _characters(path: str) -> frozenset[int]:
    """Return the code points of a font file; empty if it cannot be read, such as a colour emoji font."""
    from matplotlib.font_manager import get_font

    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
