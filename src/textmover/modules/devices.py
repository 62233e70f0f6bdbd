"""Where metrics run, and in which mode."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator

import torch
from torch import nn

from textmover.modules.arithmetic import own_arithmetic
from textmover.types import InputError


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
