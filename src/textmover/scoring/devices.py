"""Where metrics run."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from textmover.types import InputError

__all__ = ["machine_of", "resolve_device", "whole_products"]


def resolve_device(device: str | torch.device | None) -> torch.device:
    """The device that is meant.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, …; ``None`` takes this process's GPU, or the CPU where there is none.

    Returns:
        The device.

    Raises:
        InputError: If this machine has no such device.

    Example:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    if device is None:
        if not torch.cuda.is_available():
            return torch.device("cpu")
        # Launchers say which GPU is this process's; a metric may be made before anything has chosen it.
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device())))
    try:
        resolved = torch.device(device)
        torch.zeros(1, device=resolved).item()  # "meta" holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__).split(". ")[0]
        raise InputError(
            f"Expected `device` to be one that this machine has, but got {str(device)!r}: {reason}"
        ) from error
    return resolved


def machine_of(device: torch.device) -> str:
    """What results depend on in their last digits, beside the versions of what computes them.

    The kind of processor decides in which order the products of a matrix are added up. The number of threads is not
    among it: each batch belongs to one, unless there is no other (docs/streaming.md).
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}" if device.type == "cpu" else device.type


@contextlib.contextmanager
def whole_products() -> Iterator[None]:
    """Multiply matrices of float32 in float32 inside, whatever the program around has chosen.

    Trainings often ask for fewer digits (``torch.set_float32_matmul_precision("high")``), which a GPU takes as leave
    for TensorFloat-32: ten bits of each factor. Scores would then hang on a setting that no signature tells. It is one
    for all threads: the first that comes changes it, and the last that goes puts it back.
    """
    with _LOCK:
        if not _INSIDE:
            _CHOSEN[:] = _products()
            _choose(["ieee"] * len(_CHOSEN) if len(_CHOSEN) > 1 else ["highest"])
        _INSIDE.append(None)
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.pop()
            if not _INSIDE:
                _choose(_CHOSEN)


_LOCK = threading.Lock()
_INSIDE: list[None] = []
_CHOSEN: list[str] = []


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
