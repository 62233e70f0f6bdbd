"""Files, hub data sets and in-memory tables as tables of cells; :mod:`textmover.readers.segments` reads their columns.

Rows are read one at a time with their line numbers, so that a file need not fit into memory.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from textmover.readers.csv_and_jsonl import TEXT_TABLES, Cells, Numbered, Table, named
from textmover.readers.lines import COMPRESSIONS, STANDARD_INPUT, Position, display_path, iter_lines
from textmover.readers.public_sets import located
from textmover.readers.public_sets.catalogue import place_of
from textmover.safe_reading import is_pipe, unreadable
from textmover.types import InputError

FORMATS: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
"""Format of each file suffix. Text formats may have ``.gz`` or ``.zst`` appended."""

HUB_PREFIX = "hub:"
PARQUET_ROWS = 1024  # rows of a Parquet file to read at a time
PARQUET_BUFFER = 1 << 16  # bytes of a column to read at a time; the default is a whole row group

ROWS_OF = ("to_dicts", "to_pylist", "to_list")  # methods of polars, pyarrow and `datasets` that return rows as dicts
MISSING = ("NAType", "NaTType")  # pandas types of missing values

Row = TypeVar("Row")


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """In-memory table; readers accept it in place of a path."""

    name: str  # name in errors
    columns: tuple[str, ...]
    rows: Sequence[Cells]

    def __str__(self) -> str:
        return self.name


def open_tables(
    path: str | Path | MemoryTable,
    *,
    format: str | None = None,
    split: str = "train",
    wanted: Collection[str] | None = None,
    position: Position | None = None,
) -> Generator[Table, None, None]:
    """Yield the tables of a file, Parquet folder, saved or named data set, hub data set or in-memory table."""
    if isinstance(path, MemoryTable):
        yield Table(path.name, "row", path.columns, enumerate(path.rows, start=1))
        return
    name = located(path)
    try:
        # Readers that pass a position also have a `format` argument, which errors mention.
        format = format or _format_of(name, position is not None)
    except OSError as error:
        raise unreadable(name, error) from error
    if format in TEXT_TABLES:
        with contextlib.closing(iter_lines(name, position, ends=format == "csv")) as lines:
            yield TEXT_TABLES[format](display_path(name), lines)
    elif format == "parquet":
        yield from _parquet_tables(name, wanted, position)
    elif format == "hub":
        yield _hub_table(name, split, wanted)
    else:
        raise InputError(f"Expected the format to be csv, tsv, jsonl, parquet or hub, but got {format!r}: choose one.")


def is_table(path: str | Path) -> bool:
    """Return whether a path or name stands for a table rather than plain text.

    Example:
        >>> is_table("a.csv.gz"), is_table("hub:owner/name"), is_table("a.txt.gz")
        (True, True, False)
    """
    place = Path(place_of(path))
    return str(path).startswith(HUB_PREFIX) or place.is_dir() or _format_of_suffix(place) is not None


def refuse_tables(paths: Iterable[str]) -> None:
    """Raise an error for tables among plain text files: their header and other columns would be read as text."""
    if table := next((path for path in paths if _format_of_suffix(Path(place_of(path)))), None):
        raise InputError(f"Expected one text a line, but {table} is a table: give it with `--data`, or rename it.")


def _format_of(name: str, can_be_set: bool) -> str:
    path = Path(name)
    if name.startswith(HUB_PREFIX) or _is_saved_data_set(path):
        return "hub"
    if name == STANDARD_INPUT:
        way_out = "set `format` to csv, tsv or jsonl" if can_be_set else "save it as a file"
        raise InputError(f"Expected the format of standard input (-), but got none: {way_out}.")
    if path.is_dir():
        if _parquet_files(path):
            return "parquet"
        raise InputError(
            f"Expected a file, or a folder of Parquet files or saved by `datasets`, but got the folder {name}: give "
            "the path of a file in it."
        )
    if not path.exists():
        raise FileNotFoundError
    format = _format_of_suffix(path)
    if format is None:
        raise InputError(
            f"Expected a table that ends in {', '.join(FORMATS)} (or these with .gz or .zst added), but got {name}: "
            f"give one, or {'set `format` to csv, tsv, jsonl or parquet' if can_be_set else 'rename the file'}."
        )
    return format


def _format_of_suffix(path: Path) -> str | None:
    packed = path.suffix.lower() in COMPRESSIONS
    return FORMATS.get(path.with_suffix("").suffix.lower() if packed else path.suffix.lower())


def _parquet_tables(name: str, wanted: Collection[str] | None, position: Position | None) -> Iterator[Table]:
    import pyarrow
    from pyarrow import parquet

    path = Path(name)
    if name == STANDARD_INPUT or is_pipe(path):
        got = f"the pipe {name}" if is_pipe(path) else "standard input (-)"
        raise InputError(
            f"Expected a file of Parquet, which is read from its end, but got {got}: save it, or send JSON Lines."
        )
    try:
        paths = _parquet_files(path) if path.is_dir() else [path]
        if not paths:
            raise IsADirectoryError(name)
        for index, file_path in enumerate(paths):
            with parquet.ParquetFile(file_path, buffer_size=PARQUET_BUFFER) as file:
                columns = tuple(file.schema_arrow.names)
                needed = _needed(columns, wanted) or list(columns[:1])
                rows = _parquet_rows(str(file_path), file, needed, position, index, len(paths))
                yield Table(str(file_path), "row", columns, rows)
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable(name, error) from error


def _parquet_rows(
    name: str, file: Any, columns: list[str], position: Position | None, index: int, files: int
) -> Iterator[Numbered]:
    import pyarrow

    number = 0
    try:
        for batch in file.iter_batches(PARQUET_ROWS, columns=columns):
            for cells in _batch_cells(name, batch, number):
                number += 1
                yield number, cells
            if position is not None:
                position.tell = lambda share=(index + number / file.metadata.num_rows) / files: share
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable(f"{name} after row {number}", error) from error


def _batch_cells(name: str, batch: Any, before: int) -> list[Cells | InputError]:
    """Return the rows of a batch; a row whose text is not UTF-8 becomes an error."""
    try:
        return batch.to_pylist()
    except UnicodeDecodeError as error:
        if len(batch) > 1:
            parts = (_batch_cells(name, batch.slice(row, 1), before + row) for row in range(len(batch)))
            return [cells for part in parts for cells in part]
        byte = error.object[error.start]
        problem = f"but got the byte 0x{byte:02x} in row {before + 1}: correct the row or remove it."
        return [InputError(f"Expected {name} to hold UTF-8, {problem}")]


def _parquet_files(folder: Path) -> list[Path]:
    """Return the sorted Parquet files of a folder, without hidden and temporary files."""
    return sorted(path for path in folder.glob("*.parquet") if path.name[0] not in "._")


def _hub_table(name: str, split: str, wanted: Collection[str] | None) -> Table:
    """Return a table from the hub, from a local folder that `datasets` can load, or from a folder that it saved."""
    import datasets

    place = name.removeprefix(HUB_PREFIX)
    try:
        if _is_saved_data_set(Path(place)):
            loaded = datasets.load_from_disk(place)
        else:
            configured = place.count("/") == 2 and not Path(place).exists()
            repository, _, configuration = place.rpartition("/") if configured else (place, "", None)
            loaded = datasets.load_dataset(repository, configuration, split=split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"Expected to load the split {split!r} of the data set {place}, but got '{reason}': "
            "check its name, split and configuration (hub:owner/name/configuration), and the network."
        ) from error
    if isinstance(loaded, datasets.DatasetDict):
        if split not in loaded:
            raise InputError(f"Expected the data set {place} to have a split {split!r}, but got {named(list(loaded))}.")
        loaded = loaded[split]
    columns = tuple(loaded.column_names)
    cells = loaded.select_columns(_needed(columns, wanted)).to_list()
    return Table(name, "row", columns, enumerate(cells, start=1))


def check_split(name: str, split: str | None, paths: Sequence[str], defaults: Collection[str] = ()) -> None:
    """Raise an error for a split other than the defaults if no table has splits; ``name`` is its option."""
    if split not in (None, *defaults) and not any(map(_has_splits, paths)):
        raise InputError(
            f"Expected `{name}` together with a data set that has splits, such as hub:owner/name, but got "
            f"{paths[0] if paths else 'none'}: leave it out."
        )


def _has_splits(path: str) -> bool:
    folder = Path(place_of(path).removeprefix(HUB_PREFIX))
    return path.startswith(HUB_PREFIX) if not _is_saved_data_set(folder) else (folder / "dataset_dict.json").is_file()


def _needed(columns: Sequence[str], wanted: Collection[str] | None) -> list[str]:
    return [column for column in columns if wanted is None or column in wanted]


def _is_saved_data_set(path: Path) -> bool:
    single = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
    return single or (path / "dataset_dict.json").is_file()


def named_tables(given: Any, argument: str) -> dict[str, str | MemoryTable]:
    """Return paths and in-memory tables by name, from a single table or a list; paths of one file are read once."""
    listed = isinstance(given, (list, tuple))
    if listed and not given:
        raise InputError(f"Expected `{argument}` to name at least one file, but got none: name one.")
    single = not listed or all(isinstance(item, Mapping) and not _is_table(item) for item in given)
    tables: dict[str, str | MemoryTable] = {}
    for index, item in enumerate([given] if single else given):
        name = argument if single else f"{argument}[{index}]"
        table = os.fspath(item) if isinstance(item, (str, os.PathLike)) else _in_memory(item, name)
        tables.setdefault(os.path.realpath(table) if isinstance(table, str) else str(table), table)
    return {str(table): table for table in tables.values()}


def _is_table(value: Mapping[Any, Any]) -> bool:
    """Return whether a mapping holds columns of one length rather than the cells of a row."""
    columns = list(value.values())
    listed = all(hasattr(one, "__len__") and not isinstance(one, (str, bytes, Mapping)) for one in columns)
    return listed and len({len(one) for one in columns}) == 1


def _in_memory(value: Any, argument: str) -> MemoryTable:
    if all(hasattr(value, name) for name in ("itertuples", "columns", "dtypes")):  # pandas
        columns = [str(column) for column in value.columns]
        records = (dict(zip(columns, row, strict=True)) for row in value.itertuples(index=False, name=None))
        return MemoryTable(f"the data frame `{argument}`", tuple(columns), [_cells(record) for record in records])
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
    """Return a cell as files hold it: NumPy values as Python values, tuples as lists, missing values as ``None``."""
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
    """Return the rows whose group has one of the given values for each key."""
    for key, values in where.items():
        present = {group(row, key) for row in rows}
        missing = [value for value in values if value not in present]
        if missing:
            raise InputError(
                f"Expected rows of {path} whose {key!r} is {missing[0]!r}, but got none: it holds "
                f"{', '.join(sorted(present)[:8])}."
            )
    return [row for row in rows if all(group(row, key) in values for key, values in where.items())]
