"""Files and hub data sets as tables of cells; what the columns mean is the business of :mod:`textmover.data.readers`.

Every row keeps the number of its line, so that an error can name the place that has to be corrected.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from textmover.types import InputError

__all__ = ["FORMATS", "Table", "named", "read_table", "read_text", "split_lines"]

FORMATS: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
"""The format that each file suffix stands for."""

HUB_PREFIX = "hub:"
"""What the name of a hub data set starts with, to tell it from a path."""


class Table(NamedTuple):
    """Rows of named cells and where they come from.

    Attributes:
        name: What errors call the file or data set.
        unit: What rows are counted in: ``"line"`` (the header is line 1) or ``"row"`` (counted from 1).
        columns: All column names, in file order; a name that stands twice is listed twice.
        rows: Number and cells of each row. Cells are text in CSV and TSV, any value elsewhere.
    """

    name: str
    unit: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[int, Mapping[str, object]]]


def read_table(
    path: str | Path,
    *,
    format: str | None = None,
    split: str = "train",
    wanted: Collection[str] | None = None,
) -> Table:
    r"""Read a file, a saved data set or a hub data set.

    Args:
        path: A file; a folder written by ``datasets.Dataset.save_to_disk``; or ``hub:owner/name`` and
            ``hub:owner/name/configuration``.
        format: ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``.
        split: Split of a hub or saved data set; plain files have none.
        wanted: Columns whose cells are needed; Parquet files and data sets leave the others unread.

    Returns:
        The table, with at least one row.

    Raises:
        InputError: If the file is missing, unreadable, empty, not UTF-8 or not in its format.

    Example:
        >>> path = getfixture("tmp_path") / "two.tsv"
        >>> _ = path.write_text('hypothesis\treference\na "b\tc\n', encoding="utf-8")
        >>> read_table(path).rows
        [(2, {'hypothesis': 'a "b', 'reference': 'c'})]
    """
    name = str(path)
    try:
        format = format or _format_of(name)
    except OSError as error:
        raise _unreadable(name, error) from error
    if format == "csv":
        table = _csv_table(name)
    elif format == "tsv":
        table = _tsv_table(name)
    elif format == "jsonl":
        table = _json_table(name)
    elif format == "parquet":
        table = _parquet_table(name, wanted)
    elif format == "hub":
        table = _hub_table(name, split, wanted)
    else:
        raise InputError(f"Expected the format to be csv, tsv, jsonl, parquet or hub, but got {format!r}: choose one.")
    if not table.rows:
        raise InputError(f"Expected {name} to hold at least one segment, but got none: give a file with rows.")
    return table


def read_text(path: str | Path) -> str:
    """The whole text of a UTF-8 file, line ends untouched and without a byte-order mark.

    Args:
        path: A file, or ``-`` for standard input.

    Returns:
        The text, at least one character.

    Raises:
        InputError: If the file cannot be read, is empty or is not UTF-8.
    """
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(str(path), error) from error
    name = "standard input" if str(path) == "-" else str(path)
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content:
        raise _empty(name)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"Expected {name} to be UTF-8, but got the byte 0x{content[error.start]:02x} in line {line}: "
            "save it as UTF-8 (iconv converts it)."
        ) from error


def split_lines(text: str) -> list[str]:
    r"""Lines of a text, ended by ``\n`` or ``\r\n`` alone; the last line may lack its end.

    ``str.splitlines`` also cuts at form feeds, U+0085, U+2028 and others that occur inside sentences.

    Example:
        >>> split_lines("a\u2028b\r\n\nc\n")
        ['a\u2028b', '', 'c']
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def named(values: Collection[str], *, most: int = 20, width: int = 40) -> str:
    """Names in quotes for an error message, long ones and long lists cut.

    Example:
        >>> named(["a", "b", "c"], most=2)
        "'a', 'b' and 1 more"
    """
    shown = [repr(value if len(value) <= width else value[: width - 1] + "…") for value in list(values)[:most]]
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(shown) + more


def _format_of(name: str) -> str:
    """Format that a path stands for."""
    path = Path(name)
    if name.startswith(HUB_PREFIX) or _is_saved_data_set(path):
        return "hub"
    if path.is_dir():
        raise InputError(
            f"Expected a file or a folder saved by `datasets`, but got the folder {name}: give the path of a file in "
            "it."
        )
    if not path.exists():
        raise InputError(f"Expected a file at {name}, but there is none: correct the path.")
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            f"Expected a file that ends in {', '.join(FORMATS)}, but got {name}: rename it, or give its format as csv, "
            "tsv, jsonl or parquet."
        )
    return FORMATS[suffix]


