"""RoMe's scorer networks by name: released ones, the authors' file, a file, or a new one to train."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from textmover.files import atomic_file, user_cache
from textmover.reading import read_json
from textmover.rome.config import MEAN
from textmover.rome.scorer.network import FeatureScorer, ScorerConfig
from textmover.types import InputError

OFFICIAL = ScorerConfig(("acceptability", "syntactic", "semantic"), (30, 20), ("none", "relu"))
"""The authors' layers: 3 -> 30 (no activation; their dropout rests in evaluation) -> 20, ReLU -> 1, sigmoid."""

LAYERS = ("hid1", "hid2", "out")
"""Their names of the layers."""


def read_official(path: Path | str) -> FeatureScorer:
    """The authors' trained network as a scorer of ours.

    Args:
        path: The file that their repository holds (``torch.save`` of the module or of its weights), or JSON with its
            tensors by name. Nothing in the file runs: classes are read as names, tensors as numbers, and TorchScript
            is refused.

    Returns:
        The network; its features enter in the authors' order, acceptability, syntactic, semantic.

    Raises:
        InputError: If there is no such file, or it holds other layers.

    Reference:
        Rony et al. 2022 (RoMe), section 3.4, and the authors' code, github.com/rashad101/RoMe.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"Expected the network of RoMe's authors, but there is no file {path}.")
    try:
        if path.read_bytes().lstrip()[:1] == b"{":
            found = {name: torch.tensor(one) for name, one in read_json(path).items()}
        else:
            found = _tensors(_load(path))
    except InputError:  # of JSON, with its line
        raise
    except Exception as error:  # bytes that are no checkpoint fail in the unpickler in any way
        code = "torchscript" in str(error).lower()
        what = "TorchScript, which is code" if code else "a damaged file or objects that are no tensors"
        raise InputError(
            f"Expected {path} to be the network of RoMe's authors (a file of torch.save or JSON), but got {what}: save "
            "the weights again, torch.save(module.state_dict(), FILE)."
        ) from error
    scorer = FeatureScorer(OFFICIAL)
    state = scorer.state_dict()
    for number, name in enumerate(LAYERS):
        for kind, ours in (("weight", "weights"), ("bias", "biases")):
            wanted = state[f"{ours}.{number}"]
            tensor = found.get(f"{name}.{kind}")
            if tensor is None or tensor.shape != wanted.shape:
                got = "none" if tensor is None else list(tensor.shape)
                raise InputError(
                    f"Expected {path} to hold {name}.{kind} of shape {list(wanted.shape)}, but got {got}: give the "
                    "scorer network of RoMe's authors."
                )
            state[f"{ours}.{number}"] = tensor.detach().float()
    scorer.load_state_dict(state)
    return scorer.eval()


def _load(path: Path) -> Any:
    """Read a file of ``torch.save``: every class that it names stands for its data alone."""
    names: list[str] = []
    if is_zipfile(path):
        with ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise BadZipFile
        names = get_unsafe_globals_in_checkpoint(path)
    with safe_globals([(_Opaque, name) for name in names]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickles that torch did not write
        return torch.load(path, map_location="cpu", weights_only=True)


class _Opaque:
    """Stands for an object of a class that is not loaded: it takes whatever state the file gives it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def _tensors(found: Any, prefix: str = "") -> dict[str, Tensor]:
    """Tensors by name, of a mapping of weights or of a module's insides."""
    if isinstance(found, Tensor):
        return {prefix.rstrip("."): found}
    if isinstance(found, _Opaque):
        insides = vars(found)
        found = {**insides.get("_parameters", {}), **insides.get("_modules", {})}
    if not isinstance(found, Mapping):
        return {}
    return {name: one for key, value in found.items() for name, one in _tensors(value, f"{prefix}{key}.").items()}


OFFICIAL_NAME = "official"
"""The network of RoMe's authors, once a user has converted their file."""

NEW: Mapping[str, Mapping[str, Any]] = {
    "new-paper": {"hidden": (20,), "activations": ("relu",)},
    "new-monotone": {"hidden": (8, 8), "activations": ("tanh", "tanh"), "monotone": True},
}
"""Networks to train, by name: layers for any features."""

SHIPPED = Path(__file__).parent / "networks"


def build_scorer(name: str, features: tuple[str, ...]) -> FeatureScorer | None:
    """The scorer of a name, with the features that a new one is to see; ``None`` for the mean."""
    if name == MEAN:
        return None
    if name in NEW:
        return FeatureScorer(ScorerConfig(features, **NEW[name]))
    if name == OFFICIAL_NAME:
        file = official_file()
        if not file.is_file():
            raise InputError(
                "Expected the network of RoMe's authors, but it is not here, since it is theirs: get scorer weights "
                "from github.com/rashad101/RoMe and convert them once: python -m textmover.rome.convert FILE."
            )
        return _read(file)
    shipped = shipped_scorers()
    if name in shipped:
        return _read(shipped[name])
    if Path(name).expanduser().is_file():
        return _read(Path(name).expanduser())
    choices = ", ".join((MEAN, OFFICIAL_NAME, *shipped, *NEW))
    raise InputError(f"Expected `scorer` to be one of {choices}, or a file, but got {name!r}.")


def shipped_scorers() -> dict[str, Path]:
    """Files of the trained networks that come along, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.json"))}


def official_file() -> Path:
    """Path of the converted network of RoMe's authors, in the user's cache."""
    return user_cache() / "rome" / "official.json"


def write_scorer(scorer: FeatureScorer, path: Path, **about: Any) -> None:
    """Write a network as JSON, with its description; the file appears when it is complete."""
    with atomic_file(path) as stream:
        json.dump({**about, **scorer.entries()}, stream, indent=1)
        stream.write("\n")


def convert_official(source: Path | str, target: Path | None = None) -> Path:
    """Convert the file of RoMe's authors, so that ``scorer="official"`` finds it."""
    target = target or official_file()
    write_scorer(read_official(source), target, about="network of RoMe's authors, github.com/rashad101/RoMe")
    return target


def _read(path: Path) -> FeatureScorer:
    try:
        entries = read_json(path)
        if not isinstance(entries, dict):
            raise InputError(f"Expected the description of a scorer network, but got {type(entries).__name__}")
        scorer = FeatureScorer.from_entries(entries).eval()
        about = entries.get("about")
        seen = about.get("features", "") if isinstance(about, dict) else ""  # the signature of what gave the features
        scorer.learned_from = dict(part.split(":", 1) for part in str(seen).split("|") if ":" in part)
        return scorer
    except (OSError, ValueError) as error:
        raise InputError(f"Expected {path} to hold a scorer network, but: {error}") from error
