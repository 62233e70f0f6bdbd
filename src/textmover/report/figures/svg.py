"""SVG elements, scales and ticks, and the colours of pages in light and dark.

Colours are chosen in OKLCH, where equal steps of lightness look equal, and written as sRGB.
"""

from __future__ import annotations

import functools
import html
import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

MINUS = "\N{MINUS SIGN}"


class Scale(NamedTuple):
    """From values to places.

    Attributes:
        low: Value at the start.
        high: Value at the end, another one than at the start.
        start: Place of the lowest value.
        end: Place of the highest one.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Place of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def places(self, values: ArrayLike) -> NDArray[np.float64]:
        """Places of values."""
        shares = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        return self.start + shares * (self.end - self.start)


def element(name: str, *children: str, **attributes: str | float) -> str:
    """An element as text.

    Args:
        name: Its name, such as ``path``.
        children: Elements, or text that is escaped already.
        attributes: ``class_`` stands for ``class`` and ``stroke_width`` for ``stroke-width``; values are escaped.

    Example:
        >>> element("text", "r", class_="a", x=1.26, title='<">')
        '<text class="a" x="1.3" title="&lt;&quot;&gt;">r</text>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value) if isinstance(value, str) else coordinate(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def svg(width: float, height: float, *children: str, title: str, class_: str) -> str:
    """A picture that scales with its box.

    Args:
        width: In its own units.
        height: In its own units.
        children: Elements.
        title: What it shows, for those who do not see it.
        class_: Classes for the style sheet.
    """
    box = f"0 0 {coordinate(width)} {coordinate(height)}"
    return element("svg", *children, class_=class_, viewBox=box, role="img", aria_label=title)


def coordinate(value: float) -> str:
    """A number as short as a tenth of a unit allows.

    Example:
        >>> coordinate(12.04), coordinate(-0.04), coordinate(0.26)
        ('12', '0', '0.3')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def signed(value: float, digits: int, *, plus: bool = False) -> str:
    """A number with a true minus sign; a dash where there is none.

    Args:
        value: The number; may be NaN.
        digits: Behind the point.
        plus: Whether positive numbers carry a plus sign.

    Example:
        >>> signed(-0.26, 1), signed(0.5, 2, plus=True), signed(-0.001, 1), signed(float("nan"), 2)
        ('−0.3', '+0.50', '0.0', '–')
    """
    if not math.isfinite(value):
        return "\N{EN DASH}"
    text = f"{value:.{digits}f}"
    if not text.strip("-0."):
        return text.removeprefix("-")
    return text.replace("-", MINUS) if text.startswith("-") else ("+" if plus else "") + text


def padded(values: ArrayLike, share: float = 0.0) -> tuple[float, float]:
    """Range of values with room around it, also if there is one value or none.

    Args:
        values: May hold NaN.
        share: Room on each side, as a share of the range.

    Returns:
        Two different finite numbers.

    Example:
        >>> padded([0, 10], 0.1), padded([3]), padded([]), padded([0])
        ((-1.0, 11.0), (1.5, 4.5), (0.0, 1.0), (-0.5, 0.5))
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # equal but for rounding
        room = abs(low) / 2 or 0.5
        return low - room, high + room
    room = share * (high - low)
    return low - room, high + room


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Round values within a range, evenly spaced.

    Args:
        low: Start of the range.
        high: Its end.
        most: Largest number of ticks, at least 2.

    Returns:
        Multiples of 1, 2 or 5 times a power of ten; at least one.

    Example:
        >>> nice_ticks(0.13, 0.78, 4), nice_ticks(-2.4, 2.4, 5)
        ([0.2, 0.4, 0.6], [-2.0, -1.0, 0.0, 1.0, 2.0])
    """
    power = math.floor(math.log10((high - low) / most))
    for exponent in range(power, power + 3):
        for factor in (1, 2, 5):
            first, last = _multiples(low, high, factor, exponent)
            if last - first + 1 <= most and last >= first:
                return [_scaled(factor * number, exponent) for number in range(first, last + 1)]
    return [low]


def axis_labels(ticks: list[float]) -> list[str]:
    """Ticks as text, all with as many digits as their distance needs.

    Example:
        >>> axis_labels([-0.5, 0.0, 0.5]), axis_labels([0.0, 100.0]), axis_labels([1e-7, 2e-7])
        (['−0.5', '0.0', '0.5'], ['0', '100'], ['1e−07', '2e−07'])
    """
    largest = max(map(abs, ticks), default=0)
    step = min((b - a for a, b in itertools.pairwise(ticks)), default=largest or 1.0)
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if digits > 5 or largest >= 1e6:
        return [f"{tick:.3g}".replace("-", MINUS) for tick in ticks]
    return [signed(tick, digits) for tick in ticks]


def _multiples(low: float, high: float, factor: int, exponent: int) -> tuple[int, int]:
    """First and last number whose multiple lies in a range."""
    step = _scaled(factor, exponent)
    return math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)


def _scaled(number: int, exponent: int) -> float:
    """``number · 10^exponent``, the closest float64."""
    return float(f"{number}e{exponent}")


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
    """OKLab coordinates of an sRGB colour."""
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
