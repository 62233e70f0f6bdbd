"""Results of an experiment as Markdown, CSV, JSON and figures."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from textmover.csv_cells import CsvWriter
from textmover.experiments.papers.results import FigureResult
from textmover.experiments.papers.table_blocks import Block
from textmover.markdown import markdown_code, markdown_fence, markdown_link, markdown_text
from textmover.report import Line, Panel, draw_panels
from textmover.report.evaluation.wording import STATISTIC_NAMES

FORMATS = {".md": "markdown", ".csv": "csv", ".json": "json"}
"""Format of a file by its suffix."""

TEXT_HEADERS = ("metric", "from", "encoder", "centering", "kind", "meaning")
"""Columns that hold no numbers."""


@dataclass(frozen=True)
class Page:
    """Results of an experiment, as a page.

    Attributes:
        title: Its heading.
        paper: Where the published numbers come from.
        experiment: Name of its file.
        command: What computes it again.
        notes: Where it differs from the paper.
        blocks: Its tables and figures.
    """

    title: str
    paper: str
    experiment: str
    command: str
    notes: tuple[str, ...]
    blocks: tuple[Block, ...]


def as_text(page: Page, kind: str) -> str:
    """A page as text.

    Args:
        page: The page.
        kind: ``markdown``, ``csv`` or ``json``.
    """
    return {"markdown": _markdown, "csv": _csv, "json": _json}[kind](page)


def _markdown(page: Page) -> str:
    parts = [f"# {markdown_text(page.title)}\n", f"Published: {markdown_text(page.paper)}.\n"]
    parts.append(markdown_fence(page.command, "bash"))
    if page.notes:
        parts.append("".join(f"* {markdown_text(note)}\n" for note in page.notes))
    for block in page.blocks:
        parts.append(f"## {markdown_text(block.title)}\n")
        if block.figure:
            parts.append(f"!{markdown_link(block.title, block.figure)}\n")
        parts.append(_markdown_table(block.headers, block.rows))
        if block.remarks:
            parts.append("".join(f"* {markdown_text(one)}\n" for one in block.remarks))
        if block.signatures:
            listed = "".join(
                f"* {markdown_text(name)}: {markdown_code(signature)}\n" for name, signature in block.signatures
            )
            parts.append(f"Signatures:\n\n{listed}")
    return "\n".join(parts)


def _markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    texts = sum(header in TEXT_HEADERS for header in headers)
    lines = ["| " + " | ".join(map(markdown_text, headers)) + " |"]
    lines.append("|" + "---|" * texts + "--:|" * (len(headers) - texts))
    lines += ["| " + " | ".join(map(markdown_text, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _csv(page: Page) -> str:
    """A row for each number, with the columns of all blocks."""
    records = [record for block in page.blocks for record in block.records]
    headers = list(dict.fromkeys(key for record in records for key in record))
    stream = io.StringIO()
    writer = CsvWriter(stream)
    writer.writerow(headers)
    for record in records:
        writer.writerow(["" if (value := _or_none(record.get(key))) is None else value for key in headers])
    return stream.getvalue()


def _json(page: Page) -> str:
    told = {
        "title": page.title,
        "paper": page.paper,
        "experiment": page.experiment,
        "command": page.command,
        "notes": list(page.notes),
        "tables": [
            {
                "title": block.title,
                "figure": block.figure,
                "remarks": list(block.remarks),
                "records": [{key: _or_none(value) for key, value in one.items()} for one in block.records],
            }
            for block in page.blocks
        ],
    }
    return json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _or_none(value: Any) -> Any:
    """A value as CSV and JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return list(value) if isinstance(value, tuple) else value


LONGEST_TITLE = 60
"""Characters of a figure's title."""


def draw_figure(result: FigureResult, path: str) -> None:
    """Draw a figure; the intervals of its points where it has but one line, since those of several cover each other."""
    spec, bounded = result.spec, len(result.lines) == 1
    lines = []
    for line in result.lines:
        values, low, high = map(list, zip(*line.cells, strict=True))
        lines.append(Line(line.name, values, *((low, high) if bounded else ())))
    encoder = next((line.encoder for line in result.lines if line.encoder != "-"), "")
    draw_panels(
        [Panel("", lines)],
        [str(value) for value in spec.values],
        path,
        x_label=spec.field.replace("_", " "),
        y_label=f"mean {STATISTIC_NAMES[spec.statistic]}",
        title=f"{spec.set}, {encoder}"[:LONGEST_TITLE],
    )
