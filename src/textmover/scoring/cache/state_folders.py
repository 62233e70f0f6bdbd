"""Folders of cached hidden states: list and remove their content, for all versions of textmover."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from textmover.files import remove_leftovers
from textmover.safe_reading import read_json

FORMAT = 3
"""Version of the layout and of the post-processing of encoder outputs; states of other versions are never read."""

IDENTITY = "identity.json"

VERSIONS = "versions"  # entry with the versions of the packages that computed the states

ENTRIES = ("type", "weights", "layers", "window", "backend", "precision", "device", VERSIONS)
"""Required entries of an identity."""

LENGTHS = "lengths"

ROOT = re.compile(r"v\d+")
"""Name of the folder of a layout version; this pattern and the next two hold for every version."""

PLACE = re.compile(r"[0-9a-f]{24}")  # folder of one encoder's states
STATES = re.compile(r"[0-9a-f]{16}\.safetensors")  # file of states

LEFTOVER = re.compile(rf"\.({re.escape(IDENTITY)}|{STATES.pattern})\.\w+")
"""Name of a temporary file that an earlier version left when it was killed."""


@dataclass(frozen=True)
class CacheEntry:
    """States of one encoder in a folder, and their identity: everything that they depend on except the tokens."""

    path: Path
    identity: Mapping[str, str]
    texts: int
    nbytes: int


def places(folder: Path) -> list[CacheEntry]:
    """List the content of a folder, largest first, without other versions."""
    places_found = []
    for path in sorted((folder / f"v{FORMAT}").glob(f"*/{IDENTITY}")):
        identity = identity_in(path)
        files = sorted(path.parent.glob("*.safetensors"))
        texts = sum(_texts(path) for path in files)
        places_found.append(CacheEntry(path.parent, identity, texts, sum(map(size_of, files))))
    return sorted(places_found, key=lambda place: -place.nbytes)


def other_versions(folder: Path) -> list[Path]:
    """List the folders of states that other versions of textmover wrote."""
    roots = [root for root in _roots(folder) if root.name != f"v{FORMAT}"]
    return [root for root in roots if any(_state_paths(place) for place in place_folders(root))]


def place_folders(root: Path) -> list[Path]:
    """List the folders of encoders in the folder of a layout version."""
    return [path for path in sorted(root.glob("*")) if PLACE.fullmatch(path.name) and path.is_dir()]


def remove(folder: Path) -> int:
    """Remove the states of all versions in a folder, but no other files; return the bytes freed."""
    return sum(remove_place(place) for root in _roots(folder) for place in place_folders(root))


def remove_place(place: Path) -> int:
    """Remove the states of one encoder and empty folders, but no other files; return the bytes freed."""
    freed = 0
    for path in _state_paths(place):
        freed += size_of(path)
        path.unlink(missing_ok=True)
    remove_leftovers(place)
    with contextlib.suppress(OSError):  # other files or other encoders' states are there
        place.rmdir()
        place.parent.rmdir()
    return freed


def is_ours(path: Path) -> bool:
    """Return whether textmover named a file of states; all others are left alone."""
    return STATES.fullmatch(path.name) is not None


def identity_in(path: Path) -> dict[str, str]:
    """Read the identity from a file; unreadable entries are "?"."""
    try:
        record = read_json(path)
    except (OSError, ValueError):
        record = None
    entries = record if isinstance(record, dict) else {}
    return {name: str(entries.get(name, "?")) for name in ENTRIES}


def last_used(path: Path) -> float:
    """Time at which a file was last written or read; 0 if it no longer exists."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def size_of(path: Path) -> int:
    """Size of a file in bytes; 0 if it no longer exists."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _roots(folder: Path) -> Iterator[Path]:
    return (root for root in sorted(folder.glob("v*")) if ROOT.fullmatch(root.name) and root.is_dir())


def _state_paths(place: Path) -> list[Path]:
    return [
        path
        for path in sorted(place.glob("*"))
        if path.name == IDENTITY or is_ours(path) or LEFTOVER.fullmatch(path.name) is not None
    ]


def _texts(path: Path) -> int:
    try:
        with safe_open(str(path), framework="pt") as file:
            return int(file.get_slice(LENGTHS).get_shape()[0])
    except (OSError, SafetensorError):
        return 0  # damaged: no text is usable
