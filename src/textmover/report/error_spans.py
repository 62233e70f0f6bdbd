"""Marked errors: records, counts, text with underlined errors, JSON Lines, TSV and an HTML page."""

from __future__ import annotations

import contextlib
import json
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from textmover.files import atomic_file
from textmover.markdown_escaping import REORDERING, as_unicode, one_line
from textmover.report.explanation.parts import FLAGS
from textmover.report.templating import render_page
from textmover.terminal import UNWRAPPED, console
from textmover.types import SEVERITIES, ErrorSpan, InputError, TextErrors, flagged, plural


class MarkedLine(NamedTuple):
    """Errors of a text, with fields of its input row."""

    found: TextErrors
    line: int | None = None  # line number in a file; ``None`` for a single text
    kept: Mapping[str, str] = {}  # input cells to copy to the output
    signature: str = ""  # signature of the metric that marked the errors


def filter_by_confidence(one: MarkedLine, least: float) -> MarkedLine:
    """Return the line with only the errors whose confidence is at least ``least``."""
    spans = tuple(span for span in one.found.spans if span.confidence >= least)
    return one._replace(found=replace(one.found, spans=spans))


def span_record(text: str, span: ErrorSpan) -> dict[str, Any]:
    """Convert an error to a JSON record: character span, text, severity and confidence."""
    return {
        "start": span.start,
        "end": span.end,
        "text": text[span.start : span.end],
        "severity": span.severity,
        "confidence": round(float(span.confidence), 6),
    }


def text_record(one: MarkedLine) -> dict[str, Any]:
    """Convert a text with its errors to a JSON record."""
    errors = one.found
    line = {} if one.line is None else {"line": one.line}
    spans = [span_record(errors.text, span) for span in errors.spans]
    return {**line, **one.kept, "text": errors.text, "spans": spans, "cost": errors.cost, "flags": list(errors.flags)}


