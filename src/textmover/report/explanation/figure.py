"""Figure of an explanation: similarities as colours, transported mass as discs, contributions as bars."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, Wedge
from matplotlib.path import Path as Outline

from textmover.report.explanation.parts import Grid, Line, decomposition, flag_notes, grid_of
from textmover.report.figures.colours import INK, SEQUENTIAL, shades
from textmover.report.figures.matplotlib_figures import figure_path, fonts_for, save_figure, shade
from textmover.report.figures.scales import signed

if TYPE_CHECKING:
    from textmover.report.explanation.explanations import Explanation

SMALLEST, LARGEST = 0.165, 0.4  # minimum and maximum cell size, in inches
GRID_SIZE = 8.6  # preferred size of the longer grid side, in inches; cells are never smaller than SMALLEST
BARS = 0.95  # length of the longest bar, in inches
NUMBERS = 0.62  # space for the numbers at the ends of bars, in inches
NUMBERED = 30  # maximum words whose bars have numbers
MIN_MASS_RATIO = 0.004  # masses below this fraction of the largest are not drawn
SCREEN, SHARP = 80, 2  # dots per inch on a screen, and scale factor of a notebook's image
QUIET, UNMATCHED = "#4f5359", "#833404"
BAR, FALLING = "#4c89cc", "#d58042"


class ShownFigure(Figure):
    """Matplotlib figure that notebooks display as the last value of a cell, without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        with io.BytesIO() as stream:
            self.savefig(stream, format="png", dpi=SCREEN * SHARP)
            width, height = self.get_size_inches() * SCREEN
            return stream.getvalue(), {"width": round(width), "height": round(height)}


def explanation_figure(found: Explanation, path: Path | str | None = None, *, plan: str | None = None) -> Figure:
    """Draw an explanation with a column for each hypothesis word and a row for each reference word.

    A cell's colour is the cosine of its words; the area of its disc is the transported mass. With two plans, the left
    half of a disc is the first plan (recall), the right half the second (precision). Bars are the contributions of
    words to the score, with the same sum on both sides. Texts of more than
    :data:`~textmover.report.explanation.parts.MOST_WORDS` words are drawn in chunks.

    In SVG files, words are text that the viewer renders with its own fonts. In other formats, words that no installed
    font can show are replaced by their number in the text.
    """
    path = None if path is None else figure_path(path)
    explanations = [(one, grid_of(one, plan)) for one in (found, found.source) if one is not None]
    fonts = fonts_for(frozenset("".join(one.label for _, grid in explanations for one in (*grid.rows, *grid.columns))))
    missing = frozenset() if path is not None and path.suffix.lower() == ".svg" else fonts.lacking
    with warnings.catch_warnings(), rc_context({"font.family": list(fonts.families), "svg.fonttype": "none"}):
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # handled above, or by the viewer
        figure = ShownFigure()
        FigureCanvasAgg(figure)
        panes = [_Pane(figure, *explanation, missing) for explanation in explanations]
        width, heights = max(one.size[0] for one in panes), [one.size[1] for one in panes]
        figure.set_size_inches(width, sum(heights))
        places: Any = [figure] if len(panes) == 1 else figure.subfigures(len(panes), 1, height_ratios=heights)
        for pane, place, height in zip(panes, places, heights, strict=True):
            pane.draw(place, (width, height))
        if path is not None:
            save_figure(figure, path)
    return figure


