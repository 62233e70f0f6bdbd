"""Scoring computes the same numbers whatever the program around it has chosen for torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from textmover.modules.forking import new_lock, renew_in_child


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
        stack.enter_context(_SETTINGS.own())
        yield


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """Own arithmetic for what outlasts a call: weights, statistics, graphs, which are not to be inference tensors."""
    with own_arithmetic(), torch.inference_mode(False), torch.no_grad():
        yield


class _Settings:
    """The default dtype and the products of this process, while any of its threads scores."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._inside = 0
        self._dtype, self._products = torch.float32, ["highest"]
        self._was_used = self._is_child = False
        renew_in_child(self)

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """Own settings inside, and those of the program around behind the last thread that leaves."""
        with self._lock:
            self._was_used = True
            if self._is_child:
                # Of the threads that torch computed with, a forked child has none, and would wait for them.
                torch.set_num_threads(1)
                self._is_child = False
            if not self._inside:
                self._dtype, self._products = torch.get_default_dtype(), _products()
                self._choose(torch.float32, ["ieee"] * len(self._products) if self._products[1:] else ["highest"])
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside = max(0, self._inside - 1)  # forked inside, it is 0 already
                if not self._inside:
                    self._choose(self._dtype, self._products)

    def forked(self) -> None:
        """Put back what threads of the parent have changed, and compute in one thread from now on."""
        if self._inside:
            self._choose(self._dtype, self._products)
        self._inside, self._is_child = 0, self._was_used

    @staticmethod
    def _choose(dtype: torch.dtype, products: Sequence[str]) -> None:
        torch.set_default_dtype(dtype)
        _choose(products)


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


_SETTINGS = _Settings()
