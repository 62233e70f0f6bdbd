"""Pairs per second of the table in docs/results/scoring_speed.md as a bar chart.

Drawn by ``python benchmarks/speed_chart.py docs/results/scoring_speed.md docs/images/speed.png``.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from matplotlib.figure import Figure

from textmover.report.figures.panels import save_figure

ROWS = {
    "bert-score": "bert-score",
    "torchmetrics": "torchmetrics BERTScore",
    "bertscore-f1 exact torch": "textmover, PyTorch, float32",
    "bertscore-f1 exact openvino": "textmover, OpenVINO, float32",
    "bertscore-f1 fast": "textmover, OpenVINO, bfloat16",
}
"""Rows of the table that are drawn, and what they are called."""

OURS, OTHERS, INK = "#3f51b5", "#b0b4bd", "#33363c"


def rates(page: str) -> dict[str, tuple[float, float]]:
    """Pairs per second and the multiple of bert-score's in the first table of the page, by the candidate's name."""
    found = re.findall(r"^\| ([\w -]+) \| [\d.]+ \| [\d.]+ \| ([\d.,]+) \([^)]*\) \| ([\d.]+) \|", page, re.MULTILINE)
    return {name: (float(rate.replace(",", "")), float(ratio)) for name, rate, ratio in reversed(found)}


def draw(found: dict[str, tuple[float, float]], path: Path) -> None:
    """Draw the rows that are wanted, one bar each."""
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    for place, (row, name) in enumerate(ROWS.items()):
        rate, ratio = found[row]
        axes.barh(place, rate, height=0.66, color=OURS if name.startswith("textmover") else OTHERS)
        axes.text(rate + 10, place, f"{rate:,.0f}   {ratio:.2g} ×", va="center", fontsize=10, color=INK)
    axes.set_yticks(range(len(ROWS)), labels=list(ROWS.values()), fontsize=10, color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.13 * max(found[row][0] for row in ROWS))
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("BERTScore-F1 of 3,920 WMT17 pairs, pairs per second on two CPU cores", fontsize=10, loc="left")
    save_figure(figure, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    draw(rates(arguments.page.read_text(encoding="utf-8")), arguments.picture)
