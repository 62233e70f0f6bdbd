"""Manifest of a result: its inputs and settings, which ``--resume`` compares before it continues."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from textmover import reading
from textmover.files import atomic_file
from textmover.readers.lines import iter_lines, open_bytes
from textmover.runs.shards.score_formats import Layout
from textmover.types import InputError, plural

BLOCK = 1 << 20
"""Bytes of a file that are read at a time."""


@dataclass(frozen=True)
class Receipt:
    """Inputs and settings of a result."""

    manifest: Mapping[str, str]
    """Everything that its bytes depend on beside the texts."""
    rows: int
    texts: str
    """Digest of the texts of all rows."""
    scores: str
    """Digest of the result."""

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> Receipt:
        """The receipt among the entries of a JSON file."""
        return cls(*(entries[name] for name in ("manifest", "rows", "texts", "scores")))


def receipt_path(path: Path) -> Path:
    """Path of the manifest of a single file."""
    return path.with_name(f".{path.name}.textmover.json")


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Write the receipt of a single file beside it."""
    with atomic_file(receipt_path(path)) as stream:
        json.dump(asdict(receipt), stream, indent=1)


def read_receipt(path: Path) -> Receipt | None:
    """The receipt beside a single file; ``None`` if there is none that can be read."""
    try:
        return Receipt.from_json(read_json(receipt_path(path)))
    except (OSError, ValueError, KeyError):
        return None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    found = reading.read_json(path)
    if not isinstance(found, dict):
        raise ValueError(f"Expected an object in {path}, but got {type(found).__name__}.")
    return found


def check_same(output: Path, found: Receipt, wanted: Receipt) -> None:
    """Refuse a result that another run has made, or that was changed since."""
    difference = first_difference(found.manifest, wanted.manifest)
    if difference is not None:
        name, before, now = difference
        raise _other(output, f"its {name} is {before!r} and that of this run {now!r}")
    if (found.rows, found.texts) != (wanted.rows, wanted.texts):
        rows = "as many rows" if found.rows == wanted.rows else plural(found.rows, "row")
        raise _other(output, f"it was made from other texts ({rows}, and this run has {wanted.rows})")
    if found.scores != wanted.scores:
        raise _other(output, "what is there has been changed since it was written")


def check_rows(output: Path, layout: Layout, rows: int) -> None:
    """Refuse a file without a receipt that has another number of rows than the input."""
    try:
        found = _count(output, layout)
    except (InputError, ValueError, KeyError, TypeError, EOFError, OSError) as error:
        raise _other(output, f"it cannot be read as {layout.format} ({' '.join(str(error).split())})") from error
    if found != rows:
        raise _other(output, f"it has {plural(found, 'row')} and the input {rows:,}")


def _other(output: Path, why: str) -> InputError:
    return InputError(
        f"Expected {output} to be the finished result of this run, but {why}: give another --output, or compute it "
        "again with --overwrite."
    )


def _count(path: Path, layout: Layout) -> int:
    if layout.format == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            return int(file.metadata.num_rows)
    if layout.format == "json":
        with open_bytes(path) as stream:
            entries = reading.load_json(stream.read(), str(path))
        return int(entries["n"]) + int(entries.get("skipped", 0))
    lines: Iterable[Any] = iter_lines(path, ends=True)
    rows = csv.reader(lines) if layout.format == "csv" else lines  # a kept cell may hold line breaks
    return sum(1 for _ in rows) - layout.header(("score",)).count("\n")


def first_difference(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The first entry in which two manifests differ, with both values; ``None`` if they are the same."""
    pairs = ((name, before.get(name, "nothing"), now.get(name, "nothing")) for name in {**now, **before})
    return next((found for found in pairs if found[1] != found[2]), None)


def digest(content: bytes) -> str:
    """Digest of contents."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def joined(digests: Iterable[str]) -> str:
    """One digest of several."""
    return digest("".join(digests).encode())


def digest_file(path: Path) -> str:
    """The digest of a file; empty if there is none."""
    if not path.is_file():
        return ""
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
    return found.hexdigest()
