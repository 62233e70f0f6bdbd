"""File formats of scores: the bytes of a shard, and whole files."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import numpy as np

from textmover.csv_cells import CsvWriter
from textmover.files import output_format
from textmover.readers.lines import COMPRESSIONS
from textmover.readers.system_scores import FLAGS
from textmover.runs.score_summary import Summary
from textmover.types import InputError, needs_extra

FORMATS: Mapping[str, str] = {"text": "txt", **{name: name for name in ("json", "jsonl", "tsv", "csv", "parquet")}}
"""Suffix of shards by format."""

SUFFIXES: Mapping[str, str] = {**{f".{suffix}": format for format, suffix in FORMATS.items()}, ".ndjson": "jsonl"}
"""Format by suffix of the output; other suffixes mean text."""

TABLES = ("csv", "tsv", "jsonl", "parquet")

VALUES = ("score", "precision", "recall", "f", FLAGS)  # output columns, not allowed as names of kept columns
Values = Mapping[str, np.ndarray]  # values by name, float64 ``[rows, systems]``, NaN in excluded rows
Flags = np.ndarray  # flags of segments, text ``[rows, systems]`` such as ``"truncated;unknown"``; empty if unflagged


@dataclass(frozen=True)
class Layout:
    """Columns and encoding of written scores. Tables and JSON end with the flags of the segments.

    For several systems, text and tables have only one score column per system; JSON always has all values.
    """

    format: str
    systems: tuple[str, ...]
    keep: tuple[str, ...] = ()  # input columns that tables repeat before the values
    only_mean: bool = False

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"Expected the format to be {', '.join(FORMATS)}, but got {self.format!r}: choose one.")
        if self.keep and self.format not in TABLES:
            raise InputError(
                f"Expected a table format for `--keep-columns`, but got {self.format}: set --format to "
                f"{', '.join(TABLES[:-1])} or {TABLES[-1]}."
            )
        reserved = (*self.systems, *VALUES) if self.several else VALUES
        clash = next((name for name in self.keep if name in reserved), None)
        if clash is not None:
            raise InputError(f"Expected `--keep-columns` without {clash}, a column of the output: rename it.")
        broken = next((name for name in self.systems if any(mark in name for mark in "\t\r\n")), None)
        if broken is not None:
            raise InputError(f"Expected names of systems without tabs and line breaks, but got {broken!r}: rename it.")
        if self.only_mean and self.format not in ("text", "json"):
            raise InputError(
                f"Expected --only-mean together with --format text or json, but got {self.format}: choose one of them."
            )

    @property
    def described(self) -> dict[str, str]:
        """Entries of the manifest: columns and systems."""
        columns = {} if self.format == "text" else {"columns": ", ".join((*self.keep, "values, flags"))}
        return {**columns, "systems": ", ".join(self.systems) if self.several else "one"}

    @property
    def several(self) -> bool:
        """Return whether there is more than one system."""
        return len(self.systems) > 1

    def _columns(self, names: Iterable[str]) -> tuple[str, ...]:
        columns = self.systems if self.several else tuple(names)
        return columns if self.format == "text" else (*self.keep, *columns, FLAGS)

    def header(self, names: Iterable[str]) -> str:
        """Return the header line, empty for formats without header; ``names`` are the values of each row."""
        text = io.StringIO()
        if self.format == "csv":
            CsvWriter(text).writerow(self._columns(names))
        elif self.format == "tsv" or (self.format == "text" and self.several):
            text.write("\t".join(self._columns(names)) + "\n")
        return text.getvalue()

    def encode(self, values: Values, flags: Flags, kept: Sequence[tuple[str, ...]] = ()) -> bytes:
        """Encode a shard without header; ``kept`` has the cells of the kept columns of each row."""
        if self.format == "json":
            lists = {name: _nulls(array.T) for name, array in values.items()}
            return json.dumps({**lists, FLAGS: flags.T.tolist()}).encode()
        if self.format == "jsonl":
            lists = dict(zip(self.keep, map(list, zip(*kept, strict=True)), strict=True)) if self.keep else {}
            lists |= {name: _nulls(array if self.several else array[:, 0]) for name, array in values.items()}
            lists[FLAGS] = (flags if self.several else flags[:, 0]).tolist()
            rows = (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
            return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        row_flags = [";".join(dict.fromkeys(filter(None, ";".join(row).split(";")))) for row in flags.tolist()]
        if self.format == "parquet":
            return _parquet_bytes(self._columns(values), _table(values), row_flags, kept)
        separator = "," if self.format == "csv" else "\t"
        table = values["score"] if self.format == "text" else _table(values)
        ends = [""] * len(table) if self.format == "text" else [f"{separator}{one}" for one in row_flags]
        lines = (separator.join(f"{value:.9g}" for value in row) for row in table.tolist())
        starts = [f"{self._cells(row)}{separator}" for row in kept] if self.keep else [""] * len(table)
        return "".join(map("{}{}{}\n".format, starts, lines, ends)).encode()

    def _cells(self, cells: Sequence[str]) -> str:
        """Format the cells of kept columns for a row of CSV or TSV."""
        text = io.StringIO()
        if self.format == "csv":
            CsvWriter(text).writerow(cells)
            return text.getvalue().removesuffix("\n")
        invalid = next((cell for cell in cells if any(mark in cell for mark in "\t\r\n")), None)
        if invalid is not None:
            raise InputError(
                f"Expected kept columns without tabs and line breaks in TSV, but got {invalid!r}: write CSV."
            )
        return "\t".join(cells)

    def join(self, shards: Iterable[bytes], summary: Summary, stream: IO[bytes]) -> None:
        """Write the whole result: the encoded shards in order, or their mean."""
        if self.only_mean:
            stream.write(self.means(summary).encode())
        elif self.format == "parquet":
            _join_parquet(shards, stream)
        elif self.format == "json":
            stream.write(self.whole(shards, summary).encode())
        else:
            _join(self.header(summary.names), shards, stream)

    def whole(self, shards: Iterable[bytes], summary: Summary) -> str:
        """Return one JSON object with all values, by system if there are several, and the summary."""
        lists: dict[str, list[list[float | None]]] = {}
        for shard in shards:
            for name, rows in json.loads(shard).items():
                for scores, new_scores in zip(lists.setdefault(name, [[] for _ in self.systems]), rows, strict=True):
                    scores.extend(new_scores)
        by_system = [
            {"scores" if name == "score" else name: rows[place] for name, rows in lists.items()}
            for place in range(len(self.systems))
        ]
        values = {"systems": dict(zip(self.systems, by_system, strict=True))} if self.several else by_system[0]
        return json.dumps({**values, **summary.entries()}) + "\n"

    def means(self, summary: Summary) -> str:
        """Return only the means, as text or as one JSON object."""
        if self.format == "json":
            return json.dumps(summary.entries()) + "\n"
        return self.header(summary.names) + "\t".join(f"{mean:.9g}" for mean in summary.means) + "\n"


@dataclass(frozen=True)
class LineLayout:
    """Lines of text, TSV or JSON Lines that a command writes for each row, such as choices and marked errors."""

    format: str
    first_line: str = ""  # header with its line break
    only_mean: ClassVar[bool] = False

    @property
    def described(self) -> dict[str, str]:
        """Entries of the manifest: the columns."""
        return {"columns": " ".join(self.first_line.split())} if self.first_line else {}

    def header(self, _: Iterable[str] = ()) -> str:
        """Return the header line, empty for formats without header."""
        return self.first_line

    def join(self, shards: Iterable[bytes], _: Summary, stream: IO[bytes]) -> None:
        """Write the whole result: the encoded shards in order."""
        _join(self.first_line, shards, stream)


def _join(header: str, shards: Iterable[bytes], stream: IO[bytes]) -> None:
    stream.write(header.encode())
    for shard in shards:
        stream.write(shard)


def is_compressed(path: Path) -> bool:
    """Return whether the suffix of a file asks for compression."""
    return path.suffix.lower() in COMPRESSIONS


def format_of(path: Path, given: str | None = None, formats: Collection[str] = FORMATS) -> str:
    """Return ``given``, else the format among ``formats`` of the file's suffix.

    Example:
        >>> format_of(Path("scores.JSONL.gz")), format_of(Path("scores"))
        ('jsonl', 'text')

    Raises:
        InputError: If the suffix belongs to another format.
    """
    endings = {ending: format for ending, format in SUFFIXES.items() if format in formats}
    return output_format(path, given, endings, default="text", compressions=COMPRESSIONS)


def check_compression(path: Path) -> None:
    """Raise :class:`InputError` before the work if the compression that the file name asks for is not installed."""
    with compressed(io.BytesIO(), path):
        pass


@contextlib.contextmanager
def compressed(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream that compresses as the suffix of the file says. The same bytes always give the same file."""
    if path.suffix.lower() == ".gz":
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as stream:
            yield cast("IO[bytes]", stream)
    elif path.suffix.lower() == ".zst":
        with needs_extra("zstd", f"the package zstandard to write {path}"):
            import zstandard
        with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as writer:
            yield cast("IO[bytes]", writer)
    else:
        yield raw


