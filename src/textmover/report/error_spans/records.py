"""Marked errors as plain values, their count, and the underlined text, as wide as the terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import IO, Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from textmover.markdown_escaping import REORDERING, one_line
from textmover.terminal import UNWRAPPED, console
from textmover.types import SEVERITIES, ErrorSpan, TextErrors, flagged, plural


class MarkedLine(NamedTuple):
    """The errors of a text with what its row of the input holds."""

    found: TextErrors
    line: int | None = None  # its line of a file; ``None`` for a text that was given by itself
    kept: Mapping[str, str] = {}  # cells that the output repeats
    signature: str = ""  # what the errors depend on


def confident(one: MarkedLine, least: float) -> MarkedLine:
    """The text with those of its errors that have at least a probability."""
    spans = tuple(span for span in one.found.spans if span.confidence >= least)
    return one._replace(found=replace(one.found, spans=spans))


def span_record(text: str, span: ErrorSpan) -> dict[str, Any]:
    """An error as plain values: its characters, the words there, severity and probability."""
    return {
        "start": span.start,
        "end": span.end,
        "text": text[span.start : span.end],
        "severity": span.severity,
        "confidence": round(float(span.confidence), 6),
    }


def text_record(one: MarkedLine) -> dict[str, Any]:
    """A text with its errors as plain values."""
    found = one.found
    line = {} if one.line is None else {"line": one.line}
    spans = [span_record(found.text, span) for span in found.spans]
    return {**line, **one.kept, "text": found.text, "spans": spans, "cost": found.cost, "flags": list(found.flags)}


@dataclass
class ErrorCount:
    """Number of texts and errors."""

    texts: int = 0
    clean: int = 0  # texts without an error
    severities: Counter[str] = field(default_factory=Counter)  # errors by severity
    flags: Counter[str] = field(default_factory=Counter)  # texts that were out of the ordinary, by kind
    signature: str = ""  # what the errors depend on

    def add(self, one: MarkedLine) -> MarkedLine:
        """Count the errors of a text, and return it."""
        self.texts += 1
        self.clean += not one.found.spans
        self.severities.update(span.severity for span in one.found.spans)
        self.flags.update(one.found.flags)
        self.signature = one.signature
        return one

    def at_least(self, severity: str) -> int:
        """Number of errors of a severity or above."""
        return sum(self.severities[one] for one in SEVERITIES[SEVERITIES.index(severity) :])  # type: ignore[arg-type]

    @property
    def headline(self) -> str:
        """Numbers of errors and texts."""
        return f"{plural(self.severities.total(), 'error')} in {plural(self.texts, 'text')}"

    @property
    def by_severity(self) -> str:
        """Number of errors by severity, and per text."""
        return ", ".join(
            f"{self.severities[one]:,} {one} ({self.severities[one] / max(1, self.texts):.2f} per text)"
            for one in SEVERITIES
            if self.severities[one]
        )

    def said(self) -> list[str]:
        """Lines that close a run."""
        listed = f": {self.by_severity}" if self.by_severity else ""
        found = [f"Marked: {self.headline}{listed}; {self.clean:,} without errors"]
        found += flagged(self.flags, plural(self.texts, "text"))
        return [*found, *([f"Signature: {self.signature}"] if self.signature else [])]


def shown_pieces(found: TextErrors) -> list[tuple[str, ErrorSpan | None]]:
    """Stretches of a text with their errors, control characters made visible; none of a text without words."""
    if not found.text.strip():
        return []
    return [(_visible(part), one) for part, one in found.pieces() if part or one is not None]


def _visible(part: str) -> str:
    """The stretch as one line, with a space where it begins or ends with white space."""
    return f"{' ' * part[:1].isspace()}{one_line(part)}{' ' * (part[-1:].isspace() and bool(part.strip()))}"


# --- underlined text --------------------------------------------------------------------------------------------------

STYLES = {"minor": "yellow", "major": "bold dark_orange3", "critical": "bold red"}  # on a terminal, by severity
NARROWEST = 24  # columns below which lines are not wrapped further


class _Cell(NamedTuple):
    """Characters that stand in one place."""

    shown: str
    width: int  # columns, 2 for Chinese or emoji
    first: int  # its first character in the text
    end: int  # the one behind its last


def marked_lines(found: TextErrors, width: int, encoding: str = "utf-8") -> Iterator[Text]:
    """Lines of the text, each with underlines and labels below it where there are errors.

    Texts that run from right to left are followed by a list of errors, since terminals reorder them. A line takes at
    most ``width`` columns; characters beyond the encoding are shown as escapes.
    """
    if not found.text.strip():
        yield Text("(empty text)", "dim")
        yield from (Text(text, STYLES[one.severity]) for one in found.spans for text in ("^", one.label))
        return
    width = max(width, NARROWEST)
    marked: dict[int, list[ErrorSpan]] = {}
    for one in sorted(found.spans, key=lambda one: one.missing):
        # Missing words are marked at the space before the next one.
        start = one.start - (one.missing and found.text[max(0, one.start - 1) : one.start].isspace())
        for place in range(start, max(one.end, start + 1)):
            marked.setdefault(place, []).append(one)
    reordered = any(unicodedata.bidirectional(one) in ("R", "AL") for one in found.text)
    cells, told = _cells(found.text, encoding), set[ErrorSpan]()
    for line in _wrapped(cells, width - 1):
        rows = _underlined(line, marked, told, width)
        yield from rows[:1] if reordered else rows
    for one in found.spans if reordered else ():
        yield Text(f"{one.label}: {one_line(found.text[one.start : one.end])}".rstrip(": "), STYLES[one.severity])


def print_marked(found: TextErrors, margin: str = "", stream: IO[str] | None = None) -> None:
    """Write a text with its errors behind a margin, to standard output if ``stream`` is ``None``.

    It is in colour on a terminal, unless ``NO_COLOR`` is set, and no line is broken in a file or pipe.
    """
    shown = console()
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    width = (shown.width if stream is None else UNWRAPPED) - len(margin)
    for line in marked_lines(found, width, encoding):
        if stream is None and shown.is_terminal:
            shown.print(Text.assemble(margin, line), soft_wrap=True)
        else:
            (stream or sys.stdout).write(f"{margin}{line.plain}".rstrip() + "\n")
        margin = " " * len(margin)


def _underlined(
    line: Sequence[_Cell], marked: Mapping[int, Sequence[ErrorSpan]], told: set[ErrorSpan], width: int
) -> list[Text]:
    """A line, its underlines, gaps where a wrong word begins, and the labels of errors that have not been ``told``."""
    words: list[tuple[str, str]] = []
    marks: tuple[list[tuple[str, str]], ...] = ([], [])
    labels: list[Text] = []
    column = 0
    for cell in line:
        here = list(dict.fromkeys(one for place in range(cell.first, cell.end) for one in marked.get(place, ())))
        wrong, gap = (next((one for one in here if one.missing == missing), None) for missing in (False, True))
        words.append((cell.shown, STYLES[wrong.severity] if wrong else ""))
        wide = 1 if not cell.shown else cell.width  # the place behind the last word has room for a mark
        for row, marking in zip(marks, (wrong or gap, gap if wrong else None), strict=True):
            mark = "" if marking is None else "^" if marking.missing else "~" * wide
            row.append((mark[:wide].ljust(cell.width), STYLES[marking.severity] if marking else ""))
        for one in here:
            if one not in told:
                told.add(one)
                _place(labels, max(0, min(column, width - len(one.label))), one)
        column += cell.width
    written, *below = map(_joined, (words, *marks))
    return [written, *filter(None, below), *labels]


def _joined(parts: Sequence[tuple[str, str]]) -> Text:
    """Parts one behind the other, those of a style as one, without space at the end."""
    text = Text.assemble(*(("".join(part for part, _ in run), style) for style, run in groupby(parts, itemgetter(1))))
    text.rstrip()
    return text


def _place(rows: list[Text], column: int, one: ErrorSpan) -> None:
    """Write a label at its column into the first row that has room there."""
    row = next((row for row in rows if row.cell_len < column), None)
    if row is None:
        row = Text()
        rows.append(row)
    row.append(" " * (column - row.cell_len))
    row.append(one.label, STYLES[one.severity])


def _cells(text: str, encoding: str) -> list[_Cell]:
    """The text as characters with their marks, a run of white space as one, and the place behind the last."""
    cells, first = [], 0
    for place in range(1, len(text) + 1):
        if place < len(text) and _joins(text, first, place):
            continue
        cluster = text[first:place]
        shown = " " if cluster.isspace() else one_line(cluster)
        shown = shown.encode(encoding, "backslashreplace").decode(encoding)
        width = cell_len(shown)
        if shown == cluster and len(cluster) > 1:  # its characters stand on one another
            width = 2 if "\ufe0f" in shown or _is_flag(shown[0]) else max(map(cell_len, shown))
        cells.append(_Cell(shown, width, first, place))
        first = place
    return [*cells, _Cell("", 0, len(text), len(text) + 1)]


def _joins(text: str, first: int, place: int) -> bool:
    """Return whether a character belongs to those before it, as spaces, marks, skin tones and joined emoji do."""
    one, last = text[place], text[place - 1]
    if one.isspace() or last.isspace():
        return one.isspace() and last.isspace()
    combining = unicodedata.category(one) in ("Mn", "Me", "Cf") and not REORDERING.match(one)
    modifying = "\U0001f3fb" <= one <= "\U0001f3ff" or "\u1160" <= one <= "\u11ff"
    flag = first == place - 1 and _is_flag(last) and _is_flag(one)
    return combining or modifying or flag or last == "\u200d"


def _is_flag(one: str) -> bool:
    return "\U0001f1e6" <= one <= "\U0001f1ff"


def _wrapped(cells: Sequence[_Cell], width: int) -> Iterator[list[_Cell]]:
    """Lines of at most so many columns, broken at spaces where there are some; a space may hang over the end."""
    line: list[_Cell] = []
    used = 0
    for cell in cells:
        if line and cell.shown.strip() and used + cell.width > width:
            cut = max((place for place, one in enumerate(line, start=1) if one.shown == " "), default=len(line))
            yield line[:cut]
            line = line[cut:]
            used = sum(one.width for one in line)
        line.append(cell)
        used += cell.width
    yield line
