"""What is kept of finished shards: digests of their texts and files, and what is known of their scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from textmover.readers.streams import Row
from textmover.runs.score_summary import Tally
from textmover.runs.shards.manifest import digest, digest_of, read_json

ROW_DIGITS = 8
"""Hexadecimal digits that are kept of the digest of a row, to find the first one that has changed."""


@dataclass(frozen=True)
class Record:
    """What is kept of a finished shard beside its file.

    Attributes:
        manifest: Digest of the manifest that it was scored under.
        machine: Where it was scored, from :func:`~textmover.modules.devices.machine_of`.
        first: Number of its first row.
        texts: Digest of the texts of its rows.
        rows: The beginnings of the digests of the rows, one after the other.
        file: Digest of the file.
        tally: What is known of the scores.
    """

    manifest: str
    machine: str
    first: int
    texts: str
    rows: str
    file: str
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
            told = entries.pop("record")
            if told != digest(json.dumps(entries).encode()):
                return None
            return cls(**{**entries, "tally": Tally.from_dict(entries["tally"])})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def changed(self, rows: Sequence[Row]) -> int:
        """The place of the first row that is not what it was; behind their end where there are less or no other."""
        before, (_, digits) = _pieces(self.rows), digest_texts(rows)
        now = _pieces(digits)
        return next((place for place, one in enumerate(before) if now[place : place + 1] != [one]), len(before))


class Finished(NamedTuple):
    """What is known of all shards together.

    Attributes:
        tallies: Of each.
        machines: Where they were scored.
        texts: Digest of the texts of all.
        files: Digest of the digests of their files.
    """

    tallies: list[Tally]
    machines: set[str]
    texts: str
    files: str


def joined(digests: Iterable[str]) -> str:
    """One digest of several."""
    return digest_of(one.encode() for one in digests)


def digest_texts(rows: Sequence[Row]) -> tuple[str, str]:
    """Digest of all texts of the rows, and the beginnings of those of each."""
    found = [_row_digest(row) for row in rows]
    return joined(found), "".join(one[:ROW_DIGITS] for one in found)


def _pieces(digits: str) -> list[str]:
    return [digits[start : start + ROW_DIGITS] for start in range(0, len(digits), ROW_DIGITS)]


def _row_digest(row: Row) -> str:
    texts = json.dumps([row.hypotheses, row.references])  # no two rows give the same text
    return digest(texts.encode())
