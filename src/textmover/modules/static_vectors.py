"""Static word vectors, read from a text file once and memory-mapped from then on, as an encoder of token batches.

The text is parsed into a folder of the cache (``$XDG_CACHE_HOME/textmover`` or ``~/.cache/textmover``) that is named by
the hash of the file, so that a file that has changed is read anew.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import json
import logging
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from textmover.modules.config import check_choice
from textmover.modules.encoder_source import file_sha256
from textmover.types import InputError, TokenBatch

__all__ = ["StaticEncoder", "StaticVectors", "UnknownWords", "is_static"]

logger = logging.getLogger(__name__)

UnknownWords = Literal["drop", "zero", "mean", "error"]
"""What becomes of a word without a vector: it takes no part; it gets the zero vector, which is similar to nothing; it
gets the mean of all vectors of the file; or it is an error."""

MATRIX, WORDS, MEAN, ENTRY = "vectors.npy", "words.txt", "mean.npy", "entry.json"
"""What the cache keeps of a file: float32 rows, their words line by line, the mean of the rows, and the sizes of these
three, by which a damaged folder is told."""

DESCRIPTION = "static_vectors.json"
"""File of a checkpoint that says which vectors it needs."""

LAYOUT = "static-vectors-1"
"""Folder of the cache; its number changes with what is kept."""

LARGEST = float(np.finfo(np.float32).max)
"""Largest number that a vector can hold."""

SETTLED_NS = 2_000_000_000
"""A file that changed less than this before it was hashed may change again without its times showing it."""


def is_static(name: str) -> bool:
    """Whether the name of an encoder is a file, which then holds word vectors; other encoders are folders or names."""
    return Path(name).expanduser().is_file()


class StaticVectors:
    """Word vectors of a text file in the format of word2vec, GloVe or fastText, gzip-compressed or not.

    The rows stay in a file that is memory-mapped. Copies share everything, and a pickle holds path and hash alone.

    Args:
        path: The text file.
        sha256: Its hash.
        folder: Folder of the cache that it was parsed into.
        unknown_words: What becomes of words without a vector (see :data:`UnknownWords`).

    Note:
        Built by :meth:`open`, or by :meth:`load` from what :meth:`save` wrote.
    """

    def __init__(self, path: Path, sha256: str, folder: Path, unknown_words: UnknownWords) -> None:
        self.path = path
        self.sha256 = sha256
        self.unknown_words = unknown_words
        self._folder = folder
        self.matrix: NDArray[np.float32] = np.load(folder / MATRIX, mmap_mode="r")
        self.mean: NDArray[np.float32] = np.load(folder / MEAN)

    @classmethod
    def open(
        cls, path: Path | str, unknown_words: UnknownWords = "drop", *, sha256: str | None = None
    ) -> StaticVectors:
        """The vectors of a file, which is parsed unless the cache holds it.

        Args:
            path: The text file; not looked at where ``sha256`` is given and in the cache.
            unknown_words: What becomes of words without a vector.
            sha256: Hash that the file has to have.

        Raises:
            InputError: If the file cannot be read, is no text of that kind, or has another hash.
        """
        check_choice("unknown_words", unknown_words, get_args(UnknownWords))
        path = Path(path).expanduser()
        folder = None if sha256 is None else _cached(sha256)
        if sha256 is None or folder is None:
            with _readable(path):
                state = _state(path)
                found = _hash(path, state)
            if sha256 not in (None, found):
                raise InputError(
                    f"Expected {path} to have the SHA-256 {sha256}, but got {found}: give the file of that hash."
                )
            sha256, folder = found, _cached(found) or _build(path, found, state)
        return cls(path, sha256, folder, unknown_words)

    @property
    def identity(self) -> str:
        """Name and hash of the file for the signature."""
        return f"{self.path.name}@{self.sha256[:8]}"

    @property
    def dimension(self) -> int:
        """Width ``D`` of the vectors."""
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.matrix)

    @functools.cached_property
    def vocabulary(self) -> dict[str, int]:
        """Row of each word."""
        words = (self._folder / WORDS).read_bytes().decode().split("\n")[:-1]
        return {word: row for row, word in enumerate(words)}

    def find(self, word: str) -> int | None:
        """Row of the word as it is written, else of the word in lower case, else ``None``."""
        row = self.vocabulary.get(word)
        return self.vocabulary.get(word.lower()) if row is None else row

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Vectors ``[n, D]`` of ids ``[n]``, of which the number of words stands for a word without a vector."""
        if ids.size and not 0 <= ids.min() <= ids.max() <= len(self):
            wrong = ids[(ids < 0) | (ids > len(self))][0]
            raise ValueError(f"Expected ids of at most {len(self)}, the number of words, but got {wrong}.")
        known = ids < len(self)
        vectors = np.zeros((len(ids), self.dimension), dtype=np.float32)
        vectors[known] = self.matrix[ids[known]]
        if self.unknown_words == "mean":
            vectors[~known] = self.mean
        return vectors

    def save(self, folder: Path) -> None:
        """Write into ``folder`` which file these vectors are of; the vectors stay where they are."""
        entries = {"file": str(self.path), "sha256": self.sha256, "unknown_words": self.unknown_words}
        (folder / DESCRIPTION).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, unknown_words: UnknownWords | None = None) -> StaticVectors:
        """The vectors that :meth:`save` named: in the cache, else where they were, else in ``folder`` itself.

        Args:
            folder: Where :meth:`save` wrote.
            unknown_words: Another policy than the saved one.

        Raises:
            InputError: If the file is nowhere or has changed.
        """
        entries = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        path, sha256 = Path(entries["file"]), entries["sha256"]
        if _cached(sha256) is None and not path.is_file():
            beside = folder / path.name
            if not beside.is_file():
                raise InputError(
                    f"Expected the word vectors {path} (SHA-256 {sha256}) that {folder} was made with, but there is no "
                    f"such file: put it there, or into {folder}."
                )
            path = beside
        return cls.open(path, unknown_words or entries["unknown_words"], sha256=sha256)

    def __deepcopy__(self, memo: dict[int, Any]) -> StaticVectors:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(StaticVectors.open, sha256=self.sha256), (self.path.absolute(), self.unknown_words)


