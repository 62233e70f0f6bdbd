"""Output of ``textmover mbr``, and the choices kept if the work ends early."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from textmover.files import check_output
from textmover.partial_file import partial_file
from textmover.readers.candidates import Candidates
from textmover.runs.shards.score_formats import check_compression, compressed, format_of
from textmover.scoring.mbr import Choice
from textmover.types import InputError

FORMATS = ("text", "tsv", "jsonl")

Write = Callable[[Candidates, Choice], None]


class Output(NamedTuple):
    """Path and format of the choices; no path is standard output."""

    format: str
    path: Path | None


def choose_output(format: str | None, path: str | None, inputs: Sequence[str]) -> Output:
    """Output that the options ask for."""
    if path is None:
        return Output(format or "text", None)
    output = check_output(path, inputs)
    meant = format_of(output, format, FORMATS)
    check_compression(output)
    return Output(meant, output)


def refuse_breaks(candidates: Candidates, format: str) -> None:
    """Refuse texts that would break the lines of a format."""
    breaks = {"text": "\n", "tsv": "\n\t"}.get(format, "")  # of a line or a cell that is to hold all of a text
    if any(mark in text for text in candidates.texts for mark in breaks):
        what = "line breaks" if breaks == "\n" else "tabs and line breaks"
        raise InputError(
            f"Expected texts without {what} for --format {format}, but got one in {candidates.place}: choose --format "
            "jsonl."
        )


@contextlib.contextmanager
def open_output(output: Output) -> Iterator[Write]:
    """Get ready to write; a file gets its name when all choices are there, and is ``.partial`` until then."""
    path = output.path
    if path is None:
        yield _writer(output.format, None)
        return
    with partial_file(path, "the choices of the first {}", "segment") as (raw, whole), compressed(raw, path) as stream:
        writer = _writer(output.format, stream)

        def write(candidates: Candidates, choice: Choice) -> None:
            writer(candidates, choice)
            whole()

        yield write


def _writer(format: str, stream: IO[bytes] | None) -> Write:
    """Write choices in a format, a table's header before the first; no stream is standard output."""
    first = True

    def write(candidates: Candidates, choice: Choice) -> None:
        nonlocal first
        header = ""
        if format == "tsv" and first:
            columns = [*(["id"] if candidates.named else []), "index", "utility", "utilities", "text"]
            header = "\t".join(columns) + "\n"
        first = False
        text = f"{header}{_line(format, candidates, choice)}\n"
        if stream is not None:
            stream.write(text.encode())
        else:
            sys.stdout.write(text)
            sys.stdout.flush()

    return write


def _line(format: str, candidates: Candidates, choice: Choice) -> str:
    if format == "text":
        return choice.text
    name = candidates.name
    if format == "tsv":
        # A name without what would break a row; other values as JSON.
        cell = " ".join(name.split()) if isinstance(name, str) else json.dumps(name, ensure_ascii=False)
        utilities = " ".join(f"{one:.9g}" for one in choice.utilities)
        cells = [str(choice.index), f"{choice.utility:.9g}", utilities, choice.text]
        return "\t".join([cell, *cells] if candidates.named else cells)
    entries = {
        **({"id": name} if candidates.named else {}),
        "index": choice.index,
        "utility": float(f"{choice.utility:.9g}"),
        "text": choice.text,
        "utilities": [None if math.isnan(one) else float(f"{one:.9g}") for one in choice.utilities.tolist()],
    }
    return json.dumps(entries, ensure_ascii=False, default=str)
