"""Retry on GPU out-of-memory errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


class NoRoomError(RuntimeError):
    """The device ran out of memory; the work that failed holds none of it any more."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error says that a device lacks memory, whichever library raised it."""
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in said for sign in SIGNS)
    )


class Attempt:
    """A context that holds back an out-of-memory error."""

    lack: BaseException | None = None

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        """Hold an error back that says that memory lacks."""
        if is_out_of_memory(error):
            self.lack = error.with_traceback(None) if error else None  # its frames hold the tensors of the attempt
        return self.lack is not None


def attempts(device: torch.device, *, last: bool, spare: Callable[[], bool] = lambda: False) -> Iterator[Attempt]:
    """Contexts in which to try some work: twice if ``spare`` frees memory, or if it is the ``last``, smallest piece."""
    for again in (True, False):
        attempt = Attempt()
        yield attempt
        if attempt.lack is None:
            return
        again = again and (spare() or last)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        if not again:
            raise NoRoomError(str(attempt.lack)) from attempt.lack
