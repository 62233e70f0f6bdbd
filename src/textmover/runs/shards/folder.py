"""Folders of shards: files, records of finished shards, a lock, and the manifests that ``--resume`` compares."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import Timeout

from textmover import safe_reading
from textmover.files import atomic_file, digest_of, held_lock, plain_errors
from textmover.readers.lines import iter_lines, open_bytes
from textmover.readers.row_streams import Row
from textmover.runs.score_summary import ShardSummary
from textmover.runs.shards.score_formats import FORMATS, Layout
from textmover.types import InputError, plural

MANIFEST = "_manifest.json"
SUMMARY = "_summary.json"
MERGED = "_merged.json"
LOCK = "_lock"

_SUFFIXES = "|".join(FORMATS.values())
_NAMES = rf"_(?:manifest|summary|merged|\d+)\.json|\d+\.(?:{_SUFFIXES})"
_OWN = re.compile(rf"{_NAMES}|\.(?:{_NAMES})\..*|{LOCK}")
"""Names of files that a folder of shards may contain, including temporary files."""


@contextlib.contextmanager
def locked(folder: Path, output: Path, patience: float = 0.0) -> Iterator[None]:
    """Lock a folder against other runs; create it if missing. Messages call it ``output``."""
    created = [parent for parent in folder.parents if not parent.exists()]
    # Afterwards remove the folder if empty, unless the user created it empty for the output.
    if folder != output or not folder.is_dir() or any(folder.iterdir()):
        created = [folder, *created]
    with contextlib.ExitStack() as held:
        held.callback(_remove_empty, created)
        with plain_errors(folder):
            try:
                held.enter_context(held_lock(folder / LOCK, patience))
            except Timeout as error:
                raise InputError(
                    f"Expected to be the only run that writes {output}, but another run is writing there: wait for "
                    "it, or give another --output."
                ) from error
        try:
            yield
        finally:
            # Delete the file before releasing the lock: afterwards another run may own it.
            with contextlib.suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)


def _remove_empty(folders: Iterable[Path]) -> None:
    for path in folders:
        with contextlib.suppress(OSError):  # not empty
            path.rmdir()


def check_folder(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise :class:`InputError` if a folder of shards holds files that must not be lost; needs no texts or metric."""
    files = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    # Numbered files belong to a run only next to a manifest, which is written before them and deleted after them.
    described = any(name in files for name in (MANIFEST, SUMMARY, MERGED))
    foreign = next((name for name in files if not _OWN.fullmatch(name) or (name[0].isdigit() and not described)), None)
    if foreign is not None:
        raise InputError(
            f"Expected {folder} to hold shards alone, but got {foreign!r}: give another name for the output."
        )
    if overwrite:
        return
    if is_sealed(folder):
        raise InputError(
            f"Expected {folder} to be new, but it holds the result of a finished run: give another name for the "
            "output, or start again with --overwrite."
        )
    if has_unmerged_shards(folder) and not resume:
        done = len(kept_shards(folder))
        raise InputError(
            f"Expected {folder} to be new, but it holds {done} finished shard{'' if done == 1 else 's'} of an earlier "
            "run: continue it with --resume, or start again with --overwrite."
        )


def clear(folder: Path, last: str, *, half_written: bool = False) -> None:
    """Delete the files of a folder of shards, or only temporary ones; ``last`` goes last, to identify the folder."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for name in sorted(names, key=lambda name: name == last):
        if _OWN.fullmatch(name) and name != LOCK and (not half_written or name.startswith(".")):
            (folder / name).unlink(missing_ok=True)


def parts_folder_of(path: Path) -> Path:
    """Return the folder of the shards of an output file."""
    return path.with_name(f"{path.name}.parts")


def is_free(folder: Path) -> bool:
    """Return whether a folder is empty except for the lock of a killed run."""
    return folder.is_dir() and all(path.name == LOCK for path in folder.iterdir())


def has_unmerged_shards(folder: Path) -> bool:
    """Return whether a folder holds finished shards that have not been merged."""
    return is_parts(folder) and not (folder / MERGED).exists() and bool(kept_shards(folder))


def kept_shards(folder: Path) -> list[int]:
    """Return the sorted indices of the finished shards."""
    names = (path.name for path in folder.glob("_*.json")) if folder.is_dir() else ()
    return sorted(int(name[1:-5]) for name in names if name[1:-5].isdigit())


def is_parts(folder: Path) -> bool:
    """Return whether a folder holds shards, finished or not."""
    return (folder / MANIFEST).is_file()


def is_sealed(folder: Path) -> bool:
    """Return whether a folder holds the shards of a finished run."""
    return (folder / SUMMARY).is_file()


ROW_DIGITS = 8  # stored hexadecimal digits of the digest of a row, enough to find the first changed row


@dataclass(frozen=True)
class Record:
    """Record of a finished shard, stored next to its file."""

    manifest: str  # digest of the manifest of its run
    machine: str  # processor that scored it, from :func:`~textmover.modules.devices.machine_of`
    first: int  # number of its first row
    texts: str  # digest of the texts of its rows
    rows: str  # concatenated digests of the rows, ``ROW_DIGITS`` digits each
    file: str  # digest of the file
    tally: ShardSummary

    def dump(self) -> str:
        """Return the record as JSON with its own digest."""
        entries = asdict(self)
        return json.dumps({**entries, "record": digest(json.dumps(entries).encode())})

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """Read a record; return ``None`` if it is missing or damaged."""
        try:
            entries = read_json(path)
            if entries.pop("record") != digest(json.dumps(entries).encode()):
                return None
            tally: dict[str, Any] = entries["tally"]
            tally |= {name: tuple(one) for name, one in tally.items() if isinstance(one, list)}
            return cls(**{**entries, "tally": ShardSummary(**tally)})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def first_changed_row(self, rows: Sequence[Row]) -> int:
        """Return the index of the first row that differs from the record; its number of rows if none does."""
        digits = digest_texts(rows)[1]
        starts = range(0, len(self.rows), ROW_DIGITS)
        differing = (one for one in starts if self.rows[one : one + ROW_DIGITS] != digits[one : one + ROW_DIGITS])
        return next(differing, len(self.rows)) // ROW_DIGITS


def digest_texts(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the digest of all texts of the rows, and the shortened digests of the rows."""
    # JSON makes the serialisation of a row unambiguous.
    extras = [filter(None, [row.kept, row.source]) for row in rows]
    digests = [digest(json.dumps([*row[1:3], *extra]).encode()) for row, extra in zip(rows, extras, strict=True)]
    return joined(digests), "".join(one[:ROW_DIGITS] for one in digests)


