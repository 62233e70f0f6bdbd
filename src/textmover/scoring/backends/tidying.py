"""Graphs of old versions in the cache of exported graphs."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import time
from pathlib import Path

VERSIONS = 3
"""How many versions of a back-end keep their graph of an encoder, for environments that are used in turns."""

UNUSED = 24 * 3600.0
"""Seconds for which a graph has not been opened before it can be removed: no process is at it any more."""


def used(record: Path) -> None:
    """Note that an artefact of the cache has been opened now, in the date of its record."""
    with contextlib.suppress(OSError):  # a cache that can only be read
        os.utime(record)


def bound_versions(folder: Path, pattern: str, record: str) -> None:
    """Remove graphs of a back-end's other versions that have long not been opened, except the last few.

    Args:
        folder: The graph that is about to be made.
        pattern: Matches the names of all versions' folders beside it.
        record: Name of the file whose date says when a graph was last opened.
    """
    opened: list[tuple[float, Path]] = []
    with contextlib.suppress(OSError):
        for other in folder.parent.iterdir():
            if other.name != folder.name and fnmatch.fnmatchcase(other.name, pattern):
                with contextlib.suppress(OSError):
                    opened.append(((other / record).stat().st_mtime, other))
    for date, other in sorted(opened, reverse=True)[VERSIONS - 1 :]:
        if time.time() - date > UNUSED:
            shutil.rmtree(other, ignore_errors=True)
