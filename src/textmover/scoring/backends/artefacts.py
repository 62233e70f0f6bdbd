"""Exported graphs (artefacts) on disk, each a folder with a record, in a checkpoint or in the user's cache."""

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
from textmover.modules.encoder.known_encoders import UNTRACED, has_local_attention
from textmover.modules.encoder.pretrained import model_class
from textmover.safe_reading import read_json
from textmover.scoring.backends.names import BackendError
from textmover.types import InputError, RunnableEncoder

VERSIONS = 3  # back-end versions whose graphs are kept, for users who switch environments

UNUSED = 24 * 3600.0
"""Seconds since the last use after which a graph may be removed: no process is opening it any more."""


def mark_used(record: Path) -> None:
    """Record that a cached artefact was used, as the modification time of its record."""
    with contextlib.suppress(OSError):  # read-only cache
        os.utime(record)


def remove_old_versions(folder: Path, pattern: str) -> None:
    """Remove long-unused graphs of other versions of a back-end, except the most recent ones."""
    with contextlib.suppress(OSError):  # folder of another user, or removed by another process
        records = [path for path in folder.parent.glob(f"{pattern}/{RECORD}") if path.parent.name != folder.name]
        by_date = sorted(((path.stat().st_mtime, path.parent) for path in records), reverse=True)
        for date, old in by_date[VERSIONS - 1 :]:
            if time.time() - date > UNUSED:
                shutil.rmtree(old, ignore_errors=True)


logger = logging.getLogger(__name__)

FORMAT = 3  # version of the artefact layout; others are exported again
FOLDER = "backends"  # name of the folder of artefacts in a checkpoint and in the cache

RECORD = "backend.json"

_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []
"""Temporary folders of artefacts that the cache cannot hold; removed at exit."""


@dataclass(frozen=True)
class ArtefactSpec:
    """Required properties of an artefact; ``exact`` (float32) is used for bfloat16 too."""

    backend: str
    version: str
    precision: str
    encoder: str
    layers: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the folder in a checkpoint."""
        return f"{self.backend}-{self.precision}"

    @property
    def place(self) -> Path:
        """Path of the folder in the cache."""
        return cache_folder() / self.encoder[:16] / f"{self.backend}-{self.version}-{self.precision}"


@dataclass(frozen=True)
class Artefact:
    """An existing artefact, with its deviations from torch for the metric it was exported with."""

    folder: Path
    deviation: float | None  # largest of an uncalibrated probe score; ``None`` without statistics
    states: float  # largest of a hidden state, relative to the largest state


@dataclass(frozen=True)
class Unusable:
    """An existing artefact that cannot be used, with the reason as a clause."""

    reason: str
    kind: Literal["damaged", "outdated", "other"]


def cache_folder() -> Path:
    """Return the cache folder of artefacts that do not belong to a checkpoint."""
    return user_cache() / FOLDER


def encoder_hash(encoder: RunnableEncoder) -> str:
    """Hash everything that hidden states depend on except the tokens: configuration, weights, layers."""
    weights: Any = encoder.weights
    config = {name: value for name, value in weights.config.to_dict().items() if name not in UNTRACED}
    properties = {"config": config, "layers": list(encoder.computed), "type": model_class(weights)}
    if has_local_attention(weights.config):
        properties["padding"] = "sees"  # excludes older graphs, which yield NaN
    digest = hashlib.sha256(json.dumps(properties, sort_keys=True, default=str).encode())
    for name, tensor in sorted(weights.state_dict().items()):
        digest.update(f"model.{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def find(folder: Path, spec: ArtefactSpec) -> Artefact | Unusable | None:
    """Look up the wanted artefact; each load hashes its files, which takes 0.05 to 0.2 s for 100 MB."""
    if not folder.is_dir():
        return None
    try:
        entries = read_json(folder / RECORD)
        expected = {"format": FORMAT, **asdict(spec), "layers": list(spec.layers)}
        for name, value in expected.items():
            if entries[name] != value:
                kind: Literal["outdated", "other"] = "outdated" if name in ("format", "version") else "other"
                return Unusable(f"it is of another {name} ({entries[name]!s:.16}) than wanted ({value!s:.16})", kind)
        changed = _difference(folder, entries["files"])
        if changed is not None:
            return Unusable(changed, "damaged")
        deviation = entries["deviation"]
        return Artefact(folder, None if deviation is None else float(deviation), float(entries["states"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Unusable(f"its {RECORD} cannot be used ({type(error).__name__}: {error})", "damaged")


def _difference(folder: Path, files: Mapping[str, Any]) -> str | None:
    """Return how the files differ from the record, as a clause, or ``None``."""
    if not files:
        return f"its {RECORD} names no files"
    for name, record in files.items():
        path = folder / name
        if not path.is_file():
            return f"its file {name} is missing"
        if path.stat().st_size != record["bytes"]:
            return f"its file {name} has {path.stat().st_size} bytes instead of {record['bytes']}"
        if file_sha256(path) != record["sha256"]:
            return f"its file {name} does not hold what was written"
    return None


def make(
    spec: ArtefactSpec, folder: Path, fill: Callable[[Path], Mapping[str, Any]], usable: Callable[[Artefact], bool]
) -> Artefact:
    """Return an artefact of the cache, exported if missing; it is temporary if the cache is not writable."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Processes that start together wait for one of them to export.
        with FileLock(folder.parent / f".{folder.name}.lock"):
            existing = find(folder, spec)
            if isinstance(existing, Artefact) and usable(existing):
                return existing
            for cached in folder.parent.parent.iterdir():  # of all encoders
                remove_leftovers(cached)
            remove_old_versions(folder, f"{spec.backend}-*{spec.precision}")
            with atomic_folder(folder, overwrite=True) as target:
                write(spec, target, fill)
    except BackendError:
        raise
    except (OSError, InputError) as error:
        logger.warning("%s cannot be kept, so it will be made again in each process: %s", folder, error)
        folder = _write_temporary(spec, fill)
    return read_back(folder, spec)


def _write_temporary(spec: ArtefactSpec, fill: Callable[[Path], Mapping[str, Any]]) -> Path:
    try:
        _TEMPORARY.append(tempfile.TemporaryDirectory(prefix="textmover-"))
        folder = Path(_TEMPORARY[-1].name)
        write(spec, folder, fill)
    except OSError as error:
        raise BackendError(
            f"Expected space for the graph of backend {spec.backend!r} in {tempfile.gettempdir()}, but got "
            f"'{error.strerror or error}': free some, set TMPDIR to another folder, or set backend='torch'."
        ) from error
    return folder


def write(spec: ArtefactSpec, folder: Path, fill: Callable[[Path], Mapping[str, Any]]) -> None:
    """Export an artefact and its record into a folder."""
    measured = fill(folder)
    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    properties = {"format": FORMAT, "textmover": __version__, "torch": torch.__version__, **asdict(spec)}
    entries = {**properties, **measured, "files": files}
    (folder / RECORD).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def read_back(folder: Path, spec: ArtefactSpec) -> Artefact:
    """Load the artefact just written to a folder."""
    artefact = find(folder, spec)
    if not isinstance(artefact, Artefact):
        raise RuntimeError(
            f"Expected {folder} to hold the artefact that was just written, but "
            f"{'there is none' if artefact is None else artefact.reason}."
        )
    return artefact
