"""Folders of checkpoints: written with the hash of each file, and read only if they are whole and sound."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from textmover.files import file_sha256
from textmover.presets import KINDS
from textmover.safe_reading import read_json
from textmover.types import InputError

FORMAT = 2  # version of a metric's folder: 1 holds all weights, 2 an adapter; a reader refuses a later one
CLASSIFIER, CLASSIFIER_FORMAT = "classifier", 1  # kind of a classifier's folder, and its version

CONFIG, WEIGHTS, HEAD, CARD = "config.json", "model.safetensors", "head.safetensors", "README.md"

VALUES: Mapping[str, Any] = {
    "an object": Mapping,
    "a list": list,
    "text": str,
    "a whole number": int,
    "a number": (int, float),
    "null": type(None),
}
"""Types of values in JSON."""

SHAPES: Mapping[str, str] = {
    key: shape
    for shape, keys in {
        "an object": "metric files encoder encoder.base encoder.table adapter",
        "an object or null": "network",
        "a list": "encoder.layers",
        "text": "files.* encoder.identity encoder.stored encoder.dtype encoder.base.name encoder.base.sha256 "
        "adapter.dtype",
        "text or null": "encoder.base.revision encoder.base.tokenizer encoder.base.weights adapter.matrix",
        "a whole number": "encoder.depth encoder.layers.* encoder.table.size encoder.table.dimension adapter.rank "
        "adapter.matrices adapter.vectors",
        "a number": "adapter.error adapter.largest_error",
    }.items()
    for key in keys.split()
}
"""Types of a metric's entries, where they are there; its configuration's class checks ``metric``."""

CLASSIFIER_SHAPES = dict.fromkeys(("metric", "encoder"), "text or null") | {
    "files.*": "text", "classifier.classes": "a list", "classifier.classes.*": "text",
}  # fmt: skip
"""Types of a classifier's entries; its configuration's class checks the rest of ``classifier``."""

DEEPEST = 4
"""Checkpoints that may stand inside one another: a metric as a feature, a classifier, and the metric below it."""

_LOADING: ContextVar[tuple[Path, ...]] = ContextVar("folders that are being loaded", default=())

Found = TypeVar("Found")


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


def write_weights(path: Path, state: Mapping[str, Tensor], card: str) -> None:
    """Write weights as safetensors, and the card beside them."""
    from safetensors.torch import save_file

    plain = {name: one.detach().cpu().contiguous() for name, one in state.items()}
    save_file(plain, str(path), metadata={"format": "pt"})
    path.with_name(CARD).write_text(card, encoding="utf-8")


def read_weights(path: Path, take: Callable[[dict[str, Tensor]], Found]) -> Found:
    """Give weights to what takes them; those that do not fit are an error that names the file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return take(load_file(str(path)))
    except (SafetensorError, RuntimeError) as error:
        raise InputError(f"Expected {path} to fit {CONFIG}, but got: {' '.join(str(error).split())}") from error


def write_config(folder: Path, entries: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
    """Write a checkpoint's ``config.json``: its entries, and the hash of each file that is named, or of all others."""
    if names is None:
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CARD)
        names = [path.relative_to(folder).as_posix() for path in files]
    hashes = {name: file_sha256(folder / name) for name in names}
    (folder / CONFIG).write_text(f"{json.dumps({**entries, 'files': hashes}, indent=2)}\n", encoding="utf-8")


def check_checkpoint(folder: Path) -> dict[str, Any]:
    """Make sure that the checkpoint of a metric is whole, and return its ``config.json``."""
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
    held = _object(path)
    if "format" not in held and "model_type" in held:
        raise InputError(
            f"Expected {folder} to be the checkpoint of a metric, but it holds an encoder "
            f"({held['model_type']}): use `--model twmd --encoder {folder}`, in Python `encoder=`."
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
    check_entries(path, held, _needed(held))
    return held


def _needed(held: Mapping[str, Any]) -> list[str]:
    if held["kind"] != "transport":
        return ["network"]
    entry = held.get("encoder")
    kind = next((one for one in ("static", "table") if isinstance(entry, Mapping) and one in entry), None)
    own = {None: ("depth", "layers"), "static": (), "table": ("table.size", "table.dimension")}[kind]
    needed = ["encoder", "encoder.identity", *(f"encoder.{one}" for one in own)]
    if kind or not isinstance(entry, Mapping) or not ("adapter" in held or "stored" in entry or "base" in entry):
        return needed
    needed += ["encoder.base", "encoder.base.name", "encoder.base.revision", "encoder.base.sha256"]
    return [*needed, "encoder.stored", "encoder.dtype"] if "adapter" in held or "stored" in entry else needed


def check_entries(
    path: Path, entries: Mapping[str, Any], needed: Sequence[str], shapes: Mapping[str, str] = SHAPES
) -> None:
    """Refuse a ``config.json`` that lacks an entry or holds one of another type; entries go by dotted keys."""
    dotted = list(_dotted(entries))
    for key, parent, value in dotted:
        shape = shapes.get(key, shapes.get(f"{parent}*"))
        kinds = [] if shape is None else [VALUES[one] for one in shape.split(" or ")]
        if shape is not None and (isinstance(value, bool) or not any(isinstance(value, one) for one in kinds)):
            raise InputError(
                f"Expected `{key}` in {path} to be {shape}, but got {value!r}: export or copy the checkpoint again."
            )
    for key in needed:
        if key not in {name for name, _, _ in dotted}:
            raise InputError(f"Expected {path} to hold `{key}`, but it does not: export or copy the checkpoint again.")


def _dotted(entries: Mapping[str, Any] | list[Any], parent: str = "") -> Iterator[tuple[str, str, Any]]:
    """Each entry, also inside others: its dotted key, that of its parent with a dot, and its value."""
    for key, value in entries.items() if isinstance(entries, Mapping) else enumerate(entries):
        yield f"{parent}{key}", parent, value
        if isinstance(value, (Mapping, list)):
            yield from _dotted(value, f"{parent}{key}.")


def read_classifier_config(folder: Path) -> dict[str, Any]:
    """Read a classifier's ``config.json``, with its ``classifier`` still as plain values."""
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"Expected {folder} to be a classifier, but it holds no {CONFIG}: give another folder.")
    held = _object(path)
    kind, found = held.get("kind", CLASSIFIER), held.get("format", CLASSIFIER_FORMAT)
    if kind != CLASSIFIER or found != CLASSIFIER_FORMAT:
        raise InputError(
            f"Expected {path} to be of a {CLASSIFIER} in format {CLASSIFIER_FORMAT}, but got a {kind} in format "
            f"{found}: give a classifier's folder, or install a newer textmover."
        )
    for key in ("kind", "format", "classifier", "metric", "encoder", "files"):
        if key not in held or (key in ("classifier", "files") and not isinstance(held[key], Mapping)):
            raise InputError(
                f"Expected {path} to be the configuration of a classifier, but it holds no such `{key}`: give a folder "
                "that `save_classifier` wrote."
            )
    check_entries(path, held, (), CLASSIFIER_SHAPES)
    return held


def _object(path: Path) -> dict[str, Any]:
    entries = read_json(path)
    return entries if isinstance(entries, dict) else {}
