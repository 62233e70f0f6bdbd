"""Hidden states on disk: safetensors files, indexed by a hash of a text's tokens; their folders of all versions."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from textmover.files import atomic_bytes, atomic_file, remove_leftovers
from textmover.safe_reading import read_json
from textmover.types import InputError
from textmover.types.tokens import Ragged

logger = logging.getLogger(__name__)

FORMAT = 3
"""Version of the layout and of the post-processing of encoder outputs; states of other versions are never read."""

IDENTITY = "identity.json"

VERSIONS = "versions"  # entry with the versions of the packages that computed the states

ENTRIES = ("type", "weights", "layers", "window", "backend", "precision", "device", VERSIONS)
"""Required entries of an identity."""

ROOT = re.compile(r"v\d+")
"""Name of the folder of a layout version; this pattern and the next two hold for every version."""

PLACE = re.compile(r"[0-9a-f]{24}")  # folder of one encoder's states
STATES = re.compile(r"[0-9a-f]{16}\.safetensors")  # file of states

LEFTOVER = re.compile(rf"\.({re.escape(IDENTITY)}|{STATES.pattern})\.\w+")
"""Name of a temporary file that an earlier version left when it was killed."""

SHARD = 1 << 26  # bytes of states that are buffered before a file is written
KEYS, LENGTHS, CHECKS = "keys", "lengths", "checks"  # names of tensors in addition to layers
FULL = (errno.ENOSPC, errno.EDQUOT)  # errors of a full disk or an exceeded quota


class StateFiles:
    """Hidden states of one encoder in a folder that several encoders and processes may share.

    Layout: ``FOLDER/v3/NAME/*.safetensors`` with ``keys`` (uint8 ``[N, 16]``), ``lengths``, ``checks`` (CRC-32 sums of
    each text's states, both int64 ``[N]``) and a tensor ``[T, D]`` for each layer. ``NAME/identity.json`` identifies
    encoder and settings. Files are written atomically under unique names and never changed; damaged ones are removed.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str], limit: int) -> None:
        self.folder, self.root, self.limit = folder, folder / f"v{FORMAT}", limit
        self.place = self.root / hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()[:24]
        self._pending: list[tuple[list[bytes], Ragged]] = []
        self._pending_bytes = 0
        self._disabled = False
        self._index: dict[bytes, _Entry] = {}
        for root in other_versions(folder):
            logger.warning(
                "%s was written by another version of textmover and is ignored: it is removed when space is needed, "
                "or with `textmover cache %s --clear`.", root, folder,
            )  # fmt: skip
        try:
            self.place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in FULL:
                raise InputError(
                    f"Expected {folder} to be a folder for states of texts, but got '{error.strerror}': give another "
                    "one."
                ) from error
            self._disable(InputError(f"{error.strerror}."))
        if not self._disabled and identity_in(self.place / IDENTITY) != dict(identity):  # missing or damaged
            try:
                with atomic_file(self.place / IDENTITY) as stream:
                    stream.write(json.dumps(dict(identity), indent=2) + "\n")
            except InputError as error:
                self._disable(error)
        for path in sorted(self.place.glob("*.safetensors")):
            self._read_index(path)
        if not self._index:
            self._warn_if_outdated(identity)

    def find(self, keys: Iterable[bytes]) -> list[tuple[list[bytes], Ragged]]:
        """Look up texts; return the keys and states of those found, on the CPU."""
        wanted: dict[Path, list[bytes]] = {}
        for key in keys:
            if key in self._index:
                wanted.setdefault(self._index[key][0], []).append(key)
        return [states for path, names in wanted.items() if (states := self._read(path, names)) is not None]

    def keep(self, keys: Sequence[bytes], states: Ragged) -> None:
        """Buffer states; write them when there are enough."""
        self._pending.append((list(keys), states))
        self._pending_bytes += states.nbytes
        if self._pending_bytes >= SHARD:
            self.flush()

    def flush(self) -> None:
        """Write the buffered states; if the disk is full, warn once and disable writing."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if not pending or self._disabled:
            return
        names = [key for keys, _ in pending for key in keys]
        states = Ragged.join([states for _, states in pending])
        layers = {name: tensor.cpu().contiguous() for name, tensor in states.tokens.items()}
        checks = _checks(layers, states.starts, states.lengths)
        keys = torch.from_numpy(np.frombuffer(b"".join(names), dtype=np.uint8).reshape(len(names), -1).copy())
        index = {KEYS: keys, LENGTHS: torch.from_numpy(states.lengths), CHECKS: torch.from_numpy(checks)}
        path = self.place / f"{secrets.token_hex(8)}.safetensors"
        try:
            with atomic_bytes(path) as stream:
                stream.write(save({**layers, **index}))
        except InputError as error:
            self._disable(error)
            return
        self._add(path, names, states.lengths, checks)
        self._shrink(path)

    def _disable(self, error: InputError) -> None:
        if not self._disabled:
            logger.warning("Hidden states are no longer cached in %s: %s", self.place, error)
        self._disabled = True

    def _shrink(self, newest: Path) -> None:
        """Remove files until the folder is within its limit: other versions first, then the least recently used."""
        others = [place for root in other_versions(self.folder) for place in place_folders(root)]
        files_of_others = [list(filter(is_ours, place.glob("*.safetensors"))) for place in others]
        files = sorted((path for path in self.root.rglob("*.safetensors") if path != newest), key=last_used)
        files = sorted((path for paths in files_of_others for path in paths), key=last_used) + files
        sizes = {path: size_of(path) for path in (*files, newest)}
        total = sum(sizes.values())
        for path in files:
            if total <= self.limit:
                break
            try:
                path.unlink(missing_ok=True)  # another process may have removed it
            except OSError as error:  # file of another user
                self._disable(InputError(f"it is larger than {self.limit} bytes, but {path}: {error.strerror}."))
                return
            total -= sizes[path]
            self._drop_from_index(path)
        for place, paths in zip(others, files_of_others, strict=True):
            if paths and not any(path.exists() for path in paths):
                with contextlib.suppress(OSError):  # file of another user
                    remove_place(place)

    def _warn_if_outdated(self, identity: Mapping[str, str]) -> None:
        outdated = set()
        for path in self.root.glob(f"*/{IDENTITY}"):
            identity_found = identity_in(path)
            matches = all(identity_found[name] == identity.get(name) for name in ENTRIES if name != VERSIONS)
            if matches and path.parent != self.place and any(path.parent.glob("*.safetensors")):
                outdated.add(identity_found[VERSIONS])
        if outdated:
            logger.warning(
                "States of texts in %s were made with other versions (%s) and are ignored: texts are encoded again.",
                self.root,
                "; ".join(sorted(outdated)),
            )

    def _drop_from_index(self, path: Path) -> None:
        self._index = {key: entry for key, entry in self._index.items() if entry.path != path}

    def _discard(self, path: Path, reason: str) -> None:
        outcome = "is ignored, since textmover has not named it"
        if is_ours(path):
            try:
                path.unlink(missing_ok=True)
                outcome = "has been removed"
            except OSError as error:  # file of another user
                outcome = f"is ignored, since it cannot be removed ({error.strerror})"
        logger.warning("%s is damaged (%s) and %s: its texts are encoded again.", path, reason.rstrip("."), outcome)
        self._drop_from_index(path)

    def _read_index(self, path: Path) -> None:
        try:
            with safe_open(str(path), framework="pt") as file:
                keys, lengths, checks = (file.get_tensor(name) for name in (KEYS, LENGTHS, CHECKS))
        except FileNotFoundError:
            return  # removed by another process
        except OSError as error:
            logger.warning("%s is ignored: it cannot be read (%s).", path, error)
            return
        except SafetensorError as error:
            self._discard(path, str(error))
            return
        self._add(path, [row.tobytes() for row in keys.numpy()], lengths.numpy(), checks.numpy())

    def _add(self, path: Path, keys: Sequence[bytes], lengths: np.ndarray, checks: np.ndarray) -> None:
        starts = np.cumsum(lengths) - lengths
        for key, *numbers in zip(keys, starts.tolist(), lengths.tolist(), checks.tolist(), strict=True):
            self._index[key] = _Entry(path, *numbers)

    def _read(self, path: Path, keys: list[bytes]) -> tuple[list[bytes], Ragged] | None:
        entries = [self._index[key] for key in keys]
        lengths = np.array([entry.length for entry in entries])
        try:
            with safe_open(str(path), framework="pt") as file:
                tokens: dict[str, Any] = {
                    name: torch.cat([file.get_slice(name)[one.start : one.start + one.length] for one in entries])
                    for name in file.keys()  # noqa: SIM118 - not a mapping
                    if name not in (KEYS, LENGTHS, CHECKS)
                }
        except OSError as error:
            logger.info("%s has gone (%s): its texts are encoded again.", path, error)
            self._drop_from_index(path)
            return None
        except SafetensorError as error:
            self._discard(path, str(error))
            return None
        states = Ragged(lengths, tokens)
        intact = _checks(tokens, states.starts, lengths) == [entry.check for entry in entries]
        if not intact.all():
            self._discard(path, "its checksum does not match")
            return None
        with contextlib.suppress(OSError):  # files of another user cannot be touched
            os.utime(path)
        return keys, states


class _Entry(NamedTuple):
    path: Path
    start: int
    length: int
    check: int


def _checks(layers: Mapping[str, torch.Tensor], starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the CRC-32 of each text's states over all layers, int64 ``[N]``."""
    bytes_of = [layers[name].view(torch.uint8).numpy() for name in sorted(layers)]
    sums = np.zeros(len(lengths), dtype=np.int64)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        for states in bytes_of:
            sums[row] = zlib.crc32(states[start : start + length].data, int(sums[row]))
    return sums


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
