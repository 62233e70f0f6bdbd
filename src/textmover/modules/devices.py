"""Device, evaluation mode and arithmetic of scoring, independent of the caller's torch settings.

A forked child has none of its parent's threads, so locks and thread pools are renewed in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import platform
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from textmover.lazy import new_lock, reset_after_fork
from textmover.types import InputError

logger = logging.getLogger(__name__)


def keep_for_ever(*held: object) -> None:
    """Prevent objects from ever being freed: in a forked child, their destructors would wait for parent threads."""
    for one in held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


@contextlib.contextmanager
def own_arithmetic() -> Iterator[None]:
    """Context in which torch computes in the dtype and on the device of the weights, with float32 matrix products.

    It disables autocast, the default dtype and device, and a lower ``torch.set_float32_matmul_precision``, since no
    signature names them. The default dtype and the precision are settings of the process: the first thread to enter
    changes them, and the last one to leave restores them.
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
    """:func:`own_arithmetic` for results that outlast a call, such as weights: no inference tensors, no gradients."""
    with own_arithmetic(), torch.inference_mode(False), torch.no_grad():
        yield


class _Settings:
    """Default dtype and matrix product precision of the process while any of its threads scores."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._inside = 0
        self._before: tuple[torch.dtype, str | None, list[str]] = (torch.float32, "highest", [])
        self._was_used = self._is_child = False
        reset_after_fork(self)

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """Apply the settings inside; the last thread to leave restores the caller's."""
        with self._lock:
            self._was_used = True
            if self._is_child:
                # A forked child has none of torch's worker threads and would wait for them.
                torch.set_num_threads(1)
                self._is_child = False
            if not self._inside:
                self._before = (torch.get_default_dtype(), *_matmul_precision())
                _, precision, kinds = self._before
                _apply_settings(torch.float32, precision and "highest", [] if precision else ["ieee"] * len(kinds))
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside = max(0, self._inside - 1)  # already 0 if the process was forked inside
                if not self._inside:
                    _apply_settings(*self._before)

    def forked(self) -> None:
        """Restore settings that threads of the parent changed, and compute in one thread from now on."""
        if self._inside:
            _apply_settings(*self._before)
        self._inside, self._is_child = 0, self._was_used


def _matmul_precision() -> tuple[str | None, list[str]]:
    """Return the matrix product precision: for all devices (``None`` with the newer interface) and per backend."""
    by_backend = [backend.matmul.fp32_precision for backend in _backends() if hasattr(backend.matmul, "fp32_precision")]
    try:
        return torch.get_float32_matmul_precision(), by_backend
    except RuntimeError:
        return None, by_backend


def has_full_precision_matmul() -> bool:
    """Return whether matrix products use full float32 precision, as in :func:`own_arithmetic`."""
    precision, by_backend = _matmul_precision()
    return precision in (None, "highest") and {"ieee", "none"}.issuperset(by_backend)


def _apply_settings(dtype: torch.dtype, precision: str | None, by_backend: list[str]) -> None:
    torch.set_default_dtype(dtype)
    if precision is not None:
        torch.set_float32_matmul_precision(precision)  # for all backends
    for backend, value in zip(_backends(), by_backend, strict=False):
        if backend.matmul.fp32_precision != value:
            backend.matmul.fp32_precision = value


def _backends() -> list[Any]:
    return [torch.backends.cuda, torch.backends.mkldnn]


_SETTINGS = _Settings()


def resolve_device(device: str | torch.device | None) -> torch.device:
    """Return the device of a name; ``None`` is the GPU of this process, or the CPU without one."""
    if device is None:
        if not torch.cuda.is_available():
            return torch.device("cpu")
        # Launchers set LOCAL_RANK; a metric may be built before anything has selected the GPU.
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device())))
    try:
        resolved = torch.device(device)
        torch.zeros(1, device=resolved).item()  # fails on the meta device, which has no data
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
    """Log the device of a metric; commands show it unless it is the CPU."""
    logger.info("%s computes on %s.", name, device)


def weights_version(module: object) -> int:
    """Return a number that changes when weights of a module are modified in place, as by an optimiser."""
    version, parts = 0, [module] if isinstance(module, nn.Module) else []
    for part in parts:  # `parameters()` takes twice as long, and every score asks several times
        weights = [one for one in part._parameters.values() if one is not None]
        version += sum(one._version for one in weights if not one.is_inference())  # inference tensors have no version
        parts += [one for one in part._modules.values() if one is not None]
    return version


def machine_of(device: torch.device) -> str:
    """Return the hardware that the last digits of results depend on.

    The type of processor determines the order of summation in matrix products. The number of threads does not matter:
    each batch runs in one thread, except when there is only one batch (docs/scoring-at-scale.md).
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}" if device.type == "cpu" else device.type


@contextlib.contextmanager
def scoring_mode(metric: object) -> Iterator[None]:
    """Context of evaluation mode and :func:`own_arithmetic` without gradients, independent of the caller."""
    mode = evaluating(metric) if isinstance(metric, nn.Module) else contextlib.nullcontext()
    with mode, own_arithmetic(), torch.inference_mode():
        yield


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set evaluation mode inside, and restore the mode of every submodule afterwards."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