def _nulls(array: np.ndarray) -> list[Any]:
    """Convert an array to nested lists with ``None`` for NaN, which JSON does not support."""
    objects = array.astype(object)
    objects[np.isnan(array)] = None
    return objects.tolist()


def _table(values: Values) -> np.ndarray:
    """Return the columns of a table: the scores of several systems, or all values of a single system."""
    scores = values["score"]
    return scores if scores.shape[1] > 1 else np.concatenate(list(values.values()), axis=1)


def _parquet_bytes(
    columns: tuple[str, ...], table: np.ndarray, flags: list[str], kept: Sequence[tuple[str, ...]]
) -> bytes:
    import pyarrow
    from pyarrow import parquet

    arrays = [pyarrow.array(column, from_pandas=True) for column in np.ascontiguousarray(table.T)]  # NaN is null
    kept_arrays = [pyarrow.array(column, pyarrow.string()) for column in zip(*kept, strict=True)]
    arrays = [*kept_arrays, *arrays, pyarrow.array(flags, pyarrow.string())]
    stream = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(arrays, names=list(columns)), stream)
    return stream.getvalue().to_pybytes()


def _join_parquet(shards: Iterable[bytes], stream: IO[bytes]) -> None:
    """Join Parquet files, with one row group per shard."""
    from pyarrow import parquet

    with contextlib.ExitStack() as opened:
        writer: Any = None
        for shard in shards:
            table = parquet.ParquetFile(io.BytesIO(shard)).read()
            writer = writer or opened.enter_context(parquet.ParquetWriter(stream, table.schema))
            writer.write_table(table)
