"""The network of RoMe's authors, from their own file, which users bring."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from textmover.reading import read_json
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
