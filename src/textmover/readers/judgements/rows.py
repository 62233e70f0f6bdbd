"""Rows of judgement tables: typed cells, and the judgement set assembled from them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from textmover.readers.lines import usable
from textmover.readers.segments import TableRow, check_columns, finite, read_rows
from textmover.types import InputError, Judgements, SourcedReferences
from textmover.types.word_splitting import folded

ALL = "all"  # group of texts without a group


class JudgedText(NamedTuple):
    """Judged text and its position."""

    place: str  # line and file, or another position for errors
    hypothesis: str
    references: tuple[str, ...]
    ratings: tuple[float, ...]  # one rating for each dimension of the set
    group: str = ALL
    item: str = ""  # item that it is an output for; empty if unknown
    system: str = ""  # system that produced it; empty if unknown
    source: str = ""  # text that it was made from; empty if unknown
    scores: tuple[float, ...] = ()  # scores in the file, one for each metric


def check_names(what: str, names: Iterable[str]) -> None:
    """Raise an error if two names differ only in spaces or Unicode normalisation, so that they look the same."""
    first: dict[str, str] = {}
    for name in dict.fromkeys(names):
        other = first.setdefault(folded(name), name)
        if other != name:
            raise InputError(f"Expected {what}s that look different, but got {other!a} and {name!a}: write them alike.")


def assembled(
    name: str,
    texts: Sequence[JudgedText],
    dimensions: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    left_out: Mapping[str, int] | None = None,
    preferences: np.ndarray | None = None,
) -> Judgements:
    """Assemble a judgement set. Items, systems and sources are ``None`` if no text names any."""

    def unless_empty(field: str) -> tuple[str, ...] | None:
        values = tuple(getattr(text, field) for text in texts)
        lacking = [text.place for text, value in zip(texts, values, strict=True) if not value.strip()]
        if lacking and len(lacking) < len(values):
            raise InputError(
                f"Expected each text to name its {field}, but got an empty cell in {lacking[0]}: name it, or remove "
                "the row."
            )
        return values if any(values) else None

    for field in ("system", "group"):  # not items, which may be texts
        check_names(field, (getattr(text, field) for text in texts))
    sources = tuple(text.source for text in texts)
    sides = any(text.references for text in texts), any(sources)

    def compared(text: JudgedText) -> SourcedReferences:
        first, second = (text.place if side else "" for side in sides)
        return SourcedReferences(text.references, text.source, (first, second))

    return Judgements(
        name=name,
        hypotheses=tuple(text.hypothesis for text in texts),
        references=tuple(map(compared, texts)),
        ratings=_columns(dimensions, [text.ratings for text in texts]),
        groups=tuple(text.group for text in texts),
        items=unless_empty("item"),
        systems=unless_empty("system"),
        preferences=preferences,
        scores=_columns(metrics, [text.scores for text in texts]),
        sources=sources if any(sources) else None,
        left_out=dict(left_out or {}),
    )


def check_unique(texts: Sequence[JudgedText], way_out: str) -> None:
    """Raise an error if texts share group, item and system. Without known items nothing is checked."""
    if not any(text.item for text in texts):
        return
    first: dict[tuple[str, str, str], str] = {}
    for text in texts:
        key = (text.group, text.item, text.system)
        if key in first:
            group = "" if text.group == ALL else f"group {text.group!r}, "
            system = f", system {text.system!r}" if text.system else ""
            raise InputError(
                f"Expected one text for {group}item {text.item!r}{system}, but got one in {first[key]} and another in "
                f"{text.place}: remove one of them, or {way_out}."
            )
        first[key] = text.place


def repeated_rows(judgements: Judgements) -> int:
    """Return the number of rows that repeat group, item and system of an earlier row; 0 if items are unknown."""
    if judgements.items is None:
        return 0
    systems = judgements.systems or ("",) * len(judgements)
    return len(judgements) - len(set(zip(judgements.groups, judgements.items, systems, strict=True)))


def _columns(names: Sequence[str], rows: Sequence[tuple[float, ...]]) -> dict[str, np.ndarray]:
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(names)}


class CellTable(NamedTuple):
    """Rows of a file with the requested cells."""

    rows: list[TableRow]  # all rows in file order
    columns: tuple[str, ...]  # requested columns that the file has


def read_cells(
    path: str | Path,
    wanted: Mapping[str, str] | None,
    *,
    optional: Collection[str] = (),
    format: str | None = None,
    split: str = "train",
) -> CellTable:
    """Read the rows of a table and resolve paths into nested values."""
    asked = [("columns", name) for column in wanted or () for name in (column, column.split(".")[0])]

    def check(table: str, columns: Sequence[str], _: object) -> None:
        fields = dict.fromkeys(columns, "columns") if wanted is None else wanted
        places = {column: _found(column, columns) for column in fields}
        needed = (column for column in fields if places[column] is not None or column not in optional)
        check_columns(table, columns, [(fields[column], places[column] or column) for column in needed])

    with contextlib.closing(read_rows(path, asked, format=format, split=split, check=check)) as numbered:
        rows = list(usable(row for _, row in numbered))
    present = tuple(dict.fromkeys(name for row in rows for name in row.cells))
    if wanted is None:
        return CellTable(rows, present)
    resolved = [row._replace(cells={column: _value(row, column) for column in wanted}) for row in rows]
    return CellTable(resolved, tuple(one for one in wanted if _found(one, present) is not None))


def number(row: TableRow, column: str, *, missing: bool, hint: str) -> float:
    """Return a finite number, or the mean of the values of a ``*`` path; NaN for an empty cell if ``missing``."""
    value = row.cells.get(column)
    values = value if isinstance(value, list) and "*" in column.split(".") else [value]
    numbers = [_number(row, column, entry, missing=missing, hint=hint) for entry in values]
    valid = [entry for entry in numbers if not math.isnan(entry)]
    if valid:
        return math.fsum(valid) / len(valid)
    return math.nan if missing else _number(row, column, value, missing=False, hint=hint)


def as_text(value: object) -> str:
    """Return a cell as text for filters: an empty cell is the empty text, 2017.0 is 2017."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def is_missing(value: object) -> bool:
    """Return whether a cell is empty or holds NaN as written by Python or R."""
    return as_text(value).strip().lower() in ("", "nan", "na")