class _Pane:
    """Part of a figure for one explanation, with sizes in inches."""

    def __init__(self, figure: Figure, found: Explanation, grid: Grid, missing: frozenset[str]) -> None:
        self.found, self.grid = found, grid
        self.labels = [[_label(one, missing) for one in lines] for lines in (grid.rows, grid.columns)]
        self.notes = _notes(found, grid, hidden=any(set(one.label) & missing for one in (*grid.rows, *grid.columns)))
        rows, columns = max(1, len(grid.rows)), max(1, len(grid.columns))
        self.cell = min(LARGEST, max(SMALLEST, GRID_SIZE / max(rows, columns)))
        self.font = min(10.0, max(6.5, 48 * self.cell * 0.62))
        longest = [max((_text_width(figure, one, self.font) for one in side), default=0.0) for side in self.labels]
        self.turn = 50 if columns <= NUMBERED else 90
        self.left = max(0.95, longest[0] + 0.25)
        self.width, self.height = self.cell * columns, self.cell * rows
        right = max(BARS + 0.75, longest[1] * math.cos(math.radians(self.turn)) - self.cell / 2)
        total_width = max(self.left + self.width + right, 6.4)
        above = 0.85 + longest[1] * math.sin(math.radians(self.turn)) + 0.12
        self.numbers = NUMBERS if columns <= NUMBERED else 0.1
        self.below = BARS + self.numbers + 0.66 + 0.19 * sum(len(_wrapped(one, total_width)) for one in self.notes)
        self.size = total_width, above + self.height + self.below

    def draw(self, figure: Figure, size: tuple[float, float]) -> None:
        """Draw the explanation into a figure of this size."""
        self.figure, self.size = figure, size
        self._draw_title()
        limits: Any = {"xlim": (0, max(1, len(self.grid.columns))), "ylim": (max(1, len(self.grid.rows)), 0)}
        cells = self._axes((self.left, self.below, self.width, self.height), **limits)
        _draw_cells(cells, self.grid)
        _draw_plans(cells, self.grid)
        self._draw_names(cells)
        self._draw_bars(cells)
        self._draw_legend()

    def _axes(self, box: tuple[float, float, float, float], **limits: Any) -> Axes:
        (left, bottom, width, height), (wide, high) = box, self.size
        place = left / wide, bottom / high, width / wide, height / high
        return self.figure.add_axes(place, xticks=[], yticks=[], frame_on=False, **limits)

    def _draw_title(self) -> None:
        (width, height), found, figure = self.size, self.found, self.figure
        how = textwrap.shorten(found.steps[-1].how, int((width - 0.3) * 13.5), placeholder=" …")
        top = 1 - 0.12 / height
        against = " against the source" if found.compared_with == "source" else ""
        score = f"score {signed(found.score, 4)}{against}"
        figure.text(0.15 / width, top, score, fontsize=14, weight="bold", va="top")
        figure.text(0.15 / width, top - 0.3 / height, how, fontsize=8.5, color=QUIET, va="top", parse_math=False)
        sides = ("hypothesis \N{RIGHTWARDS ARROW}", 0.3), (f"{found.compared_with} \N{DOWNWARDS ARROW}", 0.12)
        for text, above in sides:
            at = (self.left - 0.09) / width, (self.below + self.height + above) / height
            figure.text(*at, text, fontsize=7.5, style="italic", color=QUIET, ha="right", va="center")

    def _draw_names(self, axes: Axes) -> None:
        gap = 0.09 / self.cell
        turned: dict[str, Any] = {"ha": "left", "rotation": self.turn, "rotation_mode": "anchor"}
        turned |= {"va": "center" if self.turn == 90 else "bottom"}
        for lines, labels in zip((self.grid.rows, self.grid.columns), self.labels, strict=True):
            for at, (line, label) in enumerate(zip(lines, labels, strict=True)):
                colour = UNMATCHED if line.unmatched else QUIET if line.special else INK["light"]
                style: dict[str, Any] = {"fontsize": self.font, "color": colour, "clip_on": False, "parse_math": False}
                if labels is self.labels[1]:
                    axes.text(at + (0.5 if self.turn == 90 else 0.42), -gap, label, **style, **turned)
                else:
                    axes.text(-gap, at + 0.5, label, ha="right", va="center", **style)

    def _draw_bars(self, cells: Axes) -> None:
        values = [0.0, *(one.adds for one in (*self.grid.rows, *self.grid.columns))]
        low, high = min(values), max(values)
        span = (high - low) or 1.0
        right, top = self.left + self.width + 0.1, self.below - 0.1 - BARS
        beside = self._axes((right, self.below, BARS, self.height), xlim=(low, low + span), sharey=cells)
        under = self._axes((self.left, top, self.width, BARS), ylim=(low + span, low), sharex=cells)
        pad, size = 0.05 * span / BARS, self.font * 0.85
        for axes, lines, across in ((beside, self.grid.rows, True), (under, self.grid.columns, False)):
            (axes.axvline if across else axes.axhline)(0, color="#c9cbce", linewidth=0.8)
            draw = axes.barh if across else axes.bar
            colours = [BAR if one.adds >= 0 else FALLING for one in lines]
            draw([at + 0.5 for at in range(len(lines))], [one.adds for one in lines], 0.62, color=colours)
            for at, one in enumerate(lines if len(lines) <= NUMBERED else ()):
                x, y = (max(one.adds, 0) + pad, at + 0.5) if across else (at + 0.5, max(one.adds, 0) + pad)
                turned = {"ha": "left", "va": "center"} if across else {"ha": "center", "va": "top", "rotation": 90}
                text = "0" if abs(one.adds) < 0.0005 else signed(one.adds, 3)
                axes.text(x, y, text, fontsize=size, color=QUIET, clip_on=False, **turned)

    def _draw_legend(self) -> None:
        width, height = self.size[0], self.below - BARS - self.numbers
        axes = self._axes((0, 0, width, height), xlim=(0, width), ylim=(height, 0))
        style: dict[str, Any] = {"fontsize": 8.5, "color": INK["light"], "va": "center", "parse_math": False}
        y, start = 0.28, 0.68

        def swatch(left: float, size: float, colour: str) -> None:
            axes.add_patch(Rectangle((left, y - 0.08), size, 0.16, facecolor=colour, linewidth=0))

        axes.text(0.15, y, "cosine", **style)
        if (self.grid.similarity < -0.005).any():
            for step, one in enumerate(shades("below")[1::-1]):
                swatch(start + 0.13 * step, 0.13, one.fill)
            axes.text(start + 0.13, y + 0.17, "below 0", **{**style, "ha": "center", "fontsize": 7, "color": QUIET})
            start += 0.4
        axes.text(start, y, "0", **style)
        for step, one in enumerate(shades("sequential")):
            swatch(start + 0.12 + 0.16 * step, 0.16, one.fill)
        end = start + 0.12 + 0.16 * SEQUENTIAL
        axes.text(end + 0.06, y, "1", **style)
        at = end + 0.42
        for degrees, name in zip(_halves(self.grid), self.grid.plans, strict=False):
            axes.add_patch(Wedge((at, y), 0.085, *degrees, facecolor=INK["light"], linewidth=0))
            text = axes.text(at + 0.15, y, f"moved in {name}" if len(self.grid.plans) > 1 else "moved", **style)
            at += 0.4 + _artist_width(self.figure, text)
        lines = [line for note in self.notes for line in _wrapped(note, width)]
        for place, line in enumerate(lines):
            axes.text(0.15, y + 0.34 + 0.19 * place, line, **{**style, "color": QUIET})


