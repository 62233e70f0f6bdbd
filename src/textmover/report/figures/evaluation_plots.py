"""SVG plots of an evaluation: lines over bins, scatter plots of scores against ratings, and histograms."""

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
BOTTOM_MARGIN, BIN_LABEL_HEIGHT = 12.0, 14.0  # height below the plot, and of each line of bin labels
LABEL_STEP = 14.0  # minimum vertical distance between two names
LONGEST_LABEL = 18  # maximum characters of a name next to its line; the title and the table show the full name
INTERVAL_GAP = 4.0  # horizontal distance between the intervals of two metrics in one bin


class BinLine(NamedTuple):
    """A metric's values by bin (NaN for a gap) and the ends of their intervals; a muted line shows no intervals."""

    name: str
    colour: int
    values: Sequence[float]
    ends: Sequence[tuple[float, float]] = ()
    muted: bool = False


def value_range(lines: Sequence[BinLine]) -> tuple[float, float]:
    """Return the range of all values and drawn intervals, with a margin."""
    ends = [end for line in lines if not line.muted for pair in line.ends for end in pair]
    return padded([*(value for line in lines for value in line.values), *ends], 0.06)


def line_plot(
    lines: Sequence[BinLine], bins: Sequence[Sequence[str]], *, title: str, axis: str, span: tuple[float, float]
) -> str:
    """Draw lines over bins as SVG, with names at their right ends and each bin's lines of text below it.

    Hover or focus highlights a line and fades the others, without a script.
    """
    # The height grows with the number of names, so that labels stay close to their lines.
    below = BOTTOM_MARGIN + BIN_LABEL_HEIGHT * max((len(texts) for texts in bins), default=0)
    height = max(LEAST_HEIGHT, LINE_TOP + LABEL_STEP * len(lines) + below + 8)
    bottom = height - below
    y_scale = Scale(*span, bottom, LINE_TOP)
    gap = (LINE_RIGHT - LINE_LEFT - 24) / max(1, len(bins) - 1)
    first = LINE_LEFT + 24 if len(bins) > 1 else (LINE_LEFT + LINE_RIGHT) / 2
    positions = [first + gap * index for index in range(len(bins))]
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.values)]
    ends = [y_scale.at(next(value for value in reversed(line.values) if math.isfinite(value))) for line in drawn]
    labels = avoid_overlaps(ends, LABEL_STEP, LINE_TOP + 2, bottom + 6)
    shown = [line for line in drawn if not line.muted and line.ends]
    series = []
    for line, label in sorted(zip(drawn, labels, strict=True), key=lambda one: not one[0].muted):
        offset = INTERVAL_GAP * (shown.index(line) - (len(shown) - 1) / 2) if line in shown else 0.0
        series.append({"line": line, "label": label, **_path(line, positions, y_scale, offset)})
    values = {"bins": list(zip(positions, bins, strict=True)), "bottom": bottom, "up": y_scale, "series": series}
    return picture("lines.svg.j2", title=title, axis=axis, height=height, **values)


def _path(line: BinLine, positions: Sequence[float], scale: Scale, offset: float) -> dict[str, Any]:
    steps, points = [], []
    for place, (x, value) in enumerate(zip(positions, line.values, strict=True)):
        if math.isfinite(value):
            points.append((x, scale.at(value)))
            joined = place > 0 and math.isfinite(line.values[place - 1])
            steps.append(f"{'L' if joined else 'M'}{coordinate(x)} {coordinate(points[-1][1])}")
    bounds = zip(positions, line.ends, strict=False) if not line.muted else ()
    return {
        "path": "".join(steps),
        "points": points,
        "whiskers": [(x + offset, scale.at(low), scale.at(high)) for x, (low, high) in bounds if math.isfinite(low)],
        "numbers": ", ".join(signed(value, 3) for value in line.values),
        "short": shortened(line.name, LONGEST_LABEL),
    }


