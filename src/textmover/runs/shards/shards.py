"""Shards: fixed numbers of input rows. Scores depend only on their texts, and their files are written atomically."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import logging
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch

from textmover._version import __version__
from textmover.files import atomic_bytes, atomic_file
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.row_streams import Row, Rows
from textmover.runs.score_summary import ShardSummary, Summary
from textmover.runs.shards.folder import (
    MANIFEST,
    MERGED,
    SUMMARY,
    OutputManifest,
    Record,
    check_folder,
    clear,
    digest,
    digest_file,
    digest_texts,
    first_difference,
    has_unmerged_shards,
    joined,
    kept_shards,
    output_manifest_path,
    read_json,
    write_output_manifest,
)
from textmover.runs.shards.score_formats import FORMATS, Layout, LineLayout, compressed
from textmover.scoring.engine.engine import JOINT_PAIRS
from textmover.types import InputError, Signature, plural

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of the input."""

    index: int  # number of the shard, from 0
    first: int  # number of its first row in the input, from 1
    rows: list[Row]
    share: float | None  # share of the input up to the end of the shard; ``None`` if unknown

    @property
    def end(self) -> int:
        """Number of its last row in the input."""
        return self.first - 1 + len(self.rows)


class ShardScores(NamedTuple):
    """Scores of a shard."""

    values: Mapping[str, np.ndarray]  # by name, float64 ``[rows, systems]``, NaN in excluded rows
    tally: ShardSummary
    flags: np.ndarray  # flags of the segments, text ``[rows, systems]``
    kept: Sequence[tuple[str, ...]] = ()  # cells of kept columns, by row

    def encoded(self, layout: Layout | LineLayout) -> bytes:
        """Return the rows in the format of the output, without header."""
        assert isinstance(layout, Layout)
        return layout.encode(self.values, self.flags, self.kept)


class ShardLines(NamedTuple):
    """Lines that a command writes for a shard."""

    write_to: Callable[[IO[str]], object]
    tally: ShardSummary

    def encoded(self, _: Layout | LineLayout) -> bytes:
        """Return the lines, without header."""
        stream = io.StringIO()
        self.write_to(stream)
        return stream.getvalue().encode()


