"""Losses between the scores of a batch and human ratings.

All take two float vectors ``[B]`` and give a scalar that stays finite, with finite gradients, also where all ratings or
all scores of the batch are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from textmover.functional.ranking_losses import cosent_loss, hinge_loss, listwise_loss, pairwise_loss
from textmover.types import InputError

__all__ = [
    "FEWEST",
    "LOSSES",
    "OPTIONS",
    "LossWeights",
    "combined_loss",
    "cosent_loss",
    "hinge_loss",
    "huber_loss",
    "listwise_loss",
    "mse_loss",
    "pairwise_loss",
    "pearson_loss",
]


def mse_loss(scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""Mean squared error :math:`\frac1B\sum_i (s_i - y_i)^2`.

    Example:
        >>> mse_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]))
        tensor(2.)
    """
    return torch.nn.functional.mse_loss(scores, ratings)


def huber_loss(scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""Squared error up to a distance of 1, linear beyond: mean of :math:`\min(\frac12 d^2, |d| - \frac12)`.

    Example:
        >>> huber_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]))
        tensor(0.7500)
    """
    return torch.nn.functional.huber_loss(scores, ratings)


def pearson_loss(scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""One minus Pearson's correlation within the batch, in [0, 2]; 1 where one side is constant.

    Example:
        >>> pearson_loss(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])).round(decimals=5)
        tensor(0.)
    """
    x, y = scores - scores.mean(), ratings - ratings.mean()
    # In float32 a constant vector keeps a remainder of rounding; below it, its direction means nothing.
    floor = (16 * torch.finfo(scores.dtype).eps) ** 2
    x_square, y_square = x.square().sum(), y.square().sum()
    varies = (x_square > floor * scores.square().sum()) & (y_square > floor * ratings.square().sum())
    # Each side by its own length: a product of two small sums of squares could underflow.
    lengths = [torch.where(varies, square, 1.0).sqrt() for square in (x_square, y_square)]
    return 1 - torch.where(varies, (x / lengths[0] * (y / lengths[1])).sum(), 0.0 * x.sum())


LOSSES: dict[str, Callable[..., Tensor]] = {
    "mse": mse_loss,
    "huber": huber_loss,
    "pearson": pearson_loss,
    "pairwise": pairwise_loss,
    "listwise": listwise_loss,
    "cosent": cosent_loss,
    "hinge": hinge_loss,
}
"""Losses by the names that configurations use."""

OPTIONS: dict[str, tuple[str, ...]] = {
    "listwise": ("temperature",),
    "cosent": ("scale",),
    "hinge": ("gap", "margin"),
}
"""Options of the losses that have any."""

FEWEST: dict[str, int] = {"mse": 1, "huber": 1, "pearson": 3, "pairwise": 2, "listwise": 2, "cosent": 2, "hinge": 2}
"""Fewest segments of a batch from which each loss learns. From fewer it has no gradient: one segment stands in no
order, and two correlate with 1 or -1 whatever their scores are."""

LossWeights: TypeAlias = Mapping[str, float | Mapping[str, float]]
"""A weight by the name of each loss, or its weight and options: ``{"mse": 1, "cosent": {"weight": 2, "scale": 3}}``."""


def combined_loss(scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"], weights: LossWeights) -> Float[Tensor, ""]:
    r"""Weighted sum of named losses, :math:`\sum_k w_k\,\ell_k(s, y)`.

    Args:
        scores: Scores of the batch.
        ratings: Human ratings of the same segments.
        weights: Weight of each loss of :data:`LOSSES` by name, or a mapping of its ``weight`` (1 if not named) and its
            options, those of :data:`OPTIONS`.

    Returns:
        The sum.

    Raises:
        InputError: If no loss is named, a name or an option is unknown, or a number is out of its range. Two zeros as
            scores and ratings find that out before training starts.

    Example:
        >>> combined_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]), {"mse": 0.5, "pearson": 1.0})
        tensor(1.)
        >>> combined_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]), {"hinge": {"weight": 2.0, "margin": 1.5}})
        tensor(1.)
    """
    unknown = sorted(set(weights) - set(LOSSES))
    if unknown or not weights:
        raise InputError(
            f"Expected losses to be named among {', '.join(LOSSES)}, but got {', '.join(unknown) or 'none'}."
        )
    lost = []
    for name, given in weights.items():
        weight, options = _weight_and_options(name, given)
        lost.append(weight * LOSSES[name](scores, ratings, **options))
    return torch.stack(lost).sum()


def _weight_and_options(name: str, given: float | Mapping[str, float]) -> tuple[float, dict[str, float]]:
    options = dict(given) if isinstance(given, Mapping) else {"weight": given}
    weight, allowed = options.pop("weight", 1.0), OPTIONS.get(name, ())
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise InputError(
            f"Expected options of the loss `{name}` to be named among {', '.join(('weight', *allowed))}, "
            f"but got {', '.join(unknown)}: leave that out."
        )
    for option, value in {"weight": weight, **options}.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"Expected `{option}` of the loss `{name}` to be a number, but got {value!r}: give one.")
    if not 0 <= weight < float("inf"):
        raise InputError(
            f"Expected the weight of the loss `{name}` to be a finite number of at least 0, but got {weight}: "
            "choose another."
        )
    return weight, options