class StaticEncoder(nn.Module):
    """Static word vectors in the place of an encoder: one layer, nothing to train, only the rows that are needed read.

    Its state is empty, since the vectors belong to their file, and they stay float32 whatever type it is cast to.

    Args:
        vectors: The word vectors; the batches have to come from a tokenizer on the same ones.
    """

    anchor: Tensor

    trainable = False
    layers = (0,)
    depth = 0

    def __init__(self, vectors: StaticVectors) -> None:
        super().__init__()
        self.vectors = vectors
        self.register_buffer("anchor", torch.empty(0), persistent=False)

    @property
    def dimension(self) -> int:
        """Width ``D`` of the vectors."""
        return self.vectors.dimension

    @property
    def device(self) -> torch.device:
        """Where the output goes; the vectors stay on the disk."""
        return self.anchor.device

    def forward(self, batch: TokenBatch) -> list[Tensor]:
        """Vectors of the tokens as the only layer, float32 ``[B, L, D]``; 0 where padded."""
        mask = batch.mask.cpu()
        vectors = torch.zeros(*mask.shape, self.dimension)
        vectors[mask] = torch.from_numpy(self.vectors.rows(batch.input_ids.cpu()[mask].numpy()))
        return [vectors.to(self.device)]


# --- the cache --------------------------------------------------------------------------------------------------------


_temporary: dict[str, Path] = {}
"""Folders by hash, until the program ends, of files that the cache could not take."""


def _cache_folder() -> Path:
    stated = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = stated if stated.is_absolute() else Path("~/.cache").expanduser()
    return home / "textmover" / LAYOUT


