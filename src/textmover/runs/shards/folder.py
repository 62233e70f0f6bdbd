"""Folders of shards: files, records of finished shards, a lock, and manifests of results, compared by ``--resume``."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from textmover import safe_reading
from textmover.files import NO_LOCKS, atomic_file, digest_of, warn_without_locks
from textmover.readers.lines import iter_lines, open_bytes
from textmover.readers.row_streams import Row
from textmover.runs.score_summary import Tally
from textmover.runs.shards.score_formats import FORMATS, Layout
from textmover.types import InputError, plural

MANIFEST = "_manifest.json"
SUMMARY = "_summary.json"
MERGED = "_merged.json"
LOCK = "_lock"

_SUFFIXES = "|".join(FORMATS.values())
_NAMES = rf"_(?:manifest|summary|merged|\d+)\.json|\d+\.(?:{_SUFFIXES})"
_OURS = re.compile(rf"{_NAMES}|\.(?:{_NAMES})\..*|{LOCK}")
"""Names of files that a folder of shards may hold, half-written ones among them."""


@contextlib.contextmanager
def locked(folder: Path, output: Path, patience: float = 0.0) -> Iterator[None]:
    """Keep other runs out of a folder, made if missing, until the process ends; ``output`` is its name in messages."""
    made = [parent for parent in folder.parents if not parent.exists()]
    # Else somebody has made it for the output; one beside the output is of a run, also an empty one that was killed.
    if folder != output or not folder.is_dir() or any(folder.iterdir()):
        made = [folder, *made]
    try:
        with _lock(folder, output, patience):
            yield
    finally:
        for one in made:
            with contextlib.suppress(OSError):  # there is something in it
                one.rmdir()


@contextlib.contextmanager
def _lock(folder: Path, output: Path, patience: float) -> Iterator[None]:
    lock = FileLock(folder / LOCK, timeout=patience)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Where locks are missing, the package may warn and take the mere presence of a file for one, which would
        # outlive a process that is killed.
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            lock.acquire()
    except Timeout as error:
        raise InputError(
            f"Expected to be the only run that writes {output}, but another run is writing there: wait for it, or give "
            "another --output."
        ) from error
    except (OSError, NotImplementedError, UserWarning) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise InputError(
                f"Expected to be able to write {folder}, but got: {error.strerror or error}. Give a place that can be "
                "written."
            ) from error
        warn_without_locks(folder)
    try:
        yield
    finally:
        # While it is held, since behind that it might be another run's.
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()


def check_folder(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse a folder of shards that holds what may not be lost; this needs neither texts nor metric."""
    files = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    # Numbered files are ours only where something says so: a manifest comes before them and goes behind them.
    described = any(name in files for name in (MANIFEST, SUMMARY, MERGED))
    foreign = next((name for name in files if not _OURS.fullmatch(name) or (name[0].isdigit() and not described)), None)
    if foreign is not None:
        raise InputError(
            f"Expected {folder} to hold scores alone, but got {foreign!r}: give another name for the output."
        )
    if overwrite:
        return
    if is_sealed(folder):
        raise InputError(
            f"Expected {folder} to be new, but it holds the scores of a finished run: give another name for the "
            "output, or start again with --overwrite."
        )
    if is_begun(folder) and not resume:
        kept = len(kept_shards(folder))
        raise InputError(
            f"Expected {folder} to be new, but it holds {kept} finished shard{'' if kept == 1 else 's'} of an earlier "
            "run: continue it with --resume, or start again with --overwrite."
        )


def clear(folder: Path, last: str, *, half_written: bool = False) -> None:
    """Delete the files of a folder of shards, or only half-written ones; ``last`` tells what an interruption left."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for name in sorted(names, key=lambda name: name == last):
        if _OURS.fullmatch(name) and name != LOCK and (not half_written or name.startswith(".")):
            (folder / name).unlink(missing_ok=True)


def parts_beside(path: Path) -> Path:
    """Folder of the shards that become a file."""
    return path.with_name(f"{path.name}.parts")


def is_free(folder: Path) -> bool:
    """Return whether a folder is empty, but for the lock of a run that was killed."""
    return folder.is_dir() and all(path.name == LOCK for path in folder.iterdir())


def is_begun(folder: Path) -> bool:
    """Return whether there is a finished shard that has not been merged."""
    return is_parts(folder) and not (folder / MERGED).exists() and bool(kept_shards(folder))


def kept_shards(folder: Path) -> list[int]:
    """Indices of the finished shards, in order."""
    names = (path.name for path in folder.glob("_*.json")) if folder.is_dir() else ()
    return sorted(int(name[1:-5]) for name in names if name[1:-5].isdigit())


def is_parts(folder: Path) -> bool:
    """Return whether a folder holds shards, finished or not."""
    return (folder / MANIFEST).is_file()


def is_sealed(folder: Path) -> bool:
    """Return whether a folder holds the shards of a finished run."""
    return (folder / SUMMARY).is_file()


ROW_DIGITS = 8  # hexadecimal digits that are kept of the digest of a row, to find the first one that has changed


@dataclass(frozen=True)
class Record:
    """Record of a finished shard, beside its file."""

    manifest: str  # digest of the manifest that it was scored under
    machine: str  # kind of processor that it was scored on, from :func:`~textmover.modules.devices.machine_of`
    first: int  # number of its first row
    texts: str  # digest of the texts of its rows
    rows: str  # the beginnings of the digests of the rows, one after the other
    file: str  # digest of the file
    tally: Tally

    def dump(self) -> str:
        """The record as JSON, with a digest of itself."""
        entries = asdict(self)
        return json.dumps({**entries, "record": digest(json.dumps(entries).encode())})

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """The record in a file; ``None`` where there is none, or the disk has damaged it."""
        try:
            entries = read_json(path)
            if entries.pop("record") != digest(json.dumps(entries).encode()):
                return None
            tally: dict[str, Any] = entries["tally"]
            tally |= {name: tuple(one) for name, one in tally.items() if isinstance(one, list)}
            return cls(**{**entries, "tally": Tally(**tally)})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def changed(self, rows: Sequence[Row]) -> int:
        """The place of the first row that is not what it was; behind their end where there are less or no other."""
        digits = digest_texts(rows)[1]
        starts = range(0, len(self.rows), ROW_DIGITS)
        differing = (one for one in starts if self.rows[one : one + ROW_DIGITS] != digits[one : one + ROW_DIGITS])
        return next(differing, len(self.rows)) // ROW_DIGITS


def digest_texts(rows: Sequence[Row]) -> tuple[str, str]:
    """Digest of all texts of the rows, and the beginnings of those of each."""
    # As JSON no two rows give the same text.
    more = [filter(None, [row.kept, row.source]) for row in rows]
    found = [digest(json.dumps([*row[1:3], *rest]).encode()) for row, rest in zip(rows, more, strict=True)]
    return joined(found), "".join(one[:ROW_DIGITS] for one in found)


@dataclass(frozen=True)
class Receipt:
    """Inputs and settings of a result."""

    manifest: Mapping[str, str]  # everything that its bytes depend on beside the texts
    rows: int
    texts: str  # digest of the texts of all rows
    scores: str  # digest of the result

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
    found = safe_reading.read_json(path)
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
            entries = safe_reading.load_json(stream.read(), str(path))
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
    with path.open("rb") as stream:
        return digest_of(stream, hashlib.blake2b(digest_size=16))
