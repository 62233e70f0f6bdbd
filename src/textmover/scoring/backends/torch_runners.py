"""Runners for torch: prepacked weights on the CPU, and ``torch.compile``."""

from __future__ import annotations

import platform
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from textmover.lazy import new_lock, reset_after_fork
from textmover.modules.devices import keep_for_ever
from textmover.modules.encoder.encoder import EncoderGraph, drop_capturing_hooks
from textmover.scoring.backends.graph import quiet_converters
from textmover.scoring.backends.names import BackendError, version

MACHINES = ("x86_64", "AMD64")  # values of platform.machine() for which packing was measured to be faster

ROWS = 1024
"""Number of rows that the weight layout is optimised for, about the tokens of a batch; any number works."""

ACTIVATED = (("dense", "intermediate_act_fn"), ("ffn", "activation"), ("lin1", "activation"))
"""Names of the first linear layer of a feed-forward block and of its activation, by encoder family."""


class _GraphRunner:
    """Runs a graph that is transformed at the first call, also after unpickling."""

    row_runner = None

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._ready_graph: Any = None
        self._lock = new_lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_graph": self._graph}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_graph"])  # type: ignore[misc]


class PackedRunner(_GraphRunner):
    """Runs an encoder whose linear layers have weights packed for the CPU; doubles the memory for weights."""

    name = "torch"
    precision = "exact"

    @property
    def concurrent(self) -> bool:
        """Return whether calls from several threads can run in parallel."""
        return bool(self._graph.concurrent)

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the hidden states ``[B, L, D]`` of each layer for token ids (int64) and mask (bool) ``[B, L]``."""
        with self._lock:
            if self._ready_graph is None:
                self._ready_graph = _packed(self._graph)
        # Without padding, omitting the mask enables the fastest attention kernel.
        return list(self._ready_graph(input_ids, None if bool(mask.all()) else mask.long()))


class PackedLinear(nn.Module):
    """Linear layer with packed weights in addition to the original ones, optionally fused with GELU."""

    def __init__(self, linear: nn.Linear, activation: str = "none") -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self._activation = activation
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)

    def forward(self, values: Tensor) -> Tensor:
        """Apply the layer to values ``[..., inputs]``."""
        # The operator that torch.compile generates for constant weights; it has no public name.
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            values, self._packed, self.bias, self._activation, [], "none" if self._activation == "gelu" else ""
        )
        return result


def packed_runner(graph: nn.Module) -> PackedRunner | None:
    """Return a runner with packed weights, or ``None`` if not float32 or not on a CPU that benefits."""
    weights = next(graph.parameters())
    supported = (
        platform.machine() in MACHINES
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    )
    if not supported or not isinstance(graph, EncoderGraph) or weights.device.type != "cpu":
        return None
    return PackedRunner(graph) if weights.dtype == torch.float32 else None


def _sharing_copy(module: Any, copies: dict[Any, Any]) -> Any:
    """Copy modules and their hooks, but share all else, such as tensors; deepcopy takes ten times as long."""
    if module not in copies:
        copies[module] = copied = module.__class__.__new__(module.__class__)
        vars(copied).update({name: one.copy() if isinstance(one, dict) else one for name, one in vars(module).items()})
        children = ((name, child) for name, child in module._modules.items() if child is not None)
        copied._modules.update({name: _sharing_copy(child, copies) for name, child in children})
    return copies[module]


def _packed(graph: EncoderGraph) -> EncoderGraph:
    drop_capturing_hooks(graph)
    packed: EncoderGraph = _sharing_copy(graph, {})
    for module in list(packed.modules()):
        for linear, activation in ACTIVATED:
            layer = getattr(module, linear, None)
            if _is_plain(layer) and _is_gelu(getattr(module, activation, None)):
                setattr(module, linear, PackedLinear(layer, "gelu"))
                setattr(module, activation, nn.Identity())
        for name, child in list(module.named_children()):
            if _is_plain(child):
                setattr(module, name, PackedLinear(child))
    return packed


def _is_plain(module: object) -> TypeGuard[nn.Linear]:
    """Return whether a module is exactly ``nn.Linear`` without hooks."""
    return type(module) is nn.Linear and not module._forward_hooks and not module._forward_pre_hooks


def _is_gelu(module: object) -> bool:
    """Return whether a module is exact GELU, not an approximation."""
    from transformers.activations import GELUActivation

    return isinstance(module, GELUActivation) and module.act is nn.functional.gelu


class CompiledRunner(_GraphRunner):
    """Runs an encoder compiled at the first call; on the CPU this needs a C++ compiler."""

    concurrent = False

    name = f"torch-compile-{version('torch')}"

    def __init__(self, graph: nn.Module) -> None:
        super().__init__(graph)
        reset_after_fork(self)

    @property
    def precision(self) -> str:
        """Arithmetic, given by the dtype of the weights."""
        dtype = next(self._graph.parameters()).dtype
        return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype, "exact")

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the hidden states ``[B, L, D]`` of each layer for token ids (int64) and mask (bool) ``[B, L]``."""
        # Compilation, which new kinds of shapes repeat, is not thread-safe.
        with self._lock, quiet_converters():
            if self._ready_graph is None:
                self._ready_graph = torch.compile(self._graph, dynamic=True)
            try:
                return list(self._ready_graph(input_ids, mask.long()))
            except torch._dynamo.exc.TorchDynamoException as error:
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise BackendError(
                    f"Expected torch.compile to work for this encoder, but got: {reason:.300} Set backend='torch'."
                ) from error

    def forked(self) -> None:
        """Discard the compiled code in a forked child: it has the parent's number of threads."""
        keep_for_ever(self._ready_graph)
        self._ready_graph = None
