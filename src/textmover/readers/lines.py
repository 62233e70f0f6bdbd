"""Lines of text files: plain, compressed, or from standard input.

A line that is not text is yielded as a :class:`LineError`. The caller decides whether to raise it.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import os
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from textmover.readers.public_sets import located
from textmover.safe_reading import TO_UTF8, open_input, unreadable
from textmover.types import InputError, needs_extra

COMPRESSIONS = (".gz", ".zst")  # suffixes of supported compressed files

PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5": ".zst", b"\xfd7zXZ": "", b"BZh": "", b"PK\x03\x04": ""}
"""First bytes of compressed files, with the file suffix if the compression is supported."""

STANDARD_INPUT = "-"

DESCRIPTORS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Prefixes of a process's open files. Other processes cannot open them, and some systems read them only once."""

LONGEST_LINE = 1 << 26  # bytes; a longer line is not text and must not fill the memory before it is rejected
PACKED_CHUNK = 1 << 13  # compressed bytes unpacked at a time; each may expand a thousandfold

Item = TypeVar("Item")


class LineError(InputError):
    """Error of a line that cannot be used."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


Line = str | LineError


def usable(items: Iterable[Item | InputError], left_out: list[InputError] | None = None) -> Iterator[Item]:
    """Yield the usable items. Append errors to ``left_out``, or raise the first error if it is ``None``."""
    for item in items:
        if not isinstance(item, InputError):
            yield item
        elif left_out is None:
            raise item
        else:
            left_out.append(item)


@dataclass(eq=False)
class Position:
    """Progress through files."""

    tell: Callable[[], float] | None = None  # share that has been read, in [0, 1]; ``None`` if the size is unknown


@dataclass(frozen=True)
class ProgressTracked:
    """Base of inputs that report their position."""

    _position: Position = field(default_factory=Position, init=False, repr=False, compare=False)

    @property
    def share(self) -> float | None:
        """Share of the input, or of its first file of known length, that has been read, in [0, 1]."""
        return None if self._position.tell is None else self._position.tell()


def iter_lines(
    path: str | Path, position: Position | None = None, *, ends: bool = False
) -> Generator[Line, None, None]:
    r"""Yield the lines of a UTF-8 file without byte-order mark; ``ends`` keeps the line ends ``\n`` and ``\r\n``."""
    path = located(path)
    name = display_path(path)
    number = 0
    try:
        with open_bytes(path, position) as stream:
            for raw in iter(partial(stream.readline, LONGEST_LINE), b""):
                if number == 0:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                    if not raw:
                        break
                number += 1
                if len(raw) == LONGEST_LINE:
                    raise InputError(
                        f"Expected lines of less than {LONGEST_LINE >> 20} MiB in {name}, but got a longer one in line "
                        f"{number}: check that it is a text file."
                    )
                try:
                    line = raw.decode("utf-8")
                    wrong = 0 if "\0" in line else None  # as in UTF-16
                except UnicodeDecodeError as error:
                    line, wrong = raw.decode("utf-8", errors="replace"), raw[error.start]
                if wrong is None:
                    if number == 1 and not ends and not line.endswith("\n") and "\r" in line.rstrip("\r"):
                        raise InputError(
                            f"Expected lines in {name} to end in line feeds, but got carriage returns alone: convert "
                            "it (tr '\\r' '\\n')."
                        )
                    yield line if ends else line.removesuffix("\n").removesuffix("\r")
                else:
                    got = f"the byte 0x{wrong:02x} in line {number}: {TO_UTF8}"
                    if number == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                        got = "UTF-16: convert it (iconv -f UTF-16 -t UTF-8)"
                    elif wrong == 0:
                        got = f"a zero byte in line {number}: remove it (tr -d '\\000'), or save the file as UTF-8"
                    for start, end in PACKED.items():
                        if raw.startswith(start):
                            renamed = end and name != display_path(STANDARD_INPUT)
                            got = f"a compressed file: {f'let its name end in {end}' if renamed else 'unpack it first'}"
                    yield LineError(f"Expected {name} to be UTF-8, but got {got}.", line)
    except EOFError as error:
        where = f"after line {number}" if number else "at its beginning"
        raise InputError(
            f"Expected {name} to be a whole compressed file, but {where} got '{str(error).rstrip('.')}': it is damaged "
            "or cut off, so make it again."
        ) from error
    except OSError as error:
        raise unreadable(name, error) from error
    if number == 0:
        raise empty(name)


def zip_lines(paths: Sequence[str], position: Position) -> Generator[tuple[Line, ...], None, None]:
    """Yield the lines of parallel files as tuples; raise an error if the files differ in length."""
    followed = next((place for place, path in enumerate(paths) if not is_read_once(path)), None)
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(contextlib.closing(iter_lines(path, position if place == followed else None)))
            for place, path in enumerate(paths)
        ]
        for number, lines in enumerate(itertools.zip_longest(*files), start=1):
            if None in lines:
                raise _unequal_lengths(_counts(paths, files, lines, number))
            yield lines


def _counts(
    paths: Sequence[str], files: Sequence[Iterator[Line]], lines: Sequence[Line | None], number: int
) -> dict[str, str]:
    """Return the number of lines of each file if some end before line ``number``. Pipes are not read to their end."""
    counts: dict[str, str] = {}
    for path, file, line in zip(paths, files, lines, strict=True):
        if line is None:
            counts[display_path(path)] = str(number - 1)
        elif is_read_once(path):
            counts[display_path(path)] = f"more than {number - 1}"
        else:
            counts[path] = str(number + sum(1 for _ in file))
    return counts


def check_equal_lengths(sequences: Mapping[str, Sized]) -> None:
    """Raise an error if parallel files differ in their number of lines."""
    counts = {name: len(lines) for name, lines in sequences.items()}
    if len(set(counts.values())) > 1:
        raise _unequal_lengths(counts)


def _unequal_lengths(counts: Mapping[str, object]) -> InputError:
    listed = ", ".join(f"{count} in {name}" for name, count in counts.items())
    return InputError(
        f"Expected the same number of lines in each file, but got {listed}: "
        "line N of every file belongs to segment N. Add what is missing, an empty line for an empty hypothesis."
    )


def is_read_once(path: str | Path) -> bool:
    """Return whether a path can be read only once: standard input, a pipe, a device or a socket.

    Example:
        >>> is_read_once("-"), is_read_once("/dev/fd/63"), is_read_once(getfixture("tmp_path"))
        (True, True, False)
    """
    if str(path) == STANDARD_INPUT or str(path).startswith(DESCRIPTORS):
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # a missing file, which fails when it is opened, or a data set of the hub
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def display_path(path: str | Path) -> str:
    """Return the name of a file for error messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def told_once(path: str | Path) -> str:
    """Return the name of an input that can be read only once, for error messages."""
    return "standard input (-)" if str(path) == STANDARD_INPUT else f"the pipe or device {path}"


