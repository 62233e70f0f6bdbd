"""Gains of training on translations and costs elsewhere: docs/results/learning.csv as a picture.

python benchmarks/frontier_chart.py docs/results/learning.csv docs/results/learning_frontier.png
"""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from textmover.report.figures.matplotlib import save_figure

SETS = ("WMT15-16 held back", "STS-B dev", "SICK trial", "SFREST")
"""Columns that are drawn."""

SHARES, ALONE, STAGES, OPTIONS = (
    "How much of the untrained weights to keep",
    "One seed: tuned on ratings of translations alone",
    "Each stage by itself, and before ratings",
    "Options of the recipe",
)
"""Sections of the table."""

UNTRAINED = "zero-shot: the preset twmd (T = .02)"

RATINGS, MIXTURE, OTHERS, INK = "#c2571a", "#3f51b5", "#a3a7b0", "#33363c"

Row = tuple[float, ...]
"""Pearson on each of the sets."""


def tables(text: str) -> dict[str, dict[str, Row]]:
    """Rows by name, by section, of a CSV table of rungs."""
    found: dict[str, dict[str, Row]] = {}
    for row in csv.DictReader(text.splitlines()):
        found.setdefault(row["section"], {})[row["rung"]] = tuple(_first(row[name]) for name in SETS)
    return found


def _first(cell: str) -> float:
    """The mean in a cell such as ``.779 (.777-.782)``."""
    return float(cell.split()[0])


def draw(found: dict[str, dict[str, Row]], path: Path) -> None:
    """Draw both panels: similarity of sentences and data to text, each against translations."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _panel(left, found, (1, 2), "similarity: mean of STS-B dev and SICK trial")
    _panel(right, found, (3,), "data to text: SFREST, informativeness")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    save_figure(figure, path)


def _panel(axes: Axes, found: dict[str, dict[str, Row]], columns: tuple[int, ...], title: str) -> None:
    def line(rows: list[Row], colour: str, label: str) -> None:
        at, up = zip(*((row[0], _mean(row, columns)) for row in rows), strict=True)
        axes.plot(at, up, "o-", color=colour, markersize=5, linewidth=1.6, label=label, zorder=3)

    ratings = [row for name, row in found[ALONE].items()]
    shares = {name: row for name, row in found[SHARES].items() if name.startswith("mixture")}
    mixture = [row for name, row in shares.items() if "released" not in name]
    released = [row for name, row in shares.items() if "released" in name]
    line(ratings, RATINGS, "ratings of translations alone, 0 to 100 % of untrained weights")
    line(mixture, MIXTURE, "mixture without told records, 0 to 40 % of untrained weights")
    label = "mixture with told records (released)"
    axes.scatter(*_places(released, columns), marker="D", s=60, color=MIXTURE, label=label, zorder=4)
    options = [row for name, row in found[OPTIONS].items() if not name.startswith("the recipe")]
    axes.scatter(
        *_places(options, columns), color=OTHERS, s=22, label="other options of the recipe for ratings", zorder=2
    )
    preset, stages = found[STAGES][UNTRAINED], found[STAGES]
    axes.scatter(*_places([preset], columns), marker="*", s=150, color=INK, label="the preset twmd", zorder=4)
    for name in ("similarity", "damaged sentences", "told records"):
        (row,) = [one for full, one in stages.items() if re.match(rf"{name}[:,] (?!then)", full)]
        axes.scatter(*_places([row], columns), marker="s", s=34, color=OTHERS, zorder=2)
        axes.annotate(f"{name} alone", (row[0], _mean(row, columns)), xytext=(7, -3), textcoords="offset points",
                      fontsize=8.5, color=INK)  # fmt: skip
    axes.set_xlabel("translations: WMT15-16 held back, Pearson", color=INK)
    axes.set_title(f"{title}, Pearson", fontsize=10, loc="left", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def _mean(row: Row, columns: tuple[int, ...]) -> float:
    return sum(row[column] for column in columns) / len(columns)


def _places(rows: list[Row], columns: tuple[int, ...]) -> tuple[list[float], list[float]]:
    return [row[0] for row in rows], [_mean(row, columns) for row in rows]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    draw(tables(arguments.table.read_text(encoding="utf-8")), arguments.picture)
