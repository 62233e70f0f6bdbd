"""Exported graphs on disk, each a folder with a record: in a checkpoint, or in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import FileLock

from textmover._version import __version__
from textmover.files import atomic_folder, file_sha256, remove_leftovers, user_cache
from textmover.modules.encoder.known_encoders import UNTRACED, sees_locally
from textmover.safe_reading import read_json
from textmover.scoring.backends.names import BackendError
from textmover.types import InputError, RunnableEncoder

VERSIONS = 3  # number of back-end versions whose graph of an encoder is kept, for environments used in turns

UNUSED = 24 * 3600.0
"""Seconds for which a graph has not been opened before it can be removed: no process is at it any more."""


def used(record: Path) -> None:
    """Note that an artefact of the cache has been opened now, in the date of its record."""
    with contextlib.suppress(OSError):  # a cache that can only be read
        os.utime(record)


def bound_versions(folder: Path, pattern: str) -> None:
    """Remove graphs of a back-end's other versions that have long not been opened, except the last few."""
    with contextlib.suppress(OSError):  # a folder of another user, or one that another process has removed
        records = [one for one in folder.parent.glob(f"{pattern}/{RECORD}") if one.parent.name != folder.name]
        opened = sorted(((one.stat().st_mtime, one.parent) for one in records), reverse=True)
        for date, other in opened[VERSIONS - 1 :]:
            if time.time() - date > UNUSED:
                shutil.rmtree(other, ignore_errors=True)


logger = logging.getLogger(__name__)

FORMAT = 3  # version of what an artefact holds; one of another version is made again
FOLDER = "backends"  # folder of a checkpoint, and of the cache, that holds artefacts

RECORD = "backend.json"

_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []
"""Folders of artefacts that could not be kept; they go when the process ends."""


@dataclass(frozen=True)
class Wanted:
    """Properties that an artefact must have; ``exact`` (float32) serves bfloat16 as well."""

    backend: str
    version: str
    precision: str
    encoder: str
    layers: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the artefact's folder in a checkpoint."""
        return f"{self.backend}-{self.precision}"

    @property
    def place(self) -> Path:
        """The artefact's folder in the cache."""
        return cache_folder() / self.encoder[:16] / f"{self.backend}-{self.version}-{self.precision}"


@dataclass(frozen=True)
class Artefact:
    """An artefact that is there, with its deviations (see ``Prepared``) for the metric that it was made for."""

    folder: Path
    deviation: float | None
    states: float


@dataclass(frozen=True)
class Refused:
    """An artefact that is there and cannot be taken, with the reason as a clause."""

    reason: str
    kind: Literal["damaged", "outdated", "other"]


def cache_folder() -> Path:
    """Folder of artefacts that no checkpoint brings along."""
    return user_cache() / FOLDER


def encoder_hash(encoder: RunnableEncoder) -> str:
    """Hash of everything that hidden states depend on beside the tokens: configuration, weights, layers."""
    graph: Any = encoder.graph()
    config = {name: value for name, value in graph.model.config.to_dict().items() if name not in UNTRACED}
    about = {"config": config, "layers": list(encoder.computed), "type": type(graph.model).__name__}
    if sees_locally(graph.model.config):
        about["padding"] = "sees"  # graphs that were made before give NaN
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    for name, tensor in sorted(graph.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def find(folder: Path, wanted: Wanted) -> Artefact | Refused | None:
    """Return the wanted artefact of a folder; its bytes are hashed at each load, in 0.05 to 0.2 s for 100 MB."""
    if not folder.is_dir():
        return None
    try:
        entries = read_json(folder / RECORD)
        needed = {"format": FORMAT, **asdict(wanted), "layers": list(wanted.layers)}
        for name, value in needed.items():
            if entries[name] != value:
                kind: Literal["outdated", "other"] = "outdated" if name in ("format", "version") else "other"
                return Refused(f"it is of another {name} ({entries[name]!s:.16}) than wanted ({value!s:.16})", kind)
        changed = _changed(folder, entries["files"])
        if changed is not None:
            return Refused(changed, "damaged")
        deviation = entries["deviation"]
        return Artefact(folder, None if deviation is None else float(deviation), float(entries["states"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Refused(f"its {RECORD} cannot be used ({type(error).__name__}: {error})", "damaged")


def _changed(folder: Path, files: Mapping[str, Any]) -> str | None:
    """Describe how the files differ from the record, as a clause."""
    if not files:
        return f"its {RECORD} names no files"
    for name, about in files.items():
        path = folder / name
        if not path.is_file():
            return f"its file {name} is missing"
        if path.stat().st_size != about["bytes"]:
            return f"its file {name} has {path.stat().st_size} bytes instead of {about['bytes']}"
        if file_sha256(path) != about["sha256"]:
            return f"its file {name} does not hold what was written"
    return None


def make(
    wanted: Wanted, folder: Path, fill: Callable[[Path], Mapping[str, Any]], usable: Callable[[Artefact], bool]
) -> Artefact:
    """Return an artefact of the cache, made now or meanwhile elsewhere; one that cannot be kept is temporary."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Processes that start together wait for one of them to do the work.
        with FileLock(folder.parent / f".{folder.name}.lock"):
            found = find(folder, wanted)
            if isinstance(found, Artefact) and usable(found):
                return found
            for place in folder.parent.parent.iterdir():  # of all encoders
                remove_leftovers(place)
            bound_versions(folder, f"{wanted.backend}-*{wanted.precision}")
            with atomic_folder(folder, overwrite=True) as beside:
                write(wanted, beside, fill)
    except BackendError:
        raise
    except (OSError, InputError) as error:
        logger.warning("%s cannot be kept, so it will be made again in each process: %s", folder, error)
        folder = _write_for_now(wanted, fill)
    return written(folder, wanted)


def _write_for_now(wanted: Wanted, fill: Callable[[Path], Mapping[str, Any]]) -> Path:
    try:
        _TEMPORARY.append(tempfile.TemporaryDirectory(prefix="textmover-"))
        folder = Path(_TEMPORARY[-1].name)
        write(wanted, folder, fill)
    except OSError as error:
        raise BackendError(
            f"Expected space for the graph of backend {wanted.backend!r} in {tempfile.gettempdir()}, but got "
            f"'{error.strerror or error}': free some, set TMPDIR to another folder, or set backend='torch'."
        ) from error
    return folder


def write(wanted: Wanted, folder: Path, fill: Callable[[Path], Mapping[str, Any]]) -> None:
    """Fill a folder with an artefact and its record."""
    measured = fill(folder)
    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    about = {"format": FORMAT, "textmover": __version__, "torch": torch.__version__, **asdict(wanted)}
    entries = {**about, **measured, "files": files}
    (folder / RECORD).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def written(folder: Path, wanted: Wanted) -> Artefact:
    """The artefact that was just written into a folder."""
    found = find(folder, wanted)
    if not isinstance(found, Artefact):
        raise RuntimeError(
            f"Expected {folder} to hold the artefact that was just written, but "
            f"{'there is none' if found is None else found.reason}."
        )
    return found
