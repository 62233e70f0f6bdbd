"""Folders of shards: their files, records of finished shards, and a lock for one run at a time."""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from textmover.files import NO_LOCKS, warn_without_locks
from textmover.readers.streams import Row
from textmover.runs.score_summary import Tally
from textmover.runs.shards.manifest import digest, joined, read_json
from textmover.runs.shards.score_formats import FORMATS
from textmover.types import InputError

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
    from filelock import FileLock, Timeout

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


ROW_DIGITS = 8
"""Hexadecimal digits that are kept of the digest of a row, to find the first one that has changed."""


@dataclass(frozen=True)
class Record:
    """Record of a finished shard, beside its file."""

    manifest: str
    """Digest of the manifest that it was scored under."""
    machine: str
    """Kind of processor that it was scored on, from :func:`~textmover.modules.devices.machine_of`."""
    first: int
    """Number of its first row."""
    texts: str
    """Digest of the texts of its rows."""
    rows: str
    """The beginnings of the digests of the rows, one after the other."""
    file: str
    """Digest of the file."""
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
