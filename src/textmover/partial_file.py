"""Output that is kept if the work ends early."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from textmover.files import atomic_bytes, growing_file, note_written
from textmover.types import InputError, plural


@contextlib.contextmanager
def partial_file(path: Path, what: str, unit: str) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
    """A binary file that gets its name when all is there, and ``.partial`` until then, and a call for each whole unit.

    If the work ends early, the error says where ``what`` (``{}`` for how many units) has been written.
    """
    if path.exists() and not path.is_file():  # a device or pipe
        with atomic_bytes(path) as raw:
            yield raw, lambda: None
        return
    partial = path.with_name(f"{path.name}.partial")
    written = end = 0
    with growing_file(partial) as raw:

        def whole() -> None:
            nonlocal written, end
            raw.flush()
            written, end = written + 1, raw.tell()

        try:
            yield raw, whole
            raw.flush()
            os.fsync(raw.fileno())
            os.replace(partial, path)
            note_written(path.resolve())
            return
        except (InputError, KeyboardInterrupt, OSError) as error:
            stopped: BaseException = error
        if isinstance(stopped, OSError):
            with contextlib.suppress(OSError):  # the rest of a line that has no place
                raw.close()
            os.truncate(partial, end)
            stopped = InputError(f"Expected to be able to write {path}, but got: {stopped.strerror}. Free some space.")
        if not written:
            partial.unlink()
            raise stopped
        said = f"{what.format(plural(written, unit))} are in {partial}"
        if isinstance(stopped, KeyboardInterrupt):
            raise type(stopped)(f"interrupted: {said}") from None
        raise InputError(f"{stopped} What was made before is not lost: {said}.") from stopped
