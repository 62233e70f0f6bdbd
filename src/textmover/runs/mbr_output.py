"""Output of ``textmover mbr``: shards of candidates, and the lines of choices."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from textmover.files import check_output
from textmover.readers.candidates import CandidateFiles, Candidates, CandidateSets
from textmover.readers.row_streams import Row
from textmover.runs.score_output import Target, line_target
from textmover.runs.shards.score_formats import LineLayout, format_of
from textmover.runs.shards.shards import Shard
from textmover.scoring.mbr import Choice, blocks
from textmover.types import InputError

FORMATS = ("text", "tsv", "jsonl")


def choose_output(options: argparse.Namespace, inputs: Sequence[str]) -> Target:
    """Return the output for the options; check that it can be written."""
    output = None if options.output is None else check_output(options.output, inputs)
    format = options.format or "text" if output is None else format_of(output, options.format, FORMATS)
    columns = [*(["id"] if options.id_column is not None else []), "index", "utility", "utilities", "text"]
    return line_target(options, LineLayout(format, "\t".join(columns) + "\n" if format == "tsv" else ""), output)


def refuse_breaks(candidates: Candidates, format: str) -> None:
    """Raise :class:`InputError` if a text or name contains line breaks or tabs that the format cannot store."""
    forbidden = {"text": "\n", "tsv": "\n\t"}.get(format, "")  # separators of lines and cells
    name = candidates.name if format == "tsv" and isinstance(candidates.name, str) else ""
    for what, texts, marks in (("texts", candidates.texts, forbidden), ("names", (name,), "\t\r\n")):
        if any(mark in text for text in texts for mark in marks):
            breaks = "line breaks" if marks == "\n" else "tabs and line breaks"
            raise InputError(
                f"Expected {what} without {breaks} for --format {format}, but got one in {candidates.place}: choose "
                "--format jsonl."
            )


@dataclass(frozen=True)
class CandidateShard(Shard):
    """Consecutive segments with their candidates."""

    candidates: Sequence[Candidates]


def candidate_shards(segments: Iterable[Candidates], sets: CandidateSets) -> Iterator[CandidateShard]:
    """Yield the blocks of candidates that are scored together; they depend on the input alone."""
    lines = (sets.number if isinstance(sets, CandidateFiles) else None) or 1  # of a segment
    first = 1
    for index, block in enumerate(blocks(segments)):
        rows = []
        for number, one in enumerate(block, first):
            others = json.dumps([one.references is None, one.weights, one.name], default=str)
            rows.append(Row((number - 1) * lines + 1, one.texts, one.compared, kept=(others,)))
        yield CandidateShard(index, first, rows, sets.share, block)
        first += len(block)


def choice_line(format: str, candidates: Candidates, choice: Choice) -> str:
    """Return the line of a choice."""
    if format == "text":
        return f"{choice.text}\n"
    name: Any = candidates.name
    if format == "tsv":
        cell = name if isinstance(name, str) else json.dumps(name, ensure_ascii=False, default=str)
        utilities = " ".join(f"{one:.9g}" for one in choice.utilities)
        cells = [str(choice.index), f"{choice.utility:.9g}", utilities, choice.text]
        return "\t".join([cell, *cells] if candidates.named else cells) + "\n"
    entries = {
        **({"id": name} if candidates.named else {}),
        "index": choice.index,
        "utility": float(f"{choice.utility:.9g}"),
        "text": choice.text,
        "utilities": [None if math.isnan(one) else float(f"{one:.9g}") for one in choice.utilities.tolist()],
    }
    return json.dumps(entries, ensure_ascii=False, default=str) + "\n"