def _unreadable(name: str, error: Exception) -> InputError:
    """The error of a file that cannot be opened or parsed, with its cause on one line."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"Expected a file at {name}, but there is none: correct the path.")
    if isinstance(error, IsADirectoryError):
        return InputError(f"Expected a file, but got the folder {name}: give the path of a file in it.")
    reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return InputError(f"Expected to be able to read {name}, but got '{reason}': check the file and its permissions.")


def _empty(name: str) -> InputError:
    """The error of a file without content."""
    return InputError(f"Expected {name} to hold text, but it is empty: give a file with content.")


def _csv_table(name: str) -> Table:
    """Comma-separated values with quoting; a record may span lines."""
    reader = csv.reader(io.StringIO(read_text(name), newline=""), strict=True)
    records: list[tuple[int, list[str]]] = []
    start = 1
    try:
        for fields in reader:
            records.append((start, fields))
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"Expected {name} to be CSV, but got '{error}' in the record that starts in line {start}: put such a text "
            'in quotation marks and double those inside it ("" for "), or save the file as JSON Lines.'
        ) from error
    return _delimited_table(name, records, 'put texts that hold a comma in quotation marks (")')


def _tsv_table(name: str) -> Table:
    """Tab-separated values without quoting: a quotation mark is a character like any other."""
    records = [(number, line.split("\t")) for number, line in enumerate(split_lines(read_text(name)), start=1)]
    return _delimited_table(name, records, "texts must not hold tabs or line breaks (JSON Lines allows both)")


def _delimited_table(name: str, records: list[tuple[int, list[str]]], way_out: str) -> Table:
    """A header and records of as many fields; blank lines at the end do not count."""
    while records and records[-1][1] in ([], [""]):
        records.pop()
    if not records:
        raise _empty(name)
    (_, header), *body = records
    for number, fields in body:
        if len(fields) != len(header):
            raise InputError(
                f"Expected {len(header)} fields as in the header, but got {len(fields)} in line {number} of {name}: "
                f"{way_out}."
            )
    rows = [(number, dict(zip(header, fields, strict=True))) for number, fields in body]
    return Table(name, "line", tuple(header), rows)


def _json_table(name: str) -> Table:
    """One JSON object a line; a key may be absent from some of them."""
    lines = split_lines(read_text(name))
    while lines and not lines[-1].strip():
        lines.pop()
    rows: list[tuple[int, Mapping[str, object]]] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise _not_an_object(name, number, line) from error
        if not isinstance(record, dict):
            raise _not_an_object(name, number, line)
        rows.append((number, record))
    columns = dict.fromkeys(key for _, record in rows for key in record)
    return Table(name, "line", tuple(columns), rows)


def _not_an_object(name: str, number: int, line: str) -> InputError:
    """The error of a line that is no JSON object."""
    return InputError(
        f"Expected one JSON object a line, but got {named([line])} in line {number} of {name}: "
        "correct the line (`jq -c '.[]'` turns a JSON array into such lines)."
    )


def _parquet_table(name: str, wanted: Collection[str] | None) -> Table:
    """A Parquet file; only the wanted columns are read."""
    import pyarrow
    from pyarrow import parquet

    try:
        if Path(name).is_dir():
            raise IsADirectoryError(name)
        with parquet.ParquetFile(name) as file:
            columns = tuple(file.schema_arrow.names)
            cells = file.read(columns=_needed(columns, wanted)).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise _unreadable(name, error) from error
    return Table(name, "row", columns, list(enumerate(cells, start=1)))


def _hub_table(name: str, split: str, wanted: Collection[str] | None) -> Table:
    """A data set of the hub, of a local folder that `datasets` can build from, or saved by it."""
    import datasets

    place = name.removeprefix(HUB_PREFIX)
    try:
        if _is_saved_data_set(Path(place)):
            loaded = datasets.load_from_disk(place)
        else:
            repository, configuration = _repository(place)
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
    return Table(name, "row", columns, list(enumerate(cells, start=1)))


def _needed(columns: Sequence[str], wanted: Collection[str] | None) -> list[str]:
    """The columns to read: all, or those of them that are wanted."""
    return [column for column in columns if wanted is None or column in wanted]


def _is_saved_data_set(path: Path) -> bool:
    """Whether `datasets` wrote this folder with ``save_to_disk``."""
    single = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
    return single or (path / "dataset_dict.json").is_file()


def _repository(place: str) -> tuple[str, str | None]:
    """Repository and configuration of ``owner/name/configuration``; folders are taken as they are."""
    if Path(place).exists() or place.count("/") != 2:
        return place, None
    owner, repository, configuration = place.split("/")
    return f"{owner}/{repository}", configuration
