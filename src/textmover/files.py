"""Atomic writes: write to a hidden temporary file or folder, then rename; leftovers of killed processes are removed."""

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
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from textmover.safe_reading import expanded, open_pipe
from textmover.types import InputError

try:
    import fcntl
except ImportError:  # Windows has no fcntl: leftovers of killed processes are not removed
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""Errors of file systems without locks, such as some network file systems."""

PART, NEW, OLD = ".part", ".new", ".old"
"""Suffixes of hidden names: the lock file whose lock shows that its writer runs, the folder being filled, and the
folder that it replaces."""

LEFTOVER = re.compile(rf"\.(?P<name>.+)\.(?P<machine>[0-9a-f]{{8}})-\w{{8}}{re.escape(PART)}", re.DOTALL)

KNOWN_ENDINGS = (
    ".txt", ".tsv", ".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".xml", ".html", ".htm", ".xls", ".xlsx", ".ods",
    ".doc", ".docx", ".odt", ".rtf", ".pdf", ".md", ".yaml", ".yml", ".toml", ".npy", ".npz", ".pkl", ".pickle", ".tex",
    ".arrow", ".feather", ".db", ".sqlite", ".png", ".svg", ".jpg", ".jpeg", ".gz", ".zst", ".bz2", ".xz", ".zip",
)  # fmt: skip
"""Suffixes that identify a file format; any other suffix counts as part of the name."""

ADDED = 40
"""Bytes that the longest of the hidden names has in addition to that of its file."""

STALE_SECONDS = 24 * 3600.0
"""Age in seconds at which an unlocked leftover of another machine is removed, since locks may not be visible here."""

_named: dict[Path, Path] = {}  # checked outputs, by absolute path, under the names that the user gave

_written: dict[Path, None] = {}
"""Names of checked outputs written since the last call of :func:`take_written`."""

_cleaned: set[Path] = set()  # folders that this process has searched for leftovers


def atomic_file(path: Path | str) -> contextlib.AbstractContextManager[IO[str]]:
    """Open a UTF-8 text file that appears under its name only when complete."""
    return _atomic(Path(path), mode="w", encoding="utf-8", newline="\n")


def atomic_bytes(path: Path | str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Open a binary file that appears under its name only when complete."""
    return _atomic(Path(path), mode="wb")


