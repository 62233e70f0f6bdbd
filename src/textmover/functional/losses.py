"""Losses between the scores of a batch and human ratings.

All take two float vectors ``[B]`` and give a scalar that stays finite, with finite gradients, also where all ratings or
all scores of the batch are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from textmover.types import InputError

__all__ = ["LOSSES", "combined_loss", "huber_loss", "mse_loss", "pairwise_loss", "pearson_loss"]


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


def pairwise_loss(scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""Logistic ranking loss over all pairs of the batch, each weighted by how far people hold the two apart.

    :math:`\sum_{y_i > y_j} (y_i - y_j)\,\log(1 + e^{-(s_i - s_j)}) \big/ \sum_{y_i > y_j} (y_i - y_j)`; 0 where all
    ratings are equal. Only the order and the distance of the ratings matter, not their level.

    Example:
        >>> pairwise_loss(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0]))
        tensor(0.1269)
    """
    gap = (ratings[:, None] - ratings[None, :]).clamp(min=0)
    lost = torch.nn.functional.softplus(scores[None, :] - scores[:, None])
    total = gap.sum()
    return (gap * lost).sum() / torch.where(total > 0, total, 1.0)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": mse_loss,
    "huber": huber_loss,
    "pearson": pearson_loss,
    "pairwise": pairwise_loss,
}
"""Losses by the names that configurations use."""


def combined_loss(
    scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"], weights: Mapping[str, float]
) -> Float[Tensor, ""]:
    r"""Weighted sum of named losses, :math:`\sum_k w_k\,\ell_k(s, y)`.

    Args:
        scores: Scores of the batch.
        ratings: Human ratings of the same segments.
        weights: Weight of each loss of :data:`LOSSES` by name.

    Returns:
        The sum.

    Raises:
        InputError: If a name is unknown or no loss is named.

    Example:
        >>> combined_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]), {"mse": 0.5, "pearson": 1.0})
        tensor(1.)
    """
    unknown = sorted(set(weights) - set(LOSSES))
    if unknown or not weights:
        raise InputError(
            f"Expected losses to be named among {', '.join(LOSSES)}, but got {', '.join(unknown) or 'none'}."
        )
    return torch.stack([weight * LOSSES[name](scores, ratings) for name, weight in weights.items()]).sum()
