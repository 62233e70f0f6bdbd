"""Metric against people as small multiples: density in hexagons, a trend, and the correlation; and distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.statistics.correlation import correlation
from textmover.report.figures.svg import (
    Scale,
    axis_labels,
    coordinate,
    element,
    nice_ticks,
    padded,
    signed,
    svg,
    tick_labels,
)

Vector = NDArray[np.float64]

WIDTH, HEIGHT = 200.0, 192.0
LEFT, RIGHT, TOP, BOTTOM = 42.0, 196.0, 6.0, 156.0
"""Edges of the plot within its picture, in units of about a pixel."""

RADIUS = 4.4
"""Radius of a hexagon."""

LEVELS = 6
"""Depths of colour for the number of segments in a hexagon."""

FEW = 150
"""Up to so many segments each has a dot of its own."""

BINS = 36
FLAT_HEIGHT, FLAT_LEFT, FLAT_BOTTOM = 96.0, 10.0, 76.0
"""Height and edges of a distribution's plot."""

TAIL, STRETCH = 0.005, 0.5
"""An axis ends at the quantiles of both tails if values lie beyond them by more than this share of their distance."""


def hexagon_counts(x: Vector, y: Vector, radius: float) -> tuple[Vector, NDArray[np.int64]]:
    """Centres ``[m, 2]`` and counts ``[m]`` of the hexagons that hold points ``[n]``, ordered by place.

    Hexagons stand on a corner; a point belongs to the one whose centre is closest.

    Example:
        >>> centres, counts = hexagon_counts(np.array([0.0, 0.1, 9.0]), np.array([0.0, 0.1, 0.0]), 1.0)
        >>> len(centres), counts
        (2, array([2, 1]))
    """
    across, down = math.sqrt(3) * radius, 3 * radius
    # The centres are those of two rectangular lattices, one shifted by half a step in both directions.
    near = np.stack([np.rint(x / across), np.rint(y / down)], axis=1)
    far = np.stack([np.floor(x / across) + 0.5, np.floor(y / down) + 0.5], axis=1)
    steps, points = np.array([across, down]), np.stack([x, y], axis=1)
    shifted = ((points - near * steps) ** 2).sum(axis=1) > ((points - far * steps) ** 2).sum(axis=1)
    cells, counts = np.unique(2 * np.where(shifted[:, None], far, near), axis=0, return_counts=True)
    return cells / 2 * steps, counts


def most_in_a_hexagon(ratings: Vector, scores: Vector) -> int:
    """Points in the fullest hexagon of a plot; 0 where each has a dot of its own."""
    if len(ratings) <= FEW:
        return 0
    x, y, _, _ = _placed(ratings, scores, flipped=False)
    return int(hexagon_counts(x, y, RADIUS)[1].max())


def shown_range(values: Vector) -> tuple[float, float]:
    """Lowest and highest value that an axis shows: all of them, but for lone outliers, which would squash the rest.

    Example:
        >>> shown_range(np.append(np.arange(400.0), 9000.0)), shown_range(np.array([0.0, 50.0]))
        ((0.0, 398.0), (0.0, 50.0))
    """
    if not len(values):
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    if len(values) > FEW:
        first, last = (float(one) for one in np.quantile(values, [TAIL, 1 - TAIL]))
        room = STRETCH * (last - first)
        if room:  # else nearly all values are equal, and those that are not are what there is to see
            low, high = first if low < first - room else low, last if high > last + room else high
    return low, high


def outside_words(*axes: Vector) -> str:
    """Number of segments outside a picture, such as ``"17 of 3,920 lie outside"``; empty for none."""
    inside = _inside(*axes)
    lost = int((~inside).sum())
    return f"{lost:,} of {len(inside):,} lie{'s' if lost == 1 else ''} outside" if lost else ""


def _inside(*axes: Vector) -> NDArray[np.bool_]:
    """Segments that lie within the ranges of all axes, ``[n]``."""
    inside = np.ones(len(axes[0]), dtype=bool)
    for values in axes:
        low, high = shown_range(values)
        inside &= (values >= low) & (values <= high)
    return inside


def density_steps(most: int) -> list[int]:
    """Segments from which on a hexagon gets the next of at most :data:`LEVELS` depths, in steps of about one factor.

    Example:
        >>> density_steps(40), density_steps(3), density_steps(1)
        ([1, 2, 4, 8, 16, 32], [1, 2, 3], [1])
    """
    factor = max(2.0, (most * 0.75) ** (1 / (LEVELS - 1)))
    steps = [math.ceil(factor**level - 1e-9) for level in range(LEVELS)]
    if factor == 2.0:
        steps = list(range(1, LEVELS + 1)) if most <= LEVELS else steps
    return [step for step in dict.fromkeys(steps) if step <= max(1, most)]


def step_labels(steps: Sequence[int]) -> list[str]:
    """Labels of the legend's depths.

    Example:
        >>> step_labels([1, 2, 4, 31])
        ['1', '2–3', '4–30', '31+']
    """
    labels = []
    for index, step in enumerate(steps):
        if index == len(steps) - 1:
            labels.append(f"{step:,}+")
        else:
            last = steps[index + 1] - 1
            labels.append(f"{step:,}" if last == step else f"{step:,}–{last:,}")
    return labels


