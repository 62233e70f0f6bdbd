"""Optimiser groups, their depth in the encoder, and the schedule of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from textmover.modules.encoder.encoder import Encoder
from textmover.types import InputError, check_choice, check_share

Schedule = Literal["linear", "cosine", "constant"]

SETTINGS = ("lr", "weight_decay", "betas")
"""Settings of the optimiser's groups that are those of the recipe in a resumed run too."""


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and decay, layer by layer if wanted."""

    learning_rate: float = 3e-5  # of the encoder, at its peak
    head_learning_rate: float = 1e-3  # of temperature and calibration, at its peak
    weight_decay: float = 0.01  # of matrices; biases, norms, temperature and calibration have none
    beta1: float = 0.9  # decay of the gradient's running mean
    beta2: float = 0.999  # decay of its running square
    warmup: float = 0.1  # share of the steps over which the rate rises from 0
    final: float = 0.0  # share of the peak rate at the last step; the constant schedule keeps all of it
    schedule: Schedule = "linear"  # how the rate falls after the warm-up
    layer_decay: float = 1.0  # rate of a layer as a share of that of the layer above it; 1 treats all alike
    thaw: float = (
        0.0  # share of the steps after which one more layer, from the top, starts to move; 0 moves all at once
    )

    def __post_init__(self) -> None:
        """Check every field."""
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
        """Return whether layers are treated differently."""
        return self.layer_decay != 1 or self.thaw != 0


def layer_depths(model: nn.Module) -> dict[str, int]:
    """Depth by name of each parameter of an encoder: 0 the embeddings, ``i`` the ``i``-th block, the rest as the last.

    The blocks are the first list of modules, as everywhere in Hugging Face encoders; those above the highest layer that
    is read count as the last one below. Embedding tables count as embeddings wherever they are kept (those of relative
    positions, which all blocks read, stand behind the blocks).

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
    known = {id(one): min(i, top) for i, block in enumerate(blocks, start=1) for one in block.parameters()}
    tables = (one for one in model.modules() if isinstance(one, nn.Embedding))
    known |= {id(one): 0 for table in tables for one in table.parameters() if id(one) not in known}
    depths, behind = {}, False
    for name, parameter in model.named_parameters():
        inside = known.get(id(parameter))
        behind = behind or bool(inside)
        depths[name] = inside if inside is not None else top if behind else 0
    return depths


def build_optimizer(
    encoder: Iterable[tuple[str, nn.Parameter]],
    head: Iterable[tuple[str, nn.Parameter]],
    config: OptimizerConfig,
    *,
    depths: Mapping[str, int] | None = None,
) -> torch.optim.AdamW:
    """AdamW, fused, over the trainable parameters of an encoder and of the head behind it.

    Each group has a ``name`` and a ``below``: how many layers it is under the highest that is trained. ``depths``
    (:func:`layer_depths`) are needed for ``layer_decay`` and ``thaw`` alone (Howard and Ruder 2018; Clark et al. 2020).
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
        others = [parameter for parameter in layers[depth] if parameter.ndim <= 1]
        groups.append({"params": matrices, **common, "weight_decay": config.weight_decay, "name": label})
        groups.append({"params": others, **common, "weight_decay": 0.0, "name": f"{label} without decay"})
    heads = [parameter for _, parameter in head if parameter.requires_grad]
    rate = config.head_learning_rate
    groups.append({"params": heads, "lr": rate, "below": 0, "weight_decay": 0.0, "name": "head"})
    kept = [group for group in groups if group["params"]]
    if not kept:
        raise InputError("Expected something to train, but every parameter is frozen: lower `freeze_layers`.")
    return torch.optim.AdamW(kept, betas=(config.beta1, config.beta2), fused=True)


def build_schedule(optimizer: torch.optim.Optimizer, steps: int, config: OptimizerConfig) -> LambdaLR:
    """Factors on the learning rates by step: linear up over the warm-up, then down to the final share as configured.

    With ``thaw``, a group that is ``n`` layers below the highest has the factor 0 until that share of the steps has
    passed ``n`` times: AdamW then leaves it exactly as it is, decay included. Its gradients are computed and enter the
    running moments (and the norm that clipping looks at) all the same, so that distributed training sees the same
    parameters at every step, and a resumed run goes on as an unbroken one would.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> factor = build_schedule(optimizer, 10, OptimizerConfig(warmup=0.2)).lr_lambdas[0]
        >>> [factor(step) for step in (0, 1, 2, 6, 10)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    rising = max(1, round(config.warmup * steps)) if config.warmup and steps > 1 else 0  # the only step has its peak
    falling = max(1, steps - rising)

    def factor(step: int, still: int) -> float:
        if step < still:
            return 0.0
        if step < rising:
            return step / rising
        done = min(1.0, (step - rising) / falling)
        left = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[config.schedule]
        return config.final + (1 - config.final) * left

    still = (round(group.get("below", 0) * config.thaw * steps) for group in optimizer.param_groups)
    factors: list[Callable[[int], float]] = [partial(factor, still=one) for one in still]
    return LambdaLR(optimizer, factors)


def settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Rate, decay and betas of each group, as the recipe has them, before a checkpoint is read or a step made."""
    return [{name: group[name] for name in SETTINGS} for group in optimizer.param_groups]


def take_settings(schedule: Any, settings: Sequence[Mapping[str, Any]]) -> None:
    """Give a schedule and its optimiser the settings of a recipe in place of those that a checkpoint brought."""
    schedule.base_lrs = [one["lr"] for one in settings]
    for group, one, factor in zip(schedule.optimizer.param_groups, settings, schedule.lr_lambdas, strict=True):
        group |= {**one, "initial_lr": one["lr"], "lr": one["lr"] * factor(schedule.last_epoch)}


def checkpoint_activations(encoder: nn.Module) -> None:
    """Keep the input of each block alone for the backward pass, which computes the rest again: less memory, more time.

    The gradients are the same. Nothing changes outside of training mode (Chen et al. 2016, Training Deep Nets with
    Sublinear Memory Cost).
    """
    model: Any = encoder.model if isinstance(encoder, Encoder) else None
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise InputError(
            f"Expected an encoder that supports gradient checkpointing, but {type(model or encoder).__name__} does "
            "not: leave it off."
        )
    # Hugging Face 5 has renamed it. Not reentrant: neither frozen embeddings nor DDP stand in its way.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    if getattr(model, "_require_grads_hook", None) is not None:
        model.disable_input_require_grads()  # for the reentrant kind alone, and it cannot be pickled
