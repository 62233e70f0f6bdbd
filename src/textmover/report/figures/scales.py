"""Scales, ticks and numbers of pictures."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

MINUS = "\N{MINUS SIGN}"


class Scale(NamedTuple):
    """From values between two different ends to places."""

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

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Places of at most so many round values, with their labels."""
        ticks = nice_ticks(self.low, self.high, most)
        return list(zip(map(self.at, ticks), axis_labels(ticks), strict=True))


def coordinate(value: float) -> str:
    """A number as short as a tenth of a unit allows.

    Example:
        >>> coordinate(12.04), coordinate(-0.04), coordinate(0.26)
        ('12', '0', '0.3')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def signed(value: float, digits: int, *, plus: bool = False) -> str:
    """A number with a true minus sign, and with a plus sign if asked for; a dash where there is none.

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
    """Range of values with a share of it as room on each side; two different numbers also for one value or none.

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
    """Multiples of 1, 2 or 5 times a power of ten within a range, at most so many (2 or more), and at least one.

    Example:
        >>> nice_ticks(0.13, 0.78, 4), nice_ticks(-2.4, 2.4, 5)
        ([0.2, 0.4, 0.6], [-2.0, -1.0, 0.0, 1.0, 2.0])
    """
    power = math.floor(math.log10((high - low) / most))
    for exponent in range(power, power + 3):
        for factor in (1, 2, 5):
            step = float(f"{factor}e{exponent}")  # the closest float64
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first + 1 <= most and last >= first:
                return [float(f"{factor * number}e{exponent}") for number in range(first, last + 1)]
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
