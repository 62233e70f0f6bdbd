"""Plot docs/results/learning.csv: gains on translations against losses on other tasks.

python benchmarks/frontier_chart.py docs/results/learning.csv docs/results/learning_frontier.png
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import harness
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from textmover.report.figures.matplotlib_figures import save_figure

SETS = ("WMT15-16 held back", "STS-B dev", "SICK trial", "SFREST")

SHARES, ALONE, STAGES, OPTIONS = (
    "How much of the untrained weights to keep",
    "One seed: tuned on ratings of translations alone",
    "Each stage by itself, and before ratings",
    "Options of the recipe",
)
"""Sections of the table."""

UNTRAINED = "zero-shot: the preset twmd (T = .02)"

RATINGS, OURS, OTHERS, INK = "#c2571a", "#3f51b5", "#a3a7b0", "#33363c"

Row = tuple[float, float, float]
"""Pearson on translations, sentence similarity (mean of two sets), and data-to-text."""


def tables(text: str) -> dict[str, dict[str, Row]]:
    """Return rows by section and name of a CSV table whose cells start with a mean: ``.779 (.777-.782)``."""
    sections: dict[str, dict[str, Row]] = {}
    for row in csv.DictReader(text.splitlines()):
        translations, sts, sick, data = (float(row[name].split()[0]) for name in SETS)
        sections.setdefault(row["section"], {})[row["rung"]] = translations, (sts + sick) / 2, data
    return sections


def draw(found: dict[str, dict[str, Row]], path: Path) -> None:
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _panel(left, found, 1, "similarity: mean of STS-B dev and SICK trial")
    _panel(right, found, 2, "data to text: SFREST, informativeness")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    save_figure(figure, path)


def _panel(axes: Axes, found: dict[str, dict[str, Row]], column: int, title: str) -> None:
    def places(rows: Iterable[Row]) -> list[tuple[float, ...]]:
        return list(zip(*((row[0], row[column]) for row in rows), strict=True))

    def line(rows: Iterable[Row], colour: str, label: str) -> None:
        axes.plot(*places(rows), "o-", color=colour, markersize=5, linewidth=1.6, label=label, zorder=3)

    shares = {name: row for name, row in found[SHARES].items() if name.startswith("mixture")}
    mixture = [row for name, row in shares.items() if "released" not in name]
    released = [row for name, row in shares.items() if "released" in name]
    line(found[ALONE].values(), RATINGS, "ratings of translations alone, 0 to 100 % of untrained weights")
    line(mixture, OURS, "mixture without told records, 0 to 40 % of untrained weights")
    label = "mixture with told records (released)"
    axes.scatter(*places(released), marker="D", s=60, color=OURS, label=label, zorder=4)
    options = [row for name, row in found[OPTIONS].items() if not name.startswith("the recipe")]
    axes.scatter(*places(options), color=OTHERS, s=22, label="other options of the recipe for ratings", zorder=2)
    preset, stages = found[STAGES][UNTRAINED], found[STAGES]
    axes.scatter(*places([preset]), marker="*", s=150, color=INK, label="the preset twmd", zorder=4)
    for name in ("similarity", "damaged sentences", "told records"):
        (row,) = [one for full, one in stages.items() if re.match(rf"{name}[:,] (?!then)", full)]
        axes.scatter(row[0], row[column], marker="s", s=34, color=OTHERS, zorder=2)
        offset = {"xytext": (7, -3), "textcoords": "offset points", "fontsize": 8.5, "color": INK}
        axes.annotate(f"{name} alone", (row[0], row[column]), **offset)
    axes.set_xlabel("translations: WMT15-16 held back, Pearson", color=INK)
    axes.set_title(f"{title}, Pearson", fontsize=10, loc="left", color=INK)
    plain(axes)


def plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


if __name__ == "__main__":
    options = harness.parser(__doc__, "table", "picture").parse_args()
    draw(tables(options.table.read_text(encoding="utf-8")), options.picture)
