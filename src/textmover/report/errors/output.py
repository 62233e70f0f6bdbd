"""Output of marked errors: text, JSON Lines, TSV or a page, to standard output or a file."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator

from textmover.files import atomic_file
from textmover.markdown import one_line
from textmover.report.errors.records import ErrorCount, MarkedLine, span_record, text_record
from textmover.report.errors.text import print_marked
from textmover.report.explanation.output import Target, as_unicode
from textmover.types import InputError

FORMATS = ("text", "jsonl", "tsv", "html")
SUFFIXES = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".html": "html", ".htm": "html"}
"""Formats by the suffix of a file."""

KEYS = ("line", "text", "spans", "cost", "flags")
"""Keys of a text in JSON Lines."""

COLUMNS = ("line", "start", "end", "severity", "confidence", "words")
"""Columns of TSV, one row for each error."""


def check_kept(columns: Iterable[str], format: str) -> None:
    """Refuse columns of the input that the output has no place for."""
    own = {"jsonl": KEYS, "tsv": COLUMNS}.get(format, ())
    for name in columns:
        if not own:
            raise InputError(f"Expected `--keep-columns` together with jsonl or tsv, but got {format}: set --format.")
        if name in own:
            raise InputError(f"Expected `--keep-columns` without {name}, a column of the output: rename it.")


def write_marked(target: Target, lines: Iterable[MarkedLine], columns: Iterable[str] = ()) -> ErrorCount:
    """Write marked texts as they come, and return how many there were."""
    count = ErrorCount()

    def counted() -> Iterator[MarkedLine]:
        for one in lines:
            count.add(one)
            yield one

    with contextlib.nullcontext(sys.stdout) if target.path is None else atomic_file(target.path) as stream:
        if target.format == "text":
            for one in counted():
                margin = "" if one.line is None else f"{one.line:>4}  "
                print_marked(one.found, margin, None if target.path is None else stream)
        elif target.format == "html":
            from textmover.report.errors.page import render_marked

            stream.write(render_marked(counted(), count))
        elif target.format == "jsonl":
            for one in counted():
                stream.write(as_unicode(json.dumps(text_record(one), ensure_ascii=False)) + "\n")
        else:
            stream.write("\t".join((*columns, *COLUMNS)) + "\n")
            for one in counted():
                stream.writelines(as_unicode("\t".join(row)) + "\n" for row in _rows(one))
    return count


def _rows(one: MarkedLine) -> Iterator[list[str]]:
    """A row of TSV for each error, on one line."""
    for span in one.found.spans:
        record = {"line": one.line or 1, **span_record(one.found.text, span)}
        record["words"] = record.pop("text")
        yield [one_line(str(cell)) for cell in (*one.kept.values(), *(record[name] for name in COLUMNS))]
