"""Folders of checkpoints: their files, and whether these are whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from textmover.modules.encoder.source import file_sha256
from textmover.presets import KINDS
from textmover.reading import read_json
from textmover.types import InputError

FORMAT = 2
"""Version of the folder's layout: 1 holds all weights, 2 an adapter; a reader refuses a later one."""

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

DEEPEST = 4
"""Checkpoints that may stand inside one another: a metric as a feature, a classifier, and the metric below it."""

_LOADING: ContextVar[tuple[Path, ...]] = ContextVar("folders that are being loaded", default=())


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Load a folder that may name others. One that names itself, or names others too deep, is refused."""
    outer, path = _LOADING.get(), folder.resolve()
    if path in outer or len(outer) == DEEPEST:
        chain = " -> ".join(map(str, (*outer, path)))
        what = "contain themselves" if path in outer else f"contain others more than {DEEPEST} deep"
        raise InputError(f"Expected checkpoints that do not {what}, but got {chain}: name another metric.")
    token = _LOADING.set((*outer, path))
    try:
        yield
    finally:
        _LOADING.reset(token)


def write_config(folder: Path, entries: Mapping[str, Any]) -> None:
    """Write what a checkpoint's ``config.json`` holds: its entries, and the hash of each file but the card."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CARD)
    hashes = {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}
    text = json.dumps({**entries, "files": hashes}, indent=2)
    (folder / CONFIG).write_text(f"{text}\n", encoding="utf-8")


def check_checkpoint(folder: Path) -> dict[str, Any]:
    """Make sure that a checkpoint is whole.

    Args:
        folder: What :func:`save_checkpoint` wrote.

    Returns:
        What its ``config.json`` holds.
    """
    entries = _read_config(folder)
    for name, expected in {WEIGHTS: None, **entries["files"]}.items():
        path = folder / name
        if not path.is_file():
            raise InputError(
                f"Expected the checkpoint {folder} to hold {name}, but it is missing: export or copy it again."
            )
        if file_sha256(path) != expected:
            raise InputError(
                f"Expected {path} to have the hash that {CONFIG} names, but it differs, so the file is damaged or was "
                "exchanged: export or copy the checkpoint again."
            )
    return entries


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(
            f"Expected {folder} to be a checkpoint, but it holds no {CONFIG}: "
            "give a folder that `textmover export` wrote."
        )
    entries = read_json(path)
    held = entries if isinstance(entries, dict) else {}
    if "format" not in held and "model_type" in held:
        raise InputError(
            f"Expected {folder} to be the checkpoint of a metric, but it holds an encoder "
            f"({held['model_type']}): give it as `encoder`, beside a preset such as twmd."
        )
    for key in ("format", "kind"):
        if key not in held:
            raise InputError(
                f"Expected {path} to be the configuration of a textmover checkpoint, but it holds no `{key}`: give a "
                "folder that `textmover export` wrote."
            )
    found, kind = held["format"], held["kind"]
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= FORMAT:
        raise InputError(
            f"Expected {path} to have format {FORMAT} or earlier, but got {found}: install a newer textmover."
        )
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"Expected `kind` in {path} to be one of {', '.join(KINDS)}, but got {kind!r}: install a newer textmover."
        )
    lacking = [key for key in ("metric", "files") if not isinstance(held.get(key), Mapping)]
    if lacking:
        raise InputError(
            f"Expected {path} to hold `{lacking[0]}`, but it does not: export or copy the checkpoint again."
        )
    return held
