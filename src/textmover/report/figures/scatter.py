"""Metric against people as small multiples: density in hexagons, a trend, and the correlation; and distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.statistics.correlation import correlation
from textmover.report.figures.scales import Scale, padded
from textmover.report.templating import picture

Vector = NDArray[np.float64]

LEFT, RIGHT, TOP, BOTTOM = 42.0, 196.0, 6.0, 156.0  # edges of the plot within its picture, in units of about a pixel
RADIUS = 4.4  # radius of a hexagon
LEVELS = 6  # depths of colour for the number of segments in a hexagon
FEW = 150  # up to so many segments each has a dot of its own
BINS = 36
FLAT_LEFT, FLAT_BOTTOM = 10.0, 76.0  # edges of a distribution's plot
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
    hexagons = []
    if len(ratings) > FEW:
        centres, counts = hexagon_counts(x, y, RADIUS)
        levels = np.searchsorted(steps, counts, side="right")
        hexagons = [(level, centres[levels == level].tolist()) for level in range(1, LEVELS + 1)]
    return picture(
        "scatter.svg.j2",
        name=name,
        count=len(ratings),
        r=r if higher_is_better else -r,
        across=across,
        up=up,
        radius=RADIUS,
        hexagons=hexagons,
        dots=[] if hexagons else list(zip(x.tolist(), y.tolist(), strict=True)),
        trend=[] if math.isnan(r) else _trend(ratings, scores, across, up),
    )


def distribution_plot(name: str, scores: Vector) -> str:
    """Histogram of scores as SVG, with the median marked."""
    low, high = padded(shown_range(scores) if len(scores) else scores)
    across = Scale(low, high, FLAT_LEFT, RIGHT)
    bars, median = [], math.nan
    if len(scores):
        counts, edges = np.histogram(scores, bins=BINS, range=(low, high))
        heights = FLAT_BOTTOM - counts / counts.max() * (FLAT_BOTTOM - 6)
        bars = list(zip(across.places(edges), across.places(edges)[1:], heights, strict=False))
        median = float(np.median(scores))
    return picture("distribution.svg.j2", name=name, scores=scores, across=across, bars=bars, median=median)


def _placed(ratings: Vector, scores: Vector, *, flipped: bool) -> tuple[Vector, Vector, Scale, Scale]:
    inside = _inside(ratings, scores)
    across = Scale(*padded(shown_range(ratings) if len(ratings) else ratings, 0.03), LEFT, RIGHT)
    ends = (TOP, BOTTOM) if flipped else (BOTTOM, TOP)
    up = Scale(*padded(shown_range(scores) if len(scores) else scores, 0.04), *ends)
    return across.places(ratings[inside]), up.places(scores[inside]), across, up


def _trend(ratings: Vector, scores: Vector, across: Scale, up: Scale) -> list[tuple[float, float]]:
    """Ends of the line of least squares, as far as it lies within the frame."""
    centred = ratings - ratings.mean()
    slope = float(centred @ (scores - scores.mean()) / (centred @ centred))
    level = float(scores.mean() - slope * ratings.mean())
    ends = list(shown_range(ratings))
    if slope:
        crossings = sorted(((up.low - level) / slope, (up.high - level) / slope))
        ends = [max(ends[0], crossings[0]), min(ends[1], crossings[1])]
    return [(across.at(one), up.at(level + slope * one)) for one in ends]
