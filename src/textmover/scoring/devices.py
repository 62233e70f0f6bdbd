"""Where metrics run."""

from __future__ import annotations

import os

import torch

from textmover.types import InputError

__all__ = ["resolve_device"]


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
        torch.zeros(1, device=resolved)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__).split(". ")[0]
        raise InputError(
            f"Expected `device` to be one that this machine has, but got {str(device)!r}: {reason}"
        ) from error
    return resolved