def says_nan(value: object) -> bool:
    """Return whether a cell holds the word nan or a NaN."""
    return isinstance(value, (str, float)) and str(value).strip().lower() == "nan"


def _number(row: TableRow, column: str, value: object, *, missing: bool, hint: str) -> float:
    if missing and is_missing(value):
        return math.nan
    if isinstance(value, list) and "*" not in column.split("."):
        hint = f"write {column}.* for the mean of a list"
    return finite(value, row.cell(column), f"correct it, or {hint}")


def _found(column: str, columns: Collection[str]) -> str | None:
    """Return the column itself, or the column in which its path begins."""
    return next((one for one in (column, column.split(".")[0]) if one in columns), None)


def _value(row: TableRow, column: str) -> object:
    """Return the value of a column or path; ``None`` if it is missing."""
    if column in row.cells or "." not in column:
        return row.cells.get(column)
    parts = column.split(".")
    values: list[object] = [row.cells]
    for depth, part in enumerate(parts):
        kind, what = (list, "a list") if part == "*" else (Mapping, "an object")
        present = [value for value in values if value is not None]
        for value in present:
            if not isinstance(value, kind):
                raise InputError(
                    f"Expected {what} at {'.'.join(parts[:depth])!r} of {row.name}, {row.unit} {row.number}, but got "
                    f"{type(value).__name__}: correct the path {column!r}."
                )
        if part == "*":
            values = [entry for value in present for entry in value]  # type: ignore[attr-defined]
        else:
            values = [None if value is None else value.get(part) for value in values]  # type: ignore[attr-defined]
    return values if "*" in parts else values[0]