def avoid_overlaps(places: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Move labels apart to a minimum distance within a range, with the least total movement (squared).

    Example:
        >>> avoid_overlaps([5, 5, 20], 4, 0, 100), avoid_overlaps([0, 0], 4, 0, 100)
        ([3.0, 7.0, 20.0], [0.0, 4.0])
    """
    if not len(places):
        return []
    order, steps = np.argsort(places, kind="stable"), step * np.arange(len(places))
    apart = isotonic_regression(np.asarray(places, dtype=np.float64)[order] - steps).x
    result = np.empty(len(places))
    result[order] = np.maximum(low, np.minimum(high - steps[-1], apart)) + steps
    return result.tolist()


def shortened(text: str, most: int) -> str:
    """Truncate a text to ``most`` characters, with an ellipsis if it is longer.

    Example:
        >>> shortened("moverscore", 10), shortened("moverscore-wmd2", 10)
        ('moverscore', 'moverscor…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


# --- scores against ratings -------------------------------------------------------------------------------------------

Vector = NDArray[np.float64]

LEFT, RIGHT, TOP, BOTTOM = 42.0, 196.0, 6.0, 156.0  # edges of the plot within the SVG, in units of about a pixel
RADIUS = 4.4  # radius of a hexagon
LEVELS = 6  # number of colour levels for the number of segments in a hexagon
MAX_DOTS = 150  # up to this number of segments, draw a dot for each instead of hexagons
BINS = 36
FLAT_LEFT, FLAT_BOTTOM = 10.0, 76.0  # edges of a histogram
TAIL, STRETCH = 0.005, 0.5
"""Tail quantile, and how far values may lie beyond it before the axis is cut there (relative to the quantile range)."""


def hexagon_counts(points: Vector, radius: float) -> tuple[Vector, NDArray[np.int64]]:
    """Return sorted centres ``[m, 2]`` and counts ``[m]`` of the non-empty hexagons for points ``[n, 2]``.

    Hexagons stand on a corner; a point belongs to the hexagon with the closest centre.
    """
    steps = np.array([math.sqrt(3) * radius, 3 * radius])
    # A hexagonal lattice consists of two rectangular lattices, shifted by half a step in both directions.
    near, far = np.rint(points / steps), np.floor(points / steps) + 0.5
    shifted = ((points - near * steps) ** 2).sum(axis=1) > ((points - far * steps) ** 2).sum(axis=1)
    cells, counts = np.unique(2 * np.where(shifted[:, None], far, near), axis=0, return_counts=True)
    return cells / 2 * steps, counts


def shown_range(values: Vector) -> tuple[float, float]:
    """Return the lowest and highest value that an axis shows; isolated outliers are excluded.

    Example:
        >>> shown_range(np.append(np.arange(400.0), 9000.0)), shown_range(np.array([0.0, 50.0]))
        ((0.0, 398.0), (0.0, 50.0))
    """
    if not len(values):
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    if len(values) > MAX_DOTS:
        first, last = (float(one) for one in np.quantile(values, [TAIL, 1 - TAIL]))
        limit = STRETCH * (last - first)
        if limit:  # if nearly all values are equal, show the exceptions too
            low, high = first if low < first - limit else low, last if high > last + limit else high
    return low, high


def outside_words(*axes: Vector) -> str:
    """State the number of segments outside a plot, such as ``"17 of 3,920 lie outside"``; empty if none."""
    inside = _inside(*axes)
    count = int((~inside).sum())
    return f"{count:,} of {len(inside):,} lie{'s' if count == 1 else ''} outside" if count else ""


def _inside(*axes: Vector) -> NDArray[np.bool_]:
    """Return a mask ``[n]`` of the segments within the shown ranges of all axes."""
    inside = np.ones(len(axes[0]), dtype=bool)
    for values in axes:
        low, high = shown_range(values)
        inside &= (values >= low) & (values <= high)
    return inside


def density_steps(most: int) -> list[int]:
    """Return the minimum count of each colour level, at most :data:`LEVELS`, in a roughly geometric sequence.

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
    """Return legend labels of the colour levels.

    Example:
        >>> step_labels([1, 2, 4, 31])
        ['1', '2–3', '4–30', '31+']
    """
    ranges = [(first, next_first - 1) for first, next_first in itertools.pairwise(steps)]
    labels = [f"{first:,}" if first == last else f"{first:,}–{last:,}" for first, last in ranges]
    return [*labels, f"{steps[-1]:,}+"]


class Scatter:
    """Plot of a metric's scores (y) against ratings (x); better is up and right.

    Pearson's r and the trend line use all segments, including those outside :func:`shown_range`.
    """

    def __init__(self, name: str, ratings: Vector, scores: Vector, *, higher_is_better: bool = True) -> None:
        self.name, self.ratings, self.scores, self.sign = name, ratings, scores, 1 if higher_is_better else -1
        inside = _inside(ratings, scores)
        self.across = _axis(ratings, 0.03, LEFT, RIGHT)
        self.up = _axis(scores, 0.04, *((BOTTOM, TOP) if higher_is_better else (TOP, BOTTOM)))
        self.points = np.stack([self.across.at(ratings[inside]), self.up.at(scores[inside])], axis=1)
        self.centres, self.counts = hexagon_counts(self.points, RADIUS)

    @property
    def densest(self) -> int:
        """Highest number of points in a hexagon; 0 if the plot draws dots."""
        return int(self.counts.max()) if len(self.ratings) > MAX_DOTS else 0

    def draw(self, steps: Sequence[int]) -> str:
        """Draw the plot as SVG; ``steps`` are the minimum counts of the hexagons' colour levels."""
        r = correlation(self.ratings, self.scores) if len(self.ratings) else math.nan
        hexagons = []
        if self.densest:
            levels = np.searchsorted(steps, self.counts, side="right")
            hexagons = [(level, self.centres[levels == level].tolist()) for level in range(1, LEVELS + 1)]
        dots, trend = [] if hexagons else self.points.tolist(), [] if math.isnan(r) else self._trend()
        values = {"count": len(self.ratings), "r": self.sign * r, "radius": RADIUS, **vars(self)}
        return picture("scatter.svg.j2", hexagons=hexagons, dots=dots, trend=trend, **values)

    def _trend(self) -> list[tuple[float, float]]:
        """Return the ends of the least-squares line, clipped to the plot."""
        centred = self.ratings - self.ratings.mean()
        slope = float(centred @ (self.scores - self.scores.mean()) / (centred @ centred))
        level = float(self.scores.mean() - slope * self.ratings.mean())
        ends = list(shown_range(self.ratings))
        if slope:
            crossings = sorted(((self.up.low - level) / slope, (self.up.high - level) / slope))
            ends = [max(ends[0], crossings[0]), min(ends[1], crossings[1])]
        return [(self.across.at(one), self.up.at(level + slope * one)) for one in ends]


def distribution_plot(name: str, scores: Vector) -> str:
    """Draw a histogram of scores as SVG, with the median marked."""
    x_scale = _axis(scores, 0.0, FLAT_LEFT, RIGHT)
    bars, median = [], math.nan
    if len(scores):
        counts, edges = np.histogram(scores, bins=BINS, range=x_scale[:2])
        heights = FLAT_BOTTOM - counts / counts.max() * (FLAT_BOTTOM - 6)
        bars = list(zip(x_scale.at(edges), x_scale.at(edges)[1:], heights, strict=False))
        median = float(np.median(scores))
    return picture("distribution.svg.j2", name=name, scores=scores, across=x_scale, bars=bars, median=median)


def _axis(values: Vector, share: float, start: float, end: float) -> Scale:
    return Scale(*padded(shown_range(values) if len(values) else values, share), start, end)