def _label(line: Line, missing: frozenset[str]) -> str:
    label = f"#{line.first + 1}" if set(line.label) & missing else line.label
    return f"× {label}" if line.unmatched else label


def _text_width(figure: Figure, text: str, size: float) -> float:
    artist = figure.text(0, 0, text, fontsize=size, parse_math=False)
    width = _artist_width(figure, artist)
    artist.remove()
    return width


def _artist_width(figure: Figure, text: Any) -> float:
    return float(text.get_window_extent(figure.canvas.get_renderer()).width / figure.dpi)  # type: ignore[attr-defined]


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, max(30, int((width - 0.3) * 14.0)))


# --- drawing ----------------------------------------------------------------------------------------------------------


def _draw_cells(axes: Axes, grid: Grid) -> None:
    rows, columns = len(grid.rows), len(grid.columns)
    if not rows or not columns:
        axes.text(0.5, 0.5, "no words", ha="center", va="center", color=QUIET, fontsize=9)
        return
    colours = np.ones((rows, columns, 3))
    for row, column in np.ndindex(rows, columns):
        blank = grid.rows[row].blank or grid.columns[column].blank
        shading = None if blank else shade(float(grid.similarity[row, column]))
        colours[row, column] = to_rgb("#ffffff" if shading is None else shading.fill)
    axes.imshow(colours, extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest", zorder=1)
    axes.vlines(range(1, columns), 0, rows, color="white", linewidth=0.8, zorder=2)
    axes.hlines(range(1, rows), 0, columns, color="white", linewidth=0.8, zorder=2)


def _halves(grid: Grid) -> tuple[tuple[int, int], ...]:
    return ((90, 270), (-90, 90)) if len(grid.plans) == 2 else ((0, 360),)


def _draw_plans(axes: Axes, grid: Grid) -> None:
    largest = max((float(one.max()) for one in grid.plans.values() if one.size), default=0.0)
    if largest <= 0:
        return
    discs, halos = [], []
    for degrees, plan in zip(_halves(grid), grid.plans.values(), strict=True):
        unit, codes = np.asarray(Outline.wedge(*degrees).vertices), Outline.wedge(*degrees).codes
        for row, column in np.argwhere(plan > MIN_MASS_RATIO * largest):
            at, radius = (column + 0.5, row + 0.5), 0.42 * math.sqrt(plan[row, column] / largest)
            discs.append(Outline(radius * unit + at, codes))
            halos.append(Outline((1.06 * radius + 0.012) * unit + at, codes))
    for outlines, colour, layer in ((halos, "white", 3), (discs, INK["light"], 4)):
        axes.add_collection(PathCollection(outlines, facecolor=colour, linewidth=0, zorder=layer))


def _notes(found: Explanation, grid: Grid, *, hidden: bool) -> list[str]:
    notes = [f"Bars: what each word adds. {decomposition(found)}"]
    notes += [f"Note: {note}." for note in flag_notes(found)]
    if any(one.unmatched for one in (*grid.rows, *grid.columns)):
        notes.append("×: without a counterpart in the other text.")
    sizes = (("row", grid.words_to_a_row, found.reference), ("column", grid.words_to_a_column, found.hypothesis))
    for name, size, text in sizes:
        if size > 1:
            notes.append(f"Each {name} stands for {size} of {len(text):,} words and is named after the first.")
    if hidden:
        notes.append("#: number of a word that no font here can show; an SVG or HTML file shows it.")
    return notes
