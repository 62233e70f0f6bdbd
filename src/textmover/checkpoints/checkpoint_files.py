"""Read and write checkpoint folders; files are verified against their hashes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from textmover.files import file_sha256
from textmover.presets import KINDS
from textmover.safe_reading import read_json
from textmover.types import InputError

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 2  # format version of a metric's folder: 1 for full weights, 2 for an adapter; later versions are rejected
CLASSIFIER, CLASSIFIER_FORMAT = "classifier", 1  # kind and format version of a classifier's folder

CONFIG, WEIGHTS, HEAD, CARD = "config.json", "model.safetensors", "head.safetensors", "README.md"

VALUES: Mapping[str, Any] = {
    "an object": Mapping,
    "a list": list,
    "text": str,
    "a whole number": int,
    "a number": (int, float),
    "null": type(None),
}
"""Python types of the JSON types, by their names in messages."""

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
"""JSON types of a metric's entries, if present; the configuration class validates ``metric``."""

CLASSIFIER_SHAPES = dict.fromkeys(("metric", "encoder"), "text or null") | {
    "files.*": "text", "classifier.classes": "a list", "classifier.classes.*": "text",
}  # fmt: skip
"""JSON types of a classifier's entries; the configuration class validates the rest of ``classifier``."""

MAX_DEPTH = 4
"""Maximum nesting depth of checkpoints, such as a metric as a feature, its classifier, and the classifier's metric."""

_LOADING: ContextVar[tuple[Path, ...]] = ContextVar("folders that are being loaded", default=())

Found = TypeVar("Found")


@contextlib.contextmanager
def nested_loading(folder: Path) -> Iterator[None]:
    """Mark a folder as being loaded; raise an error for circular or too deeply nested checkpoints."""
    outer, path = _LOADING.get(), folder.resolve()
    if path in outer or len(outer) == MAX_DEPTH:
        chain = " -> ".join(map(str, (*outer, path)))
        problem = "contain themselves" if path in outer else f"contain others more than {MAX_DEPTH} deep"
        raise InputError(f"Expected checkpoints that do not {problem}, but got {chain}: name another metric.")
    token = _LOADING.set((*outer, path))
    try:
        yield
    finally:
        _LOADING.reset(token)


def write_weights(path: Path, state: Mapping[str, Tensor], card: str) -> None:
    """Write weights as safetensors, and the model card next to them."""
    from safetensors.torch import save_file  # imports torch

    plain = {name: one.detach().cpu().contiguous() for name, one in state.items()}
    save_file(plain, str(path), metadata={"format": "pt"})
    path.with_name(CARD).write_text(card, encoding="utf-8")


def read_weights(path: Path, take: Callable[[dict[str, Tensor]], Found]) -> Found:
    """Pass a file's weights to ``take``; if they do not fit, raise an error that names the file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file  # imports torch

    try:
        return take(load_file(str(path)))
    except (SafetensorError, RuntimeError) as error:
        raise InputError(f"Expected {path} to fit {CONFIG}, but got: {' '.join(str(error).split())}") from error


def write_config(folder: Path, entries: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
    """Write ``config.json``: the entries, and hashes of the named files (``None``: all files except model cards)."""
    if names is None:
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CARD)
        names = [path.relative_to(folder).as_posix() for path in files]
    hashes = {name: file_sha256(folder / name) for name in names}
    (folder / CONFIG).write_text(f"{json.dumps({**entries, 'files': hashes}, indent=2)}\n", encoding="utf-8")


def check_checkpoint(folder: Path) -> dict[str, Any]:
    """Verify that a metric's checkpoint is complete and undamaged, and return its ``config.json``."""
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


