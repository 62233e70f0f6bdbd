"""Shards: the unit of batching, of writing and of going on after an interruption.

A shard is a fixed number of rows of the input. Its scores depend on its own texts alone, and its file is complete or
not there, so that a run that was interrupted, or several processes that share the work, write the same files as one
unbroken run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from textmover import __version__
from textmover.data.streams import Row, Rows
from textmover.scoring.engine import JOINT_PAIRS
from textmover.scoring.files import atomic_bytes, atomic_file
from textmover.scoring.score_formats import FORMATS, Layout
from textmover.scoring.tally import Summary, Tally
from textmover.types import InputError, Signature

__all__ = [
    "Parts",
    "Shard",
    "ShardScores",
    "check_folder",
    "describe",
    "is_parts",
    "is_sealed",
    "read_shards",
    "rows_per_shard",
]

MANIFEST = "_manifest.json"
SUMMARY = "_summary.json"
MERGED = "_merged.json"

ROW_DIGITS = 8
"""Hexadecimal digits that are kept of the digest of a row, to find the first one that has changed."""

_SUFFIXES = "|".join(FORMATS.values())
_NAMES = rf"_(?:manifest|summary|merged|\d+)\.json|\d+\.(?:{_SUFFIXES})"
_OURS = re.compile(rf"{_NAMES}|\.(?:{_NAMES})\..*")
"""Names of files that a folder of parts may hold, half-written ones among them."""


@dataclass(frozen=True)
class Shard:
    """Some consecutive rows of the input.

    Attributes:
        index: Which shard it is, counted from 0.
        first: Number of its first row in the input, counted from 1.
        rows: The rows.
        share: How much of the input has been read behind it; ``None`` where nobody knows.
    """

    index: int
    first: int
    rows: list[Row]
    share: float | None


class ShardScores(NamedTuple):
    """Scores of a shard.

    Attributes:
        values: float64 ``[rows, systems]`` by name, NaN in the rows that were left out.
        tally: What is known of them without the values.
    """

    values: Mapping[str, np.ndarray]
    tally: Tally


def rows_per_shard(pairs: int, systems: int) -> int:
    """Rows to a shard of so many pairs; whole batches for metrics that read texts together.

    Raises:
        InputError: If there is no pair to a shard.

    Example:
        >>> rows_per_shard(4096, 1), rows_per_shard(4096, 3), rows_per_shard(10, 3)
        (4096, 1344, 3)
    """
    if pairs < 1:
        raise InputError(f"Expected a shard to hold at least 1 pair, but got {pairs}: give a larger number.")
    rows = max(1, pairs // systems)
    return rows - rows % JOINT_PAIRS if rows > JOINT_PAIRS else rows


def read_shards(rows: Rows, size: int) -> Generator[Shard, None, None]:
    """Cut the rows of an input into shards of ``size`` rows, the last of which may be shorter."""
    index = 0
    shard: list[Row] = []
    with contextlib.closing(iter(rows)) as reading:
        for row in reading:
            shard.append(row)
            if len(shard) == size:
                yield Shard(index, index * size + 1, shard, rows.share)
                index, shard = index + 1, []
        if shard:
            yield Shard(index, index * size + 1, shard, rows.share)


def describe(signature: Signature, layout: Layout, **settings: object) -> dict[str, str]:
    """Everything that the bytes of a shard depend on beside its texts, for :class:`Parts`.

    Args:
        signature: Of the metric, with its statistics fitted.
        layout: How scores are written.
        **settings: What else they depend on, such as rows to a shard and tokens to a batch.
    """
    return {
        "textmover": __version__,
        "format": layout.format,
        "systems": ", ".join(layout.systems) if layout.several else "one",
        **{name.replace("_", " "): str(value) for name, value in settings.items()},
        **{f"signature entry {name}": value for name, value in signature.entries.items() if name != "textmover"},
    }


@dataclass(frozen=True)
class _Record:
    """What is kept of a finished shard beside its file.

    Attributes:
        first: Number of its first row.
        texts: Digest of the texts of its rows.
        rows: The beginnings of the digests of the rows, one after the other.
        file: Digest of the file.
        tally: What is known of the scores.
    """

    first: int
    texts: str
    rows: str
    file: str
    tally: Tally

    @classmethod
    def from_json(cls, text: str) -> _Record:
        entries = json.loads(text)
        return cls(**{**entries, "tally": Tally.from_dict(entries["tally"])})


class Parts:
    """A folder with one file for each finished shard, which several processes may fill together.

    One process calls :meth:`begin`; then each asks :meth:`finished` and calls :meth:`write` for its shards; when all
    are there, one calls :meth:`merge` or :meth:`seal`.

    Args:
        folder: The folder.
        layout: How scores are written.
        manifest: What the shards depend on beside their texts, from :func:`describe`.
    """

    def __init__(self, folder: Path, layout: Layout, manifest: Mapping[str, str]) -> None:
        self.folder = folder
        self.layout = layout
        self.manifest = dict(manifest)

    def begin(self, *, resume: bool = False, overwrite: bool = False) -> None:
        """Make the folder ready, or go on with what is there.

        Args:
            resume: Keep the shards that are there.
            overwrite: Throw them away.

        Raises:
            InputError: If there are shards and neither is asked for, or they are those of another run, or the folder
                holds other files.
        """
        check_folder(self.folder, resume=resume, overwrite=overwrite)
        files = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
        going_on = resume and _is_begun(self.folder)
        if going_on:
            self._check_manifest()
        for name in files:
            if not going_on or name.startswith("."):
                (self.folder / name).unlink(missing_ok=True)
        if not going_on:
            with atomic_file(self.folder / MANIFEST) as stream:
                json.dump(self.manifest, stream, indent=1)

    def _check_manifest(self) -> None:
        found = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        for name in {**self.manifest, **found}:
            before, now = found.get(name, "nothing"), self.manifest.get(name, "nothing")
            if before != now:
                raise InputError(
                    f"Expected the shards in {self.folder} to be of the same run, but their {name} is {before!r} and "
                    f"that of this run {now!r}: give the same options and files, or start again with --overwrite."
                )

    def kept(self) -> list[int]:
        """Indices of the finished shards, in order."""
        return _kept(self.folder)

    def finished(self, shard: Shard) -> Tally | None:
        """What is known of a shard that has been written; ``None`` if it has to be scored.

        Raises:
            InputError: If it was written for other texts; the message names the first row that differs.
        """
        record = self._record(shard.index)
        if record is None:
            return None
        texts, rows = _digests(shard.rows)
        if texts != record.texts:
            raise self._changed(shard, record, rows)
        data = self.file(shard.index)
        # A file that the disk lost or damaged after it was written is made anew.
        return record.tally if data.is_file() and _digest(data.read_bytes()) == record.file else None

    def _changed(self, shard: Shard, record: _Record, rows: str) -> InputError:
        before, now = _pieces(record.rows), _pieces(rows)
        row = next((place for place, one in enumerate(before) if now[place : place + 1] != [one]), len(before))
        line = f" (line {shard.rows[row].line})" if row < len(shard.rows) else ", behind its end"
        return InputError(
            f"Expected the input to be the one that the shards in {self.folder} were scored from, but it differs from "
            f"row {shard.first + row}{line} on: restore it, or start again with --overwrite."
        )

    def write(self, shard: Shard, scores: ShardScores) -> None:
        """Write a shard: first its file, then the record that makes it count.

        Raises:
            InputError: If the disk is full or refuses it.
        """
        content = self.layout.encode(scores.values)
        texts, rows = _digests(shard.rows)
        record = _Record(shard.first, texts, rows, _digest(content), scores.tally)
        with atomic_bytes(self.file(shard.index)) as stream:
            stream.write(content)
        with atomic_file(self._record_file(shard.index)) as stream:
            json.dump(asdict(record), stream)

    def tallies(self, shards: int) -> list[Tally]:
        """What is known of each shard.

        Args:
            shards: How many the input has.

        Raises:
            InputError: If one is missing, or there are more.
        """
        kept = self.kept()
        if kept and kept[-1] >= shards:
            record = self._record(shards)
            first = "" if record is None else f" (from row {record.first} on)"
            raise InputError(
                f"Expected the input to be the one that the shards in {self.folder} were scored from, but it ends "
                f"before them{first}: restore it, or start again with --overwrite."
            )
        missing = next((index for index in range(shards) if self._record(index) is None), None)
        if missing is not None:
            raise InputError(
                f"Expected {shards} shards in {self.folder}, but number {missing} is missing: continue with --resume."
            )
        return [record.tally for record in map(self._record, range(shards)) if record is not None]

    def merge(self, path: Path, shards: int, summary: Summary) -> None:
        """Make one file of all shards and remove the folder."""
        self.layout.merge(map(self.file, range(shards)), path, summary)
        self.remove()

    def seal(self, shards: int, summary: Summary) -> None:
        """Leave the files of the shards as the result, beside a summary in place of their records."""
        with atomic_file(self.folder / SUMMARY) as stream:
            json.dump({**summary.entries(), "shards": shards}, stream, indent=1)
        for index in range(shards):
            self._record_file(index).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder, in such an order that what an interruption leaves is not taken for a run to continue."""
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.folder / MANIFEST, self.folder / MERGED)
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        for name in sorted(names, key=lambda name: name == MERGED):
            if _OURS.fullmatch(name):
                (self.folder / name).unlink()
        if names:
            self.folder.rmdir()

    def file(self, index: int) -> Path:
        """Where the scores of a shard are."""
        return self.folder / f"{index:06d}.{FORMATS[self.layout.format]}"

    def _record_file(self, index: int) -> Path:
        return self.folder / f"_{index:06d}.json"

    def _record(self, index: int) -> _Record | None:
        path = self._record_file(index)
        return _Record.from_json(path.read_text(encoding="utf-8")) if path.is_file() else None


