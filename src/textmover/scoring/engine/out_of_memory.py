"""Retry on GPU out-of-memory errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")

SIGNS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "HIP out of memory",
    "MPS backend out of memory",
)
"""Out-of-memory messages that do not come from torch's own allocator."""


class NoRoomError(RuntimeError):
    """The device ran out of memory; the work that failed holds none of it any more."""


def in_room(
    work: Callable[[], Result], device: torch.device, *, last: bool, spare: Callable[[], bool] = lambda: False
) -> Result:
    """Do some work: tried again if ``spare`` frees memory, or if it is the ``last``, smallest piece."""
    for again in (True, False):
        try:
            return work()
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and not any(sign in str(error) for sign in SIGNS):
                raise
            lack = error.with_traceback(None)  # its frames hold the tensors of the attempt
        again = again and (spare() or last)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        if not again:
            break
    raise NoRoomError(str(lack)) from lack
