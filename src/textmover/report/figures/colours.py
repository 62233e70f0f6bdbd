"""Colours of metrics and heat maps in the light and dark theme.

The colours were chosen in OKLCH, which is perceptually uniform (Ottosson 2020). Metric names have a WCAG contrast of at
least 4.5, numbers on a heat map of at least 7. Blue and orange are distinguishable with red-green colour blindness.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

SEQUENTIAL = 8  # steps of a heat map from low to high
DIVERGING = 4  # steps of a diverging heat map on each side of its midpoint
INK = {"light": "#1c1e21", "dark": "#eceae6"}
PAPER = {"light": "#ffffff", "dark": "#16181b"}  # text colour and page background, as in style.css
STRONGEST = {"light": "#000000", "dark": "#ffffff"}  # text colour on the strongest shades, marked with * below
SHADES = {
    ("sequential", "light"): "ebf3fc d5e7fb c3dbf7 b0cff2 9dc3ed 8bb7e9 78abe3* 659fde*",
    ("sequential", "dark"): "1d252e 1f2c3b 203449 213b57 224266 224a75 215184* 205994*",
    ("below", "light"): "f6ddcc ecc5ab e2ad8a d79669*",
    ("below", "dark"): "3b281b 4f2f19 633715 783e0d",
    ("above", "light"): "d2e4fa b4d1f3 96beeb 78abe3*",
    ("above", "dark"): "1f2e3e 213955 22456c 215184*",
}
"""Heat map shades from weak to strong: sequential, and below and above a midpoint."""

_, *ROWS = Path(__file__).with_name("metric_colours.csv").read_text(encoding="utf-8").split()
METRICS = [(light, dark) for light, _, dark in (row.partition(",") for row in ROWS)]
"""Metric colours in the light and dark theme, each as different as possible from all before it."""


class Shade(NamedTuple):
    """Background and text colour of a heat map step."""

    fill: str
    text: str


@functools.cache
def shades(kind: str, theme: str = "light") -> list[Shade]:
    """Return the shades of a kind (``sequential``, ``below``, ``above``) in the theme ``light`` or ``dark``."""
    return [
        Shade(f"#{one.rstrip('*')}", (STRONGEST if one.endswith("*") else INK)[theme])
        for one in SHADES[kind, theme].split()
    ]


def step_of(value: float, steps: int = SEQUENTIAL) -> int:
    """Return the heat map step of a value in [0, 1]; other values are clipped."""
    return min(steps - 1, int(max(0.0, value) * steps))


def metric_colours(count: int) -> list[tuple[str, str]]:
    """Return a light and a dark theme colour for each metric; colours repeat if there are too few."""
    return [METRICS[place % len(METRICS)] for place in range(count)]
