"""Retry on GPU out-of-memory errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

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

Result = TypeVar("Result")


class NoRoomError(RuntimeError):
    """The device ran out of memory; the work that failed holds none of it any more."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that a device lacks memory, whichever library raised it.

    Example:
        >>> is_out_of_memory(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"))
        True
        >>> is_out_of_memory(RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"))
        False
    """
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in said for sign in SIGNS)
    )


def in_room(
    work: Callable[[], Result], device: torch.device, *, last: bool, spare: Callable[[], bool] = lambda: False
) -> Result:
    """Return the result of some work; after an out-of-memory error, free its memory and the allocator's.

    It is tried again, once, if anything that others have kept there was let go.

    Args:
        work: The work.
        device: Where it takes memory.
        last: Whether it can be made no smaller: it is tried again then, since the allocator may have set aside,
            in other sizes, what it lacked.
        spare: Lets go of what is kept there and can be made again, and tells whether there was any.
    """
    lack: BaseException | None = None
    for again in (True, False):
        try:
            return work()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            lack = error.with_traceback(None)  # its frames hold the tensors of the attempt
        again = again and (spare() or last)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        if not again:
            break
    raise NoRoomError(str(lack)) from lack