def refuse_read_once(paths: Iterable[str], where: str, way_out: str) -> None:
    """Raise an error if a path can be read only once but is read repeatedly."""
    once = next(filter(is_read_once, paths), None)
    if once is not None:
        raise InputError(f"Expected files {where}, but got {told_once(once)}, which can be read only once: {way_out}.")


def check_once(paths: Sequence[str | None]) -> None:
    """Raise an error if an input that can be read only once is named twice; ``None`` entries are ignored."""
    twice = next((path for path in paths if path and paths.count(path) > 1 and is_read_once(path)), None)
    if twice is not None:
        raise InputError(f"Expected {told_once(twice)} once, but got it twice: it can be read only once.")


def empty(name: str) -> InputError:
    """Return the error for a file without content."""
    return InputError(f"Expected {name} to hold text, but it is empty: give a file with content.")


@contextlib.contextmanager
def open_bytes(path: str | Path, position: Position | None = None) -> Iterator[IO[bytes]]:
    """Open a file or standard input and yield a stream of its unpacked bytes."""
    if str(path) == STANDARD_INPUT:
        yield _standard_input()
        return
    with open_input(path) as packed:
        status = os.fstat(packed.fileno())
        if position is not None and stat.S_ISREG(status.st_mode) and status.st_size:  # a pipe has no size
            position.tell = lambda: 1.0 if packed.closed else packed.tell() / status.st_size
        unpacked = _unpacked(packed, str(path))
        if unpacked is None:
            yield packed
        else:
            with io.BufferedReader(unpacked) as stream:
                yield stream


def _standard_input() -> IO[bytes]:
    """Return standard input with a separate buffer.

    A thread that waits for input may still hold the lock of ``sys.stdin`` when the interpreter exits. The interpreter
    would then abort.
    """
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # replaced by an object in memory
        return sys.stdin.buffer
    return open(descriptor, "rb", closefd=False)


def _unpacked(packed: IO[bytes], name: str) -> _Unpacked | None:
    suffix = Path(name).suffix.lower()
    if suffix == ".gz":
        return _Unpacked(packed, partial(zlib.decompressobj, wbits=zlib.MAX_WBITS | 16), zlib.error, padding=b"\0")
    if suffix != ".zst":
        return None
    with needs_extra("zstd", f"the package zstandard to read {name}"):
        import zstandard
    return _Unpacked(packed, zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError)


class _Unpacked(io.RawIOBase):
    """Unpacked bytes of a compressed file with one or several members; ``start`` makes the decompressor of one.

    The readers of ``gzip`` and ``zstandard`` do not handle truncated files: ``gzip`` withholds lines that could be
    read, and ``zstandard`` takes the file for complete.
    """

    def __init__(
        self, packed: IO[bytes], start: Callable[[], Any], error: type[Exception], padding: bytes = b""
    ) -> None:
        self._packed, self._start, self._error, self._padding = packed, start, error, padding
        self._member: Any = None
        self._rest = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._rest or self._packed.read(PACKED_CHUNK)
            self._rest = b""
            if not chunk:
                if self._member is not None:
                    raise EOFError("the end of the file before the end of what was compressed")
                return 0
            if self._member is None:
                chunk = chunk.lstrip(self._padding)
                if not chunk:
                    continue
                self._member = self._start()
            try:
                self._ready = memoryview(self._member.decompress(chunk))
            except self._error as error:
                raise EOFError(str(error)) from error
            if self._member.eof:
                self._rest, self._member = self._member.unused_data, None
        view = memoryview(buffer).cast("B")
        size = min(len(view), len(self._ready))
        view[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size
