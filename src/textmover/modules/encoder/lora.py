"""Detection and merging of an encoder's low-rank matrices (LoRA)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from textmover.modules.encoder.encoder import Encoder
from textmover.types import InputError

LORA_A, LORA_B, BASE = ".lora_A.default.weight", ".lora_B.default.weight", ".base_layer."
"""peft's names of an adapted layer's two matrices, and of its original weight."""


def has_lora(encoder: nn.Module) -> bool:
    """Return whether an encoder has unmerged LoRA matrices."""
    return any(name.endswith(LORA_A) for name, _ in encoder.named_parameters())


@torch.no_grad()
def merge_lora(encoder: Encoder) -> None:
    """Add the LoRA matrices to their weights and remove them, in place.

    The adapted layers become plain modules again, and the parameters trainable before ``add_lora`` are trainable
    again. The outputs in evaluation mode stay the same up to rounding in the weights' dtype.
    """
    model: nn.Module = encoder.model
    if not has_lora(encoder):
        raise InputError("Expected an encoder with LoRA, but got a plain one: there is nothing to merge.")
    adapted = [(name, module) for name, module in model.named_modules() if hasattr(module, "lora_A")]
    for name, module in adapted:
        plain: Any = module.get_base_layer()
        down, up = module.lora_A["default"].weight, module.lora_B["default"].weight
        update = low_rank_update(down, up, module.scaling["default"])
        plain.weight.copy_(added(plain.weight, update))
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, plain)
    trained: Any = model.trained_before_lora
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    del model.trained_before_lora, model.peft_config
    encoder.run_with(None)


def low_rank_update(down: Tensor, up: Tensor, scaling: float) -> Tensor:
    """Return the update of the weight ``[out, in]`` by the two matrices, in at least float32."""
    dtype = torch.promote_types(up.dtype, torch.float32)
    return scaling * (up.detach().to(dtype) @ down.detach().to(dtype))


def added(weight: Tensor, update: Tensor) -> Tensor:
    """Return the sum in the weight's dtype."""
    return (weight.detach() + update).to(weight.dtype)  # added in the wider dtype
