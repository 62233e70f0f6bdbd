"""Output of explanations: text, JSON or a page to standard output or a file, or a picture."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from textmover.files import atomic_file, check_output
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.report.explanation.page import ExplainedLine

FORMATS = ("text", "json", "jsonl", "html")
PICTURES = (".png", ".svg", ".pdf")
SUFFIXES = {".txt": "text", ".json": "json", ".jsonl": "jsonl", ".html": "html", ".htm": "html"}
"""Formats by the suffix of a file; :data:`PICTURES` are formats of their own."""


@dataclass(frozen=True)
class Target:
    """Path and format of the output.

    Attributes:
        format: One of :data:`FORMATS`, or ``picture``.
        path: The file; ``None`` for standard output.
    """

    format: str
    path: Path | None = None


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is written where."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="text, for reading; json, everything that is known, of several lines as a list; jsonl, one object a line; "
        "html, a page whose words light up; from the suffix of --output if not given, else text",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write there instead of to standard output; .png, .svg or .pdf draws the plan over the similarities, "
        ".html, .json, .jsonl and .txt are the formats",
    )


def choose_target(options: argparse.Namespace, inputs: Iterable[str]) -> Target:
    """Target that the options ask for, checked before the work."""
    if options.output is None:
        format, path = options.format or "text", None
    else:
        path = check_output(options.output, list(inputs))
        suffix = path.suffix.lower()
        format = "picture" if suffix in PICTURES else SUFFIXES.get(suffix, "")
        if options.format is not None and format not in ("", options.format):
            raise InputError(
                f"Expected a name for {options.format}, but got --output {path}, which says something else: give "
                "another name, or leave out --format."
            )
        format = format or options.format or ""
        if not format:
            endings = ", ".join((*PICTURES, *SUFFIXES))
            raise InputError(f"Expected `--output` to end in {endings}, but got {path}: give another name or --format.")
    if format == "picture":
        from textmover.report.figures.panels import check_matplotlib

        check_matplotlib()
    if format == "html":
        from textmover.report.templating import check_jinja

        check_jinja()
    return Target(format, path)


def write_explained(target: Target, explained: Iterable[ExplainedLine], *, remark: str = "", expected: int = 1) -> str:
    """Write explanations as they come.

    Args:
        target: What is written where.
        explained: The explanations, at least one.
        remark: Remark of the page about the selection of lines.
        expected: How many there are, at most.
    """
    signature = ""

    def noted() -> Iterator[ExplainedLine]:
        nonlocal signature
        for one in explained:
            signature = str(one.found.signature)
            yield one

    if target.format == "picture":
        from textmover.report.explanation.figure import explanation_figure

        if target.path is None:
            raise RuntimeError("Expected a file for a picture, but got none.")
        for one in noted():
            explanation_figure(one.found, target.path)
        return signature
    write = {"text": _text, "json": _json, "jsonl": _jsonl, "html": _html}[target.format]
    with contextlib.nullcontext(sys.stdout) if target.path is None else atomic_file(target.path) as stream:
        write(stream, noted(), remark, expected)
    return signature


def _text(stream: IO[str], explained: Iterable[ExplainedLine], remark: str, expected: int) -> None:
    from textmover.report.explanation.text import print_explanation

    with contextlib.redirect_stdout(_Plain(stream)) if stream is not sys.stdout else contextlib.nullcontext():
        for place, one in enumerate(explained):
            if expected > 1:
                sys.stdout.write(f"{'' if place == 0 else chr(10)}line        {one.line}\n")
            print_explanation(one.found)
            sys.stdout.flush()


class _Plain(io.TextIOBase):
    """A file in the place of standard output, which is not a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write into the file; half a surrogate pair is not a character of UTF-8."""
        return self._stream.write(_unicode(text))

    def writable(self) -> bool:
        """Always."""
        return True


def _unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _objects(explained: Iterable[ExplainedLine]) -> Iterator[str]:
    for one in explained:
        place = {} if one.line is None else {"line": one.line}
        yield _unicode(json.dumps({**place, **one.found.to_dict()}, ensure_ascii=False))


def _json(stream: IO[str], explained: Iterable[ExplainedLine], remark: str, expected: int) -> None:
    several = expected > 1
    for place, text in enumerate(_objects(explained)):
        stream.write(f"{('[' if place == 0 else ',') + chr(10) if several else ''}{text}")
    stream.write("\n]\n" if several else "\n")


def _jsonl(stream: IO[str], explained: Iterable[ExplainedLine], remark: str, expected: int) -> None:
    for text in _objects(explained):
        stream.write(f"{text}\n")
        stream.flush()


def _html(stream: IO[str], explained: Iterable[ExplainedLine], remark: str, expected: int) -> None:
    from textmover.report.explanation.page import line_view, page_of

    views, signature = [], ""
    for one in explained:  # what a page shows is far less than what is known
        views.append(line_view(one, of=expected))
        signature = str(one.found.signature)
    stream.write(page_of(views, signature=signature, remark=remark))
