"""Word vectors as text, in the format of word2vec, GloVe or fastText: a word and its vector on each line."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textmover.types import InputError

LARGEST = float(np.finfo(np.float32).max)
"""Largest number that a vector can hold."""


def read_vectors(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Word and vector of each line, in order, repeated words among them; the file may be gzip-compressed.

    Args:
        path: The file, with or without a first line that states the number of words and of dimensions.

    Yields:
        At least one word with its vector, float32 ``[D]``.

    Raises:
        InputError: If the file cannot be read, a line is no word with as many finite numbers as the others have, or
            there are not as many words as the first line states.
    """
    lines = _lines(path)
    start = list(itertools.islice(lines, 2))
    stated, dimension = _header(path, start)
    count = 0
    for number, line in itertools.chain(start if stated is None else start[1:], lines):
        count += 1
        yield _row(path, number, line, dimension)
    if not count:
        raise _empty(path)
    if stated not in (None, count):
        raise InputError(
            f"Expected {path} to hold {stated} words, as its line 1 says, but got {count}: fetch or save it anew."
        )


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong in reading the file into one sentence."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Expected {path} to be a file of word vectors that can be read, but got: {reason.rstrip('.')}. "
            "Fetch it anew or give another one."
        ) from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that is not blank."""
    with readable(path), path.open("rb") as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        with gzip.GzipFile(fileobj=raw) if packed else contextlib.nullcontext(raw) as stream:
            head = stream.peek(1)  # a full buffer
            if head.startswith(b"PK\x03\x04") or b"\0" in head:
                kind = "a ZIP archive: unpack it" if head.startswith(b"PK") else "binary: save the vectors as text"
                raise InputError(
                    f"Expected {path} to be text in the format of word2vec, GloVe or fastText, but it is {kind} first."
                )
            for number, line in enumerate(stream, start=1):
                bare = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if bare.strip():
                    yield number, bare


def _header(path: Path, start: list[tuple[int, bytes]]) -> tuple[int | None, int]:
    """Number of words that line 1 states (``None`` where it is a word's line already), and the dimension.

    A word that is a whole number, with one whole number as its vector, looks like a header: line 2 decides.
    """
    if not start:
        raise _empty(path)
    counts = [_numbers(line.split()) for _, line in start]
    first = start[0][1].split()
    if start[0][0] == 1 and len(first) == 2 and all(field.isdigit() for field in first):
        stated, dimension = map(int, first)
        if dimension > 0 and (dimension == 1 or counts[1:] != [1]):
            return stated, dimension
    if counts[0] == 0:
        raise InputError(
            f"Expected {path} to be text in the format of word2vec, GloVe or fastText, but line {start[0][0]} holds "
            "no numbers: give a file with a word and its vector on each line."
        )
    return None, counts[0]


def _empty(path: Path) -> InputError:
    return InputError(f"Expected {path} to hold word vectors, but it holds none: fetch or save it anew.")


def _numbers(fields: list[bytes]) -> int:
    """How many fields at the end of a line are numbers; the first is always a word."""
    return sum(1 for _ in itertools.takewhile(_is_number, reversed(fields[1:])))


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def _row(path: Path, number: int, line: bytes, dimension: int) -> tuple[str, NDArray[np.float32]]:
    """Word and vector of a line, read from its end, since a word may hold spaces (as in ``glove.840B``)."""
    word, *fields = line.rsplit(None, dimension)
    if len(fields) < dimension or (b" " in word and _numbers(word.split())):
        holds = str(_numbers(line.split()))
    else:
        with contextlib.suppress(ValueError), np.errstate(over="ignore"):
            row = np.array(fields, dtype="<f4")
            if np.isfinite(row).all() and b"_" not in line[len(word) :]:
                return word.strip().decode(errors="replace"), row
        wrong = next(field for field in fields if not _is_number(field) or not abs(float(field)) <= LARGEST)
        holds = f"{wrong.decode(errors='replace')!r}, which is no finite number of float32"
    raise InputError(
        f"Expected every line of {path} to hold a word and {dimension} numbers, but line {number} holds {holds}: "
        "fetch or save the file anew."
    )
