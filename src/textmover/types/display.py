"""Display of results as a few lines of text and as a table in notebooks."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

MOST_ROWS = 12  # maximum number of displayed rows
LONGEST_CELL = 60  # maximum number of displayed characters per cell

T = TypeVar("T")


def plural(count: int, one: str, several: str = "") -> str:
    """Format a count with its noun.

    Example:
        >>> plural(1, "row"), plural(3920, "row"), plural(0, "entry", "entries")
        ('1 row', '3,920 rows', '0 entries')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def fixed(value: float, digits: int, *, plus: bool = False) -> str:
    """Format a number with a fixed number of decimal places; zero never has a minus sign.

    Example:
        >>> fixed(-0.26, 1), fixed(0.5, 2, plus=True), fixed(-0.00004, 4), fixed(-0.0, 1, plus=True)
        ('-0.3', '+0.50', '0.0000', '+0.0')
    """
    return f"{round(float(value), digits) + 0.0:{'+' if plus else ''}.{digits}f}"


def isolated(sentence: str, names: Iterable[str]) -> str:
    """Isolate right-to-left names in an English sentence, so that a browser reorders nothing around them.

    Example:
        >>> isolated("a and \u05d0: 0.5", ["a", "\u05d0"]) == "a and \u2068\u05d0\u2069: 0.5"
        True
    """
    turned = [one for one in names if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in one)]
    found = "|".join(map(re.escape, sorted(turned, key=len, reverse=True)))
    return re.sub(found, "\u2068\\g<0>\u2069", sentence) if turned else sentence


FLAGS = {
    "empty": "empty or unreadable",
    "language": "not in English",
    "script": "in another script",
    "unknown": "with unknown tokens",
    "look-alikes": "with look-alike letters",
    "repetition": "with a repeated phrase",
    "same output": "with the same output",
    "copied": "copies of the source",
    "untranslated": "in the language of the source",
    "off target": "in another language than the reference or target",
    "fallback": "without a reference or source",
    "unreferenced": "marked from the source alone",
    "long": "compared in segments",
}
"""Descriptions in messages of flags whose names are not self-explanatory."""


def flagged(counts: Mapping[str, int], among: str) -> list[str]:
    """Return the final line of a run with flagged texts, or an empty list without any.

    Example:
        >>> flagged({"language": 2, "empty": 1}, "3 segments")
        ['Flagged: 2 not in English, 1 empty or unreadable (of 3 segments)']
    """
    kinds = ", ".join(f"{number:,} {FLAGS.get(kind, kind)}" for kind, number in counts.items())
    return [f"Flagged: {kinds} (of {among})"] if kinds else []


class View(NamedTuple):
    """Headline and table of a displayed result."""

    headline: str
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    total: int | None = None  # number of rows if ``rows`` holds only the first
    notes: Sequence[str] = ()  # sentences below the headline

    @property
    def lines(self) -> list[list[str]]:
        """Cells of the headers and the first rows as text."""
        return [[_cell(one) for one in row] for row in (self.headers, *self.rows[:MOST_ROWS])] if self.rows else []

    @property
    def more(self) -> str:
        """Text with the number of hidden rows, or an empty string."""
        left = (len(self.rows) if self.total is None else self.total) - MOST_ROWS
        return f"… {left:,} more" if left > 0 else ""


class Shown:
    """Base of results with text and notebook representations; subclasses define :meth:`view`."""

    __slots__ = ()

    def view(self) -> View:
        """Return headline and table of the result."""
        raise NotImplementedError

    def __repr__(self) -> str:
        view = self.view()
        widths = [max(map(len, column)) for column in zip(*view.lines, strict=True)]
        rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in view.lines]
        notes = (f"note: {without_controls(one)}" for one in view.notes)
        return "\n".join(filter(None, (without_controls(view.headline), *notes, *rows, view.more)))

    def _repr_html_(self) -> str:
        view = self.view()
        above = (html.escape(without_controls(one)) for one in (view.headline, *view.notes))
        parts = [f"<p>{'<br>'.join(above)}</p>"]
        for place, row in enumerate(view.lines):
            tag = "td" if place else "th"
            cells = (f'<{tag} dir="auto">{html.escape(one)}</{tag}>' for one in row)
            parts.append(f"<tr>{''.join(cells)}</tr>")
        table = f"<table>{''.join(parts[1:])}</table>" if view.rows else ""
        return f"{parts[0]}{table}{f'<p>{view.more}</p>' if view.more else ''}"


def shown_tuple(result: type[T]) -> type[T]:
    """Add the representations of :class:`Shown` to a named tuple, which cannot have another base."""
    for name in ("__repr__", "_repr_html_"):
        setattr(result, name, getattr(Shown, name))
    return result


def without_controls(text: str) -> str:
    """Replace control characters, except white space and the joiners of emoji and letters."""
    allowed = (one.isprintable() or one.isspace() or one in "\u200c\u200d" for one in text)
    return "".join(one if keep else "\N{REPLACEMENT CHARACTER}" for one, keep in zip(text, allowed, strict=True))


def _cell(value: object) -> str:
    """Format a value on one line: four decimals for floats, and no control characters."""
    if isinstance(value, float) and not math.isfinite(value):
        return "-"
    text = fixed(value, 4) if isinstance(value, float) else " ".join(str(value).split())
    text = without_controls(text)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
