"""Writing without leaving anything half-written: write beside, then rename; leftovers of killed processes go later."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import logging
import math
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from textmover.safe_reading import open_pipe
from textmover.types import InputError

try:
    import fcntl
except ImportError:  # Windows, where leftovers of killed processes stay
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""Errors of file systems without locks, such as some network file systems."""

PART, NEW, OLD = ".part", ".new", ".old"
"""Ends of hidden names: the file whose lock says that its writer lives, the folder that is being filled, and the folder
that it replaces."""

LEFT = re.compile(rf"\.(?P<name>.+)\.(?P<machine>[0-9a-f]{{8}})-\w{{8}}{re.escape(PART)}", re.DOTALL)

KNOWN_ENDINGS = (
    ".txt", ".tsv", ".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".xml", ".html", ".htm", ".xls", ".xlsx", ".ods",
    ".doc", ".docx", ".odt", ".rtf",
    ".pdf", ".md", ".yaml", ".yml", ".toml", ".npy", ".npz", ".pkl", ".pickle", ".arrow", ".feather", ".db", ".sqlite",
    ".tex", ".png", ".svg", ".jpg", ".jpeg", ".gz", ".zst", ".bz2", ".xz", ".zip",
)  # fmt: skip
"""Endings that stand for a format; any other is part of a name."""

UNTOUCHED = 24 * 3600.0
"""Seconds after which an unlocked leftover of another machine goes: its lock may not be visible from here."""

_named: dict[Path, Path] = {}  # outputs that were checked, as their users name them, by full path

_written: dict[Path, None] = {}
"""Those of them that this process has written since :func:`take_written` was called."""

_cleaned: set[Path] = set()  # folders in which this process has looked for leftovers


def atomic_file(path: Path | str) -> contextlib.AbstractContextManager[IO[str]]:
    """A text file (UTF-8) that appears under its name only when it is complete."""
    return _atomic(Path(path), mode="w", encoding="utf-8", newline="\n")