def rows_per_shard(pairs: int, systems: int) -> int:
    """Return the rows of a shard of ``pairs`` pairs, rounded down to full batches of metrics that encode jointly."""
    if pairs < 1:
        raise InputError(f"Expected a shard to hold at least 1 pair, but got {pairs}: give a larger number.")
    rows = max(1, pairs // systems)
    return rows - rows % JOINT_PAIRS if rows > JOINT_PAIRS else rows


def read_shards(rows: Rows, size: int) -> Generator[Shard, None, None]:
    """Yield shards of ``size`` rows; the last may be shorter. Errors name the command-line flags."""
    index = 0
    with errors_with_flag_names(), contextlib.closing(iter(rows)) as reading:
        while shard := list(itertools.islice(reading, size)):
            yield Shard(index, index * size + 1, shard, rows.share)
            index += 1


def texts_of(shards: Iterable[Shard]) -> tuple[int, str]:
    """Return the number of rows of all shards, and the digest of their texts."""
    counts_and_digests = [(len(shard.rows), digest_texts(shard.rows)[0]) for shard in shards]
    return sum(rows for rows, _ in counts_and_digests), joined(texts for _, texts in counts_and_digests)


ON_ERROR = "on error"  # entry of the manifest


def describe(signature: Signature, layout: Layout | LineLayout, **settings: object) -> dict[str, str]:
    """Return the manifest: everything that the bytes of a shard depend on except its texts."""
    return {
        "textmover": __version__,
        "torch": torch.__version__,
        "format": layout.format,
        **layout.described,
        **{name.replace("_", " "): str(value) for name, value in settings.items()},
        **{f"signature entry {name}": value for name, value in signature.entries.items() if name != "textmover"},
    }


class ShardFolder:
    """Folder with a file per finished shard. One process prepares it, all write shards, one merges or seals them."""

    def __init__(
        self,
        folder: Path,
        layout: Layout | LineLayout,
        manifest: Mapping[str, str],
        machine: str = "",
        *,
        recorded: bool = True,
    ) -> None:
        self.folder = folder
        self.layout = layout
        self.manifest = dict(manifest)
        self.machine = machine
        self.recorded = recorded
        self._manifest_digest, *others = (
            digest(json.dumps(one, sort_keys=True).encode()) for one in (self.manifest, self._manifest_without_skips)
        )
        self._accepted = {self._manifest_digest, *others}

    @property
    def _manifest_without_skips(self) -> dict[str, str]:
        """Manifest of the same run with ``stop`` for bad rows; its shards have no bad rows and can be kept."""
        return {**self.manifest, **({ON_ERROR: "stop"} if ON_ERROR in self.manifest else {})}

    def begin(self, *, resume: bool = False, overwrite: bool = False) -> None:
        """Prepare the folder: keep its shards on ``resume``, else delete them."""
        check_folder(self.folder, resume=resume, overwrite=overwrite)
        if resume and has_unmerged_shards(self.folder):
            self._check_manifest()
            clear(self.folder, MANIFEST, half_written=True)
            return
        (self.folder / SUMMARY).unlink(missing_ok=True)  # first, since it marks the folder as complete
        clear(self.folder, MANIFEST)
        self._write_manifest()

    def _write_manifest(self) -> None:
        with atomic_file(self.folder / MANIFEST) as stream:
            json.dump(self.manifest, stream, indent=1)

    def _check_manifest(self) -> None:
        try:
            manifest = read_json(self.folder / MANIFEST)
        except ValueError as error:
            raise InputError(
                f"Expected {self.folder / MANIFEST} to say what its shards were scored with, but it is damaged: start "
                "again with --overwrite."
            ) from error
        difference = first_difference(manifest, self.manifest)
        if manifest == self._manifest_without_skips:
            self._write_manifest()
        elif difference is not None:
            name, before, now = difference
            raise InputError(
                f"Expected the shards in {self.folder} to be of the same run, but their {name} is {before!r} and that "
                f"of this run {now!r}: give the same options and files, or start again with --overwrite."
            )

    def kept(self) -> list[int]:
        """Indices of the finished shards, in order."""
        return kept_shards(self.folder)

    def finished(self, shard: Shard) -> ShardSummary | None:
        """Return the tally of a finished shard; ``None`` if the shard has to be scored."""
        record = self._record(shard.index)
        if record is None:
            return None
        if digest_texts(shard.rows)[0] != record.texts:
            row = record.first_changed_row(shard.rows)
            line = f" (line {shard.rows[row].line})" if row < len(shard.rows) else ", behind its end"
            raise self._other_input(f"differs from row {shard.first + row}{line} on")
        # Score the shard again if its file is missing or damaged.
        return record.tally if digest_file(self.file(shard.index)) == record.file else None

    def _other_input(self, how: str) -> InputError:
        return InputError(
            f"Expected the input to be the one that the shards in {self.folder} were scored from, but it {how}: "
            "restore it, or start again with --overwrite."
        )

    def write(self, shard: Shard, scores: ShardScores | ShardLines) -> None:
        """Write a shard: first its file, then the record that marks it as finished."""
        content = scores.encoded(self.layout)
        texts, rows = digest_texts(shard.rows)
        origin = self._manifest_digest, self.machine, shard.first, texts, rows
        record = Record(*origin, digest(content), scores.tally)
        if not (self.folder / MANIFEST).is_file():  # the folder was deleted during the run
            self._write_manifest()
        with atomic_bytes(self.file(shard.index)) as stream:
            stream.write(content)
        with atomic_file(self._record_file(shard.index)) as text:
            text.write(record.dump())

    def tallies(self, shards: int) -> list[ShardSummary]:
        """Return the tallies of all shards."""
        return [record.tally for record in self._records(shards)]

    def _records(self, shards: int) -> list[Record]:
        surplus = next(filter(None, (self._record(index) for index in self.kept() if index >= shards)), None)
        if surplus is not None:
            raise self._other_input(f"ends before them (from row {surplus.first} on)")
        records = [self._record(index) for index in range(shards)]
        if None in records:
            raise InputError(
                f"Expected {plural(shards, 'shard')} in {self.folder}, but number {records.index(None)} is missing: "
                "continue with --resume."
            )
        return [record for record in records if record is not None]

    def merge(self, path: Path, shards: int, summary: Summary) -> None:
        """Merge all shards into one file and remove the folder.

        If ``recorded``, also write the manifest next to the file for a later ``--resume``.
        """
        texts, _ = self._verified_digests(shards)
        with atomic_bytes(path) as raw, compressed(raw, path) as stream:
            self.layout.join((self.file(index).read_bytes() for index in range(shards)), summary, stream)
        if self.recorded:
            write_output_manifest(path, self.output_manifest(summary.rows, texts, digest_file(path)))
        else:
            output_manifest_path(path).unlink(missing_ok=True)  # manifest of an earlier result
        self.remove()

    def seal(self, shards: int, summary: Summary) -> None:
        """Make the folder the result: write a summary and delete the records of the shards."""
        texts, files = self._verified_digests(shards)
        entries = {**summary.entries(), "shards": shards, "rows": summary.rows}
        with atomic_file(self.folder / SUMMARY) as stream:
            json.dump({**entries, "texts": texts, "scores": files}, stream, indent=1)
        self.tidy()

    def _verified_digests(self, shards: int) -> tuple[str, str]:
        """Return the digests of all texts and of all files; raise an error if a file has changed."""
        records = self._records(shards)
        files = joined(record.file for record in records)
        if self._files(shards) != files:
            raise InputError(
                f"Expected the files in {self.folder} as this run wrote them, but one has changed or is missing: "
                "continue with --resume, which makes it again."
            )
        machines = {record.machine for record in records}
        if len(machines) > 1:
            logger.warning(
                "Shards were scored on processors of several kinds (%s): scores agree up to rounding.",
                ", ".join(sorted(machines)),
            )
        return joined(record.texts for record in records), files

    def output_manifest(self, rows: int, texts: str, scores: str) -> OutputManifest:
        """Return the manifest of a result made from these shards."""
        values = "mean alone" if self.layout.only_mean else "all"
        return OutputManifest({**self.manifest, "values": values}, rows, texts, scores)

    def sealed_output_manifest(self) -> tuple[OutputManifest, str]:
        """Return the manifest of a sealed folder, and the digest of its current files."""
        try:
            manifest, summary = read_json(self.folder / MANIFEST), read_json(self.folder / SUMMARY)
            found = OutputManifest.from_json({**summary, "manifest": {**manifest, "values": "all"}})
            return found, self._files(int(summary["shards"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"Expected {MANIFEST} and {SUMMARY} in {self.folder} to say what its scores were made from, but one is "
                "damaged or missing: give another --output, or compute them again with --overwrite."
            ) from error

    @property
    def untidy(self) -> bool:
        """Return whether a sealed folder contains files other than scores, manifest and summary."""
        names = (path.name for path in self.folder.iterdir())
        return any(name not in (MANIFEST, SUMMARY) and name[0] in "._" for name in names)

    def tidy(self) -> None:
        """Delete records and temporary files from a sealed folder; an interruption may have left them."""
        for index in self.kept():
            self._record_file(index).unlink(missing_ok=True)
        clear(self.folder, SUMMARY, half_written=True)

    def remove(self) -> None:
        """Remove the folder. The order of deletion keeps an interrupted removal from looking like a run to resume."""
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.folder / MANIFEST, self.folder / MERGED)
        clear(self.folder, MERGED)
        with contextlib.suppress(OSError):  # already removed, or still locked: then the lock's owner removes it
            self.folder.rmdir()

    def file(self, index: int) -> Path:
        """Return the path of the scores of a shard."""
        return self.folder / f"{index:06d}.{FORMATS[self.layout.format]}"

    def _record_file(self, index: int) -> Path:
        return self.folder / f"_{index:06d}.json"

    def _record(self, index: int) -> Record | None:
        record = Record.read(self._record_file(index))
        return record if record is not None and record.manifest in self._accepted else None

    def _files(self, shards: int) -> str:
        return joined(digest_file(self.file(index)) for index in range(shards))
