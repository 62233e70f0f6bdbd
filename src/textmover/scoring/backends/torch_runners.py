"""torch on the CPU with prepacked weights, and ``torch.compile``."""

from __future__ import annotations

import copy
import platform
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from textmover.modules.devices import keep_for_ever, new_lock, renew_in_child
from textmover.modules.encoder.encoder import EncoderGraph, drop_capturing_hooks
from textmover.scoring.backends.graph import quiet_converters
from textmover.scoring.backends.names import BackendError, version

MACHINES = ("x86_64", "AMD64")  # processors, as Python names them, on which this was measured to be faster

ROWS = 1024
"""Rows of the products that the weights are laid out for: the tokens of a batch, about. Others work as well."""

ACTIVATED = (("dense", "intermediate_act_fn"), ("ffn", "activation"), ("lin1", "activation"))
"""First linear map of a feed-forward block and the activation behind it, by their names in the families of encoders."""


class _GraphRunner:
    """Runs a graph that is changed at the first call, also of a pickle."""

    row_runner = None

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._made: Any = None
        self._lock = new_lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_graph": self._graph}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_graph"])  # type: ignore[misc]


class PackedRunner(_GraphRunner):
    """Runs an encoder's model with linear maps whose weights are packed for the processor, and so held twice."""

    name = "torch"
    precision = "exact"

    @property
    def concurrent(self) -> bool:
        """Return whether calls from several threads run beside one another."""
        return bool(self._graph.concurrent)

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Hidden states of the layers ``[B, L, D]`` each, from token ids (int64) and mask (bool) ``[B, L]``."""
        with self._lock:
            if self._made is None:
                self._made = _packed(self._graph)
        # Where nothing is padded, no mask lets attention take its fastest path.
        return list(self._made(input_ids, None if bool(mask.all()) else mask.long()))


class PackedLinear(nn.Module):
    """A linear map with packed weights beside the model's own, and GELU behind it where that is asked for."""

    def __init__(self, linear: nn.Linear, activation: str = "none") -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self._activation = activation
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)

    def forward(self, values: Tensor) -> Tensor:
        """Map values ``[..., inputs]``."""
        # What torch.compile makes of a linear map with constant weights; torch has no public name for it.
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            values, self._packed, self.bias, self._activation, [], "none" if self._activation == "gelu" else ""
        )
        return result


def packed_runner(graph: nn.Module) -> PackedRunner | None:
    """Runner with packed weights; ``None`` unless in float32 on a processor that gains by it."""
    weights = next(graph.parameters())
    able = (
        platform.machine() in MACHINES
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    )
    if not able or not isinstance(graph, EncoderGraph) or weights.device.type != "cpu":
        return None
    return PackedRunner(graph) if weights.dtype == torch.float32 else None


def _packed(graph: EncoderGraph) -> EncoderGraph:
    drop_capturing_hooks(graph)
    # The structure is copied, the values are not.
    packed = copy.deepcopy(graph, {id(one): one for one in (*graph.parameters(), *graph.buffers())})
    for module in list(packed.modules()):
        for linear, activation in ACTIVATED:
            inner = getattr(module, linear, None)
            if _is_plain(inner) and _is_gelu(getattr(module, activation, None)):
                setattr(module, linear, PackedLinear(inner, "gelu"))
                setattr(module, activation, nn.Identity())
        for name, child in list(module.named_children()):
            if _is_plain(child):
                setattr(module, name, PackedLinear(child))
    return packed


def _is_plain(module: object) -> TypeGuard[nn.Linear]:
    """Return whether a module is a linear map and nothing else: those of a kind of their own, or with hooks, stay."""
    return type(module) is nn.Linear and not module._forward_hooks and not module._forward_pre_hooks


def _is_gelu(module: object) -> bool:
    """Return whether a module is GELU as it is defined, and none of its approximations."""
    from transformers.activations import GELUActivation

    return isinstance(module, GELUActivation) and module.act is nn.functional.gelu


class CompiledRunner(_GraphRunner):
    """Runs an encoder's model compiled at the first call, which needs a C++ compiler on the CPU."""

    concurrent = False

    def __init__(self, graph: nn.Module) -> None:
        super().__init__(graph)
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
        """Hidden states of the layers ``[B, L, D]`` each, from token ids (int64) and mask (bool) ``[B, L]``."""
        # Compiling, again for shapes of another kind, is not for several threads at a time.
        with self._lock, quiet_converters():
            if self._made is None:
                self._made = torch.compile(self._graph, dynamic=True)
            try:
                return list(self._made(input_ids, mask.long()))
            except torch._dynamo.exc.TorchDynamoException as error:
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise BackendError(
                    f"Expected torch.compile to work for this encoder, but got: {reason:.300} Set backend='torch'."
                ) from error

    def forked(self) -> None:
        """Compile again in a forked child: the code has the parent's number of threads."""
        keep_for_ever(self._made)
        self._made = None
