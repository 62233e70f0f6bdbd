"""The network of RoMe's authors, from their own file, which users bring."""

from __future__ import annotations

import pickle
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from torch import Tensor

from textmover.reading import read_json
from textmover.rome.scorer_network import FeatureScorer, ScorerConfig
from textmover.types import InputError

__all__ = ["OFFICIAL", "read_official"]

OFFICIAL = ScorerConfig(("acceptability", "syntactic", "semantic"), (30, 20), ("none", "relu"))
"""The authors' layers: 3 -> 30 (no activation; their dropout rests in evaluation) -> 20, ReLU -> 1, sigmoid."""

LAYERS = ("hid1", "hid2", "out")
"""Their names of the layers."""

SAFE = {
    ("collections", "OrderedDict"),
    ("builtins", "set"),
    ("__builtin__", "set"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
}
"""All that is called while a file is read."""


def read_official(path: Path | str) -> FeatureScorer:
    """The authors' trained network as a scorer of ours.

    Args:
        path: The file that their repository holds (``torch.save`` of the module or of its weights), or JSON with its
            tensors by name. Nothing in the file is run: classes are read as names, tensors as numbers.

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
        if is_zipfile(path):
            found = _tensors(torch.load(path, map_location="cpu", pickle_module=_reader(), weights_only=False))
        else:
            entries = read_json(path)
            found = {name: torch.tensor(one) for name, one in entries.items()}
    except (pickle.UnpicklingError, RuntimeError, ValueError, TypeError, AttributeError, EOFError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"Expected {path} to be the network of RoMe's authors (a file of torch.save or JSON), but got: {reason}"
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


class _Opaque:
    """Stands for an object of a class that is not loaded: it takes whatever state the file gives it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(module, name) if (module, name) in SAFE else type(name, (_Opaque,), {})


def _reader() -> types.ModuleType:
    """A stand-in for the module ``pickle`` that calls nothing but what builds tensors."""
    module = types.ModuleType("tensors_only")
    module.Unpickler = _Unpickler  # type: ignore[attr-defined]
    module.load = lambda file, **_: _Unpickler(file).load()  # type: ignore[attr-defined]
    return module


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
