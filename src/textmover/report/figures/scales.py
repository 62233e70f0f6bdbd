"""Scales, ticks and number formats of figures."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from textmover.types import fixed

MINUS = "\N{MINUS SIGN}"


class Scale(NamedTuple):
    """Linear map from values in [low, high] to coordinates in [start, end]; ``low`` and ``high`` must differ."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: Any) -> Any:
        """Return the coordinate of a value, or of each value of an array."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return the coordinates and labels of at most ``most`` round values."""
        ticks = nice_ticks(self.low, self.high, most)
        return list(zip(map(self.at, ticks), axis_labels(ticks), strict=True))


def coordinate(value: float) -> str:
    """Format a coordinate with at most one decimal place.

    Example:
        >>> coordinate(12.04), coordinate(-0.04), coordinate(0.26)
        ('12', '0', '0.3')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def signed(value: float, digits: int, *, plus: bool = False) -> str:
    """Format a number with a typographic minus sign and an optional plus sign; a dash if it is not finite.

    Example:
        >>> signed(-0.26, 1), signed(0.5, 2, plus=True), signed(-0.001, 1), signed(float("nan"), 2)
        ('−0.3', '+0.50', '0.0', '–')
    """
    if not math.isfinite(value):
        return "\N{EN DASH}"
    text = fixed(value, digits, plus=plus)
    return text.replace("-", MINUS) if text.strip("+0.") else text.removeprefix("+")


def padded(values: ArrayLike, share: float = 0.0) -> tuple[float, float]:
    """Return the range of values, extended by ``share`` of it on each side; its ends always differ.

    Example:
        >>> padded([0, 10], 0.1), padded([3]), padded([]), padded([0])
        ((-1.0, 11.0), (1.5, 4.5), (0.0, 1.0), (-0.5, 0.5))
    """
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # equal up to rounding
        margin = abs(low) / 2 or 0.5
        return low - margin, high + margin
    margin = share * (high - low)
    return low - margin, high + margin


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Return 2 to ``most`` ticks in a range: multiples of 1, 2, 5 or else 4 times a power of ten.

    If ``most`` is 2, there may be one.

    Example:
        >>> nice_ticks(0.13, 0.78, 4), nice_ticks(-2.4, 2.4, 5), nice_ticks(-4.2, 4.9, 4)
        ([0.2, 0.4, 0.6], [-2.0, -1.0, 0.0, 1.0, 2.0], [-4.0, 0.0, 4.0])
    """
    power = math.floor(math.log10((high - low) / most))
    for exponent in range(power, power + 3):
        for factor in (1, 2, 5, 4):
            step = float(f"{factor}e{exponent}")  # the closest float64
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if min(2, most - 1) <= last - first + 1 <= most:
                return [float(f"{factor * number}e{exponent}") for number in range(first, last + 1)]
    return [low]


def axis_labels(ticks: list[float]) -> list[str]:
    """Format ticks, all with as many decimal places as their distance needs.

    Example:
        >>> axis_labels([-0.5, 0.0, 0.5]), axis_labels([0.0, 100.0]), axis_labels([1e-7, 2e-7])
        (['−0.5', '0.0', '0.5'], ['0', '100'], ['1e−07', '2e−07'])
    """
    largest = max(map(abs, ticks), default=0)
    step = min((b - a for a, b in itertools.pairwise(ticks)), default=largest or 1.0)
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if digits > 5 or largest >= 1e6:
        needed = math.floor(math.log10(largest / step) + 1e-9) + 2 if step > 0 else 3
        return [f"{tick:.{max(3, needed)}g}".replace("-", MINUS) for tick in ticks]
    return [signed(tick, digits) for tick in ticks]
