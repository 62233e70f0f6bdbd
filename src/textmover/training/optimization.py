"""Optimiser groups by layer depth, learning-rate schedule and gradient checkpointing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from textmover.modules.encoder.encoder import Encoder
from textmover.types import InputError, check_choice, check_share

Schedule = Literal["linear", "cosine", "constant"]

SETTINGS = ("lr", "weight_decay", "betas")  # group options that a resumed run takes from its recipe


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and decay, optionally by layer."""

    learning_rate: float = 3e-5  # peak rate of the encoder
    head_learning_rate: float = 1e-3  # peak rate of temperature, calibration and heads
    weight_decay: float = 0.01  # for matrices; biases, norms, temperature, calibration and heads have none
    beta1: float = 0.9  # decay of the running mean of gradients
    beta2: float = 0.999  # decay of the running mean of squared gradients
    warmup: float = 0.1  # share of the steps over which the rate rises from 0
    final: float = 0.0  # share of the peak rate at the last step; ignored by the constant schedule
    schedule: Schedule = "linear"  # shape of the decay after the warm-up
    layer_decay: float = 1.0  # learning-rate ratio of a layer to the layer above it; 1 for equal rates
    thaw: float = 0.0  # share of the steps between unfreezing layers from the top down; 0 trains all at once

    def __post_init__(self) -> None:
        for name in ("learning_rate", "head_learning_rate", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError(f"Expected `{name}` to be a finite number of at least 0, but got {value}.")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise InputError(f"Expected `{name}` to be at least 0 and below 1, but got {value}.")
        for name in ("warmup", "final", "thaw"):
            check_share(name, getattr(self, name))
        if not 0 < self.layer_decay <= 1:
            raise InputError(
                f"Expected `layer_decay` to be above 0 and at most 1, but got {self.layer_decay}: to keep lower "
                "layers as they are, set `freeze_layers`."
            )
        check_choice("schedule", self.schedule, get_args(Schedule))

    @property
    def by_depth(self) -> bool:
        """Return whether layers have different rates or are unfrozen gradually."""
        return self.layer_decay != 1 or self.thaw != 0


def layer_depths(model: nn.Module) -> dict[str, int]:
    """Return the depth of encoder parameters by name: 0 for embeddings, ``i`` for block ``i``, the top for the rest.

    The blocks are the first ``ModuleList``, as in all Hugging Face encoders. Blocks above the highest layer in use have
    its depth. Embedding tables outside the blocks have depth 0, even if they follow the blocks (as relative-position
    tables do).

    Example:
        >>> blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        >>> layer_depths(nn.Sequential(nn.Embedding(5, 2), blocks, nn.Linear(2, 2, bias=False)))
        {'0.weight': 0, '1.0.weight': 1, '1.0.bias': 1, '1.1.weight': 2, '1.1.bias': 2, '2.weight': 2}
    """
    blocks = next((one for one in model.modules() if isinstance(one, nn.ModuleList) and len(one) > 0), None)
    if blocks is None:
        raise InputError(
            f"Expected an encoder with a list of blocks, but {type(model).__name__} has none: leave `layer_decay` at 1 "
            "and `thaw` at 0."
        )
    top = max(model.layers) if isinstance(model, Encoder) else len(blocks)
    depth_by_id = {id(one): min(i, top) for i, block in enumerate(blocks, start=1) for one in block.parameters()}
    tables = (one for one in model.modules() if isinstance(one, nn.Embedding))
    depth_by_id |= {id(one): 0 for table in tables for one in table.parameters() if id(one) not in depth_by_id}
    depths, after_blocks = {}, False
    for name, parameter in model.named_parameters():
        depth = depth_by_id.get(id(parameter))
        after_blocks = after_blocks or bool(depth)
        depths[name] = depth if depth is not None else top if after_blocks else 0
    return depths


def build_optimizer(
    encoder: Iterable[tuple[str, nn.Parameter]],
    head: Iterable[tuple[str, nn.Parameter]],
    config: OptimizerConfig,
    *,
    depths: Mapping[str, int] | None = None,
) -> torch.optim.AdamW:
    """Return a fused AdamW over the trainable parameters of an encoder and its heads.

    Each group has a ``name`` and ``below``, the number of layers below the highest trained layer. ``depths``
    (:func:`layer_depths`) serve ``layer_decay`` and ``thaw`` (Howard and Ruder 2018; Clark et al. 2020).
    """
    trained = [(name, parameter) for name, parameter in encoder if parameter.requires_grad]
    layers: dict[int, list[nn.Parameter]] = {}
    for name, parameter in trained:
        if config.by_depth and name not in (depths or {}):
            raise InputError(
                f"Expected `depths` to hold the depth of {name} for `layer_decay` or `thaw`, but it does not: give "
                "those of `layer_depths`."
            )
        layers.setdefault((depths or {})[name] if config.by_depth else 0, []).append(parameter)
    top = max(layers, default=0)
    groups: list[dict[str, Any]] = []
    for depth in sorted(layers, reverse=True):
        label = f"encoder layer {depth}" if config.by_depth else "encoder"
        common = {"lr": config.learning_rate * config.layer_decay ** (top - depth), "below": top - depth}
        matrices = [parameter for parameter in layers[depth] if parameter.ndim > 1]
        vectors = [parameter for parameter in layers[depth] if parameter.ndim <= 1]
        groups.append({"params": matrices, **common, "weight_decay": config.weight_decay, "name": label})
        groups.append({"params": vectors, **common, "weight_decay": 0.0, "name": f"{label} without decay"})
    heads = [parameter for _, parameter in head if parameter.requires_grad]
    rate = config.head_learning_rate
    groups.append({"params": heads, "lr": rate, "below": 0, "weight_decay": 0.0, "name": "head"})
    nonempty = [group for group in groups if group["params"]]
    if not nonempty:
        raise InputError("Expected something to train, but every parameter is frozen: lower `freeze_layers`.")
    return torch.optim.AdamW(nonempty, betas=(config.beta1, config.beta2), fused=True)


def build_schedule(optimizer: torch.optim.Optimizer, steps: int, config: OptimizerConfig) -> LambdaLR:
    """Return a schedule with linear warm-up, then decay to the final share of the rate.

    With ``thaw``, a group ``n`` layers below the highest has factor 0 for the first ``n * thaw`` of the steps: AdamW
    then does not change it, not even by weight decay. Its gradients are still computed and enter the running moments
    and the clipped norm. Distributed training thus sees the same parameters at every step, and a resumed run continues
    like an uninterrupted one.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> factor = build_schedule(optimizer, 10, OptimizerConfig(warmup=0.2)).lr_lambdas[0]
        >>> [factor(step) for step in (0, 1, 2, 6, 10)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    still = (round(group.get("below", 0) * config.thaw * steps) for group in optimizer.param_groups)
    return LambdaLR(optimizer, [partial(_factor, steps=steps, still=one, config=config) for one in still])


def _factor(step: int, *, steps: int, still: int, config: OptimizerConfig) -> float:
    """Return the factor of a group that stays as it is for ``still`` steps; pickles, unlike a local function."""
    # A single step uses the peak rate.
    warmup_steps = max(1, round(config.warmup * steps)) if config.warmup and steps > 1 else 0
    if step < still:
        return 0.0
    if step < warmup_steps:
        return step / warmup_steps
    done = min(1.0, (step - warmup_steps) / max(1, steps - warmup_steps))
    rate = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[config.schedule]
    return config.final + (1 - config.final) * rate


def take_settings(schedule: Any, settings: Sequence[Mapping[str, Any]]) -> None:
    """Restore a recipe's settings in a schedule and its optimiser after a checkpoint was loaded."""
    schedule.base_lrs = [one["lr"] for one in settings]
    for group, one, factor in zip(schedule.optimizer.param_groups, settings, schedule.lr_lambdas, strict=True):
        group |= {**one, "initial_lr": one["lr"], "lr": one["lr"] * factor(schedule.last_epoch)}


def checkpoint_activations(encoder: nn.Module) -> None:
    """Enable gradient checkpointing, which recomputes activations in the backward pass: less memory, more time.

    The gradients are the same, and nothing changes outside training mode (Chen et al. 2016, Training Deep Nets with
    Sublinear Memory Cost).
    """
    model: Any = encoder.model if isinstance(encoder, Encoder) else None
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise InputError(
            f"Expected an encoder that supports gradient checkpointing, but {type(model or encoder).__name__} does "
            "not: leave it off."
        )
    # Hugging Face 5 renamed it. Non-reentrant mode works with frozen embeddings and DDP.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    if getattr(model, "_require_grads_hook", None) is not None:
        model.disable_input_require_grads()  # only reentrant mode needs this hook, which cannot be pickled
