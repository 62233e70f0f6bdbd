"""Optimiser groups, their depth in the encoder, the schedule of the learning rate, and LoRA in place of the weights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.low_rank import BASE, LORA_A, LORA_B, added, has_lora, low_rank_update
from textmover.types import InputError, check_choice, check_share, check_whole, needs_extra

Schedule = Literal["linear", "cosine", "constant"]

SETTINGS = ("lr", "weight_decay", "betas")  # of the optimiser's groups: those of the recipe in a resumed run too


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
    thaw: float = 0.0  # share of the steps after which one more layer, from the top, moves; 0 moves all at once

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


@dataclass(frozen=True)
class LoraConfig:
    r"""Low-rank updates of linear layers, :math:`W + \frac{\alpha}{r} B A`, with ``B`` 0 at the start.

    Reference:
        Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1.
    """

    rank: int = 8  # r: rows of A [r, in] and columns of B [out, r]
    alpha: float = 16.0  # the update is scaled by alpha / rank
    dropout: float = 0.0  # share of the input that the update does not see in training
    targets: str | list[str] = "attention"  # linear layers of the blocks: "attention", "all", or ends of their names

    def __post_init__(self) -> None:
        check_whole("rank", self.rank)
        if not 0 < self.alpha < float("inf"):
            raise InputError(f"Expected `alpha` to be a positive finite number, but got {self.alpha}.")
        if not 0 <= self.dropout < 1:
            raise InputError(f"Expected `dropout` to be at least 0 and below 1, but got {self.dropout}.")
        named = isinstance(self.targets, str) and self.targets in ("attention", "all")
        if not named and (isinstance(self.targets, str) or not self.targets):
            raise InputError(
                f"Expected `targets` to be 'attention', 'all' or a list of names, but got {self.targets!r}: one layer "
                "is a list of one."
            )

    @property
    def scaling(self) -> float:
        """Factor on the product of the two matrices."""
        return self.alpha / self.rank


def add_lora(encoder: nn.Module, config: LoraConfig) -> None:
    """Put LoRA matrices beside linear layers of an encoder, in place, and freeze everything else in it.

    What ``freeze_layers`` keeps from training gets none. The outputs are those of before until the first step. An
    encoder that shares weights with others leaves them first (Hu et al. 2022).
    """
    with needs_extra("peft", "the package peft for LoRA"):
        import peft
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"Expected LoRA on an encoder with layers, but got {type(encoder).__name__}: a table of vectors cannot be "
            "trained, so train a metric with `layer: 0` and without `lora`, and make a table of it with `textmover "
            "export RUN FOLDER --table`."
        )
    if has_lora(encoder):
        raise InputError("Expected an encoder without LoRA, but got one that has it: merge that with `merge_lora`.")
    encoder.leave()
    encoder.run_with(None)
    model: nn.Module = encoder.model
    targets = _targets(model, config.targets)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    peft.inject_adapter_in_model(
        peft.LoraConfig(r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout, target_modules=targets),
        model,
    )
    model.trained_before_lora = trained  # type: ignore[assignment]


def merged_state(state: Mapping[str, Tensor], config: LoraConfig) -> dict[str, Tensor]:
    """The state of a metric or module whose encoder has LoRA as that of the same one after :func:`merge_lora`.

    Tensors that have no LoRA matrices beside them are the same objects. A state does not tell the scale.

    Example:
        >>> import torch
        >>> state = {"q.base_layer.weight": torch.zeros(1, 2), "q.base_layer.bias": torch.ones(1)}
        >>> state |= {"q.lora_A.default.weight": torch.ones(1, 2), "q.lora_B.default.weight": torch.ones(1, 1)}
        >>> merged_state(state, LoraConfig(rank=1, alpha=3.0))
        {'q.weight': tensor([[3., 3.]]), 'q.bias': tensor([1.])}
    """
    own = [name for name in state if name.endswith((LORA_A, LORA_B))]
    adapted = dict.fromkeys(name.removesuffix(LORA_A).removesuffix(LORA_B) for name in own)
    merged = {name.replace(BASE, "."): tensor for name, tensor in state.items() if name not in own}
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
        merged[f"{name}.weight"] = added(base, low_rank_update(down, up, config.scaling))
    return merged


def _targets(model: nn.Module, wanted: str | list[str]) -> list[str]:
    linear = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.weight.requires_grad and re.search(r"\.\d+\.", name)
    ]
    if wanted == "all":
        found = linear
    elif isinstance(wanted, str):
        found = [name for name in linear if re.search("attention|attn", name, re.IGNORECASE)]
    else:
        missing = [end for end in wanted if not any(f".{name}".endswith(f".{end}") for name in linear)]
        if missing:
            ends = sorted({re.split(r"\.\d+\.", name)[-1] for name in linear})
            raise InputError(
                f"Expected `targets` to name linear layers that are trained, but got {', '.join(missing)}: there are "
                f"{', '.join(ends) or 'none'}."
            )
        found = [name for name in linear if any(f".{name}".endswith(f".{end}") for end in wanted)]
    if not found:
        raise InputError(
            f"Expected linear layers for LoRA with targets={wanted!r}, but none that is trained fits: lower "
            "`freeze_layers`, or name others."
        )
    return found