def check_folder(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse a folder of parts that holds what may not be lost; this needs neither texts nor metric.

    Args:
        folder: The folder, which need not exist.
        resume: Whether its shards are to be continued.
        overwrite: Whether they may be thrown away.

    Raises:
        InputError: If it holds shards and neither is asked for, or other files.
    """
    files = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    foreign = next((name for name in files if not _OURS.fullmatch(name)), None)
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
    if _is_begun(folder) and not resume:
        kept = len(_kept(folder))
        raise InputError(
            f"Expected {folder} to be new, but it holds {kept} finished shard{'' if kept == 1 else 's'} of an earlier "
            "run: continue it with --resume, or start again with --overwrite."
        )


def _is_begun(folder: Path) -> bool:
    """Whether there is a finished shard that has not been merged."""
    return (folder / MANIFEST).is_file() and not (folder / MERGED).exists() and bool(_kept(folder))


def _kept(folder: Path) -> list[int]:
    names = (path.name for path in folder.glob("_*.json")) if folder.is_dir() else ()
    return sorted(int(name[1:-5]) for name in names if name[1:-5].isdigit())


def is_parts(folder: Path) -> bool:
    """Whether a folder holds shards, finished or not."""
    return (folder / MANIFEST).is_file()


def is_sealed(folder: Path) -> bool:
    """Whether a folder holds the shards of a finished run."""
    return (folder / SUMMARY).is_file()


def _digests(rows: Sequence[Row]) -> tuple[str, str]:
    """Digest of all texts of the rows, and the beginnings of those of each."""
    found = [_row_digest(row) for row in rows]
    return _digest("".join(found).encode()), "".join(digest[:ROW_DIGITS] for digest in found)


def _pieces(digits: str) -> list[str]:
    return [digits[start : start + ROW_DIGITS] for start in range(0, len(digits), ROW_DIGITS)]


def _row_digest(row: Row) -> str:
    texts = json.dumps([row.hypotheses, row.references])  # no two rows give the same text
    return _digest(texts.encode())


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