def saved_config(folder: Path) -> Any:
    """Return the metric's configuration from a checkpoint, whose files are not verified."""
    entries = _read_config(folder)
    return KINDS[entries["kind"]].config_class.from_dict(entries["metric"])


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(
            f"Expected {folder} to be a checkpoint, but it holds no {CONFIG}: "
            "give a folder that `textmover export` wrote."
        )
    entries = _object(path)
    if "format" not in entries and "model_type" in entries:
        raise InputError(
            f"Expected {folder} to be the checkpoint of a metric, but it holds an encoder "
            f"({entries['model_type']}): use `--model twmd --encoder {folder}`, in Python `encoder=`."
        )
    for key in ("format", "kind"):
        if key not in entries:
            raise InputError(
                f"Expected {path} to describe a textmover checkpoint, but `{key}` is missing or invalid: give a "
                "folder that `textmover export` wrote."
            )
    version, kind = entries["format"], entries["kind"]
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT:
        raise InputError(
            f"Expected {path} to have format {FORMAT} or earlier, but got {version}: install a newer textmover."
        )
    if kind == CLASSIFIER:
        raise InputError(
            f"Expected {folder} to be the checkpoint of a metric, but it holds a classifier: give the folder of the "
            "metric that it stands on, or load it with `textmover.checkpoints.classifier.load_classifier`."
        )
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"Expected `kind` in {path} to be one of {', '.join(KINDS)}, but got {kind!r}: install a newer textmover."
        )
    check_entries(path, entries, ["metric", "files", *_required_entries(entries)])
    return entries


def _required_entries(entries: Mapping[str, Any]) -> list[str]:
    if entries["kind"] != "transport":
        return ["network"]
    entry = entries.get("encoder")
    kind = next((one for one in ("static", "table") if isinstance(entry, Mapping) and one in entry), None)
    encoder_keys = {None: ("depth", "layers"), "static": (), "table": ("table.size", "table.dimension")}[kind]
    keys = ["encoder", "encoder.identity", *(f"encoder.{one}" for one in encoder_keys)]
    if kind or not isinstance(entry, Mapping) or not ("adapter" in entries or "stored" in entry or "base" in entry):
        return keys
    keys += ["encoder.base", "encoder.base.name", "encoder.base.revision", "encoder.base.sha256"]
    return [*keys, "encoder.stored", "encoder.dtype"] if "adapter" in entries or "stored" in entry else keys


def check_entries(
    path: Path, entries: Mapping[str, Any], needed: Sequence[str], shapes: Mapping[str, str] = SHAPES
) -> None:
    """Raise an error if ``config.json`` lacks a required entry or has one of a wrong type. Keys are dotted paths."""
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
    """Yield each entry recursively: its dotted key, its parent's key with a trailing dot, and its value."""
    for key, value in entries.items() if isinstance(entries, Mapping) else enumerate(entries):
        yield f"{parent}{key}", parent, value
        if isinstance(value, (Mapping, list)):
            yield from _dotted(value, f"{parent}{key}.")


def read_classifier_config(folder: Path) -> dict[str, Any]:
    """Read and validate a classifier's ``config.json``; ``classifier`` remains a plain dictionary."""
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"Expected {folder} to be a classifier, but it holds no {CONFIG}: give another folder.")
    entries = _object(path)
    kind, version = entries.get("kind", CLASSIFIER), entries.get("format", CLASSIFIER_FORMAT)
    if kind != CLASSIFIER:
        raise InputError(
            f"Expected {folder} to be a classifier, but it holds a metric: give the folder beside it that training "
            "wrote with `classifiers: true`, or load it with `textmover.scoring.load_metric`."
        )
    if version != CLASSIFIER_FORMAT:
        raise InputError(
            f"Expected {path} to be of a {CLASSIFIER} in format {CLASSIFIER_FORMAT}, but got format {version!r}: "
            "install a newer textmover."
        )
    for key in ("kind", "format", "classifier", "metric", "encoder", "files"):
        if key not in entries or (key in ("classifier", "files") and not isinstance(entries[key], Mapping)):
            raise InputError(
                f"Expected {path} to describe a classifier, but `{key}` is missing or invalid: give a folder that "
                "`save_classifier` wrote."
            )
    check_entries(path, entries, (), CLASSIFIER_SHAPES)
    return entries


def _object(path: Path) -> dict[str, Any]:
    entries = read_json(path)
    return entries if isinstance(entries, dict) else {}
