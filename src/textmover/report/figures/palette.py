"""Colours of the report page: metrics, and steps of heat maps, for light and dark.

Colours are chosen in OKLCH, where equal steps of lightness look equal, and written as sRGB, which every browser knows.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

SEQUENTIAL = 8
"""Steps of a heat map from low to high."""

DIVERGING = 4
"""Steps of a heat map on each side of its middle."""

INK = {"light": "#1c1e21", "dark": "#eceae6"}
PAPER = {"light": "#ffffff", "dark": "#16181b"}
"""Text on the page and the page itself, as in style.css."""

READABLE, CLEAR = 4.5, 7.0
"""Least contrast of the name of a metric and of any other text with what is behind it, by WCAG (AA and AAA)."""

BLUE, ORANGE = 252.0, 55.0
"""Hues of the heat maps; people who see no red or no green tell them apart."""


class Shade(NamedTuple):
    """A step of a heat map.

    Attributes:
        fill: Its colour.
        text: The colour of numbers on it.
    """

    fill: str
    text: str


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """A colour of the OKLCH space as sRGB; colours that sRGB lacks become paler until it has them.

    Args:
        lightness: From 0 (black) to 1 (white).
        chroma: From 0 (grey) to about 0.3.
        hue: In degrees; 30 is red, 145 green, 250 blue.

    Returns:
        Such as ``"#1c69a8"``.

    Example:
        >>> oklch(1, 0, 0), oklch(0, 0, 0), oklch(0.628, 0.2577, 29.23)
        ('#ffffff', '#000000', '#ff0000')

    Reference:
        Ottosson (2020), A perceptual color space for image processing.
    """
    channels = _linear(lightness, _shown_chroma(lightness, chroma, hue), hue)
    return "#" + "".join(f"{round(255 * _encoded(channel)):02x}" for channel in channels)


def metric_colours(count: int) -> list[tuple[str, str]]:
    """A colour for each metric, on light and on dark paper: each as far as can be from all before it.

    Args:
        count: Number of metrics; colours repeat where there are more metrics than colours, over a hundred.

    Returns:
        Pairs of colours in which names can be written; each stands out from its paper. More metrics do not change the
        colours of the first ones.

    Example:
        >>> len(set(metric_colours(15))), metric_colours(3)[:2] == metric_colours(2)
        (15, True)
    """
    candidates = _candidates()
    chosen = [0]
    nearest = [_apart(candidates[0], one) for one in candidates]
    while len(chosen) < min(count, len(candidates)):
        chosen.append(max(range(len(candidates)), key=nearest.__getitem__))
        last = candidates[chosen[-1]]
        nearest = [min(old, _apart(last, one)) for old, one in zip(nearest, candidates, strict=True)]
    return [candidates[chosen[index % len(chosen)]].pair for index in range(count)]


class _Candidate(NamedTuple):
    """A colour of a metric.

    Attributes:
        pair: On light and on dark paper, as text.
        places: The same two in OKLab, where distances are differences that people see.
    """

    pair: tuple[str, str]
    places: tuple[tuple[float, float, float], tuple[float, float, float]]


@functools.cache
def _candidates() -> list[_Candidate]:
    """Hues at three depths, strong and pale, of which names can be read on both papers; a blue is the first."""
    found = []
    for light, dark in ((0.50, 0.74), (0.40, 0.84), (0.56, 0.66)):
        for strength in (0.16, 0.09):
            for step in range(24):
                hue = (BLUE + 15 * step) % 360
                tones = (light, strength), (dark, 0.85 * strength)
                pair = (oklch(*tones[0], hue), oklch(*tones[1], hue))
                if all(contrast(one, PAPER[theme]) >= READABLE for one, theme in zip(pair, PAPER, strict=True)):
                    first, second = (_place(tone, chroma, hue) for tone, chroma in tones)
                    found.append(_Candidate(pair, (first, second)))
    return found


def _place(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    """Where in OKLab the colour lies that sRGB has for it."""
    chroma = _shown_chroma(lightness, chroma, hue)
    return lightness, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))


def _apart(first: _Candidate, second: _Candidate) -> float:
    """Distance on the paper on which it is smaller."""
    return min(math.dist(one, other) for one, other in zip(first.places, second.places, strict=True))


def sequential(theme: str) -> list[Shade]:
    """Steps from low to high, the paper's side first.

    Args:
        theme: ``light`` or ``dark``.

    Returns:
        :data:`SEQUENTIAL` shades.
    """
    return [_step(theme, BLUE, (index + 0.4) / SEQUENTIAL) for index in range(SEQUENTIAL)]


def diverging(theme: str) -> tuple[list[Shade], list[Shade]]:
    """Steps below and above the middle, the paper's side first.

    Args:
        theme: ``light`` or ``dark``.

    Returns:
        :data:`DIVERGING` shades for what is below, and as many for what is above.
    """
    below, above = (
        [_step(theme, hue, (index + 1) / (DIVERGING + 1)) for index in range(DIVERGING)] for hue in (ORANGE, BLUE)
    )
    return below, above


def contrast(first: str, second: str) -> float:
    """Contrast of two colours by WCAG, from 1 to 21.

    Args:
        first: A colour such as ``"#1c69a8"``.
        second: Another one.

    Returns:
        ``(L1 + 0.05)/(L2 + 0.05)`` of the relative luminances.

    Example:
        >>> contrast("#000000", "#ffffff")
        21.0
    """
    brighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _step(theme: str, hue: float, strength: float) -> Shade:
    """Strength 0 is nearly the paper, 1 as strong as it gets."""
    lightness = 0.975 - 0.31 * strength if theme == "light" else 0.25 + 0.225 * strength  # text stays clear on both
    fill = oklch(lightness, 0.015 + 0.105 * strength, hue)
    strongest = {"light": "#000000", "dark": "#ffffff"}[theme]
    return Shade(fill, INK[theme] if contrast(INK[theme], fill) >= CLEAR else strongest)


def _shown_chroma(lightness: float, chroma: float, hue: float) -> float:
    """As much of the chroma as sRGB has."""
    while chroma > 0 and not all(-0.002 <= channel <= 1.002 for channel in _linear(lightness, chroma, hue)):
        chroma = max(0.0, chroma - 0.005)
    return chroma


def _linear(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    """Linear red, green and blue, outside of [0, 1] where sRGB lacks the colour."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _encoded(channel: float) -> float:
    """Linear light to sRGB, both in [0, 1]."""
    channel = min(1.0, max(0.0, channel))
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055


def _luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
