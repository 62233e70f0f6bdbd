"""Colours of metrics and heat maps, in light and dark.

They were chosen in OKLCH, where equal steps of lightness look equal (Ottosson 2020). Names of metrics have a contrast
of at least 4.5 (WCAG), numbers on a heat map one of 7. People who see no red or no green can distinguish blue from
orange.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

SEQUENTIAL = 8  # steps of a heat map from low to high
DIVERGING = 4  # steps of a heat map on each side of its middle
INK = {"light": "#1c1e21", "dark": "#eceae6"}
PAPER = {"light": "#ffffff", "dark": "#16181b"}  # text on the page and the page itself, as in style.css
STRONGEST = {"light": "#000000", "dark": "#ffffff"}  # text on the deepest steps, which are starred
SHADES = {
    ("sequential", "light"): "ebf3fc d5e7fb c3dbf7 b0cff2 9dc3ed 8bb7e9 78abe3* 659fde*",
    ("sequential", "dark"): "1d252e 1f2c3b 203449 213b57 224266 224a75 215184* 205994*",
    ("below", "light"): "f6ddcc ecc5ab e2ad8a d79669*",
    ("below", "dark"): "3b281b 4f2f19 633715 783e0d",
    ("above", "light"): "d2e4fa b4d1f3 96beeb 78abe3*",
    ("above", "dark"): "1f2e3e 213955 22456c 215184*",
}
"""Steps of heat maps from the paper's side on: from low to high, and below and above a middle."""

_, *ROWS = Path(__file__).with_name("metric_colours.csv").read_text(encoding="utf-8").split()
METRICS = [(light, dark) for light, _, dark in (row.partition(",") for row in ROWS)]
"""Colours on light and on dark paper, each as far as can be from all before it."""


class Shade(NamedTuple):
    """A step of a heat map: its colour, and that of the numbers on it."""

    fill: str
    text: str


@functools.cache
def shades(kind: str, theme: str = "light") -> list[Shade]:
    """The steps of a kind (``sequential``, or ``below`` or ``above`` a middle) in the theme ``light`` or ``dark``."""
    return [
        Shade(f"#{one.rstrip('*')}", (STRONGEST if one.endswith("*") else INK)[theme])
        for one in SHADES[kind, theme].split()
    ]


def step_of(value: float, steps: int = SEQUENTIAL) -> int:
    """Step of a value from 0 to 1; values below and above get the first and the last one."""
    return min(steps - 1, int(max(0.0, value) * steps))


def metric_colours(count: int) -> list[tuple[str, str]]:
    """A colour for each metric on light and on dark paper; they repeat where there are more metrics than colours."""
    return [METRICS[place % len(METRICS)] for place in range(count)]
