"""Folders of cached hidden states: their content, for every version of textmover, and their removal."""

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
"""Version of the layout, and of what textmover makes of an encoder's outputs; states of another one are never read."""

IDENTITY = "identity.json"

VERSIONS = "versions"  # entry of an identity that names the packages by which states were computed

ENTRIES = ("type", "weights", "layers", "window", "backend", "precision", "device", VERSIONS)
"""Entries of an identity."""

LENGTHS = "lengths"

ROOT = re.compile(r"v\d+")
"""Name of the folder that holds all states of a layout; this has been the same in every one, as have the next."""

PLACE = re.compile(r"[0-9a-f]{24}")  # name of the folder that holds the states of one encoder
STATES = re.compile(r"[0-9a-f]{16}\.safetensors")  # name of a file of states

LEFT = re.compile(rf"\.({re.escape(IDENTITY)}|{STATES.pattern})\.\w+")
"""Name of a file that an earlier version was writing when it was killed."""


@dataclass(frozen=True)
class Place:
    """States of one encoder in a folder; their identity is everything that they depend on beside the tokens."""

    path: Path
    identity: Mapping[str, str]
    texts: int
    nbytes: int


def places(folder: Path) -> list[Place]:
    """Content of a folder, the largest first; other versions are left out."""
    found = []
    for told in sorted((folder / f"v{FORMAT}").glob(f"*/{IDENTITY}")):
        identity = identity_in(told)
        files = sorted(told.parent.glob("*.safetensors"))
        texts = sum(_texts(path) for path in files)
        found.append(Place(told.parent, identity, texts, sum(map(size_of, files))))
    return sorted(found, key=lambda place: -place.nbytes)


def other_versions(folder: Path) -> list[Path]:
    """The folders of states in a layout that is not ours, which other versions of textmover have filled."""
    roots = [root for root in _roots(folder) if root.name != f"v{FORMAT}"]
    return [root for root in roots if any(_written(place) for place in place_folders(root))]


def place_folders(root: Path) -> list[Path]:
    """The folders of each encoder's states in that of a layout."""
    return [one for one in sorted(root.glob("*")) if PLACE.fullmatch(one.name) and one.is_dir()]


def remove(folder: Path) -> int:
    """Remove the states in a folder, whatever their version; other files stay where they are."""
    return sum(remove_place(place) for root in _roots(folder) for place in place_folders(root))


def remove_place(place: Path) -> int:
    """Remove the states of one encoder, and what is empty then; other files stay where they are."""
    freed = 0
    for path in _written(place):
        freed += size_of(path)
        path.unlink(missing_ok=True)
    remove_leftovers(place)
    with contextlib.suppress(OSError):  # somebody has put other files there, or other encoders have states there
        place.rmdir()
        place.parent.rmdir()
    return freed


def is_ours(path: Path) -> bool:
    """Return whether a file of states is called as textmover calls them; others belong to somebody else."""
    return STATES.fullmatch(path.name) is not None


def identity_in(path: Path) -> dict[str, str]:
    """Identity in a record; question marks if it is damaged."""
    try:
        told = read_json(path)
    except (OSError, ValueError):
        told = None
    entries = told if isinstance(told, dict) else {}
    return {name: str(entries.get(name, "?")) for name in ENTRIES}


def last_used(path: Path) -> float:
    """When a file was written or read last; 0 for one that has gone meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def size_of(path: Path) -> int:
    """Bytes of a file; 0 for one that has gone meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _roots(folder: Path) -> Iterator[Path]:
    return (root for root in sorted(folder.glob("v*")) if ROOT.fullmatch(root.name) and root.is_dir())


def _written(place: Path) -> list[Path]:
    return [
        path
        for path in sorted(place.glob("*"))
        if path.name == IDENTITY or is_ours(path) or LEFT.fullmatch(path.name) is not None
    ]


def _texts(path: Path) -> int:
    try:
        with safe_open(str(path), framework="pt") as file:
            return int(file.get_slice(LENGTHS).get_shape()[0])
    except (OSError, SafetensorError):
        return 0  # damaged: none of them can be used
