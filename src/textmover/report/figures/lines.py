"""Agreement over bins as lines with their names at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from textmover.report.figures.scales import Scale, coordinate, padded, signed
from textmover.report.templating import picture

LEAST_HEIGHT = 262.0
LEFT, RIGHT, TOP = 34.0, 268.0, 26.0
BELOW, LINE_BELOW = 12.0, 14.0  # room below, and for each line of the labels of the bins
LABEL_STEP = 14.0  # least distance of two names
LONGEST_LABEL = 18  # characters of a name beside its line; the whole name stands in the title and in the table below
BESIDE = 4.0  # distance of the intervals of two metrics at one bin


class BinLine(NamedTuple):
    """A metric's values by bin, NaN for a gap, and the ends of their intervals, which a muted line does not show."""

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
    """Lines over bins, the names at their right ends, as SVG; below each bin stand its lines of text.

    A line comes to the front and the others fade where the pointer or the focus is; that needs no script.
    """
    # Names that have a place of their own need not be pushed far: the picture grows with their number.
    below = BELOW + LINE_BELOW * max((len(texts) for texts in bins), default=0)
    height = max(LEAST_HEIGHT, TOP + LABEL_STEP * len(lines) + below + 8)
    bottom = height - below
    up = Scale(*(value_range(lines) if span is None else span), bottom, TOP)
    gap = (RIGHT - LEFT - 24) / max(1, len(bins) - 1)
    places = [LEFT + 24 + gap * index for index in range(len(bins))] if len(bins) > 1 else [(LEFT + RIGHT) / 2]
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.values)]
    ends = [up.at(next(value for value in reversed(line.values) if math.isfinite(value))) for line in drawn]
    labels = spread(ends, LABEL_STEP, TOP + 2, bottom + 6)
    shown = [line for line in drawn if not line.muted and line.ends]
    series = []
    for line, label in sorted(zip(drawn, labels, strict=True), key=lambda one: not one[0].muted):
        aside = BESIDE * (shown.index(line) - (len(shown) - 1) / 2) if line in shown else 0.0
        series.append({"line": line, "label": label, **_path(line, places, up, aside)})
    values = {"bins": list(zip(places, bins, strict=True)), "bottom": bottom, "up": up, "series": series}
    return picture("lines.svg.j2", title=title, axis=axis, height=height, **values)


def _path(line: BinLine, places: Sequence[float], up: Scale, aside: float) -> dict[str, Any]:
    steps, points = [], []
    for place, (x, value) in enumerate(zip(places, line.values, strict=True)):
        if math.isfinite(value):
            points.append((x, up.at(value)))
            joined = place > 0 and math.isfinite(line.values[place - 1])
            steps.append(f"{'L' if joined else 'M'}{coordinate(x)} {coordinate(points[-1][1])}")
    bounds = zip(places, line.ends, strict=False) if not line.muted else ()
    return {
        "path": "".join(steps),
        "points": points,
        "whiskers": [(x + aside, up.at(low), up.at(high)) for x, (low, high) in bounds if math.isfinite(low)],
        "numbers": ", ".join(signed(value, 3) for value in line.values),
        "short": shortened(line.name, LONGEST_LABEL),
    }


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
