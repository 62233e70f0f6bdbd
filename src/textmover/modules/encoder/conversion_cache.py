"""Cache of converted files: folders in the user's cache, named by the hash of the original file."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from textmover.files import hidden_folder, user_cache
from textmover.safe_reading import read_json
from textmover.types import InputError

logger = logging.getLogger(__name__)

ENTRY = "entry.json"  # file in each folder with the sizes of the others, to detect damage

_temporary: dict[str, Path] = {}
"""Temporary folders by hash, for files that could not be cached; deleted at exit."""


def cached(layout: str, sha256: str) -> Path | None:
    """Return the folder of the file with this hash and layout; ``None`` if it is missing or incomplete."""
    folder = user_cache() / layout / sha256
    return folder if _is_whole(folder) else _temporary.get(sha256)


def build(layout: str, sha256: str, path: Path, write: Callable[[Path], None]) -> Path:
    """Create the folder of a file with ``write``; use a temporary folder if the cache is not writable."""
    folder = user_cache() / layout / sha256
    try:
        with hidden_folder(folder) as temporary:
            _fill(temporary, write)
            try:
                os.replace(temporary, folder)
            except OSError:  # another process was first
                if not _is_whole(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    os.replace(temporary, folder)
            return folder
    except OSError as error:
        logger.warning(
            "Could not write %s to the cache (%s): using a temporary folder until the program ends.", path, error
        )
    try:
        folder = Path(tempfile.mkdtemp(prefix="textmover-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _fill(folder, write)
    except OSError as error:
        raise InputError(
            f"Expected space for {path}, unpacked, but got: {error.strerror or error}. Set XDG_CACHE_HOME and TMPDIR "
            "to folders that can be written."
        ) from error
    _temporary[sha256] = folder
    return folder


def _fill(folder: Path, write: Callable[[Path], None]) -> None:
    write(folder)
    sizes = {one.name: one.stat().st_size for one in folder.iterdir()}
    (folder / ENTRY).write_text(json.dumps(sizes), encoding="utf-8")


def _is_whole(folder: Path) -> bool:
    try:
        sizes = read_json(folder / ENTRY)
        return sizes != {} and {name: (folder / name).stat().st_size for name in sizes} == sizes
    except (OSError, ValueError):
        return False