def _cached(sha256: str) -> Path | None:
    """Folder of the cache with the parsed file of this hash; ``None`` where there is none that is whole."""
    with contextlib.suppress(RuntimeError):  # no home folder
        folder = _cache_folder() / sha256
        if _is_whole(folder):
            return folder
    return _temporary.get(sha256)


def _is_whole(folder: Path) -> bool:
    try:
        sizes = json.loads((folder / ENTRY).read_text(encoding="utf-8"))
        return {name: (folder / name).stat().st_size for name in (MATRIX, WORDS, MEAN)} == sizes
    except (OSError, ValueError):
        return False


def _build(path: Path, sha256: str, state: tuple[int, ...]) -> Path:
    """Parse the file into the cache, or into a temporary folder where the cache cannot be written."""
    try:
        root = _cache_folder()
        root.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=root, prefix=f".{sha256[:8]}."))
        try:
            _parse(path, beside, state)
            return _renamed(beside, root / sha256)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except (OSError, RuntimeError) as error:
        logger.warning("The cache cannot take %s (%s): a temporary folder does, until the program ends.", path, error)
    try:
        folder = Path(tempfile.mkdtemp(prefix="textmover-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _parse(path, folder, state)
    except OSError as error:
        raise InputError(
            f"Expected room for the vectors of {path}, but got: {error.strerror or error}. Set XDG_CACHE_HOME to a "
            "folder that can be written."
        ) from error
    _temporary[sha256] = folder
    return folder


def _renamed(beside: Path, folder: Path) -> Path:
    """Give a complete folder its name, unless another process was first; a damaged one is replaced."""
    try:
        os.replace(beside, folder)
    except OSError:
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(beside, folder)
    return folder


def _state(path: Path) -> tuple[int, ...]:
    """What changes whenever the file does."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _hash(path: Path, state: tuple[int, ...]) -> str:
    """Hash of the file, noted in the cache under its state, since a file of several GB takes a while."""
    note = None
    with contextlib.suppress(RuntimeError):
        key = hashlib.sha256(repr((str(path.resolve()), *state)).encode(errors="surrogateescape")).hexdigest()
        note = _cache_folder() / "hashes" / key
    settled = time.time_ns() - max(state[1:3]) > SETTLED_NS
    if note is None or not settled:
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


# --- the text ---------------------------------------------------------------------------------------------------------


def _parse(path: Path, folder: Path, state: tuple[int, ...]) -> None:
    """Read the text, line by line, into the files of a folder of the cache."""
    logger.info("Reading the word vectors of %s, once", path)
    lines = _lines(path)
    start = list(itertools.islice(lines, 2))
    stated, dimension = _header(path, start)
    body = itertools.chain(start if stated is None else start[1:], lines)
    words: set[str] = set()
    count, total = 0, np.zeros(1)
    with (folder / MATRIX).open("wb") as matrix, (folder / WORDS).open("wb") as vocabulary:
        _write_header(matrix, 0, dimension)
        for number, line in body:
            word, row = _row(path, number, line, dimension)
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
    if not words:
        raise _empty(path)
    if stated not in (None, count):
        raise InputError(
            f"Expected {path} to hold {stated} words, as its line 1 says, but got {count}: fetch or save it anew."
        )
    with _readable(path):
        if _state(path) != state:
            raise InputError(f"Expected {path} to stay as it is while it is read, but it changed: read it again.")
    np.save(folder / MEAN, (total / len(words)).astype(np.float32))
    sizes = {name: (folder / name).stat().st_size for name in (MATRIX, WORDS, MEAN)}
    (folder / ENTRY).write_text(json.dumps(sizes), encoding="utf-8")
    repeated = count - len(words)
    logger.info("%s: %d words, %d dimensions; %d repeated words left out", path, len(words), dimension, repeated)


def _write_header(matrix: io.BufferedWriter, rows: int, dimension: int) -> None:
    """The header of an ``.npy`` file, as long for any number of rows."""
    shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(matrix, shape)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
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
    with _readable(path), path.open("rb") as raw:
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
