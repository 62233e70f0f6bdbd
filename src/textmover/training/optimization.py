"""Optimiser groups and the schedule of the learning rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from textmover.types import InputError

__all__ = ["OptimizerConfig", "build_optimizer", "warmup_then_linear_decay"]


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and linear decay."""

    learning_rate: float = 3e-5  # of the encoder, at its peak
    head_learning_rate: float = 1e-3  # of temperature and calibration, at its peak
    weight_decay: float = 0.01  # of matrices; biases, norms, temperature and calibration have none
    beta1: float = 0.9  # decay of the gradient's running mean
    beta2: float = 0.999  # decay of its running square
    warmup: float = 0.1  # share of the steps over which the rate rises from 0
    final: float = 0.0  # share of the peak rate at the last step

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("learning_rate", "head_learning_rate", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError(f"Expected `{name}` to be a finite number of at least 0, but got {value}.")
        for name in ("beta1", "beta2", "warmup", "final"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InputError(f"Expected `{name}` to be between 0 and 1, but got {value}.")


def build_optimizer(
    encoder: Iterable[tuple[str, nn.Parameter]], head: Iterable[tuple[str, nn.Parameter]], config: OptimizerConfig
) -> torch.optim.AdamW:
    """AdamW over the trainable parameters of an encoder and of the head behind it.

    Args:
        encoder: Named parameters that take the encoder's rate.
        head: Named parameters that take the head's rate, without decay.
        config: Rates and decay.

    Returns:
        The optimiser (fused: one pass over all parameters).
    """
    trained = [(name, parameter) for name, parameter in encoder if parameter.requires_grad]
    matrices = [parameter for _, parameter in trained if parameter.ndim > 1]
    others = [parameter for _, parameter in trained if parameter.ndim <= 1]
    heads = [parameter for _, parameter in head if parameter.requires_grad]
    groups = [
        {"params": matrices, "lr": config.learning_rate, "weight_decay": config.weight_decay, "name": "encoder"},
        {"params": others, "lr": config.learning_rate, "weight_decay": 0.0, "name": "encoder without decay"},
        {"params": heads, "lr": config.head_learning_rate, "weight_decay": 0.0, "name": "head"},
    ]
    kept = [group for group in groups if group["params"]]
    if not kept:
        raise InputError("Expected something to train, but every parameter is frozen: lower `freeze_layers`.")
    return torch.optim.AdamW(kept, betas=(config.beta1, config.beta2), fused=True)


def warmup_then_linear_decay(optimizer: torch.optim.Optimizer, steps: int, config: OptimizerConfig) -> LambdaLR:
    """Factor on the learning rates by step: linear up over the warm-up, then linear down to the final share.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> factor = warmup_then_linear_decay(optimizer, 10, OptimizerConfig(warmup=0.2)).lr_lambdas[0]
        >>> [factor(step) for step in (0, 1, 2, 6, 10)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    rising = max(1, round(config.warmup * steps)) if config.warmup else 0
    falling = max(1, steps - rising)

    def factor(step: int) -> float:
        if step < rising:
            return step / rising
        left = max(0.0, 1 - (step - rising) / falling)
        return config.final + (1 - config.final) * left

    return LambdaLR(optimizer, factor)
