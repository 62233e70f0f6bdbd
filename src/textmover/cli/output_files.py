"""Files and folders that a command writes: refused before the work where they cannot be written, and written whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from textmover.files import atomic_file
from textmover.types import InputError

__all__ = ["check_folder", "check_output", "write_output"]


def check_output(path: str | Path, inputs: Sequence[str]) -> Path:
    """Refuse a file that cannot be written, before the work rather than after it.

    Raises:
        InputError: If it is a folder, one of the inputs, or in a place that cannot be written to.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"Expected `--output` to be a file, but got the folder {path}: give the name of a file in it.")
    if any(Path(one).exists() and path.resolve() == Path(one).resolve() for one in inputs):
        raise InputError(f"Expected `--output` to be a new file, but got the input {path}: give another name.")
    _check_writable(path, path.absolute().parent)
    return path


def check_folder(path: str | Path, flag: str) -> Path:
    """Refuse a folder that cannot be made or written to, before the work rather than after it.

    Args:
        path: The folder, which need not exist.
        flag: What names it on the command line.

    Raises:
        InputError: If it is a file, or in a place that cannot be written to.
    """
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


def write_output(text: str, path: Path) -> None:
    """Write a file that appears under its name only when it is complete; print its text where that fails.

    Raises:
        InputError: If it cannot be written.
    """
    try:
        with atomic_file(path) as stream:
            stream.write(text)
    except InputError as error:
        sys.stdout.write(text)  # the work behind it is not lost
        raise InputError(f"{error} The text of the file is on standard output.") from error
