"""Writing without leaving anything half-written: write beside, then rename."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from textmover.types import InputError

__all__ = ["atomic_bytes", "atomic_file", "atomic_folder"]


def atomic_file(path: Path | str) -> contextlib.AbstractContextManager[IO[str]]:
    """A text file (UTF-8) that appears under its name only when it is complete.

    Raises:
        InputError: If the folder cannot be made or written to, or the disk is full.
    """
    return _atomic(Path(path), mode="w", encoding="utf-8", newline="\n")


def atomic_bytes(path: Path | str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """A binary file that appears under its name only when it is complete.

    Raises:
        InputError: If the folder cannot be made or written to, or the disk is full.
    """
    return _atomic(Path(path), mode="wb")


@contextlib.contextmanager
def _atomic(path: Path, **how: Any) -> Iterator[IO[Any]]:
    path = path.resolve()  # a link stays, and what it points to is written
    if path.exists() and not path.is_file() and not path.is_dir():
        with _plain_errors(path), path.open(**how) as stream:
            yield stream  # a device or a pipe is written to, never replaced
        return
    with _plain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with _plain_errors(path):
            with open(handle, **how) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder that appears under its name only when it is complete.

    Args:
        path: Where it is to appear.
        overwrite: Whether a folder that is already there may be replaced (it is kept until the new one is complete).

    Raises:
        InputError: If something is there and may not be replaced, or the place cannot be written to.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"Expected {path} to be a folder to write, but it is a file: give another name.")
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise InputError(f"Expected {path} to be new or empty, but it holds files: give another name or --overwrite.")
    with _plain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        with _plain_errors(path):
            yield beside
            for written in (beside, *beside.rglob("*")):  # temporary folders and safetensors keep others out
                written.chmod((0o777 if written.is_dir() else 0o666) & ~_umask())
            if path.is_dir():
                old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
                os.replace(path, old)
                try:
                    os.replace(beside, path)
                except OSError:
                    os.replace(old, path)
                    raise
                shutil.rmtree(old)
            else:
                os.replace(beside, path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextlib.contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into one sentence."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Expected to be able to write {path}, but got: {reason}. Give a place that can be written."
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
