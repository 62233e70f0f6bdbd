"""Reader and cache for static word vectors in the text formats of word2vec, GloVe and fastText.

The cache (``$XDG_CACHE_HOME/textmover`` or ``~/.cache/textmover``) is memory-mapped. Its folders are named by the hash
of the file, so that a changed file is parsed again.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import itertools
import logging
import os
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textmover.files import file_sha256, user_cache
from textmover.modules.encoder.conversion_cache import build, cached
from textmover.types import InputError, plural

LARGEST = float(np.finfo(np.float32).max)  # largest finite entry of a vector


def read_vectors(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield word and vector of each line, repeated words included; the file may be gzip-compressed."""
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
            f"Expected {path} to hold {plural(stated, 'word')}, as its line 1 says, but got {count}: fetch or save it "
            "again."
        )


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors in reading the file into one sentence."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Expected {path} to be a file of word vectors that can be read, but got: {reason.rstrip('.')}. "
            "Fetch it again or give another one."
        ) from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line that is not blank."""
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
    """Return the number of words in the header line (``None`` without a header) and the dimension.

    A line of an integer word and a one-dimensional integer vector looks like a header: line 2 decides.
    """
    if not start:
        raise _empty(path)
    counts = [_count_numbers(line.split()) for _, line in start]
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
    return InputError(f"Expected {path} to hold word vectors, but it holds none: fetch or save it again.")


def _count_numbers(fields: list[bytes]) -> int:
    """Count the numeric fields at the end of a line; the first field is always a word."""
    return sum(1 for _ in itertools.takewhile(_is_number, reversed(fields[1:])))


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def _row(path: Path, number: int, line: bytes, dimension: int) -> tuple[str, NDArray[np.float32]]:
    """Parse word and vector of a line from its end, since a word may contain spaces (as in ``glove.840B``)."""
    word, *fields = line.rsplit(None, dimension)
    if len(fields) < dimension or (b" " in word and _count_numbers(word.split())):
        holds = str(_count_numbers(line.split()))
    else:
        with contextlib.suppress(ValueError), np.errstate(over="ignore"):
            row = np.array(fields, dtype="<f4")
            if np.isfinite(row).all() and b"_" not in line[len(word) :]:
                return word.strip().decode(errors="replace"), row
        wrong = next(field for field in fields if not _is_number(field) or not abs(float(field)) <= LARGEST)
        holds = f"{wrong.decode(errors='replace')!r}, which is not a finite number of float32"
    raise InputError(
        f"Expected every line of {path} to hold a word and {plural(dimension, 'number')}, but line {number} holds "
        f"{holds}: fetch or save the file again."
    )


logger = logging.getLogger(__name__)

MATRIX, WORDS, MEAN = "vectors.npy", "words.txt", "mean.npy"
"""Files of the cache: float32 rows, their words line by line, and the mean of the rows."""

LAYOUT = "static-vectors-1"  # folder of the cache; its number changes with the format

SETTLED_NS = 2_000_000_000
"""Age in nanoseconds from which on a file's times are trusted to reveal the next change."""


def cached_vectors(path: Path, sha256: str | None = None) -> tuple[str, Path]:
    """Return the hash of a vector file and its cache folder; a known, cached hash needs no file."""
    if sha256 is not None and (folder := cached(LAYOUT, sha256)) is not None:
        return sha256, folder
    with readable(path):
        state = _state(path)
        actual = _hash(path, state)
    if sha256 not in (None, actual):
        raise InputError(f"Expected {path} to have the SHA-256 {sha256}, but got {actual}: give the file of that hash.")
    return actual, cached(LAYOUT, actual) or build(LAYOUT, actual, path, lambda folder: _parse(path, folder, state))


def _state(path: Path) -> tuple[int, ...]:
    """Return values that change whenever the file changes."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _hash(path: Path, state: tuple[int, ...]) -> str:
    """Return the hash of the file, cached by its state, since hashing several GB is slow."""
    key = hashlib.sha256(repr((str(path.resolve()), *state)).encode(errors="surrogateescape")).hexdigest()
    note = user_cache() / LAYOUT / "hashes" / key
    settled = time.time_ns() - max(state[1:3]) > SETTLED_NS
    if not settled:
        return file_sha256(path)
    with contextlib.suppress(OSError, ValueError):
        noted = note.read_text(encoding="ascii")
        if re.fullmatch(r"[0-9a-f]{64}", noted):
            return noted
    sha256 = file_sha256(path)
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(sha256, encoding="ascii")
    return sha256


def _parse(path: Path, folder: Path, state: tuple[int, ...]) -> None:
    logger.info("Reading the word vectors of %s, once", path)
    words: set[str] = set()
    count, dimension, total = 0, 0, np.zeros(1)
    with (folder / MATRIX).open("wb") as matrix, (folder / WORDS).open("wb") as vocabulary:
        for word, row in read_vectors(path):
            if not count:
                dimension = len(row)
                _write_header(matrix, 0, dimension)
            count += 1
            if word not in words:
                words.add(word)
                total = total + row  # in float64
                matrix.write(row.tobytes())
                vocabulary.write(f"{word}\n".encode())
        matrix.seek(0)
        _write_header(matrix, len(words), dimension)
        for written in (matrix, vocabulary):
            written.flush()
            os.fsync(written.fileno())
    with readable(path):
        if _state(path) != state:
            raise InputError(f"Expected {path} to stay as it is while it is read, but it changed: read it again.")
    np.save(folder / MEAN, (total / len(words)).astype(np.float32))
    repeated = count - len(words)
    logger.info("%s: %d words, %d dimensions; %d repeated words left out", path, len(words), dimension, repeated)


def _write_header(matrix: io.BufferedWriter, rows: int, dimension: int) -> None:
    """Write the header of an ``.npy`` file; its length is the same for any number of rows."""
    shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(matrix, shape)
