"""Write marked errors as text, JSON Lines, TSV or an HTML page."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from textmover.files import atomic_file
from textmover.markdown_escaping import one_line
from textmover.report.error_spans.records import (
    ErrorCount,
    MarkedLine,
    print_marked,
    shown_pieces,
    span_record,
    text_record,
)
from textmover.report.explanation.output import as_unicode
from textmover.report.explanation.parts import FLAGS
from textmover.report.templating import render_page
from textmover.types import SEVERITIES, InputError

MOST_TEXTS = 2_000  # maximum texts shown on a page; all texts are counted
BEGINNING = 60  # maximum characters of an error in the list below its text

NOTES = {flag: note.replace("the score means", "the marks mean") for flag, note in FLAGS.items()} | {
    "empty": "one side has no words, so that any words of the other are errors",
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
