"""Files, hub data sets and tables in memory as tables of cells, whose columns :mod:`textmover.readers.segments` reads.

Rows come one at a time, so that a file need not fit into memory, with the number of their line for errors.
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
from textmover.readers.lines import COMPRESSIONS, STANDARD_INPUT, Position, iter_lines, shown
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
"""The format that each file suffix stands for; ``.gz`` or ``.zst`` may follow those of text."""

HUB_PREFIX = "hub:"
PARQUET_ROWS = 1024  # rows of a Parquet file that are read at a time
PARQUET_BUFFER = 1 << 16  # bytes of a column that are read at a time; without it a whole row group is

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


def open_tables(
    path: str | Path | MemoryTable,
    *,
    format: str | None = None,
    split: str = "train",
    wanted: Collection[str] | None = None,
    position: Position | None = None,
) -> Generator[Table, None, None]:
    """Open a file, the Parquet files of a folder, a saved data set, a set of the hub or by name, or one in memory."""
    if isinstance(path, MemoryTable):
        yield path.open()
        return
    name = located(path)
    try:
        # A place in the input is asked for by the readers whose format can be set.
        format = format or _format_of(name, position is not None)
    except OSError as error:
        raise unreadable(name, error) from error
    if format in TEXT_TABLES:
        with contextlib.closing(iter_lines(name, position, ends=format == "csv")) as lines:
            yield TEXT_TABLES[format](shown(name), lines)
    elif format == "parquet":
        yield from _parquet_tables(name, wanted, position)
    elif format == "hub":
        yield _hub_table(name, split, wanted)
    else:
        raise InputError(f"Expected the format to be csv, tsv, jsonl, parquet or hub, but got {format!r}: choose one.")


def is_table(path: str | Path) -> bool:
    """Return whether a name stands for a table rather than for plain text.

    Example:
        >>> is_table("a.csv.gz"), is_table("hub:owner/name"), is_table("a.txt.gz")
        (True, True, False)
    """
    place = Path(place_of(path))
    return str(path).startswith(HUB_PREFIX) or place.is_dir() or _format_of_suffix(place) is not None


def refuse_tables(paths: Iterable[str]) -> None:
    """Refuse tables among files of one text a line, whose header and other columns would be read as text."""
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
        for done, one in enumerate(paths):
            with parquet.ParquetFile(one, buffer_size=PARQUET_BUFFER) as file:
                columns = tuple(file.schema_arrow.names)
                needed = _needed(columns, wanted) or list(columns[:1])
                rows = _parquet_rows(str(one), file, needed, position, done, len(paths))
                yield Table(str(one), "row", columns, rows)
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable(name, error) from error


def _parquet_rows(
    name: str, file: Any, columns: list[str], position: Position | None, done: int, files: int
) -> Iterator[Numbered]:
    import pyarrow

    number = 0
    try:
        for batch in file.iter_batches(PARQUET_ROWS, columns=columns):
            for cells in _batch_cells(name, batch, number):
                number += 1
                yield number, cells
            if position is not None:
                position.tell = lambda share=(done + number / file.metadata.num_rows) / files: share
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable(f"{name} after row {number}", error) from error


def _batch_cells(name: str, batch: Any, before: int) -> list[Cells | InputError]:
    """The rows of a batch; one whose text is not UTF-8 is found."""
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
    """The Parquet files of a folder by name, without those that begin like hidden and temporary ones."""
    return sorted(path for path in folder.glob("*.parquet") if path.name[0] not in "._")


def _hub_table(name: str, split: str, wanted: Collection[str] | None) -> Table:
    """A data set of the hub, of a local folder that `datasets` can build from, or saved by it."""
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


def _needed(columns: Sequence[str], wanted: Collection[str] | None) -> list[str]:
    return [column for column in columns if wanted is None or column in wanted]


def _is_saved_data_set(path: Path) -> bool:
    single = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
    return single or (path / "dataset_dict.json").is_file()


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
