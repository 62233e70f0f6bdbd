"""Compared systems as one self-contained HTML page: means, tests, differences, and texts."""

from __future__ import annotations

import platform
from functools import partial

import numpy as np
from numpy.typing import NDArray

from textmover._version import __version__
from textmover.meta_evaluation import ComparedSystems
from textmover.report.evaluation.segments import fold_limit, shown_text
from textmover.report.figures.scales import Scale, padded
from textmover.report.systems.comparison import Comparison, p_value, verdict
from textmover.report.templating import interval_scale, picture, render_page

LEFT, RIGHT, TOP, BOTTOM = 44.0, 412.0, 8.0, 130.0  # edges of the plot within its picture
MOST_BARS = 140  # bars that a picture has room for; of more segments several share one, which shows their mean
MOST_OPEN = 6  # pairs of systems whose pictures are open; those of more are folded away
MOST_ALONE = 3  # pairs of systems up to which there is no table of all of them


def as_html(comparison: Comparison) -> str:
    """The page as text."""
    found, places = comparison.found, comparison.found.differing(comparison.shown)
    rows = [comparison.row(place) for place in places]
    fold = fold_limit([len(text) for row in rows for text in (*row.hypotheses, *row.references)])
    scores = dict(zip(found.systems, found.scores if found.higher_is_better else -found.scores, strict=True))
    gaps = [scores[pair.second] - scores[pair.first] for pair in found.pairs]
    bars = np.concatenate(list(map(bars_of, gaps)))
    return render_page(
        "comparison.html.j2",
        metrics=len(found.systems),
        styles=("comparison.css",),
        script="script.js",
        title=" and ".join(found.systems) if len(found.systems) == 2 else f"{len(found.systems)} systems",
        comparison=comparison,
        found=found,
        segments=found.scores.shape[1],
        headlines=_headlines(found),
        scale=interval_scale(found),
        pictures=[
            difference_plot(one, pair.first, pair.second, (bars.min(), bars.max()))
            for pair, one in zip(found.pairs, gaps, strict=True)
        ],
        listed=len(found.pairs) > MOST_ALONE,
        folded=len(found.pairs) > MOST_OPEN,
        differing=list(zip(places, rows, strict=True)),
        cut=partial(shown_text, limit=fold),
        verdict=partial(verdict, found=found),
        p_value=p_value,
        versions=f"textmover {__version__}, numpy {np.__version__}, python {platform.python_version()}",
    )


def _headlines(found: ComparedSystems) -> list[str]:
    if len(found.pairs) == 1:
        return [verdict(found.pairs[0], found)]
    best = found.systems[found.order[0]]
    alike = [found.systems[one] for one in found.order[1:] if found.ranks[one] == 1]
    return [f"Best: {best}.", *([f"Not told apart from it: {', '.join(alike)}."] if alike else [])]


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

    The scale has room for the smallest and the largest bar of all pictures that are to be compared.
    """
    bars = bars_of(gaps)
    along = Scale(0, len(bars), LEFT, RIGHT)
    up = Scale(*padded([min(0.0, range_[0]), max(0.0, range_[1])], 0.06), BOTTOM, TOP)
    step = along.at(1) - along.at(0)
    thick = max(0.6, step - (1.0 if step > 4 else 0.0))
    placed = [(along.at(place), bar) for place, bar in enumerate(bars.tolist())]
    return picture("gaps.svg.j2", first=first, second=second, gaps=gaps, up=up, bars=placed, thick=thick)
