"""Rows of judgement tables: typed cells, and the set assembled from them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from textmover.readers.segments import TableRow, check_columns, finite
from textmover.readers.tables import open_tables
from textmover.types import InputError, Judgements, SourcedReferences

ALL = "all"  # the group of texts that belong to none


class JudgedText(NamedTuple):
    """A text that people judged, and where it stands."""

    place: str  # line and file, or whatever else leads to it
    hypothesis: str
    references: tuple[str, ...]
    ratings: tuple[float, ...]  # its ratings, one for each dimension of the set
    group: str = ALL
    item: str = ""  # what it is an output for; empty where the file does not say
    system: str = ""  # what produced it; empty where the file does not say
    source: str = ""  # what it was made from; empty where the file does not say
    scores: tuple[float, ...] = ()  # scores that the file brings along, one for each metric


def assembled(
    name: str,
    texts: Sequence[JudgedText],
    dimensions: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    left_out: Mapping[str, int] | None = None,
    preferences: np.ndarray | None = None,
) -> Judgements:
    """The set that judged texts make; what none of them names (item, system, source) is ``None``."""

    def unless_empty(field: str) -> tuple[str, ...] | None:
        values = tuple(getattr(one, field) for one in texts)
        return values if any(values) else None

    sides = any(one.references for one in texts), any(one.source for one in texts)

    def compared(one: JudgedText) -> SourcedReferences:
        first, second = (one.place if side else "" for side in sides)
        return SourcedReferences(one.references, one.source, (first, second))

    return Judgements(
        name=name,
        hypotheses=tuple(one.hypothesis for one in texts),
        references=tuple(map(compared, texts)),
        ratings=_columns(dimensions, [one.ratings for one in texts]),
        groups=tuple(one.group for one in texts),
        items=unless_empty("item"),
        systems=unless_empty("system"),
        preferences=preferences,
        scores=_columns(metrics, [one.scores for one in texts]),
        sources=unless_empty("source"),
        left_out=dict(left_out or {}),
    )


def check_unique(texts: Sequence[JudgedText], way_out: str) -> None:
    """Make sure that each text has a group, item and system of its own, as far as items are known."""
    if not any(one.item for one in texts):
        return
    first: dict[tuple[str, str, str], str] = {}
    for one in texts:
        key = (one.group, one.item, one.system)
        if key in first:
            group = "" if one.group == ALL else f"group {one.group!r}, "
            system = f", system {one.system!r}" if one.system else ""
            raise InputError(
                f"Expected one text for {group}item {one.item!r}{system}, but got one in {first[key]} and another in "
                f"{one.place}: remove one of them, or {way_out}."
            )
        first[key] = one.place


def repeated_rows(judgements: Judgements) -> int:
    """Number of rows that repeat group, item and system of an earlier row; 0 if items are unknown."""
    if judgements.items is None:
        return 0
    systems = judgements.systems or ("",) * len(judgements)
    return len(judgements) - len(set(zip(judgements.groups, judgements.items, systems, strict=True)))


def _columns(names: Sequence[str], rows: Sequence[tuple[float, ...]]) -> dict[str, np.ndarray]:
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(names)}


class CellTable(NamedTuple):
    """The rows of a file with the cells that were asked for."""

    rows: list[TableRow]  # all rows in file order
    columns: tuple[str, ...]  # the columns that the file has, of those that were asked for


def read_cells(
    path: str | Path,
    wanted: Mapping[str, str] | None,
    *,
    optional: Collection[str] = (),
    format: str | None = None,
    split: str = "train",
) -> CellTable:
    """Read the rows of a table, paths into nested values resolved."""
    asked = None if wanted is None else {name for column in wanted for name in (column, column.split(".")[0])}
    rows: list[TableRow] = []
    present: dict[str, None] = {}
    with contextlib.closing(open_tables(path, format=format, split=split, wanted=asked)) as tables:
        for table in tables:
            seen = dict.fromkeys(table.columns or ())
            before = len(rows)
            if table.columns is not None:
                _check(table.name, table.columns, wanted, optional)
            for line, cells in table.rows:
                if isinstance(cells, InputError):
                    raise cells
                seen.update(dict.fromkeys(cells))
                row = TableRow(table.name, table.unit, line, cells)
                resolved = cells if wanted is None else {column: _value(row, column) for column in wanted}
                rows.append(row._replace(cells=resolved))
            if table.columns is None and len(rows) > before:
                _check(table.name, tuple(seen), wanted, optional)
            found = seen if wanted is None else [one for one in wanted if _found(one, seen) is not None]
            present.update(dict.fromkeys(found))
    if not rows:
        raise InputError(f"Expected {path} to hold at least one row, but got none: give a file with rows.")
    return CellTable(rows, tuple(present))


def number(row: TableRow, column: str, *, missing: bool, hint: str) -> float:
    """A finite number, or the mean of several behind a star; NaN for an empty cell where it may be ``missing``."""
    value = row.cells.get(column)
    values = value if isinstance(value, list) and "*" in column.split(".") else [value]
    numbers = [_number(row, column, one, missing=missing, hint=hint) for one in values]
    given = [one for one in numbers if not math.isnan(one)]
    if given:
        return math.fsum(given) / len(given)
    return math.nan if missing else _number(row, column, value, missing=False, hint=hint)


def as_text(value: object) -> str:
    """A cell as it is compared with the values of a filter: an empty one is the empty text, 2017.0 is 2017."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def is_missing(value: object) -> bool:
    """Return whether a cell holds no number: it is empty, or as Python and R write NaN."""
    return as_text(value).strip().lower() in ("", "nan", "na")


def says_nan(value: object) -> bool:
    """Return whether a cell holds the word nan, or NaN itself."""
    return isinstance(value, (str, float)) and str(value).strip().lower() == "nan"


def _number(row: TableRow, column: str, value: object, *, missing: bool, hint: str) -> float:
    if missing and is_missing(value):
        return math.nan
    if isinstance(value, list) and "*" not in column.split("."):
        hint = f"write {column}.* for the mean of a list"
    return finite(value, row.cell(column), f"correct it, or {hint}")


def _found(column: str, columns: Collection[str]) -> str | None:
    """The column itself, or the one in which its path begins."""
    return next((one for one in (column, column.split(".")[0]) if one in columns), None)


def _check(table: str, columns: Sequence[str], wanted: Mapping[str, str] | None, optional: Collection[str]) -> None:
    """Make sure that the columns that a file must have stand in it once."""
    asked = dict.fromkeys(columns, "columns") if wanted is None else wanted
    there = {column: _found(column, columns) for column in asked}
    needed = (column for column in asked if there[column] is not None or column not in optional)
    check_columns(table, columns, [(asked[column], there[column] or column) for column in needed])


def _value(row: TableRow, column: str) -> object:
    """The value of a column or at the end of a path; ``None`` where there is none."""
    if column in row.cells or "." not in column:
        return row.cells.get(column)
    parts = column.split(".")
    found: list[object] = [row.cells]
    for depth, part in enumerate(parts):
        kind, what = (list, "a list") if part == "*" else (Mapping, "an object")
        there = [one for one in found if one is not None]
        for one in there:
            if not isinstance(one, kind):
                raise InputError(
                    f"Expected {what} at {'.'.join(parts[:depth])!r} of {row.name}, {row.unit} {row.number}, but got "
                    f"{type(one).__name__}: correct the path {column!r}."
                )
        if part == "*":
            found = [entry for one in there for entry in one]  # type: ignore[attr-defined]
        else:
            found = [None if one is None else one.get(part) for one in found]  # type: ignore[attr-defined]
    return found if "*" in parts else found[0]
