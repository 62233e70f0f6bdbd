"""LoRA: small trained matrices beside frozen weights of an encoder, merged into them when training is over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.low_rank import BASE, LORA_A, LORA_B, added, has_lora, low_rank_update
from textmover.types import InputError, check_whole, needs_extra


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
        """Check every field."""
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
            f"Expected LoRA on an encoder with layers, but got {type(encoder).__name__}: leave `lora` out to train it."
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
