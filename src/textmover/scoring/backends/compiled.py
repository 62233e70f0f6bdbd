"""``torch.compile``: the model itself, compiled for this computer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from textmover.modules.forking import keep_for_ever, new_lock, renew_in_child
from textmover.scoring.backends.graph import quiet_converters
from textmover.scoring.backends.names import BackendError, version


class CompiledRunner:
    """Runs an encoder's model compiled; an :class:`~textmover.types.EncoderRunner`.

    It computes with the model's own weights, so copies go along with copies of the encoder. Compiling happens at the
    first call, and needs a C++ compiler on the CPU.

    Args:
        graph: The encoder's graph.
    """

    concurrent = False
    row_runner = None

    def __init__(self, graph: nn.Module) -> None:
        self._graph = graph
        self._compiled: Any = None
        self._lock = new_lock()
        renew_in_child(self)

    @property
    def name(self) -> str:
        """Back-end and its version."""
        return f"torch-compile-{version('torch')}"

    @property
    def precision(self) -> str:
        """The arithmetic, which is that of the weights."""
        dtype = next(self._graph.parameters()).dtype
        return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype, "exact")

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Hidden states of the layers ``[B, L, D]`` each, from token ids (int64) and mask (bool) ``[B, L]``.

        Raises:
            BackendError: If it cannot be compiled.
        """
        # Compiling, anew for shapes of another kind, is not for several threads at a time.
        with self._lock, quiet_converters():
            if self._compiled is None:
                self._compiled = torch.compile(self._graph, dynamic=True)
            try:
                return list(self._compiled(input_ids, mask.long()))
            except torch._dynamo.exc.TorchDynamoException as error:
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise BackendError(
                    f"Expected torch.compile to work for this encoder, but got: {reason:.300} Set backend='torch'."
                ) from error

    def forked(self) -> None:
        """Compile again in a forked child: the code has the parent's number of threads."""
        keep_for_ever(self._compiled)
        self._compiled = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_graph": self._graph}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_graph"])  # type: ignore[misc]