@dataclass(frozen=True)
class OutputManifest:
    """Inputs and settings of a result."""

    manifest: Mapping[str, str]  # everything that its bytes depend on except the texts
    rows: int
    texts: str  # digest of the texts of all rows
    scores: str  # digest of the result

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> OutputManifest:
        """Return the manifest from the entries of a JSON file."""
        return cls(*(entries[name] for name in ("manifest", "rows", "texts", "scores")))


def output_manifest_path(path: Path) -> Path:
    """Return the path of the manifest of an output file."""
    return path.with_name(f".{path.name}.textmover.json")


def write_output_manifest(path: Path, manifest: OutputManifest) -> None:
    """Write the manifest of an output file next to it."""
    with atomic_file(output_manifest_path(path)) as stream:
        json.dump(asdict(manifest), stream, indent=1)


def read_output_manifest(path: Path) -> OutputManifest | None:
    """Read the manifest of an output file; return ``None`` if it is missing or invalid."""
    try:
        return OutputManifest.from_json(read_json(output_manifest_path(path)))
    except (OSError, ValueError, KeyError):
        return None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file; raise ``ValueError`` if it is not an object."""
    entries = safe_reading.read_json(path)
    if not isinstance(entries, dict):
        raise ValueError(f"Expected an object in {path}, but got {type(entries).__name__}.")
    return entries


def check_same(output: Path, existing: OutputManifest, expected: OutputManifest) -> None:
    """Raise an error if a result comes from a different run, or was changed after it was written."""
    difference = first_difference(existing.manifest, expected.manifest)
    if difference is not None:
        name, before, now = difference
        raise _wrong_result(output, f"its {name} is {before!r} and that of this run {now!r}")
    if (existing.rows, existing.texts) != (expected.rows, expected.texts):
        rows = "as many rows" if existing.rows == expected.rows else plural(existing.rows, "row")
        raise _wrong_result(output, f"it was made from other texts ({rows}, and this run has {expected.rows})")
    if existing.scores != expected.scores:
        raise _wrong_result(output, "its content was changed after it was written")


def check_rows(output: Path, layout: Layout, rows: int) -> None:
    """Raise an error unless an output file without a manifest has as many rows as the input."""
    try:
        count = _count_rows(output, layout)
    except (InputError, ValueError, KeyError, TypeError, EOFError, OSError) as error:
        raise _wrong_result(output, f"it cannot be read as {layout.format} ({' '.join(str(error).split())})") from error
    if count != rows:
        raise _wrong_result(output, f"it has {plural(count, 'row')} and the input {rows:,}")


def _wrong_result(output: Path, why: str) -> InputError:
    return InputError(
        f"Expected {output} to be the finished result of this run, but {why}: give another --output, or compute it "
        "again with --overwrite."
    )


def _count_rows(path: Path, layout: Layout) -> int:
    if layout.format == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            return int(file.metadata.num_rows)
    if layout.format == "json":
        with open_bytes(path) as stream:
            entries = safe_reading.load_json(stream.read(), str(path))
        return int(entries["n"]) + int(entries.get("skipped", 0))
    lines: Iterable[Any] = iter_lines(path, ends=True)
    rows = csv.reader(lines) if layout.format == "csv" else lines  # kept cells may contain line breaks
    return sum(1 for _ in rows) - layout.header(("score",)).count("\n")


def first_difference(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the first differing entry of two manifests as (name, before, now); ``None`` if they are equal."""
    pairs = ((name, before.get(name, "nothing"), now.get(name, "nothing")) for name in {**now, **before})
    return next((entry for entry in pairs if entry[1] != entry[2]), None)


def digest(content: bytes) -> str:
    """Return the digest of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def joined(digests: Iterable[str]) -> str:
    """Combine several digests into one."""
    return digest("".join(digests).encode())


def digest_file(path: Path) -> str:
    """Return the digest of a file; an empty string if it does not exist."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return digest_of(stream, hashlib.blake2b(digest_size=16))