def scatter_plot(name: str, ratings: Vector, scores: Vector, *, steps: Sequence[int], higher_is_better: bool) -> str:
    """Scores of a metric (up) against ratings (right) as SVG, better is up and right.

    Pearson's r and the line are of all segments together, those outside of :func:`shown_range` too. Hexagons are
    darker from ``steps`` segments on.
    """
    x, y, across, up = _placed(ratings, scores, flipped=not higher_is_better)
    r = correlation(ratings, scores) if len(ratings) else math.nan
    r = r if higher_is_better else -r
    title = f"{name} against human ratings, {len(ratings):,} segments, Pearson's r {signed(r, 2)}"
    parts = [_frame(across, up)]
    if len(ratings) > FEW:
        centres, counts = hexagon_counts(x, y, RADIUS)
        levels = np.searchsorted(steps, counts, side="right")
        corner = RADIUS * math.sqrt(3) / 2
        shape = "l{a} {b}v{c}l-{a} {b}-{a}-{b}v-{c}z".format(
            a=coordinate(corner), b=coordinate(RADIUS / 2), c=coordinate(RADIUS)
        )
        for level in range(1, LEVELS + 1):
            corners = [
                f"M{coordinate(cx)} {coordinate(cy - RADIUS)}{shape}" for cx, cy in centres[levels == level].tolist()
            ]
            if corners:
                parts.append(element("path", class_=f"hex l{level}", d="".join(corners)))
    else:
        parts += [element("circle", class_="dot", cx=cx, cy=cy, r=2.2) for cx, cy in zip(x, y, strict=True)]
    if not math.isnan(r):
        parts.append(_trend(ratings, scores, across, up))
    parts.append(element("text", f"r {signed(r, 2)}", class_="r", x=LEFT + 6, y=TOP + 13))
    return svg(WIDTH, HEIGHT, *parts, title=title, class_="panel")


def distribution_plot(name: str, scores: Vector) -> str:
    """Histogram of scores as SVG, with the median marked."""
    low, high = padded(shown_range(scores) if len(scores) else scores)
    across = Scale(low, high, FLAT_LEFT, RIGHT)
    parts = []
    if len(scores):
        counts, edges = np.histogram(scores, bins=BINS, range=(low, high))
        heights = FLAT_BOTTOM - counts / counts.max() * (FLAT_BOTTOM - 6)
        places = across.places(edges)
        steps = [f"M{coordinate(places[0])} {coordinate(FLAT_BOTTOM)}"]
        steps += [f"V{coordinate(h)}H{coordinate(p)}" for h, p in zip(heights, places[1:], strict=True)]
        parts.append(element("path", class_="area", d="".join(steps) + f"V{coordinate(FLAT_BOTTOM)}z"))
        middle = across.at(float(np.median(scores)))
        parts.append(element("path", class_="median", d=f"M{coordinate(middle)} 2V{coordinate(FLAT_BOTTOM)}"))
        ends = (signed(float(one), 3) for one in (scores.min(), scores.max()))
        said = f"median {signed(float(np.median(scores)), 3)}, from {' to '.join(ends)}"
    else:
        said = "no scores"
    parts.append(element("path", class_="axis", d=f"M{coordinate(FLAT_LEFT)} {coordinate(FLAT_BOTTOM)}H{RIGHT:g}"))
    parts += _ticks_across(across, FLAT_BOTTOM)
    return svg(WIDTH, FLAT_HEIGHT, *parts, title=f"Distribution of {name}: {said}", class_="panel")


def _placed(ratings: Vector, scores: Vector, *, flipped: bool) -> tuple[Vector, Vector, Scale, Scale]:
    """Places of the segments that are shown, and the scales."""
    inside = _inside(ratings, scores)
    across = Scale(*padded(shown_range(ratings) if len(ratings) else ratings, 0.03), LEFT, RIGHT)
    ends = (TOP, BOTTOM) if flipped else (BOTTOM, TOP)
    up = Scale(*padded(shown_range(scores) if len(scores) else scores, 0.04), *ends)
    return across.places(ratings[inside]), up.places(scores[inside]), across, up


def _frame(across: Scale, up: Scale) -> str:
    """Axes with their names and a few labels."""
    middle = (TOP + BOTTOM) / 2
    names = [
        element("text", "human rating", class_="tick middle", x=(LEFT + RIGHT) / 2, y=BOTTOM + 31),
        element("text", "score", class_="tick middle", transform=f"translate(9 {middle:g}) rotate(-90)"),
    ]
    parts = [element("path", class_="axis", d=f"M{LEFT:g} {TOP:g}V{BOTTOM:g}H{RIGHT:g}")]
    parts += _ticks_across(across, BOTTOM)
    parts += tick_labels(up, 4, LEFT - 5)
    return "".join([*parts, *names])


def _ticks_across(across: Scale, bottom: float) -> list[str]:
    """Labels below an axis, kept within the picture."""
    ticks, parts = nice_ticks(across.low, across.high, 4), []
    for tick, label in zip(ticks, axis_labels(ticks), strict=True):
        place, half = across.at(tick), 3.0 * len(label)
        side = "tick end" if place + half > WIDTH else "tick middle"
        parts.append(element("text", label, class_=side, x=WIDTH if side.endswith("end") else place, y=bottom + 15))
    return parts


def _trend(ratings: Vector, scores: Vector, across: Scale, up: Scale) -> str:
    """The line of least squares, as far as it lies within the frame."""
    centred = ratings - ratings.mean()
    slope = float(centred @ (scores - scores.mean()) / (centred @ centred))
    level = float(scores.mean() - slope * ratings.mean())
    ends = list(shown_range(ratings))
    if slope:
        crossings = sorted(((up.low - level) / slope, (up.high - level) / slope))
        ends = [max(ends[0], crossings[0]), min(ends[1], crossings[1])]
    first, last = ((coordinate(across.at(one)), coordinate(up.at(level + slope * one))) for one in ends)
    return element("path", class_="trend", d=f"M{first[0]} {first[1]}L{last[0]} {last[1]}")
