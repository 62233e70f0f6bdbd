"""Output of explanations: text, JSON or a page to standard output or a file, or a picture."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from textmover.files import atomic_file, check_output, output_format
from textmover.report.figures.panels import check_matplotlib
from textmover.report.templating import check_jinja

if TYPE_CHECKING:
    from textmover.report.explanation.values import ExplainedLine

FORMATS = ("text", "json", "jsonl", "html")
PICTURES = (".png", ".svg", ".pdf")
SUFFIXES = {".txt": "text", ".json": "json", ".jsonl": "jsonl", ".html": "html", ".htm": "html"}
"""Formats by the suffix of a file; :data:`PICTURES` are formats of their own."""


class Target(NamedTuple):
    """Format of the output, one of :data:`FORMATS` or ``picture``, and its file; ``None`` for standard output."""

    format: str
    path: Path | None = None


def choose_target(
    options: argparse.Namespace,
    inputs: Iterable[str],
    suffixes: Mapping[str, str] = SUFFIXES,
    pictures: Sequence[str] = PICTURES,
) -> Target:
    """Target that the options ask for, checked before the work."""
    format, path = options.format or "text", None
    if options.output is not None:
        path = check_output(options.output, list(inputs))
        format = output_format(path, options.format, {**dict.fromkeys(pictures, "picture"), **suffixes})
    if format == "picture":
        check_matplotlib()
    if format == "html":
        check_jinja()
    return Target(format, path)


def write_explained(target: Target, explained: Iterable[ExplainedLine], *, remark: str = "", expected: int = 1) -> str:
    """Write at least one and at most ``expected`` explanations as they come, and return their signature."""
    signature = ""

    def noted() -> Iterator[ExplainedLine]:
        nonlocal signature
        for one in explained:
            signature = str(one.found.signature)
            yield one

    if target.format == "picture":
        for one in noted():
            one.found.draw(target.path)
        return signature
    with contextlib.nullcontext(sys.stdout) if target.path is None else atomic_file(target.path) as stream:
        if target.format == "text":
            _write_text(stream, noted(), several=expected > 1)
        elif target.format == "html":
            from textmover.report.explanation.page import render_explanations

            stream.write(render_explanations(noted(), expected=expected, remark=remark))
        else:
            _write_json(stream, noted(), listed=target.format == "json" and expected > 1)
    return signature


def _write_text(stream: IO[str], explained: Iterable[ExplainedLine], *, several: bool) -> None:
    from textmover.report.explanation.text import print_explanation

    printed = stream is sys.stdout
    for place, one in enumerate(explained):
        with contextlib.nullcontext() if printed else contextlib.redirect_stdout(io.StringIO()) as written:
            if several:
                sys.stdout.write(f"{'' if place == 0 else chr(10)}line        {one.line}\n")
            print_explanation(one.found)
        if written is not None:
            stream.write(as_unicode(written.getvalue()))
        stream.flush()


def as_unicode(text: str) -> str:
    """Return the text without half surrogate pairs, which are not characters of UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _write_json(stream: IO[str], explained: Iterable[ExplainedLine], *, listed: bool) -> None:
    for place, one in enumerate(explained):
        line = {} if one.line is None else {"line": one.line}
        text = as_unicode(json.dumps({**line, **one.found.to_dict()}, ensure_ascii=False))
        stream.write(("[\n" if place == 0 else ",\n") + text if listed else f"{text}\n")
        stream.flush()
    if listed:
        stream.write("\n]\n")
