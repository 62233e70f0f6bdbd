"""Scoring computes the same numbers whatever the program around it has chosen for torch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch

__all__ = ["lasting", "own_arithmetic"]


@contextlib.contextmanager
def own_arithmetic() -> Iterator[None]:
    """Compute in the dtype of the weights, on their device, with products in float32.

    What the program around has chosen is set aside inside: autocast, the default dtype and device, and fewer digits of
    products. Trainings often ask for these (``torch.set_float32_matmul_precision("high")`` lets a GPU take ten bits of
    each factor), and scores would depend on a setting that no signature names. The default dtype and the products are
    settings of the process: the first thread that comes changes them, and the last that goes puts them back.
    """
    with contextlib.ExitStack() as stack:
        for kind in ("cpu", "cuda", "mps"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(_own_settings())
        yield


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """Own arithmetic for what outlasts a call: weights, statistics, graphs, which are not to be inference tensors."""
    with own_arithmetic(), torch.inference_mode(False), torch.no_grad():
        yield


_LOCK = threading.Lock()
_INSIDE: list[None] = []
_CHOSEN: list[Any] = []


@contextlib.contextmanager
def _own_settings() -> Iterator[None]:
    with _LOCK:
        if not _INSIDE:
            products = _products()
            _CHOSEN[:] = torch.get_default_dtype(), products
            torch.set_default_dtype(torch.float32)
            _choose(["ieee"] * len(products) if len(products) > 1 else ["highest"])
        _INSIDE.append(None)
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.pop()
            if not _INSIDE:
                torch.set_default_dtype(_CHOSEN[0])
                _choose(_CHOSEN[1])


def _products() -> list[str]:
    """How products are made: one word for all devices, or one for each kind where the newer interface was used."""
    try:
        return [torch.get_float32_matmul_precision()]
    except RuntimeError:
        return [part.matmul.fp32_precision for part in _parts()]


def _choose(products: Sequence[str]) -> None:
    if len(products) == 1:
        torch.set_float32_matmul_precision(products[0])
        return
    for part, value in zip(_parts(), products, strict=True):
        part.matmul.fp32_precision = value


def _parts() -> list[Any]:
    return [torch.backends.cuda, torch.backends.mkldnn]
