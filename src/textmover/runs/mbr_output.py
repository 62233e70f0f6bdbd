"""Output of ``textmover mbr``; finished choices are kept if the run ends early."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from textmover.files import check_output
from textmover.partial_output import partial_file
from textmover.readers.candidates import Candidates
from textmover.runs.shards.score_formats import check_compression, compressed, format_of
from textmover.scoring.mbr import Choice
from textmover.types import InputError

FORMATS = ("text", "tsv", "jsonl")

Write = Callable[[Candidates, Choice], None]


class Output(NamedTuple):
    """Format and path of the choices; ``None`` as path is standard output."""

    format: str
    path: Path | None


def choose_output(format: str | None, path: str | None, inputs: Sequence[str]) -> Output:
    """Return the output for the options; check that it can be written."""
    if path is None:
        return Output(format or "text", None)
    output = check_output(path, inputs)
    chosen_format = format_of(output, format, FORMATS)
    check_compression(output)
    return Output(chosen_format, output)


def refuse_breaks(candidates: Candidates, format: str) -> None:
    """Raise :class:`InputError` if a text contains line breaks or tabs that the format cannot store."""
    forbidden = {"text": "\n", "tsv": "\n\t"}.get(format, "")  # separators of lines and cells
    if any(mark in text for text in candidates.texts for mark in forbidden):
        what = "line breaks" if forbidden == "\n" else "tabs and line breaks"
        raise InputError(
            f"Expected texts without {what} for --format {format}, but got one in {candidates.place}: choose --format "
            "jsonl."
        )


@contextlib.contextmanager
def open_output(output: Output) -> Iterator[Write]:
    """Yield a function that writes choices. A file is named ``.partial`` until all choices are written."""
    path = output.path
    if path is None:
        yield _writer(output.format, None)
        return
    with partial_file(path, "the choices of the first {}", "segment") as (raw, whole), compressed(raw, path) as stream:
        writer = _writer(output.format, stream)

        def write(candidates: Candidates, choice: Choice) -> None:
            writer(candidates, choice)
            stream.flush()  # of compressed output, whose end in the file counts as whole
            whole()

        yield write


def _writer(format: str, stream: IO[bytes] | None) -> Write:
    """Return a function that writes choices, after a header for tables; ``None`` as stream is standard output."""
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
        # Collapse white space in names, which would break the row; write other values as JSON.
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
