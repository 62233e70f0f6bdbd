"""Where exported graphs are kept, and how one is told to be the right one.

An artefact is a folder with the files of one back-end and a record, ``backend.json``, that says what they were made
from and with. It lies in a checkpoint (``backends/<name>-<precision>/``) or in the user's cache, under the hash of the
encoder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from textmover import __version__
from textmover.scoring.backends.names import BackendError
from textmover.scoring.files import atomic_folder
from textmover.types import InputError, RunnableEncoder

__all__ = ["FOLDER", "FORMAT", "RECORD", "Artefact", "Wanted", "cache_folder", "encoder_hash", "find", "make", "write"]

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of what an artefact holds; one of another version is made anew."""

FOLDER = "backends"
"""Folder of a checkpoint, and of the cache, that holds artefacts."""

RECORD = "backend.json"

UNTRACED = ("_name_or_path", "_commit_hash", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Entries of an encoder's configuration that say where it came from, not what it computes."""

_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []
"""Folders of artefacts that could not be kept; they go when the process ends."""


@dataclass(frozen=True)
class Wanted:
    """What an artefact has to be of.

    Attributes:
        backend: ``openvino`` or ``onnxruntime``.
        version: Version of that package.
        precision: ``exact`` (float32, which serves bfloat16 as well) or ``int8``.
        encoder: See :func:`encoder_hash`.
        layers: The layers that it computes.
    """

    backend: str
    version: str
    precision: str
    encoder: str
    layers: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the artefact's folder."""
        return f"{self.backend}-{self.precision}"


@dataclass(frozen=True)
class Artefact:
    """An artefact that is there.

    Attributes:
        folder: Where.
        deviation: Largest deviation from torch of an uncalibrated score on the probe pairs, with the metric that it
            was made for; ``None`` where that lacked statistics.
        states: Largest deviation of a hidden state, as a share of the largest.
    """

    folder: Path
    deviation: float | None
    states: float


def cache_folder() -> Path:
    """Where artefacts of encoders are kept that no checkpoint brings along."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "textmover" / FOLDER


def encoder_hash(encoder: RunnableEncoder) -> str:
    """Hash of everything that hidden states depend on beside the tokens: configuration, weights, layers."""
    graph: Any = encoder.graph()
    config = {name: value for name, value in graph.model.config.to_dict().items() if name not in UNTRACED}
    about = {"config": config, "layers": list(encoder.computed), "type": type(graph.model).__name__}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    for name, tensor in sorted(graph.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def find(folder: Path, wanted: Wanted) -> Artefact | None:
    """The artefact in a folder, if it is the one that is wanted; one of another version is ignored, and said to be."""
    record = folder / RECORD
    if not record.is_file():
        return None
    try:
        entries = json.loads(record.read_text(encoding="utf-8"))
        found = {name: entries[name] for name in ("format", *asdict(wanted))}
        artefact = Artefact(folder, entries["deviation"], float(entries["states"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        logger.info("%s: ignored, since its record cannot be read (%s: %s).", folder, type(error).__name__, error)
        return None
    needed = {"format": FORMAT, **asdict(wanted), "layers": list(wanted.layers)}
    differing = next((name for name, value in needed.items() if found[name] != value), None)
    if differing is None:
        return artefact
    logger.info(
        "%s: ignored, since it was made for another %s (%.16s) than the one here (%.16s).",
        folder, differing, found[differing], needed[differing],
    )  # fmt: skip
    return None


def make(
    wanted: Wanted, folder: Path, fill: Callable[[Path], Mapping[str, Any]], usable: Callable[[Artefact], bool]
) -> Artefact:
    """The artefact in a folder of the cache: one that another process has made meanwhile, or a new one.

    Where the folder cannot be written to, it is made in a temporary one, which is said.

    Args:
        wanted: What it has to be of.
        folder: Where it is to appear.
        fill: Writes its files into a folder and returns the deviations that it measured.
        usable: Whether an artefact that is there works.

    Raises:
        BackendError: If it cannot be made.
    """
    from filelock import FileLock

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Processes that start together wait for one of them to do the work.
        with FileLock(folder.parent / f".{folder.name}.lock"):
            found = find(folder, wanted)
            if found is not None and usable(found):
                return found
            with atomic_folder(folder, overwrite=True) as beside:
                write(wanted, beside, fill)
    except BackendError:
        raise
    except (OSError, InputError) as error:
        logger.warning("%s cannot be kept, so it will be made anew in each process: %s", folder, error)
        _TEMPORARY.append(tempfile.TemporaryDirectory(prefix="textmover-"))
        folder = Path(_TEMPORARY[-1].name)
        write(wanted, folder, fill)
    made = find(folder, wanted)
    if made is None:
        raise RuntimeError(f"Expected {folder} to hold the artefact that was just written, but it does not.")
    return made


def write(wanted: Wanted, folder: Path, fill: Callable[[Path], Mapping[str, Any]]) -> None:
    """Fill a folder with an artefact and its record."""
    measured = fill(folder)
    entries = {"format": FORMAT, "textmover": __version__, "torch": torch.__version__, **asdict(wanted), **measured}
    (folder / RECORD).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
