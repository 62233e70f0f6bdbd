"""Argument checks of the kernels: mixed shapes, dtypes and devices raise errors and are never cast."""

from __future__ import annotations

import torch
from torch import Tensor

LOG_ZERO = -1e30
"""Replacement for log 0: finite, so that gradients are not NaN, and far below every real logit."""


def widest_float(device: torch.device) -> torch.dtype:
    """Return the widest floating-point dtype of a device: float64, or float32 on MPS."""
    return torch.float32 if device.type == "mps" else torch.float64


def check_problem(similarity: Tensor, a: Tensor, b: Tensor, *, name: str = "similarity") -> None:
    """Raise unless ``similarity [B, M, N]``, ``a [B, M]`` and ``b [B, N]`` match in shape, dtype and device."""
    if similarity.ndim != 3:
        raise ValueError(f"Expected `{name}` to have shape [B, M, N], but got {list(similarity.shape)}.")
    if similarity.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"Expected `{name}` to be float32 or float64, but got {similarity.dtype}: call `.float()` before transport."
        )
    batch, rows, columns = similarity.shape
    for label, tensor, size in (("a", a, rows), ("b", b, columns)):
        if tensor.shape != (batch, size):
            raise ValueError(f"Expected `{label}` to have shape {[batch, size]}, but got {list(tensor.shape)}.")
        if tensor.dtype != similarity.dtype or tensor.device != similarity.device:
            raise TypeError(
                f"Expected `{label}` to be {similarity.dtype} on {similarity.device} like `{name}`, "
                f"but got {tensor.dtype} on {tensor.device}."
            )


def with_empty_token(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Append a token without weight to each side of a problem whose sides may have no tokens; maxima need an entry."""
    return tuple(torch.nn.functional.pad(one, (0, 1) * (one.ndim - 1)) for one in tensors)


def check_temperature(temperature: Tensor | float, *, name: str = "temperature") -> None:
    """Raise unless a temperature given as a number is positive and finite.

    Tensors are not checked, since that would wait for the device. Modules keep learned temperatures positive.
    """
    if not isinstance(temperature, Tensor) and not 0 < temperature < float("inf"):
        raise ValueError(f"Expected `{name}` to be a positive finite number, but got {temperature}.")


def log_weights(weights: Tensor) -> Tensor:
    """Return the logarithm of weights, :data:`LOG_ZERO` for 0, with finite gradients; NaN stays NaN."""
    nothing = weights <= 0
    return torch.where(nothing, LOG_ZERO, torch.where(nothing, 1.0, weights).log())
