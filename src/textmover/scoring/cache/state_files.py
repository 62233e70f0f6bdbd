"""Hidden states on disk: safetensors files, found again by the tokens of a text."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from textmover.files import atomic_bytes, atomic_file
from textmover.scoring.cache.state_folders import (
    ENTRIES,
    FORMAT,
    IDENTITY,
    LENGTHS,
    VERSIONS,
    identity_in,
    is_ours,
    last_used,
    other_versions,
    place_folders,
    remove_place,
    size_of,
)
from textmover.types import InputError
from textmover.types.tokens import Ragged

logger = logging.getLogger(__name__)

SHARD = 1 << 26  # bytes of states that are collected before they are written
KEYS, CHECKS = "keys", "checks"  # names of the tensors beside the lengths and those of the layers
FULL = (errno.ENOSPC, errno.EDQUOT)  # errors of a full disk or an exceeded quota


class StateFiles:
    """States of one encoder in a folder that several encoders, and several processes, may share.

    Layout: ``FOLDER/v3/NAME/*.safetensors`` with ``keys`` (uint8 ``[N, 16]``), ``lengths``, ``checks`` (CRC-32 sums of
    each text's states, both int64 ``[N]``) and a tensor ``[T, D]`` for each layer; ``NAME/identity.json`` says what the
    states are of. Files are written whole under names of their own and never changed; damaged ones are removed.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str], limit: int) -> None:
        self.folder, self.root, self.limit = folder, folder / f"v{FORMAT}", limit
        self.place = self.root / hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()[:24]
        self._waiting: list[tuple[list[bytes], Ragged]] = []
        self._waiting_bytes = 0
        self._refused = False
        self._index: dict[bytes, _Entry] = {}
        for other in other_versions(folder):
            logger.warning(
                "%s was written by another version of textmover and is ignored: it goes when space is needed, or with "
                "`textmover cache %s --clear`.", other, folder,
            )  # fmt: skip
        try:
            self.place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in FULL:
                raise InputError(
                    f"Expected {folder} to be a folder for states of texts, but got '{error.strerror}': give another "
                    "one."
                ) from error
            self._give_up(InputError(f"{error.strerror}."))
        if not self._refused and not (self.place / IDENTITY).is_file():
            try:
                with atomic_file(self.place / IDENTITY) as stream:
                    stream.write(json.dumps(dict(identity), indent=2) + "\n")
            except InputError as error:
                self._give_up(error)
        for path in sorted(self.place.glob("*.safetensors")):
            self._read_index(path)
        if not self._index:
            self._say_outdated(identity)

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
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting or self._refused:
            return
        names = [key for keys, _ in waiting for key in keys]
        states = Ragged.join([part for _, part in waiting])
        layers = {name: one.cpu().contiguous() for name, one in states.tokens.items()}
        checks = _checks(layers, states.starts, states.lengths)
        keys = torch.from_numpy(np.frombuffer(b"".join(names), dtype=np.uint8).reshape(len(names), -1).copy())
        beside = {KEYS: keys, LENGTHS: torch.from_numpy(states.lengths), CHECKS: torch.from_numpy(checks)}
        path = self.place / f"{secrets.token_hex(8)}.safetensors"
        try:
            with atomic_bytes(path) as stream:
                stream.write(save({**layers, **beside}))
        except InputError as error:
            self._give_up(error)
            return
        self._add(path, names, states.lengths, checks)
        self._shrink(path)

    def _give_up(self, error: InputError) -> None:
        if not self._refused:
            logger.warning("States of texts are no longer kept in %s: %s", self.place, error)
        self._refused = True

    def _shrink(self, newest: Path) -> None:
        """Remove states in other layouts, and the longest unused files, until the whole folder is within its limit."""
        others = [place for root in other_versions(self.folder) for place in place_folders(root)]
        states = [list(filter(is_ours, place.glob("*.safetensors"))) for place in others]
        files = sorted((one for one in self.root.rglob("*.safetensors") if one != newest), key=last_used)
        files = sorted((path for held in states for path in held), key=last_used) + files
        sizes = {path: size_of(path) for path in (*files, newest)}
        total = sum(sizes.values())
        for path in files:
            if total <= self.limit:
                break
            try:
                path.unlink(missing_ok=True)  # another process may have been faster
            except OSError as error:  # of another user
                self._give_up(InputError(f"it is larger than {self.limit} bytes, but {path}: {error.strerror}."))
                return
            total -= sizes[path]
            self._forget(path)
        for place, held in zip(others, states, strict=True):
            if held and not any(path.exists() for path in held):
                with contextlib.suppress(OSError):  # of another user
                    remove_place(place)

    def _say_outdated(self, identity: Mapping[str, str]) -> None:
        outdated = set()
        for told in self.root.glob(f"*/{IDENTITY}"):
            other = identity_in(told)
            same = all(other[name] == identity.get(name) for name in ENTRIES if name != VERSIONS)
            if same and told.parent != self.place and any(told.parent.glob("*.safetensors")):
                outdated.add(other[VERSIONS])
        if outdated:
            logger.warning(
                "States of texts in %s were made with other versions (%s) and are ignored: texts are encoded again.",
                self.root,
                "; ".join(sorted(outdated)),
            )

    def _forget(self, path: Path) -> None:
        self._index = {key: entry for key, entry in self._index.items() if entry.path != path}

    def _discard(self, path: Path, why: str) -> None:
        """Remove a damaged file, and say so: nobody can use it, and nobody has to hear of it again."""
        fate = "is ignored, since textmover has not named it"
        if is_ours(path):
            try:
                path.unlink(missing_ok=True)
                fate = "has been removed"
            except OSError as error:  # of another user
                fate = f"is ignored, since it cannot be removed ({error.strerror})"
        logger.warning("%s is damaged (%s) and %s: its texts are encoded again.", path, why.rstrip("."), fate)
        self._forget(path)

    def _read_index(self, path: Path) -> None:
        try:
            with safe_open(str(path), framework="pt") as file:
                keys, lengths, checks = (file.get_tensor(name) for name in (KEYS, LENGTHS, CHECKS))
        except FileNotFoundError:
            return  # another process has removed it meanwhile
        except OSError as error:
            logger.warning("%s is ignored: it cannot be read (%s).", path, error)
            return
        except SafetensorError as error:
            self._discard(path, str(error))
            return
        self._add(path, [row.tobytes() for row in keys.numpy()], lengths.numpy(), checks.numpy())

    def _add(self, path: Path, keys: Sequence[bytes], lengths: np.ndarray, checks: np.ndarray) -> None:
        starts = np.cumsum(lengths) - lengths
        for key, *rest in zip(keys, starts.tolist(), lengths.tolist(), checks.tolist(), strict=True):
            self._index[key] = _Entry(path, *rest)

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
            self._forget(path)
            return None
        except SafetensorError as error:
            self._discard(path, str(error))
            return None
        found = Ragged(lengths, tokens)
        sound = _checks(tokens, found.starts, lengths) == [entry.check for entry in entries]
        if not sound.all():
            self._discard(path, "its states are not those that were written")
            return None
        with contextlib.suppress(OSError):  # a file of another user cannot be marked as used
            os.utime(path)
        return keys, found


class _Entry(NamedTuple):
    path: Path
    start: int
    length: int
    check: int


def _checks(layers: Mapping[str, torch.Tensor], starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """CRC-32 of each text's states over all layers, int64 ``[N]``."""
    bytes_of = [layers[name].view(torch.uint8).numpy() for name in sorted(layers)]
    sums = np.zeros(len(lengths), dtype=np.int64)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        for states in bytes_of:
            sums[row] = zlib.crc32(states[start : start + length].data, int(sums[row]))
    return sums
