"""Pages of experiments and of robustness tests: tables with their numbers, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textmover.markdown import markdown_fence, markdown_text
from textmover.report.document import Section, Table, csv_text, json_text, markdown, markdown_list
from textmover.terminal import print_table

FORMATS = {".md": "markdown", ".csv": "csv", ".json": "json"}  # format of a file by its suffix
TEXT_HEADERS = ("metric", "from", "encoder", "centering", "kind", "meaning")  # columns of text

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Block(Section):
    """A table with remarks, and the same numbers with all digits, one record each."""

    records: Sequence[Mapping[str, Any]] = ()


def block(title: str, headers: Sequence[str], rows: Rows, remarks: Sequence[str] = (), **more: Any) -> Block:
    """A block whose table has these headers and rows."""
    texts = sum(header in TEXT_HEADERS for header in headers)
    return Block(title, Table(headers, rows, texts=texts), remarks, **more)


@dataclass(frozen=True)
class Page:
    """Results with their source, the file of the experiment, the command that computes them again, and notes."""

    title: str
    paper: str
    experiment: str
    command: str
    notes: Sequence[str]
    blocks: Sequence[Block]


def as_text(page: Page, kind: str) -> str:
    """A page as ``markdown``, ``csv`` or ``json``."""
    if kind == "csv":
        return csv_text([record for one in page.blocks for record in one.records])
    if kind == "markdown":
        parts = [f"# {markdown_text(page.title)}\n", f"Published: {markdown_text(page.paper)}.\n"]
        parts += [markdown_fence(page.command, "bash"), *([markdown_list(page.notes)] if page.notes else [])]
        return "\n".join([*parts, *([markdown(page.blocks)] if page.blocks else [])])
    told = {name: getattr(page, name) for name in ("title", "paper", "experiment", "command", "notes")}
    tables = [{name: getattr(one, name) for name in ("title", "figure", "remarks", "records")} for one in page.blocks]
    return json_text({**told, "tables": tables})


def print_blocks(blocks: Sequence[Block], wide: Collection[str], *, quiet: bool) -> None:
    """Print tables, the columns in ``wide`` as wide as their cells, with remarks and signatures unless ``quiet``."""
    for place, one in enumerate(blocks):
        headers = one.table.headers
        sys.stdout.write(f"{'' if place == 0 else chr(10)}{one.title}\n")
        numbers = [header for header in headers if header not in TEXT_HEADERS]
        narrow = [header for header in headers if header not in wide]
        print_table(headers, one.table.rows, numbers=numbers, narrow=narrow)
        if not quiet:
            sys.stdout.write("".join(f"{line}\n" for line in one.remarks))
            sys.stdout.write("".join(f"{name}: {signature}\n" for name, signature in one.signatures))
