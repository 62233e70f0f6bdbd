"""Plots of an evaluation: lines over bins, metrics against people in hexagons, and distributions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from textmover.meta_evaluation.statistics.correlation import correlation
from textmover.report.figures.scales import Scale, coordinate, padded, signed
from textmover.report.templating import picture

LEAST_HEIGHT = 262.0
LINE_LEFT, LINE_RIGHT, LINE_TOP = 34.0, 268.0, 26.0
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
    height = max(LEAST_HEIGHT, LINE_TOP + LABEL_STEP * len(lines) + below + 8)
    bottom = height - below
    up = Scale(*(value_range(lines) if span is None else span), bottom, LINE_TOP)
    gap = (LINE_RIGHT - LINE_LEFT - 24) / max(1, len(bins) - 1)
    first = LINE_LEFT + 24 if len(bins) > 1 else (LINE_LEFT + LINE_RIGHT) / 2
    places = [first + gap * index for index in range(len(bins))]
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.values)]
    ends = [up.at(next(value for value in reversed(line.values) if math.isfinite(value))) for line in drawn]
    labels = spread(ends, LABEL_STEP, LINE_TOP + 2, bottom + 6)
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
    if not len(places):
        return []
    order, steps = np.argsort(places, kind="stable"), step * np.arange(len(places))
    apart = isotonic_regression(np.asarray(places, dtype=np.float64)[order] - steps).x
    found = np.empty(len(places))
    found[order] = np.maximum(low, np.minimum(high - steps[-1], apart)) + steps
    return found.tolist()


def shortened(text: str, most: int) -> str:
    """A text that is cut visibly where it is too long.

    Example:
        >>> shortened("moverscore", 10), shortened("moverscore-wmd2", 10)
        ('moverscore', 'moverscor…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


# --- metrics against people -------------------------------------------------------------------------------------------

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
    if most <= LEVELS:
        return list(range(1, max(1, most) + 1))
    factor = max(2.0, (most * 0.75) ** (1 / (LEVELS - 1)))
    steps = (math.ceil(factor**level - 1e-9) for level in range(LEVELS))
    return [step for step in steps if step <= most]


def step_labels(steps: Sequence[int]) -> list[str]:
    """Labels of the legend's depths.

    Example:
        >>> step_labels([1, 2, 4, 31])
        ['1', '2–3', '4–30', '31+']
    """
    ranges = [(first, behind - 1) for first, behind in itertools.pairwise(steps)]
    labels = [f"{first:,}" if first == last else f"{first:,}–{last:,}" for first, last in ranges]
    return [*labels, f"{steps[-1]:,}+"]


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
    across = _axis(scores, 0.0, FLAT_LEFT, RIGHT)
    bars, median = [], math.nan
    if len(scores):
        counts, edges = np.histogram(scores, bins=BINS, range=across[:2])
        heights = FLAT_BOTTOM - counts / counts.max() * (FLAT_BOTTOM - 6)
        bars = list(zip(across.places(edges), across.places(edges)[1:], heights, strict=False))
        median = float(np.median(scores))
    return picture("distribution.svg.j2", name=name, scores=scores, across=across, bars=bars, median=median)


def _axis(values: Vector, share: float, start: float, end: float) -> Scale:
    return Scale(*padded(shown_range(values) if len(values) else values, share), start, end)


def _placed(ratings: Vector, scores: Vector, *, flipped: bool) -> tuple[Vector, Vector, Scale, Scale]:
    inside = _inside(ratings, scores)
    across = _axis(ratings, 0.03, LEFT, RIGHT)
    up = _axis(scores, 0.04, *((TOP, BOTTOM) if flipped else (BOTTOM, TOP)))
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
