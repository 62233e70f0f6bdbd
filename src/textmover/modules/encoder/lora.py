"""Low-rank updates of an encoder's linear layers (LoRA): add them, detect them, and merge them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from textmover.modules.encoder.encoder import Encoder
from textmover.types import InputError, check_whole

LORA_A, LORA_B, BASE = ".lora_A.default.weight", ".lora_B.default.weight", ".base_layer."
"""Names of an adapted layer's two matrices, and of its original weight, as in the package peft."""


@dataclass(frozen=True)
class LoraConfig:
    r"""Low-rank updates of linear layers, :math:`W + \frac{\alpha}{r} B A`, with ``B`` initialised to 0.

    Reference:
        Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1.
    """

    rank: int = 8  # r: rows of A [r, in] and columns of B [out, r]
    alpha: float = 16.0  # the update is scaled by alpha / rank
    dropout: float = 0.0  # dropout rate of the update's input
    targets: str | list[str] = "attention"  # linear layers of the blocks: "attention", "all", or name suffixes

    def __post_init__(self) -> None:
        check_whole("rank", self.rank)
        if not 0 < self.alpha < float("inf"):
            raise InputError(f"Expected `alpha` to be a positive finite number, but got {self.alpha}.")
        if not 0 <= self.dropout < 1:
            raise InputError(f"Expected `dropout` to be at least 0 and below 1, but got {self.dropout}.")
        named = isinstance(self.targets, str) and self.targets in ("attention", "all")
        if not named and (isinstance(self.targets, str) or not self.targets):
            raise InputError(
                f"Expected `targets` to be 'attention', 'all' or a list of names, but got {self.targets!r}: put "
                "a single name into a list."
            )

    @property
    def scaling(self) -> float:
        """Factor of the product of the two matrices."""
        return self.alpha / self.rank


class LowRankLinear(nn.Module):
    """Linear layer with a frozen weight and a low-rank update; the state has the names of the package peft.

    Without dropout, the layer adds the update to the weight and multiplies once. This is faster than a second path for
    the update, whose elementwise operations on activations cost more than its products.
    """

    def __init__(self, base_layer: nn.Linear, config: LoraConfig) -> None:
        super().__init__()
        self.base_layer, self.scaling = base_layer, config.scaling
        place = {"device": base_layer.weight.device, "dtype": _at_least_float32(base_layer.weight.dtype)}
        self.lora_dropout = nn.Dropout(config.dropout)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base_layer.in_features, config.rank, False, **place)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(config.rank, base_layer.out_features, False, **place)})
        nn.init.zeros_(self.matrices[1])

    @property
    def matrices(self) -> tuple[Tensor, Tensor]:
        """The update's matrices ``A [r, in]`` and ``B [out, r]``."""
        down, up = self.lora_A["default"].weight, self.lora_B["default"].weight
        assert isinstance(down, Tensor)
        assert isinstance(up, Tensor)
        return down, up

    @property
    def weight(self) -> Tensor:
        """The updated weight, for encoders that read it in place of calling the layer."""
        frozen = self.base_layer.weight
        return _updated(frozen, *self.matrices, self.scaling).to(frozen.dtype)

    @property
    def bias(self) -> Tensor | None:
        """The bias."""
        return self.base_layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the products of vectors ``[..., in]`` with the updated weight, ``[..., out]``."""
        down, up = self.matrices
        if self.training and self.lora_dropout.p:
            update = F.linear(F.linear(self.lora_dropout(x).to(down.dtype), down), up)
            base: Tensor = self.base_layer(x)
            return base + (self.scaling * update).to(base.dtype)
        device = x.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.base_layer.weight.dtype
        with torch.autocast(device, enabled=False):
            plain = self.base_layer.weight, self.base_layer.bias
            return _UpdatedProduct.apply(x.to(dtype), *plain, down, up, self.scaling)  # type: ignore[no-any-return, no-untyped-call]


class _UpdatedProduct(torch.autograd.Function):
    """Product ``x (W + s B A)ᵀ + b``; its gradients are not as large as ``W`` unless ``W`` itself is trained."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, down: Tensor, up: Tensor, scaling: float
    ) -> Tensor:
        updated = _updated(weight, down, up, scaling).to(x.dtype)
        ctx.save_for_backward(x, updated, down, up)
        ctx.scaling, ctx.dtype = scaling, weight.dtype
        return F.linear(x, updated, None if bias is None else bias.to(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, updated, down, up = ctx.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            rows, flat = gradient.reshape(-1, gradient.shape[-1]), x.reshape(-1, x.shape[-1])
            of_x = (rows @ updated).view_as(x) if ctx.needs_input_grad[0] else None
            of_down = ctx.scaling * ((rows @ up.to(x.dtype)).T @ flat).to(down.dtype)
            of_up = ctx.scaling * (rows.T @ (flat @ down.to(x.dtype).T)).to(up.dtype)
            # The user may train the weight, or more often the bias, as well.
            of_weight = (rows.T @ flat).to(ctx.dtype) if ctx.needs_input_grad[1] else None
            of_bias = rows.sum(0).to(ctx.dtype) if ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias, of_down, of_up, None


def has_lora(encoder: nn.Module) -> bool:
    """Return whether an encoder has unmerged LoRA matrices."""
    return any(name.endswith(LORA_A) for name, _ in encoder.named_parameters())


def add_lora(encoder: nn.Module, config: LoraConfig) -> None:
    """Add LoRA matrices to linear layers of an encoder in place, and freeze all other weights (Hu et al. 2022).

    Layers frozen by ``freeze_layers`` get no LoRA matrices. The outputs stay the same until the first step. An encoder
    that shares weights with others is separated from them first.
    """
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"Expected LoRA on an encoder with layers, but got {type(encoder).__name__}: train with `layer: 0` and "
            "without `lora`, then make a table of the result with `textmover export RUN FOLDER --table`."
        )
    if has_lora(encoder):
        raise InputError("Expected an encoder without LoRA, but got one with LoRA: merge it with `merge_lora`.")
    encoder.leave()
    encoder.run_with(None)
    model: nn.Module = encoder.model
    targets = _targets(model, config.targets)
    model.trained_before_lora = [  # type: ignore[assignment]
        name for name, parameter in model.named_parameters() if parameter.requires_grad
    ]
    model.requires_grad_(False)
    for name in targets:
        _replace(model, name, LowRankLinear(model.get_submodule(name), config))  # type: ignore[arg-type]


def _targets(model: nn.Module, wanted: str | list[str]) -> list[str]:
    linear = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.weight.requires_grad and re.search(r"\.\d+\.", name)
    ]
    if wanted == "all":
        chosen = linear
    elif isinstance(wanted, str):
        chosen = [name for name in linear if re.search("attention|attn", name, re.IGNORECASE)]
    else:
        missing = [end for end in wanted if not any(f".{name}".endswith(f".{end}") for name in linear)]
        if missing:
            ends = sorted({re.split(r"\.\d+\.", name)[-1] for name in linear})
            raise InputError(
                f"Expected `targets` to name linear layers that are trained, but got {', '.join(missing)}: choose "
                f"among {', '.join(ends) or 'none'}."
            )
        chosen = [name for name in linear if any(f".{name}".endswith(f".{end}") for end in wanted)]
    if not chosen:
        raise InputError(
            f"Expected linear layers for LoRA with targets={wanted!r}, but none that is trained fits: lower "
            "`freeze_layers`, or name others."
        )
    return chosen