@contextlib.contextmanager
def _atomic(path: Path, **open_arguments: Any) -> Iterator[IO[Any]]:
    path = path.resolve()  # write the target of a link, and keep the link
    with plain_errors(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            with open(open_pipe(path, os.O_WRONLY) if path.is_fifo() else path, **open_arguments) as stream:
                yield stream  # devices and pipes are written to, not replaced
            return
        with _locked_temporary(path) as temporary:
            with temporary.open(**open_arguments) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
            os.replace(temporary, path)
            note_written(path)


def take_written() -> list[str]:
    """Return the names of the outputs written since the last call; for files in an output folder, the folder's name."""
    names = list(map(str, _written))
    _written.clear()
    return names


def note_written(path: Path) -> None:
    """Record a written file or folder, by its absolute path, for :func:`take_written`."""
    _written.update({_named[output]: None for output in (path, *path.parents) if output in _named})


@contextlib.contextmanager
def held_lock(lock: Path, patience: float) -> Iterator[None]:
    """Hold a lock on a file, created with its folder; warn on file systems without locks.

    Raises:
        filelock.Timeout: If another process still holds it after ``patience`` seconds.
        OSError: If the file cannot be created.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock, timeout=patience)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        # On file systems without locks, filelock may warn and use the existence of a file as the lock. That lock would
        # survive a killed process.
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            held.acquire()
    except (OSError, NotImplementedError, UserWarning) as error:
        if isinstance(error, Timeout) or (isinstance(error, OSError) and error.errno not in NO_LOCKS):
            raise
        logger.warning(
            "%s is on a file system without locks: make sure yourself that no other run writes there.", lock.parent
        )
    try:
        yield
    finally:
        held.release()


@contextlib.contextmanager
def atomic_folder(path: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """Create a folder that appears under its name only when complete."""
    path = Path(path).resolve()
    if path.exists() and not path.is_dir():
        raise InputError(f"Expected {path} to be a folder to write, but it is a file: give another name.")
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise InputError(f"Expected {path} to be new or empty, but it holds files: give another name, or remove it.")
    with plain_errors(path), hidden_folder(path) as temporary:
        try:
            yield temporary
        except InputError as error:  # readers know the folder by its final name
            raise InputError(str(error).replace(str(temporary), str(path))) from error
        for item in (temporary, *temporary.rglob("*")):  # temporary folders and safetensors files are private
            item.chmod((0o777 if item.is_dir() else 0o666) & ~_umask())
        if overwrite and path.is_dir():
            os.replace(path, temporary.with_suffix(OLD))
        os.replace(temporary, path)
        note_written(path)


@contextlib.contextmanager
def hidden_folder(path: Path) -> Iterator[Path]:
    """Create an empty hidden folder next to ``path`` to be renamed; it is removed at the end, or later if killed."""
    with _locked_temporary(path) as lock_file:
        temporary = lock_file.with_suffix(NEW)
        temporary.mkdir(mode=0o700)
        yield temporary


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished output of killed processes in a folder.

    Writers hold a lock until they end, so output of running processes is kept. Without locks in the file system, all is
    kept.
    """
    with contextlib.suppress(OSError):  # missing or unreadable folder
        for path in list(folder.iterdir()):
            if match := LEFTOVER.fullmatch(path.name):
                with contextlib.suppress(OSError):  # file of another user, or removed meanwhile
                    _remove_if_stale(path, match)


def _remove_if_stale(hidden: Path, match: re.Match[str]) -> None:
    if fcntl is None:
        return
    descriptor = os.open(hidden, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if match["machine"] == _machine() or time.time() - os.fstat(descriptor).st_mtime > STALE_SECONDS:
            _discard(hidden, hidden.with_name(match["name"]))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked_temporary(path: Path) -> Iterator[Path]:
    """Create a hidden file next to ``path``, locked inside the context; at exit remove it if it still exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent not in _cleaned:
        _cleaned.add(path.parent)
        remove_leftovers(path.parent)
    with contextlib.ExitStack() as stack:
        hidden = _locked_file(path, stack)
        try:
            yield hidden
        finally:
            _discard(hidden, path)


def _locked_file(path: Path, stack: contextlib.ExitStack) -> Path:
    while True:
        handle, name = tempfile.mkstemp(PART, f".{path.name}.{_machine()}-", path.parent)
        if fcntl is None:
            os.close(handle)
            return Path(name)
        with contextlib.suppress(OSError):  # file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            stack.callback(os.close, handle)
            return Path(name)
        os.close(handle)  # another process removed it as a leftover before it was locked


def _discard(hidden: Path, path: Path) -> None:
    """Remove unfinished output; restore the previous folder if it was moved away."""
    replaced = hidden.with_suffix(OLD)
    if replaced.is_dir() and not path.exists():
        os.replace(replaced, path)
    for folder in (hidden.with_suffix(NEW), replaced):
        shutil.rmtree(folder, ignore_errors=True)
    hidden.unlink(missing_ok=True)


@functools.cache
def _machine() -> str:
    """Return eight hexadecimal digits that identify the running system, whose processes share locks."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        name = platform.node()
    return hashlib.sha256(name.encode()).hexdigest()[:8]


@contextlib.contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Raise file-system errors as a one-sentence error."""
    try:
        yield
    except (OSError, SafetensorError, UnicodeEncodeError) as error:  # UnicodeEncodeError: a name that is not UTF-8
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Expected to be able to write {path}, but got: {reason}. Give a place that can be written."
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file; for blobs of the Hugging Face cache it is their name."""
    blob = path.resolve().name
    if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", blob):
        return blob
    with path.open("rb") as stream:
        return digest_of(stream, hashlib.sha256())


def digest_of(stream: IO[bytes], digest: Any, size: float = math.inf) -> str:
    """Return the hexadecimal digest of the rest of a stream, or of its next ``size`` bytes."""
    while block := stream.read(int(min(size, 1 << 20))):
        digest.update(block)
        size -= len(block)
    return str(digest.hexdigest())


def user_cache() -> Path:
    """Return the package's folder in the user's cache, which may not exist yet."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = configured if configured.is_absolute() else expanded("~/.cache")
    return (cache if cache.is_absolute() else Path("/.cache")) / "textmover"  # Docker, too, makes / a missing home


def check_output(path: str | Path, inputs: Sequence[str], endings: Sequence[str] = (), flag: str = "--output") -> Path:
    """Raise an error if an output file is not writable, is an input, or has another suffix, before any work."""
    path = Path(path)
    if str(path) == "-":
        raise InputError(f"Expected `{flag}` to be a file, but got -: leave it out to print, or give a name.")
    if path.is_dir():
        raise InputError(f"Expected `{flag}` to be a file, but got the folder {path}: give the name of a file in it.")
    if any(Path(input_path).exists() and path.resolve() == Path(input_path).resolve() for input_path in inputs):
        raise InputError(f"Expected `{flag}` to be a new file, but got the input {path}: give another name.")
    if path.suffix == ".parquet" and path.resolve().parent in {Path(one).resolve() for one in inputs}:
        raise InputError(f"Expected `{flag}` outside the folder of inputs, but got {path}: give another folder.")
    if endings and path.suffix and path.suffix.lower() not in endings:
        raise InputError(f"Expected `{flag}` to end in {endings[0]}, but got {path}: rename it.")
    if path.exists() and not path.stat().st_mode & 0o222:
        raise InputError(f"Expected to be able to write {path}, but it is read-only: give another name.")
    _check_writable(path, path.absolute().parent)
    return path


def check_unnamed(table: Path, columns: Sequence[str], *others: Path) -> None:
    """Raise an error if default output files exist, unless their table has the columns of an earlier run."""
    found = [path for path in (table, *others) if path.exists()]
    header: list[str] = []
    if table.is_file():
        with table.open("rb") as stream:
            header = stream.readline(1 << 16).decode("utf-8", errors="replace").rstrip().split("\t")
    if found and not set(columns) <= set(header):
        raise InputError(
            f"Expected {found[0]}, which no option names, to be new or from an earlier run, but got another file: name "
            "the output with `--output`."
        )


def check_folder(path: str | Path, flag: str) -> Path:
    """Raise an error if a folder cannot be created or written to; ``flag`` is its command-line option."""
    path = Path(path)
    if str(path) == "-" or (path.exists() and not path.is_dir()):
        raise InputError(f"Expected `{flag}` to be a folder, but got the file {path}: give the name of a folder.")
    _check_writable(path, path.absolute())
    return path


def _check_writable(path: Path, folder: Path) -> None:
    """Raise an error unless the folder, or its nearest existing parent, is writable."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        reason = "is a file" if not existing.is_dir() else "is a folder that may not be written to"
        raise InputError(
            f"Expected to be able to write {path}, but {existing} {reason}: give a place that can be written."
        )
    longest = (os.pathconf(existing, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255) - ADDED
    if len(os.fsencode(path.name)) > longest:
        raise InputError(f"Expected a file name of at most {longest} bytes, but got {path.name}: give a shorter one.")
    name_output(path, path)


def name_output(written: Path, name: Path) -> None:
    """Make :func:`take_written` report ``name`` once ``written`` is written."""
    _named[written.resolve()] = name


def write_output(text: str, path: Path) -> None:
    """Write a text file atomically; if that fails, print the text."""
    try:
        with atomic_file(path) as stream:
            stream.write(text)
    except InputError as error:
        sys.stdout.write(text)  # do not lose the result
        raise InputError(f"{error} The text of the file is on standard output.") from error


def output_format(
    path: Path,
    given: str | None,
    formats: Mapping[str, str],
    *,
    default: str | None = None,
    compressions: Collection[str] = (),
) -> str:
    """Return the format of an output; raise an error if its suffix belongs to another one of ``formats``.

    Without a ``given`` ``--format`` the suffix decides, which one of ``compressions`` may follow. A name without suffix
    has the ``default`` format; without a default, it is an error.

    Example:
        >>> output_format(Path("scores.csv.gz"), None, {".csv": "csv"}, compressions=(".gz",))
        'csv'
    """
    plain = path.with_suffix("") if path.suffix.lower() in compressions else path
    suffix = plain.suffix.lower()
    if given is None and suffix in formats:
        return formats[suffix]
    allowed = [ending for ending, format in formats.items() if given in (None, format)]
    chosen = given or (None if suffix else default)
    if chosen is None or names_another_format(plain, allowed):
        expectation = ", ".join(allowed) + (f" with --format {given}" if given else "")
        free = suffix in formats if given else not names_another_format(plain, allowed)
        way_out = f", or {'remove' if given else 'give'} --format" if free else ""
        raise InputError(f"Expected `--output` to end in {expectation}, but got {path}: rename it{way_out}.")
    return chosen


def names_another_format(path: str | Path, own: Collection[str]) -> bool:
    """Return whether a file's suffix is that of a known format other than those with the suffixes ``own``.

    Example:
        >>> [names_another_format(name, [".txt"]) for name in ("s.xml", "s.txt", "s.scores", "s")]
        [True, False, False, False]
    """
    return Path(path).suffix.lower() in KNOWN_ENDINGS and Path(path).suffix.lower() not in own
