"""Agreement over bins as lines with their names at the end."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

from textmover.report.figures.svg import Scale, coordinate, element, padded, signed, svg, tick_labels

WIDTH, LEAST_HEIGHT = 400.0, 262.0
LEFT, RIGHT, TOP = 34.0, 268.0, 26.0
BELOW, LINE_BELOW = 12.0, 14.0
"""Room below, and for each line of the labels of the bins."""

LABEL_STEP = 14.0
"""Least distance of two names."""

LONGEST_LABEL = 18
"""Characters of a name beside its line; the whole name stands in the title and in the table below."""

BESIDE = 4.0
"""Distance of the intervals of two metrics at one bin."""


class BinLine(NamedTuple):
    """A metric's line.

    Attributes:
        name: Of the metric.
        colour: Number of its colour.
        values: Agreement in each bin; NaN leaves a gap.
        ends: Ends of the interval in each bin, NaN where there is none; shown where the line is not muted.
        muted: Whether it stays in the background until it is pointed at.
    """

    name: str
    colour: int
    values: Sequence[float]
    ends: Sequence[tuple[float, float]] = ()
    muted: bool = False


def value_range(lines: Sequence[BinLine]) -> tuple[float, float]:
    """Range that holds all values and the intervals that are drawn, with some room."""
    ends = [end for line in lines if not line.muted for pair in line.ends for end in pair]
    return padded([*(value for line in lines for value in line.values), *ends], 0.06)


def line_plot(
    lines: Sequence[BinLine],
    bins: Sequence[Sequence[str]],
    *,
    title: str,
    axis: str = "",
    span: tuple[float, float] | None = None,
) -> str:
    """Lines over bins, the names at their right ends, as SVG.

    A line comes to the front and the others fade where the pointer or the focus is; that needs no script.

    Args:
        lines: One for each metric.
        bins: Lines of text below each bin, the same number for all.
        title: What it shows, for those who do not see it.
        axis: What the values are.
        span: Range of the values, if it is not that of the lines.
    """
    # Names that have a place of their own need not be pushed far: the picture grows with their number.
    below = BELOW + LINE_BELOW * max((len(texts) for texts in bins), default=0)
    height = max(LEAST_HEIGHT, TOP + LABEL_STEP * len(lines) + below + 8)
    bottom = height - below
    up = Scale(*(value_range(lines) if span is None else span), bottom, TOP)
    gap = (RIGHT - LEFT - 24) / max(1, len(bins) - 1)
    places = [LEFT + 24 + gap * index for index in range(len(bins))] if len(bins) > 1 else [(LEFT + RIGHT) / 2]
    parts = [element("text", html.escape(axis), class_="tick", x=0, y=11)] if axis else []
    parts += tick_labels(up, 6, LEFT - 6, rule=f"H{RIGHT:g}", class_="grid")
    for place, texts in zip(places, bins, strict=True):
        for number, text in enumerate(texts):
            style = "tick middle" if number else "tick strong middle"
            at = bottom + 18 + LINE_BELOW * number
            parts.append(element("text", html.escape(text), class_=style, x=place, y=at))
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.values)]
    ends = [up.at(next(value for value in reversed(line.values) if math.isfinite(value))) for line in drawn]
    labels = spread(ends, LABEL_STEP, TOP + 2, bottom + 6)
    shown = [line for line in drawn if not line.muted and line.ends]
    for line, label in sorted(zip(drawn, labels, strict=True), key=lambda one: not one[0].muted):
        aside = BESIDE * (shown.index(line) - (len(shown) - 1) / 2) if line in shown else 0.0
        parts.append(_line(line, places, up, label, aside))
    return svg(WIDTH, height, *parts, title=title, class_="lines")


def spread(places: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Move labels apart to a least distance within a range, each as little as the others allow.

    Example:
        >>> spread([5, 5, 20], 4, 0, 100), spread([0, 0], 4, 0, 100)
        ([3.0, 7.0, 20.0], [0.0, 4.0])
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    blocks: list[tuple[float, list[int]]] = []  # centre of labels that touch, and these
    for index in order:
        centre, members = float(places[index]), [index]
        while True:
            half = step * (len(members) - 1) / 2
            centre = max(low + half, min(high - half, centre))
            if not blocks or blocks[-1][0] + step * (len(blocks[-1][1]) - 1) / 2 + step <= centre - half + 1e-9:
                break
            members = blocks.pop()[1] + members
            centre = sum(places[one] for one in members) / len(members)
        blocks.append((centre, members))
    found = [0.0] * len(places)
    for centre, members in blocks:
        for rank, index in enumerate(members):
            found[index] = centre + step * (rank - (len(members) - 1) / 2)
    return found


def shortened(text: str, most: int) -> str:
    """A text that is cut visibly where it is too long.

    Example:
        >>> shortened("moverscore", 10), shortened("moverscore-wmd2", 10)
        ('moverscore', 'moverscor…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def _line(line: BinLine, places: Sequence[float], up: Scale, label: float, aside: float) -> str:
    """A line, its points and intervals, and its name, which a thin line leads to."""
    steps, dots, down = [], [], False
    last = (0.0, 0.0)
    for place, value in zip(places, line.values, strict=True):
        if not math.isfinite(value):
            down = False
            continue
        last = (place, up.at(value))
        steps.append(f"{'L' if down else 'M'}{coordinate(place)} {coordinate(last[1])}")
        dots.append(element("circle", cx=place, cy=last[1], r=2.6))
        down = True
    if not line.muted:
        dots += [
            element("path", class_="whisker", d=f"M{coordinate(x + aside)} {coordinate(up.at(low))}V{up.at(high):.1f}")
            for x, (low, high) in zip(places, line.ends, strict=False)
            if math.isfinite(low)
        ]
    numbers = ", ".join(signed(value, 3) for value in line.values)
    name = html.escape(shortened(line.name, LONGEST_LABEL))
    lead = f"M{coordinate(last[0] + 4)} {coordinate(last[1])}L{RIGHT + 10:g} {coordinate(label)}"
    path = "".join(steps)
    return element(
        "g",
        element("title", html.escape(f"{line.name}: {numbers}")),
        element("path", class_="reach", d=path),
        element("path", class_="line", d=path),
        *dots,
        element("path", class_="lead", d=lead),
        element("text", name, class_="name", x=RIGHT + 14, y=label + 4),
        class_=f"series m{line.colour}{' muted' if line.muted else ''}",
    )