@torch.no_grad()
def merge_lora(encoder: Encoder) -> None:
    """Add the LoRA matrices to their weights and remove them, in place.

    The adapted layers become plain modules again, and the parameters trainable before ``add_lora`` are trainable
    again. The outputs in evaluation mode stay the same up to rounding in the weights' dtype.
    """
    model: nn.Module = encoder.model
    if not has_lora(encoder):
        raise InputError("Expected an encoder with LoRA, but got a plain one: there is nothing to merge.")
    adapted = [(name, module) for name, module in model.named_modules() if isinstance(module, LowRankLinear)]
    for name, module in adapted:
        plain = module.base_layer.weight
        plain.copy_(_merged(plain, *module.matrices, module.scaling))
        _replace(model, name, module.base_layer)
    trained: Any = model.trained_before_lora
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    del model.trained_before_lora
    encoder.run_with(None)


def merged_state(state: Mapping[str, Tensor], config: LoraConfig) -> dict[str, Tensor]:
    """Return the state of a metric or module with its LoRA matrices merged, as after :func:`merge_lora`.

    Tensors without LoRA matrices are not copied. The scale comes from ``config``, since a state does not store it.

    Example:
        >>> import torch
        >>> state = {"q.base_layer.weight": torch.zeros(1, 2), "q.base_layer.bias": torch.ones(1)}
        >>> state |= {"q.lora_A.default.weight": torch.ones(1, 2), "q.lora_B.default.weight": torch.ones(1, 1)}
        >>> merged_state(state, LoraConfig(rank=1, alpha=3.0))
        {'q.weight': tensor([[3., 3.]]), 'q.bias': tensor([1.])}
    """
    lora_names = [name for name in state if name.endswith((LORA_A, LORA_B))]
    adapted = dict.fromkeys(name.removesuffix(LORA_A).removesuffix(LORA_B) for name in lora_names)
    merged = {name.replace(BASE, "."): tensor for name, tensor in state.items() if name not in lora_names}
    for name in adapted:
        down, up, base = (state.get(f"{name}{end}") for end in (LORA_A, LORA_B, f"{BASE}weight"))
        if down is None or up is None or base is None:
            raise InputError(
                f"Expected {name} with both LoRA matrices and its weight, but one of the three is missing."
            )
        if len(down) != config.rank:
            raise InputError(
                f"Expected LoRA matrices of rank {config.rank}, but {name} has rank {len(down)}: give the "
                "configuration that it was trained with."
            )
        merged[f"{name}.weight"] = _merged(base, down, up, config.scaling)
    return merged


def _merged(weight: Tensor, down: Tensor, up: Tensor, scaling: float) -> Tensor:
    """Return the updated weight in its dtype, computed in at least float32."""
    dtype = _at_least_float32(up.dtype)
    update = scaling * (up.detach().to(dtype) @ down.detach().to(dtype))
    return (weight.detach() + update).to(weight.dtype)


def _updated(weight: Tensor, down: Tensor, up: Tensor, scaling: float) -> Tensor:
    return torch.addmm(weight.to(up.dtype), up, down, alpha=scaling)


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
