"""Device, evaluation mode and arithmetic of scoring, whatever the program around it has chosen for torch.

Forked processes have none of their parent's threads: locks and thread pools are renewed in the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import platform
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from textmover.types import InputError

logger = logging.getLogger(__name__)

_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()
_OWNERS: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """Return a lock that is free in forked children, whichever thread of the parent held it."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def renew_in_child(owner: Any) -> None:
    """Call ``owner.forked()`` in forked children."""
    _OWNERS.add(owner)


def keep_for_ever(*held: object) -> None:
    """Never free objects: in a forked child, their ends would wait for threads of the parent."""
    for one in held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _renew() -> None:
    gc.freeze()  # garbage of the parent is left alone: ends of its OpenVINO objects wait for the parent's threads
    for lock in _LOCKS:
        lock._at_fork_reinit()
    for owner in list(_OWNERS):
        owner.forked()


if hasattr(os, "register_at_fork"):  # everywhere but on Windows
    os.register_at_fork(after_in_child=_renew)


@contextlib.contextmanager
def own_arithmetic() -> Iterator[None]:
    """Compute in the dtype of the weights, on their device, with products in float32.

    Autocast, the default dtype and device, and fewer digits of products (``torch.set_float32_matmul_precision``) are
    set aside inside, since no signature names them. The default dtype and the products are settings of the process: the
    first thread that comes changes them, and the last that goes puts them back.
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
        self._before: tuple[torch.dtype, str | None, list[str]] = (torch.float32, "highest", [])
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
                self._before = (torch.get_default_dtype(), *_products())
                _, word, kinds = self._before
                _choose(torch.float32, word and "highest", [] if word else ["ieee"] * len(kinds))
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside = max(0, self._inside - 1)  # forked inside, it is 0 already
                if not self._inside:
                    _choose(*self._before)

    def forked(self) -> None:
        """Put back what threads of the parent have changed, and compute in one thread from now on."""
        if self._inside:
            _choose(*self._before)
        self._inside, self._is_child = 0, self._was_used


def _products() -> tuple[str | None, list[str]]:
    """Precision of matrix products: one for all devices (``None`` with the newer interface), one for each kind."""
    kinds = [part.matmul.fp32_precision for part in _parts() if hasattr(part.matmul, "fp32_precision")]
    try:
        return torch.get_float32_matmul_precision(), kinds
    except RuntimeError:
        return None, kinds


def has_whole_products() -> bool:
    """Return whether matrix products keep all digits of float32, as :func:`own_arithmetic` lets them."""
    word, kinds = _products()
    return word in (None, "highest") and {"ieee", "none"}.issuperset(kinds)


def _choose(dtype: torch.dtype, word: str | None, kinds: list[str]) -> None:
    torch.set_default_dtype(dtype)
    if word is not None:
        torch.set_float32_matmul_precision(word)  # of all kinds
    for part, value in zip(_parts(), kinds, strict=False):
        if part.matmul.fp32_precision != value:
            part.matmul.fp32_precision = value


def _parts() -> list[Any]:
    return [torch.backends.cuda, torch.backends.mkldnn]


_SETTINGS = _Settings()


def resolve_device(device: str | torch.device | None) -> torch.device:
    """The device of a name; ``None`` is the GPU of this process, or the CPU where there is none."""
    if device is None:
        if not torch.cuda.is_available():
            return torch.device("cpu")
        # Launchers say which GPU is this process's; a metric may be made before anything has chosen it.
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device())))
    try:
        resolved = torch.device(device)
        torch.zeros(1, device=resolved).item()  # refuses the meta device, which has no data
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__).split(". ")[0]
        gpus = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        has = ", ".join(("cpu", *(kind for kind in gpus if gpus[kind])))
        reason = "" if reason.startswith("Expected one of") else f"{reason}; "  # torch's list of all devices
        lacks_cuda = str(device).startswith("cuda") and not gpus["cuda"]
        way_out = " (use cpu, or install PyTorch with CUDA)" if lacks_cuda else ""
        raise InputError(
            f"Expected `device` to be one that this machine has, but got {str(device)!r}: {reason}this machine has "
            f"{has}{way_out}."
        ) from error
    return resolved


def log_device(name: str, device: str | torch.device) -> None:
    """Log where a metric computes; commands show it unless it is the processor."""
    logger.info("%s computes on %s.", name, device)


def weights_version(module: object) -> int:
    """Return a number that changes when weights of a module are changed in place, as by an optimiser."""
    weights = module.parameters() if isinstance(module, nn.Module) else ()
    return sum(one._version for one in weights if not one.is_inference())  # which know no version


def machine_of(device: torch.device) -> str:
    """Hardware that the last digits of results depend on.

    The kind of processor decides in which order the products of a matrix are added up. The number of threads is not
    among it: each batch belongs to one, unless there is no other (docs/scoring-at-scale.md).
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}" if device.type == "cpu" else device.type


@contextlib.contextmanager
def scoring_mode(metric: object) -> Iterator[None]:
    """Evaluation mode and own arithmetic without gradients, whatever surrounds the call."""
    mode = evaluating(metric) if isinstance(metric, nn.Module) else contextlib.nullcontext()
    with mode, own_arithmetic(), torch.inference_mode():
        yield


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, the earlier mode of every module afterwards."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
