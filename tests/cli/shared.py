"""Rated rows, ends of commands, signals and pictures for the tests of commands."""

import os
import signal
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

ROWS = [  # language pair, hypothesis, reference, rating
    ("de-en", "the cat sat on the street", "a cat sat in the street", 0.1),
    ("de-en", "a dog", "the dog", 0.30000000000000004),
    ("de-en", "many people walk in the rain", "people walk under the rain", 0.5),
    ("de-en", "she will sing a song", "he can not sing", -0.7),
    ("fi-en", "a good friend", "my friend", 0.2),
    ("fi-en", "two big trees", "three small trees", -1.5),
    ("fi-en", "it is warm today", "today it is cold", 0.4),
    ("fi-en", "it is late", "come with me", -0.25),
    ("xx-en", "he eats", "she eats", 1.0),
    ("xx-en", "no", "yes", -1.0),
]
SIGNALS = pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


class Ended(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    def ok(self) -> "Ended":
        """The same, after success."""
        assert self.code == 0, self.err
        return self

    def silent(self) -> "Ended":
        """The same, after success without a word on standard error beside the names of files."""
        assert (self.code, [one for one in self.err.splitlines() if not one.startswith("Written: ")]) == (0, [])
        return self

    def complaint(self) -> str:
        """Standard error after unusable input: one sentence of ours, notes before it, no traceback."""
        assert self.code == 2, self
        assert [line for line in self.err.splitlines() if line.startswith("textmover: ")] == self.err.splitlines()[-1:]
        return self.err


def table_of(rows: list[tuple]) -> list[str]:
    return ["lp\thypothesis\treference\tscore", *("\t".join(map(str, row)) for row in rows)]


def send(sent: signal.Signals) -> None:
    """Send a signal to this process, which has to heed it."""
    assert signal.getsignal(sent) is not signal.SIG_DFL, "the tests would end here"
    os.kill(os.getpid(), sent)


def is_png(path: Path) -> bool:
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    return data[:8] == b"\x89PNG\r\n\x1a\n" and 700 < width < 2000 and 400 < height < 2000
