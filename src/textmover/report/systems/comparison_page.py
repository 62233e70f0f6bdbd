"""Compared systems as one self-contained HTML page: means, tests, differences, and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation import ComparedSystems, SystemPair
from textmover.report.evaluation.segments import fold_limit, shown_text
from textmover.report.figures.svg import (
    Scale,
    axis_labels,
    coordinate,
    element,
    metric_colours,
    nice_ticks,
    padded,
    signed,
    svg,
)
from textmover.report.templating import check_jinja, colour_rules, fill, template_text

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


MOST_OPEN = 6
"""Pairs of systems whose pictures are open; those of more are folded away."""

MOST_ALONE = 3
"""Pairs of systems up to which there is no table of all of them."""


@dataclass(frozen=True)
class ComparedSegment:
    """The texts of a segment.

    Attributes:
        line: Its line or row.
        hypotheses: The text of each system.
        references: One or more.
    """

    line: int
    hypotheses: Sequence[str]
    references: Sequence[str]


def render_comparison(
    found: ComparedSystems,
    segments: Sequence[ComparedSegment],
    *,
    lines: Sequence[int],
    shown: int,
    signature: str,
    versions: str,
    command: str = "",
    remarks: Sequence[str] = (),
) -> str:
    """The page as text.

    Args:
        found: What is known of the systems.
        segments: The texts of all segments; none where there are scores alone.
        lines: Line or row of each segment.
        shown: How many of the segments on which systems differ most to show.
        signature: What the scores depend on.
        versions: What made the page.
        command: What was typed.
        remarks: What a reader has to know before all else, such as that segments are few.

    Returns:
        HTML with its style, its script and its pictures; the same input gives the same text.
    """
    check_jinja()
    colours = {name: index % len(metric_colours(len(found.systems))) for index, name in enumerate(found.systems)}
    count = found.scores.shape[1]
    tests = found.pairs[0]
    places = found.differing(shown)
    fold = fold_limit(
        len(text) for place in places if segments for text in (*segments[place].hypotheses, *segments[place].references)
    )
    text = fill(
        "comparison.html.j2",
        colours=colour_rules(len(found.systems)),
        style=template_text("style.css", "comparison.css"),
        script=template_text("script.js"),
        title=_title(found),
        segments=f"{count:,}",
        better="higher is better" if found.higher_is_better else "lower is better",
        remarks=remarks,
        headlines=_headlines(found),
        systems=_systems(found, colours),
        pairs=_pairs(found, colours),
        listed=len(found.pairs) > MOST_ALONE,
        folded=len(found.pairs) > MOST_OPEN,
        differing=[
            _segment(place, lines[place], found, segments[place] if segments else None, colours, fold)
            for place in places
        ],
        texts=bool(segments),
        signature=signature,
        tests=[tests.bootstrap.signature, tests.randomisation.signature],
        significant=f"{found.significant:g}",
        versions=versions,
        command=command,
    )
    return text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is not a character of UTF-8


def _title(found: ComparedSystems) -> str:
    if len(found.systems) == 2:
        return f"{found.systems[0]} and {found.systems[1]}"
    return f"{len(found.systems)} systems"


def _headlines(found: ComparedSystems) -> list[str]:
    """The result in sentences: the best system, and those that no test tells from it."""
    if len(found.pairs) == 1:
        return [verdict(found.pairs[0], found)]
    best = found.systems[found.order[0]]
    alike = [found.systems[one] for one in found.order[1:] if found.ranks[one] == 1]
    return [f"Best: {best}.", *([f"Not told apart from it: {', '.join(alike)}."] if alike else [])]


def _systems(found: ComparedSystems, colours: dict[str, int]) -> list[dict[str, Any]]:
    """The rows of the table, best first."""
    range_ = padded(np.concatenate([found.low, found.high]), 0.04)
    best = found.order[0]
    return [
        {
            "name": found.systems[one],
            "colour": colours[found.systems[one]],
            "rank": found.ranks[one],
            "mean": signed(found.means[one], 4),
            "value": float(found.means[one]),
            "interval": f"{signed(found.low[one], 4)} to {signed(found.high[one], 4)}",
            "picture": interval_plot(found.means[one], found.low[one], found.high[one], range_, found.systems[one]),
            "best": one == best,
        }
        for one in found.order
    ]


def _pairs(found: ComparedSystems, colours: dict[str, int]) -> list[dict[str, Any]]:
    """Each two systems, their pictures on one scale."""
    sign = 1 if found.higher_is_better else -1
    scores = dict(zip(found.systems, sign * found.scores, strict=True))
    gaps = [scores[pair.second] - scores[pair.first] for pair in found.pairs]
    ends = np.concatenate([bars_of(one)[[0, -1]] for one in gaps])
    range_ = float(ends.min()), float(ends.max())
    return [_pair(pair, found, colours, one, range_) for pair, one in zip(found.pairs, gaps, strict=True)]


def _pair(
    pair: SystemPair,
    found: ComparedSystems,
    colours: dict[str, int],
    gaps: NDArray[np.float64],
    range_: tuple[float, float],
) -> dict[str, Any]:
    """View of two systems, the second of which is better by ``gaps``."""
    parts = (("better", pair.wins), ("equal", pair.ties), ("worse", pair.losses))
    return {
        "first": pair.first,
        "second": pair.second,
        "colours": (colours[pair.first], colours[pair.second]),
        "verdict": verdict(pair, found),
        "difference": signed(pair.bootstrap.difference, 4, plus=True),
        "interval": f"{signed(pair.bootstrap.low, 4, plus=True)} to {signed(pair.bootstrap.high, 4, plus=True)}",
        "value": pair.bootstrap.difference,
        "p_values": [
            {"text": p_value(one.p_value, pair.least), "value": max(one.p_value, pair.least)}
            for one in (pair.bootstrap, pair.randomisation)
        ],
        "parts": [
            {"kind": kind, "count": number, "share": f"{100 * number / len(gaps):.2f}"} for kind, number in parts
        ],
        "picture": difference_plot(gaps, pair.first, pair.second, range_),
    }


def verdict(pair: SystemPair, found: ComparedSystems) -> str:
    """Sentence that names the better system if both tests find it and enough segments differ."""
    decision = found.decision(pair)
    if pair.differing and pair.least > found.significant:
        return "Too few segments differ to tell them apart."
    if decision.winner is not None:
        return f"{decision.winner} is better."
    return "No test tells them apart." if decision.agreed else "The tests do not agree."


def p_value(value: float, least: float = 0.0) -> str:
    """A p-value with the sign before it, or the least that is possible where sacrebleu's counting gives less.

    Example:
        >>> p_value(0.0004), p_value(0.25), p_value(0.0004, least=0.5)
        ('< 0.001', '= 0.250', '≥ 0.5')
    """
    if value < least:
        return f"≥ {least:.2g}"
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _segment(
    place: int,
    line: int,
    found: ComparedSystems,
    segment: ComparedSegment | None,
    colours: dict[str, int],
    fold: int,
) -> dict[str, Any]:
    """A segment with the texts of all systems, best first."""
    scores = found.scores[:, place]
    return {
        "line": line,
        "spread": signed(scores.max() - scores.min(), 3),
        "value": float(scores.max() - scores.min()),
        "references": [] if segment is None else [shown_text(text, fold) for text in segment.references],
        "systems": [
            {
                "name": found.systems[one],
                "colour": colours[found.systems[one]],
                "score": signed(scores[one], 3),
                "text": None if segment is None else shown_text(segment.hypotheses[one], fold),
            }
            for one in found.best_first(place)
        ],
    }
