"""Tables in memory, read like files: data frames, lists of rows, and columns as lists. Rows chosen by their groups."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from textmover.readers.line_tables import Cells, Table
from textmover.types import InputError

ROWS_OF = ("to_dicts", "to_pylist", "to_list")  # rows of a table as dicts: of polars, pyarrow and `datasets`
MISSING = ("NAType", "NaTType")  # types of pandas

Row = TypeVar("Row")


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """A table in memory; readers take it in place of a path."""

    name: str  # what errors call it
    columns: tuple[str, ...]
    rows: Sequence[Cells]

    def __str__(self) -> str:
        return self.name

    def open(self) -> Table:
        """The table as files are opened."""
        return Table(self.name, "row", self.columns, enumerate(self.rows, start=1))


def named_tables(given: Any, argument: str) -> dict[str, str | MemoryTable]:
    """Paths and tables in memory by name, from one table or a list of paths and tables."""
    single = not isinstance(given, (list, tuple)) or (bool(given) and all(isinstance(one, Mapping) for one in given))
    found: dict[str, str | MemoryTable] = {}
    for place, one in enumerate([given] if single else given):
        name = argument if single else f"{argument}[{place}]"
        table = os.fspath(one) if isinstance(one, (str, os.PathLike)) else _in_memory(one, name)
        found[str(table)] = table
    return found


def _in_memory(value: Any, argument: str) -> MemoryTable:
    if all(hasattr(value, name) for name in ("itertuples", "columns", "dtypes")):  # pandas
        columns = [str(one) for one in value.columns]
        records = (dict(zip(columns, row, strict=True)) for row in value.itertuples(index=False, name=None))
        return MemoryTable(f"the data frame `{argument}`", tuple(columns), [_cells(one) for one in records])
    if isinstance(value, Mapping):
        return _of_columns(value, argument)
    method = next((getattr(value, name) for name in ROWS_OF if hasattr(value, name)), None)
    rows = value if method is None else method()
    if not isinstance(rows, (list, tuple)) or not all(isinstance(one, Mapping) for one in rows):
        shown = " ".join(repr(value).split())
        raise InputError(
            f"Expected `{argument}` to be the path of a file, a data frame, a list of dicts or a dict of lists, but "
            f"got {shown if len(shown) <= 60 else f'{shown[:59]}…'}: give one of these."
        )
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return MemoryTable(f"the rows of `{argument}`", tuple(names), [_cells(row) for row in rows])


def _of_columns(columns: Mapping[Any, Any], argument: str) -> MemoryTable:
    name = f"the columns of `{argument}`"
    for column, values in columns.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise InputError(f"Expected {name} to be lists, but {column!r} is {values!r}: give a value for each row.")
    lengths = {str(column): len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{column!r} {length}" for column, length in lengths.items())
        raise InputError(f"Expected {name} to be of one length, but got {listed}: give a value for each row.")
    rows = [dict(zip(lengths, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return MemoryTable(name, tuple(lengths), [_cells(row) for row in rows])


def _cells(row: Mapping[Any, Any]) -> Cells:
    return {str(name): _cell(value) for name, value in row.items()}


def _cell(value: Any) -> Any:
    """A cell as files hold it: NumPy's values as Python's, tuples as lists, and missing values as ``None``."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if type(value).__name__ in MISSING or (isinstance(value, float) and math.isnan(value)):
        return None
    return list(value) if isinstance(value, tuple) else value


def rows_where(
    rows: Sequence[Row],
    where: Mapping[str, Sequence[str]],
    path: str,
    group: Callable[[Any, str], str] = lambda row, key: row.groups[key],
) -> list[Row]:
    """The rows of a file whose groups have one of the values that are named for each key."""
    for key, values in where.items():
        present = {group(row, key) for row in rows}
        missing = [value for value in values if value not in present]
        if missing:
            raise InputError(
                f"Expected rows of {path} whose {key!r} is {missing[0]!r}, but got none: it holds "
                f"{', '.join(sorted(present)[:8])}."
            )
    return [row for row in rows if all(group(row, key) in values for key, values in where.items())]
