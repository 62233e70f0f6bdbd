"""Pictures of a comparison: means with their intervals, and the differences of two systems, segment by segment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textmover.report.figures.svg import Scale, axis_labels, coordinate, element, nice_ticks, padded, signed, svg

WIDE, NARROW = 104.0, 18.0
"""Size of an interval within a row of a table."""

PLOT_WIDTH, PLOT_HEIGHT = 420.0, 150.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 8.0, 8.0, 20.0

MOST_BARS = 140
"""Bars that a picture has room for; of more segments several share one, which shows their mean."""


def interval_plot(value: float, low: float, high: float, range_: tuple[float, float], name: str) -> str:
    """A mean as a dot on the line of its interval.

    Args:
        value: The mean.
        low: Lower end of the interval.
        high: Upper end.
        range_: Values at both ends of the picture.
        name: Of the system.
    """
    scale = Scale(*range_, 4.0, WIDE - 4.0)
    middle = NARROW / 2
    line = element(
        "path", class_="line", d=f"M{coordinate(scale.at(low))} {coordinate(middle)}H{coordinate(scale.at(high))}"
    )
    dot = element("circle", cx=scale.at(value), cy=middle, r=4)
    title = f"{name}: {signed(value, 4)}, from {signed(low, 4)} to {signed(high, 4)}"
    return svg(WIDE, NARROW, line, dot, title=title, class_="interval")


def bars_of(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """The differences from the largest to the smallest; of many, neighbours are averaged.

    Example:
        >>> bars_of(np.array([0.1, -0.2, 0.3])).tolist(), len(bars_of(np.zeros(1000)))
        ([0.3, 0.1, -0.2], 140)
    """
    ordered = np.sort(gaps)[::-1]
    return np.array([part.mean() for part in np.array_split(ordered, min(len(ordered), MOST_BARS))])


def difference_plot(gaps: NDArray[np.float64], first: str, second: str, range_: tuple[float, float]) -> str:
    """The differences of all segments, the largest first: above 0 the second system is better, below the first.

    Args:
        gaps: How much better the second system is on each segment, ``[n]``, at least one.
        first: Name of the first system.
        second: Name of the other.
        range_: Smallest and largest bar of all pictures that are to be compared.
    """
    bars = bars_of(gaps)
    low, high = padded([min(0.0, range_[0]), max(0.0, range_[1])], 0.06)
    along = Scale(0, len(bars), LEFT, PLOT_WIDTH - RIGHT)
    up = Scale(low, high, PLOT_HEIGHT - BOTTOM, TOP)
    ticks = nice_ticks(low, high, 5)
    parts = []
    for tick, label in zip(ticks, axis_labels(ticks), strict=True):
        height = up.at(tick)
        parts.append(element("path", class_="axis", d=f"M{LEFT:g} {coordinate(height)}H{PLOT_WIDTH - RIGHT:g}"))
        parts.append(element("text", label, class_="tick end", x=LEFT - 6, y=height + 4))
    zero, step = up.at(0.0), along.at(1) - along.at(0)
    thick = max(0.6, step - (1.0 if step > 4 else 0.0))
    for place, bar in enumerate(bars.tolist()):
        top = min(zero, up.at(bar))
        kind = "gain" if bar > 0 else "loss"
        parts.append(
            element("rect", class_=kind, x=along.at(place), y=top, width=thick, height=max(0.5, abs(up.at(bar) - zero)))
        )
    parts.append(element("path", class_="zero", d=f"M{LEFT:g} {coordinate(zero)}H{PLOT_WIDTH - RIGHT:g}"))
    ends = f"from {signed(gaps.max(), 3)} to {signed(gaps.min(), 3)}"
    title = f"Differences of {len(gaps):,} segments, {ends}: above 0 "
    parts.append(
        element("text", "segments, the largest gain first", class_="tick end", x=PLOT_WIDTH - RIGHT, y=PLOT_HEIGHT - 4)
    )
    return svg(PLOT_WIDTH, PLOT_HEIGHT, *parts, title=f"{title}{second} is better, below {first}", class_="gaps")