def atomic_bytes(path: Path | str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """A binary file that appears under its name only when it is complete."""
    return _atomic(Path(path), mode="wb")


@contextlib.contextmanager
def _atomic(path: Path, **how: Any) -> Iterator[IO[Any]]:
    path = path.resolve()  # a link stays, and what it points to is written
    with _plain_errors(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            with open(open_pipe(path, os.O_WRONLY) if path.is_fifo() else path, **how) as stream:
                yield stream  # a device or a pipe is written to, never replaced
            return
        with _hidden(path) as beside:
            with beside.open(**how) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            beside.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
            os.replace(beside, path)
            note_written(path)


def take_written() -> list[str]:
    """Names of the outputs that were written since the last call; of a folder its own."""
    found = list(map(str, _written))
    _written.clear()
    return found


def note_written(path: Path) -> None:
    """Tell :func:`take_written` of a file or folder, by its full path."""
    _written.update({_named[one]: None for one in (path, *path.parents) if one in _named})


@contextlib.contextmanager
def growing_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that holds what has been written so far, whatever ends its writer; one process writes at a time."""
    with _plain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _alone_in(path)
        while not (path.exists() and os.path.samestat(os.fstat(stream.fileno()), path.stat())):
            stream.close()  # whoever wrote it has ended and renamed it
            stream = _alone_in(path)
        with stream:
            stream.truncate(0)
            yield stream


def warn_without_locks(path: Path) -> None:
    """Say that nothing keeps two runs apart."""
    logger.warning("%s is on a file system without locks: make sure yourself that no other run writes there.", path)


def _alone_in(path: Path) -> IO[bytes]:
    stream = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "wb")  # noqa: SIM115  the caller closes it
    try:
        if fcntl is not None:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        stream.close()
        raise InputError(
            f"Expected to be the only run that writes {path}, but another one does: wait for it, or give another name."
        ) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        warn_without_locks(path)
    return stream


@contextlib.contextmanager
def atomic_folder(path: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder that appears under its name only when it is complete."""
    path = Path(path).resolve()
    if path.exists() and not path.is_dir():
        raise InputError(f"Expected {path} to be a folder to write, but it is a file: give another name.")
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise InputError(f"Expected {path} to be new or empty, but it holds files: give another name or --overwrite.")
    with _plain_errors(path), hidden_folder(path) as beside:
        try:
            yield beside
        except InputError as error:  # whoever reads it knows the folder by its own name
            raise InputError(str(error).replace(str(beside), str(path))) from error
        for written in (beside, *beside.rglob("*")):  # temporary folders and safetensors keep others out
            written.chmod((0o777 if written.is_dir() else 0o666) & ~_umask())
        if overwrite and path.is_dir():
            os.replace(path, beside.with_suffix(OLD))
        os.replace(beside, path)
        note_written(path)


@contextlib.contextmanager
def hidden_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside a path, to be renamed; removed at the end, or by a later run if this one is killed."""
    with _hidden(path) as held:
        beside = held.with_suffix(NEW)
        beside.mkdir(mode=0o700)
        yield beside


def remove_leftovers(folder: Path) -> None:
    """Remove what processes were writing into a folder when they were killed.

    A writer holds a lock that ends with it, so that nothing of a living process goes. Where the file system has no
    locks, everything stays.
    """
    with contextlib.suppress(OSError):  # no such folder, or it cannot be read
        for one in list(folder.iterdir()):
            left = LEFT.fullmatch(one.name)
            if left is not None:
                with contextlib.suppress(OSError):  # of another user, or gone meanwhile
                    _remove_if_left(one, left)


def _remove_if_left(hidden: Path, left: re.Match[str]) -> None:
    if fcntl is None:
        return
    held = os.open(hidden, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if left["machine"] == _machine() or time.time() - os.fstat(held).st_mtime > UNTOUCHED:
            _discard(hidden, hidden.with_name(left["name"]))
    finally:
        os.close(held)


@contextlib.contextmanager
def _hidden(path: Path) -> Iterator[Path]:
    """A new file beside a path, locked until the block ends; what is still there under its name then is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent not in _cleaned:
        _cleaned.add(path.parent)
        remove_leftovers(path.parent)
    with contextlib.ExitStack() as held:
        hidden = _locked_file(path, held)
        try:
            yield hidden
        finally:
            _discard(hidden, path)


def _locked_file(path: Path, held: contextlib.ExitStack) -> Path:
    while True:
        handle, name = tempfile.mkstemp(PART, f".{path.name}.{_machine()}-", path.parent)
        if fcntl is None:
            os.close(handle)
            return Path(name)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            held.callback(os.close, handle)
            return Path(name)
        os.close(handle)  # another process took it for a leftover before it was locked


def _discard(hidden: Path, path: Path) -> None:
    """Remove what was being written; a folder that was moved out of the way of its successor comes back."""
    old = hidden.with_suffix(OLD)
    if old.is_dir() and not path.exists():
        os.replace(old, path)
    for folder in (hidden.with_suffix(NEW), old):
        shutil.rmtree(folder, ignore_errors=True)
    hidden.unlink(missing_ok=True)


@functools.cache
def _machine() -> str:
    """Eight digits for the running system: the processes that share its locks."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        name = platform.node()
    return hashlib.sha256(name.encode()).hexdigest()[:8]


@contextlib.contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into one sentence."""
    try:
        yield
    except (OSError, SafetensorError, UnicodeEncodeError) as error:  # the last: a name that is not UTF-8
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Expected to be able to write {path}, but got: {reason}. Give a place that can be written."
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def file_sha256(path: Path) -> str:
    """SHA-256 of a file; taken from its name where the Hugging Face cache has stored it under its hash."""
    blob = path.resolve().name
    if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", blob):
        return blob
    with path.open("rb") as stream:
        return digest_of(stream, hashlib.sha256())


def digest_of(stream: IO[bytes], digest: Any, size: float = math.inf) -> str:
    """Hexadecimal digest of the rest of a stream, or of so many bytes of it, by a hash of :mod:`hashlib`."""
    while block := stream.read(int(min(size, 1 << 20))):
        digest.update(block)
        size -= len(block)
    return str(digest.hexdigest())


def user_cache() -> Path:
    """The project's folder in the user's cache; it need not be there yet."""
    stated = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (stated if stated.is_absolute() else Path("~/.cache").expanduser()) / "textmover"


def check_output(path: str | Path, inputs: Sequence[str], endings: Sequence[str] = (), flag: str = "--output") -> Path:
    """Refuse a file that cannot be written, or has another ending than these, before the work rather than after it."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"Expected `--output` to be a file, but got the folder {path}: give the name of a file in it.")
    if any(Path(one).exists() and path.resolve() == Path(one).resolve() for one in inputs):
        raise InputError(f"Expected `--output` to be a new file, but got the input {path}: give another name.")
    if endings and path.suffix and path.suffix.lower() not in endings:
        raise InputError(f"Expected `{flag}` to end in {endings[0]}, but got {path}: rename it.")
    if path.exists() and not path.stat().st_mode & 0o222:
        raise InputError(f"Expected to be able to write {path}, but it is read-only: give another name.")
    _check_writable(path, path.absolute().parent)
    return path


def check_unnamed(table: Path, columns: Sequence[str], *others: Path) -> None:
    """Refuse to replace files that no option names, unless their table has the columns of an earlier run's."""
    there = [path for path in (table, *others) if path.exists()]
    header: list[str] = []
    if table.is_file():
        with table.open("rb") as stream:
            header = stream.readline(1 << 16).decode("utf-8", errors="replace").rstrip().split("\t")
    if there and not set(columns) <= set(header):
        raise InputError(
            f"Expected {there[0]}, which no option names, to be new or from an earlier run, but got another file: name "
            "the output with `--output`."
        )


def check_folder(path: str | Path, flag: str) -> Path:
    """Refuse a folder that cannot be made or written to, before the work; ``flag`` names it on the command line."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"Expected `{flag}` to be a folder, but got the file {path}: give the name of a folder.")
    _check_writable(path, path.absolute())
    return path


def _check_writable(path: Path, folder: Path) -> None:
    """Make sure that a folder, or the nearest one above it that exists, can be written to."""
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        reason = "is a file" if not existing.is_dir() else "is a folder that may not be written to"
        raise InputError(
            f"Expected to be able to write {path}, but {existing} {reason}: give a place that can be written."
        )
    name_output(path, path)


def name_output(written: Path, name: Path) -> None:
    """Let :func:`take_written` give a name once a file is written."""
    _named[written.resolve()] = name


def write_output(text: str, path: Path) -> None:
    """Write a file that appears under its name only when it is complete; print its text where that fails."""
    try:
        with atomic_file(path) as stream:
            stream.write(text)
    except InputError as error:
        sys.stdout.write(text)  # the work behind it is not lost
        raise InputError(f"{error} The text of the file is on standard output.") from error


def output_format(
    path: Path,
    given: str | None,
    formats: Mapping[str, str],
    *,
    default: str | None = None,
    compressions: Collection[str] = (),
) -> str:
    """Return the format of an output, and refuse a name whose ending is known as that of another.

    Args:
        path: The output.
        given: Value of ``--format``; ``None`` chooses by the ending.
        formats: Format that each ending stands for.
        default: Format of a name without an ending; ``None`` refuses it unless a format is ``given``.
        compressions: Endings that may follow that of the format.

    Example:
        >>> output_format(Path("scores.csv.gz"), None, {".csv": "csv"}, compressions=(".gz",))
        'csv'

    Raises:
        InputError: If the ending is that of another format, or unknown where no format is ``given``.
    """
    plain = path.with_suffix("") if path.suffix.lower() in compressions else path
    suffix = plain.suffix.lower()
    if given is None and suffix in formats:
        return formats[suffix]
    own = [ending for ending, format in formats.items() if given in (None, format)]
    found = given or (None if suffix else default)
    if found is None or names_another_format(plain, own):
        asked, way_out = ("", "give --format") if given is None else (f" with --format {given}", "remove --format")
        wanted = f"{', '.join(own)}{asked}"
        raise InputError(f"Expected `--output` to end in {wanted}, but got {path}: rename it, or {way_out}.")
    return found


def names_another_format(path: str | Path, own: Collection[str]) -> bool:
    """Return whether a file's ending is known as that of another format than those with these endings.

    Example:
        >>> [names_another_format(name, [".txt"]) for name in ("s.xml", "s.txt", "s.scores", "s")]
        [True, False, False, False]
    """
    return Path(path).suffix.lower() in KNOWN_ENDINGS and Path(path).suffix.lower() not in own
