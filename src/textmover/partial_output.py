"""Output files whose complete part is kept if the work fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from textmover.files import NO_LOCKS, atomic_bytes, note_written, plain_errors, warn_without_locks
from textmover.types import InputError, plural

try:
    import fcntl
except ImportError:  # Windows has no fcntl: concurrent runs are not detected
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def partial_file(path: Path, what: str, unit: str) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
    """Open a binary file that is named ``.partial`` until it is complete; yield it with a function to call per unit.

    If the work fails, the file keeps its whole units, and the error reports ``what`` (with their number for ``{}``).
    """
    if path.exists() and not path.is_file():  # a device or pipe
        with atomic_bytes(path) as raw:
            yield raw, lambda: None
        return
    partial = path.with_name(f"{path.name}.partial")
    written = end = 0
    with growing_file(partial) as raw:

        def mark_complete() -> None:
            nonlocal written, end
            raw.flush()
            written, end = written + 1, raw.tell()

        try:
            yield raw, mark_complete
            raw.flush()
            os.fsync(raw.fileno())
            os.replace(partial, path)
            note_written(path.resolve())
            return
        except (InputError, KeyboardInterrupt, OSError) as error:
            stopped: BaseException = error
        if isinstance(stopped, OSError):
            with contextlib.suppress(OSError):  # closing flushes an incomplete unit, which may fail too
                raw.close()
            os.truncate(partial, end)
            stopped = InputError(f"Expected to be able to write {path}, but got: {stopped.strerror}. Free some space.")
        if not written:
            partial.unlink()
            raise stopped
        saved = f"{what.format(plural(written, unit))} are in {partial}"
        if isinstance(stopped, KeyboardInterrupt):
            raise type(stopped)(f"interrupted: {saved}") from None
        raise InputError(f"{stopped} Finished output is kept: {saved}.") from stopped


@contextlib.contextmanager
def growing_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file that is written in place, locked against other processes."""
    with plain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _open_exclusively(path)
        while not (path.exists() and os.path.samestat(os.fstat(stream.fileno()), path.stat())):
            stream.close()  # its writer has finished and renamed it meanwhile
            stream = _open_exclusively(path)
        with stream:
            stream.truncate(0)
            yield stream


def _open_exclusively(path: Path) -> IO[bytes]:
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