@dataclass
class ErrorCount:
    """Counts of texts and errors."""

    texts: int = 0
    clean: int = 0  # number of texts without errors
    severities: Counter[str] = field(default_factory=Counter)  # number of errors by severity
    flags: Counter[str] = field(default_factory=Counter)  # number of texts by flag
    signature: str = ""  # signature of the metric that marked the errors

    def add(self, one: MarkedLine) -> MarkedLine:
        """Count the errors of a text, and return it."""
        self.texts += 1
        self.clean += not one.found.spans
        self.severities.update(span.severity for span in one.found.spans)
        self.flags.update(one.found.flags)
        self.signature = one.signature
        return one

    def record(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {**vars(self), "severities": dict(self.severities), "flags": dict(self.flags)}

    def include(self, record: Mapping[str, Any]) -> None:
        """Add the counts of other texts."""
        self.texts += record["texts"]
        self.clean += record["clean"]
        self.severities.update(record["severities"])
        self.flags.update(record["flags"])
        self.signature = record["signature"] or self.signature

    def at_least(self, severity: str) -> int:
        """Return the number of errors with at least this severity."""
        return sum(self.severities[one] for one in SEVERITIES[SEVERITIES.index(severity) :])  # type: ignore[arg-type]

    @property
    def headline(self) -> str:
        """Number of errors and texts, in words."""
        return f"{plural(self.severities.total(), 'error')} in {plural(self.texts, 'text')}"

    @property
    def by_severity(self) -> str:
        """Number of errors by severity, total and per text, in words."""
        return ", ".join(
            f"{self.severities[one]:,} {one} ({self.severities[one] / max(1, self.texts):.2f} per text)"
            for one in SEVERITIES
            if self.severities[one]
        )

    def said(self) -> list[str]:
        """Return summary lines for the end of a run."""
        listed = f": {self.by_severity}" if self.by_severity else ""
        lines = [f"Marked: {self.headline}{listed}; {self.clean:,} without errors"]
        lines += flagged(self.flags, plural(self.texts, "text"))
        return [*lines, *([f"Signature: {self.signature}"] if self.signature else [])]


def shown_pieces(found: TextErrors) -> list[tuple[str, ErrorSpan | None]]:
    """Split a text into pieces with or without an error, with visible control characters; empty for a blank text."""
    if not found.text.strip():
        return []
    return [(visible(part), one) for part, one in found.pieces() if part or one is not None]


def visible(part: str) -> str:
    """Return a piece as one line that keeps a leading or trailing space."""
    return f"{' ' * part[:1].isspace()}{one_line(part)}{' ' * (part[-1:].isspace() and bool(part.strip()))}"


# --- underlined text --------------------------------------------------------------------------------------------------

STYLES = {"minor": "yellow", "major": "bold dark_orange3", "critical": "bold red"}  # terminal styles by severity
NARROWEST = 24  # minimum width for wrapping, in columns


class _Cell(NamedTuple):
    """A grapheme cluster or a run of white space."""

    shown: str
    width: int  # width in columns, 2 for Chinese or emoji
    first: int  # start position in the text
    end: int  # end position (exclusive)


def marked_lines(found: TextErrors, width: int, encoding: str = "utf-8") -> Iterator[Text]:
    """Yield the lines of a text, each followed by underlines and labels of its errors.

    Right-to-left texts are followed by a list of errors instead, since terminals reorder them. A line has at most
    ``width`` columns; characters that the encoding lacks are escaped.
    """
    if not found.text.strip():
        yield Text("(empty text)", "dim")
        yield from (Text(text, STYLES[one.severity]) for one in found.spans for text in ("^", one.label))
        return
    width = max(width, NARROWEST)
    marked: dict[int, list[ErrorSpan]] = {}
    for one in sorted(found.spans, key=lambda one: one.missing):
        # Mark missing words at the space before the next word.
        start = one.start - (one.missing and found.text[max(0, one.start - 1) : one.start].isspace())
        for place in range(start, max(one.end, start + 1)):
            marked.setdefault(place, []).append(one)
    reordered = any(unicodedata.bidirectional(one) in ("R", "AL") for one in found.text)
    cells, labelled = _cells(found.text, encoding), set[ErrorSpan]()
    for line in _wrapped(cells, width - 1):
        rows = _underlined(line, marked, labelled, width)
        yield from rows[:1] if reordered else rows
    for one in found.spans if reordered else ():
        yield Text(f"{one.label}: {one_line(found.text[one.start : one.end])}".rstrip(": "), STYLES[one.severity])


def print_marked(found: TextErrors, margin: str = "", stream: IO[str] | None = None) -> None:
    """Write a text with underlined errors after a margin, to standard output if ``stream`` is ``None``.

    Terminals get colours, unless ``NO_COLOR`` is set; lines in a file or pipe are not wrapped.
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
    line: Sequence[_Cell], marked: Mapping[int, Sequence[ErrorSpan]], labelled: set[ErrorSpan], width: int
) -> list[Text]:
    """Return a line, its rows of underlines and gap marks, and labels of errors not yet in ``labelled``."""
    words: list[tuple[str, str]] = []
    marks: tuple[list[tuple[str, str]], ...] = ([], [])
    labels: list[Text] = []
    column = 0
    for cell in line:
        spans = list(dict.fromkeys(one for place in range(cell.first, cell.end) for one in marked.get(place, ())))
        error, gap = (next((one for one in spans if one.missing == missing), None) for missing in (False, True))
        words.append((cell.shown, STYLES[error.severity] if error else ""))
        mark_width = 1 if not cell.shown else cell.width  # the end position of the text has width 0
        for row, marking in zip(marks, (error or gap, gap if error else None), strict=True):
            mark = "" if marking is None else "^" if marking.missing else "~" * mark_width
            row.append((mark[:mark_width].ljust(cell.width), STYLES[marking.severity] if marking else ""))
        for one in spans:
            if one not in labelled:
                labelled.add(one)
                _place_label(labels, max(0, min(column, width - len(one.label))), one)
        column += cell.width
    written, *below = map(_join_styled, (words, *marks))
    return [written, *filter(None, below), *labels]


def _join_styled(parts: Sequence[tuple[str, str]]) -> Text:
    """Concatenate styled parts, merge neighbours of equal style, and strip trailing space."""
    text = Text.assemble(*(("".join(part for part, _ in run), style) for style, run in groupby(parts, itemgetter(1))))
    text.rstrip()
    return text


def _place_label(rows: list[Text], column: int, one: ErrorSpan) -> None:
    """Write a label at its column into the first row with free space there; add a row if needed."""
    row = next((row for row in rows if row.cell_len < column), None)
    if row is None:
        row = Text()
        rows.append(row)
    row.append(" " * (column - row.cell_len))
    row.append(one.label, STYLES[one.severity])


def _cells(text: str, encoding: str) -> list[_Cell]:
    """Split a text into grapheme clusters and runs of white space, followed by an empty cell for the end position."""
    cells, first = [], 0
    for place in range(1, len(text) + 1):
        if place < len(text) and _continues_cluster(text, first, place):
            continue
        cluster = text[first:place]
        shown = " " if cluster.isspace() else one_line(cluster)
        shown = shown.encode(encoding, "backslashreplace").decode(encoding)
        width = cell_len(shown)
        if shown == cluster and len(cluster) > 1:  # combined characters overlap
            width = 2 if "\ufe0f" in shown or _is_flag(shown[0]) else max(map(cell_len, shown))
        cells.append(_Cell(shown, width, first, place))
        first = place
    return [*cells, _Cell("", 0, len(text), len(text) + 1)]


def _continues_cluster(text: str, first: int, place: int) -> bool:
    """Return whether a character continues its cluster: white space, combining marks, skin tones, joined emoji."""
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
    """Yield lines of at most ``width`` columns, broken at spaces if possible; a trailing space may exceed the width."""
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


# --- files ------------------------------------------------------------------------------------------------------------

MOST_TEXTS = 2_000  # maximum texts shown on a page; all texts are counted
BEGINNING = 60  # maximum characters of an error in the list below its text

NOTES = {flag: note.replace("the score means", "the marks mean") for flag, note in FLAGS.items()} | {
    "empty": "one side has no words, so that any words of the other are errors",
    "off target": "the text is in another language than its reference (the marks mean little) or the target language",
    "unreferenced": "there is no reference: marks from a source alone are unreliable",
    "truncated": "the text was cut at the encoder's limit: errors behind the cut are not seen",
}
"""Descriptions of flags; most are the same as for scores."""


def render_marked(lines: Iterable[MarkedLine], count: ErrorCount) -> str:
    """Render the first :data:`MOST_TEXTS` marked texts as HTML. The caller updates ``count`` while lines are read."""
    views: list[Mapping[str, Any]] = []
    for one in lines:
        if len(views) < MOST_TEXTS:
            views.append(_view(one))
    remarks = [f"{count.by_severity}; {count.clean:,} of the texts without errors." if count.by_severity else ""]
    remarks += [f"The first {MOST_TEXTS:,} of {count.texts:,} texts are shown."] if count.texts > MOST_TEXTS else []
    return render_page(
        "errors.html.j2",
        metrics=1,
        styles=("marks.css", "errors.css"),
        views=views,
        title=count.headline,
        about=list(filter(None, remarks)),
        clean=count.clean,
        severities=SEVERITIES,
        signature=count.signature,
    )


def _view(one: MarkedLine) -> Mapping[str, Any]:
    errors = one.found
    spans = [(span.label, span.severity, one_line(errors.text[span.start : span.end])) for span in errors.spans]
    return {
        "line": one.line,
        "pieces": shown_pieces(errors),
        "spans": [(*fields, words if len(words) <= BEGINNING else f"{words[:BEGINNING]}…") for *fields, words in spans],
        "flags": [NOTES.get(flag, flag) for flag in errors.flags if flag != "empty" or errors.text.strip()],
    }


FORMATS = ("text", "jsonl", "tsv", "html")
SUFFIXES = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".html": "html", ".htm": "html"}
"""Output format by file suffix."""

KEYS = ("line", "text", "spans", "cost", "flags")  # keys of a text in JSON Lines
COLUMNS = ("line", "start", "end", "severity", "confidence", "words")  # TSV columns, one row for each error


def check_kept(columns: Iterable[str], format: str) -> None:
    """Raise an error if the output format cannot contain the input columns to keep."""
    reserved = {"jsonl": KEYS, "tsv": COLUMNS}.get(format, ())
    for name in columns:
        if not reserved:
            raise InputError(f"Expected `--keep-columns` together with jsonl or tsv, but got {format}: set --format.")
        if name in reserved:
            raise InputError(f"Expected `--keep-columns` without {name}, a column of the output: rename it.")


def write_page(path: Path | None, lines: Iterable[MarkedLine]) -> ErrorCount:
    """Write the first marked texts as a page to a file, or to standard output; return the counts of all."""
    count = ErrorCount()
    with contextlib.nullcontext(sys.stdout) if path is None else atomic_file(path) as page:
        page.write(render_marked(map(count.add, lines), count))
    return count


def header_of(format: str, columns: Iterable[str]) -> str:
    """Return the first line of the format, empty without header."""
    return "\t".join((*columns, *COLUMNS)) + "\n" if format == "tsv" else ""


def write_marked(stream: IO[str], format: str, lines: Iterable[MarkedLine]) -> None:
    """Write marked texts without header."""
    for one in lines:
        if format == "text":
            margin = "" if one.line is None else f"{one.line:>4}  "
            print_marked(one.found, margin, None if stream is sys.stdout else stream)
        elif format == "jsonl":
            stream.write(as_unicode(json.dumps(text_record(one), ensure_ascii=False)) + "\n")
        else:
            stream.writelines(as_unicode("\t".join(row)) + "\n" for row in _rows(one))


def _rows(one: MarkedLine) -> Iterator[list[str]]:
    """Yield a TSV row for each error."""
    for span in one.found.spans:
        record = {"line": one.line or 1, **span_record(one.found.text, span)}
        record["words"] = record.pop("text")
        yield [one_line(str(cell)) for cell in (*one.kept.values(), *(record[name] for name in COLUMNS))]
