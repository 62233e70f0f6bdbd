"""Read items to rate: texts with references and sources, from a file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textmover.readers.csv_and_jsonl import named
from textmover.readers.lines import empty
from textmover.readers.segments import TableRow, check_columns, quoted_value
from textmover.readers.tables import open_tables
from textmover.safe_reading import NotJsonError, load_json, read_text
from textmover.types import InputError

SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv")  # suffixes of item files

SOURCES = ("source", "meaning_representation", "mr", "triples", "table")
"""Columns shown as the source of a text, if present."""

FURTHER_REFERENCE = re.compile(r"references?_?\d+")  # columns of further references
LONGEST_KEY = 200  # characters of an id


@dataclass(frozen=True)
class ItemColumns:
    """Names of the columns of a file of items.

    Attributes:
        hypothesis: Column of the text that is rated.
        references: Columns of references; by default those of ``reference``, ``references``, ``reference_2`` and so on
            that are present.
    """

    hypothesis: str = "hypothesis"
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """A text to rate.

    Attributes:
        key: The ``id``; without one, a hash of the texts.
        hypothesis: The text to rate.
        references: Reference texts; may be empty.
        sources: Sources of the text, by name of the column.
        others: All other columns, as text.
    """

    key: str
    hypothesis: str
    references: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Hash of the texts that annotators see; a rating is valid only while it is unchanged."""
        return _hash([self.hypothesis, list(self.references), dict(self.sources)])


def read_items(path: str | Path, columns: ItemColumns | None = None) -> tuple[Item, ...]:
    r"""Read the items of a file, in their order.

    Args:
        path: ``.json`` (a list of objects), ``.jsonl``, ``.csv`` or ``.tsv``. A column ``id`` names the items; columns
            that are neither texts nor ``id`` are kept.
        columns: Names of the columns.

    Raises:
        InputError: If the file cannot be read, is empty or invalid, lacks a column, has a value that is not text in a
            column of texts, or contains an item twice.

    Example:
        >>> path = getfixture("tmp_path") / "items.jsonl"
        >>> _ = path.write_text('{"id": 7, "hypothesis": "A cat.", "reference": "The cat.", "system": "a"}\n')
        >>> read_items(path)
        (Item(key='7', hypothesis='A cat.', references=('The cat.',), sources={}, others={'system': 'a'}),)
    """
    columns = columns or ItemColumns()
    path = Path(path)
    rows = list(_rows(path))
    if not rows:
        raise InputError(f"Expected items to rate in {path.name}, but it holds none: add one a row.")
    present = list(dict.fromkeys(name for row in rows for name in row.cells))
    options = [("--reference-column", name) for name in columns.references]
    check_columns(path.name, present, [("--hypothesis-column", columns.hypothesis), *options])
    references = columns.references or tuple(
        name for name in present if name in ("reference", "references") or FURTHER_REFERENCE.fullmatch(name)
    )
    named_ids = "id" in present
    items = [_item(row, columns.hypothesis, references, named_ids=named_ids) for row in rows]
    first: dict[str, int] = {}
    for row, item in zip(rows, items, strict=True):
        if item.key in first:
            where = f"{row.unit}s {first[item.key]} and {row.number} of {row.name}"
            raise InputError(
                f"Expected each id once, but got {item.key!r} in {where}: give one of them another id."
                if named_ids
                else f"Expected items that differ, but {where} are the same: remove one, or add a column 'id'."
            )
        first[item.key] = row.number
    return tuple(items)


def _rows(path: Path) -> Iterator[TableRow]:
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"Expected a file of items that ends in {', '.join(SUFFIXES)}, but got {path.name}: rename it."
        )
    elements = _json_list(path) if path.suffix.lower() == ".json" else None
    if elements is not None:
        for number, cells in enumerate(elements, start=1):
            if not isinstance(cells, dict):
                raise InputError(
                    f"Expected a list of objects in {path.name}, but got {quoted_value(cells)} as element {number}: "
                    'write {"hypothesis": …, "reference": …} in its place.'
                )
            yield TableRow(path.name, "element", number, cells)
        return
    for table in open_tables(path):
        if table.columns is not None and len(set(table.columns)) < len(table.columns):
            duplicate = next(name for name in table.columns if table.columns.count(name) > 1)
            raise InputError(f"Expected one column {duplicate!r} in {path.name}, but got several: rename all but one.")
        for number, row in table.rows:
            if isinstance(row, InputError):
                raise row
            yield TableRow(path.name, table.unit, number, row)


def _json_list(path: Path) -> list[Any] | None:
    """Return the list in a JSON file; ``None`` for JSON Lines."""
    text = read_text(path).removeprefix("\ufeff")
    if not text.strip():
        raise empty(path.name)
    try:
        value = load_json(text, path.name)
    except NotJsonError:
        if text.lstrip().startswith("["):
            raise
        return None
    if isinstance(value, dict) and "hypothesis" not in value and any(isinstance(one, list) for one in value.values()):
        raise InputError(
            f"Expected a list of objects in {path.name}, but got one object with {named(list(value))}: write the list "
            "alone (`jq .NAME` picks it out)."
        )
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise InputError(f"Expected a list of objects in {path.name}, but got {quoted_value(value)}.")
    return value


def _item(row: TableRow, hypothesis: str, references: Sequence[str], *, named_ids: bool) -> Item:
    rated_text = row.text(hypothesis)
    refs = tuple(text for name in references if row.cells.get(name) for text in row.references([name]) if text)
    sources = {name: _as_text(row.cells[name]) for name in SOURCES if _as_text(row.cells.get(name))}
    used = {hypothesis, "id", *references, *SOURCES}
    others = {name: _as_text(value) for name, value in row.cells.items() if name not in used}
    for name, text in (sources | others).items():
        row._replace(cells={name: text}).text(name)  # refuses half a surrogate pair
    key = _named_key(row) if named_ids else _hash([rated_text, list(refs), sources])
    return Item(key, rated_text, refs, sources, others)


def _named_key(row: TableRow) -> str:
    value = row.cells.get("id")
    valid = isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip()
    if not valid or len(str(value)) > LONGEST_KEY:
        raise InputError(
            f"Expected an id of 1 to {LONGEST_KEY} characters in column 'id' of {row.name}, {row.unit} {row.number}, "
            f"but got {quoted_value(value)}: give every item an id, or none."
        )
    return row._replace(cells={"id": str(value).strip()}).text("id")


def _as_text(value: object) -> str:
    """Format a cell for annotators: lists as lines, and the parts of a triple separated by bars."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {_as_line(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "\n".join(_as_line(one) for one in value)
    return json.dumps(value, ensure_ascii=False)


def _as_line(value: object) -> str:
    if isinstance(value, Mapping):
        value = list(value.values())
    return " | ".join(map(str, value)) if isinstance(value, list) else _as_text(value)


def _hash(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
