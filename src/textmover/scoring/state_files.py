"""Hidden states on disk: safetensors files, found again by the tokens of a text."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from textmover.scoring.files import atomic_file
from textmover.types import InputError
from textmover.types.packed import Ragged

__all__ = ["Place", "StateFiles", "places", "remove"]

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of the layout; folders of another one are left alone."""

SHARD = 1 << 26
"""Bytes of states that are collected before they are written."""

KEYS, LENGTHS = "keys", "lengths"
"""Names of the tensors beside those of the layers."""


class StateFiles:
    """States of one encoder in a folder that several encoders, and several processes, may share.

    Layout: ``FOLDER/v1/NAME/*.safetensors`` with ``keys`` (uint8 ``[N, 16]``), ``lengths`` (int64 ``[N]``) and a tensor
    ``[T, D]`` for each layer; ``NAME/identity.json`` says in plain words what the states are of. Files are written
    whole under names of their own and never changed.

    Args:
        folder: Where all states lie.
        identity: What these depend on beside the tokens; its hash names their place.
        limit: Bytes that the whole folder may take; the longest unused files are removed first.

    Raises:
        InputError: If the folder cannot be made or read.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str], limit: int) -> None:
        self.root, self.limit = folder / f"v{FORMAT}", limit
        self.place = self.root / hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()[:24]
        self._waiting: list[tuple[list[bytes], Ragged]] = []
        self._waiting_bytes = 0
        self._refused = False
        self._index: dict[bytes, tuple[Path, int, int]] = {}
        for other in sorted(folder.glob("v*")):
            if other.is_dir() and other != self.root:
                logger.warning("%s was written by another version of textmover and is ignored: remove it.", other)
        try:
            self.place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"Expected {folder} to be a folder for states of texts, but got '{error.strerror}': give another one."
            ) from error
        if not (self.place / "identity.json").is_file():
            with atomic_file(self.place / "identity.json") as stream:
                stream.write(json.dumps(dict(identity), indent=2) + "\n")
        for path in sorted(self.place.glob("*.safetensors")):
            self._read_index(path)

    def __len__(self) -> int:
        """Number of texts on disk."""
        return len(self._index)

    def find(self, keys: Iterable[bytes]) -> list[tuple[list[bytes], Ragged]]:
        """The states of those of the texts that are there, on the CPU."""
        wanted: dict[Path, list[bytes]] = {}
        for key in keys:
            if key in self._index:
                wanted.setdefault(self._index[key][0], []).append(key)
        return [found for path, names in wanted.items() if (found := self._read(path, names)) is not None]

    def keep(self, keys: Sequence[bytes], states: Ragged) -> None:
        """Take in states, to be written when there are enough of them."""
        self._waiting.append((list(keys), states))
        self._waiting_bytes += states.nbytes
        if self._waiting_bytes >= SHARD:
            self.flush()

    def flush(self) -> None:
        """Write the states that wait; where the disk refuses, say so once and go on without writing."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting or self._refused:
            return
        names = [key for keys, _ in waiting for key in keys]
        states = Ragged.join([part for _, part in waiting])
        tensors = {name: one.cpu().contiguous() for name, one in states.tokens.items()}
        tensors[KEYS] = torch.from_numpy(np.frombuffer(b"".join(names), dtype=np.uint8).reshape(len(names), -1).copy())
        tensors[LENGTHS] = torch.from_numpy(states.lengths)
        path = self.place / f"{secrets.token_hex(8)}.safetensors"
        beside = path.with_suffix(".partial")
        try:
            save_file(tensors, str(beside))
            os.replace(beside, path)
        except (OSError, SafetensorError) as error:
            self._refused = True
            logger.warning("States of texts are no longer kept in %s: %s.", self.place, error)
            return
        finally:
            beside.unlink(missing_ok=True)
        self._add(path, names, states.lengths)
        self._shrink(path)

    def _shrink(self, newest: Path) -> None:
        """Remove the longest unused files of the whole folder until it is within its limit."""
        files = sorted((one for one in self.root.rglob("*.safetensors") if one != newest), key=_last_used)
        sizes = {path: _size(path) for path in (*files, newest)}
        total = sum(sizes.values())
        for path in files:
            if total <= self.limit:
                return
            path.unlink(missing_ok=True)  # another process may have been faster
            total -= sizes[path]
            self._index = {key: place for key, place in self._index.items() if place[0] != path}

    def _read_index(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="pt") as file:
                keys, lengths = file.get_tensor(KEYS), file.get_tensor(LENGTHS)
        except (OSError, SafetensorError) as error:
            logger.warning("%s is ignored: it cannot be read (%s). Remove it.", path, error)
            return
        self._add(path, [row.tobytes() for row in keys.numpy()], lengths.numpy())

    def _add(self, path: Path, keys: Sequence[bytes], lengths: np.ndarray) -> None:
        starts = np.cumsum(lengths) - lengths
        for key, start, length in zip(keys, starts.tolist(), lengths.tolist(), strict=True):
            self._index[key] = (path, start, length)

    def _read(self, path: Path, keys: list[bytes]) -> tuple[list[bytes], Ragged] | None:
        from safetensors import SafetensorError, safe_open

        places = [self._index[key][1:] for key in keys]
        try:
            with safe_open(str(path), framework="pt") as file:
                tokens: dict[str, Any] = {
                    name: torch.cat([file.get_slice(name)[start : start + length] for start, length in places])
                    for name in file.keys()  # noqa: SIM118 - not a mapping
                    if name not in (KEYS, LENGTHS)
                }
            os.utime(path)  # it was used
        except (OSError, SafetensorError) as error:
            logger.info("%s has gone or is damaged (%s): its texts are encoded anew.", path, error)
            self._index = {key: place for key, place in self._index.items() if place[0] != path}
            return None
        return keys, Ragged(np.array([length for _, length in places]), tokens)


@dataclass(frozen=True)
class Place:
    """States of one encoder in a folder.

    Attributes:
        path: Where they are.
        identity: What they depend on beside the tokens.
        texts: Number of texts.
        nbytes: Room that they take.
    """

    path: Path
    identity: Mapping[str, str]
    texts: int
    nbytes: int


def places(folder: Path) -> list[Place]:
    """What a folder holds, the largest first; what is of another version is left out."""
    found = []
    for told in sorted((folder / f"v{FORMAT}").glob("*/identity.json")):
        identity = json.loads(told.read_text(encoding="utf-8"))
        files = sorted(told.parent.glob("*.safetensors"))
        texts = sum(_texts(path) for path in files)
        found.append(Place(told.parent, identity, texts, sum(map(_size, files))))
    return sorted(found, key=lambda place: -place.nbytes)


def remove(found: Iterable[Place]) -> None:
    """Remove states; other files stay where they are."""
    for place in found:
        for path in (*place.path.glob("*.safetensors"), *place.path.glob("*.partial"), place.path / "identity.json"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody has put other files there
            place.path.rmdir()


def _texts(path: Path) -> int:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return int(file.get_slice(LENGTHS).get_shape()[0])
    except (OSError, SafetensorError):
        return 0  # damaged: none of them can be used


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
