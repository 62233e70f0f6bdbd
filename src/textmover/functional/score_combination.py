"""From the values of tokens to a score: their mean or norm, the F score, and division by self-similarity."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from textmover.types import check_share

LEAST_LOSS = 1e-6
"""Smallest loss of a token under a norm above 1, whose gradient is infinite at 0."""


def token_score(
    values: Float[Tensor, "B N"], weights: Float[Tensor, "B N"], error_norm: float = 1.0
) -> Float[Tensor, " B"]:
    r"""Combine the matched similarities of tokens: :math:`1 - (\sum_j b_j (1 - q_j)^p)^{1/p}`, their mean for p = 1.

    Above 1, a few tokens that match badly cost more than many that match slightly worse, with the same mean.

    Args:
        values: Similarity :math:`q_j` of each token to its partners, at most 1.
        weights: Weights :math:`b_j`; each row sums to 1, or to 0 for a text without tokens.
        error_norm: :math:`p`, from 1 to 64.

    Returns:
        The score of each text, 0 without tokens.

    Raises:
        ValueError: If ``error_norm`` is out of range.

    Example:
        >>> one_wrong, all_similar = torch.tensor([[1.0, 1.0, 0.4]]), torch.tensor([[0.8, 0.8, 0.8]])
        >>> third = torch.full((1, 3), 1 / 3)
        >>> torch.cat([token_score(values, third, 3.0) for values in (one_wrong, all_similar)])
        tensor([0.5840, 0.8000])
    """
    if not 1 <= error_norm <= 64:
        raise ValueError(f"Expected `error_norm` to be a number from 1 to 64, but got {error_norm}: 1 is the mean.")
    if error_norm == 1 or not values.shape[1]:
        return (weights * values).sum(dim=1)
    losses = (1 - values).clamp(min=LEAST_LOSS).where(weights >= torch.finfo(weights.dtype).tiny, 0.0)
    # Powers of quotients by the largest loss neither underflow nor overflow; the norm does not depend on the divisor.
    largest = losses.detach().amax(dim=1)
    nothing = largest == 0
    largest = torch.where(nothing, 1.0, largest)
    power = (weights * (losses / largest[:, None]) ** error_norm).sum(dim=1)
    return torch.where(nothing, 0.0, 1 - largest * torch.where(nothing, 1.0, power) ** (1 / error_norm))


def f_score(precision: Float[Tensor, "*B"], recall: Float[Tensor, "*B"], alpha: float = 0.5) -> Float[Tensor, "*B"]:
    r"""Weighted harmonic mean :math:`F_\alpha = PR/(\alpha P + (1-\alpha)R)`, 0 where P or R is not positive.

    Args:
        precision: Any real values, in [-1, 1] for cosines.
        recall: Likewise.
        alpha: Weight in [0, 1]: 0.5 is the harmonic mean, 1 gives recall and 0 precision.

    Returns:
        F, with finite gradients everywhere.

    Raises:
        ValueError: If ``alpha`` is out of range.

    Example:
        >>> f_score(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.0]))
        tensor([0.6667, 0.0000])
        >>> f_score(torch.tensor([0.5]), torch.tensor([1.0]), alpha=1.0)
        tensor([1.])

    Reference:
        van Rijsbergen 1979; Lo 2019 (YiSi) with alpha = 0.7.
    """
    check_share("alpha", alpha)
    nothing = torch.minimum(precision, recall) <= 0  # the formula has a pole for values of both signs; NaN stays NaN
    total = torch.where(nothing, 1.0, alpha * precision + (1 - alpha) * recall)
    return torch.where(nothing, 0.0, precision * recall / total)


def normalize_by_self(
    value: Float[Tensor, "*B"], self_reference: Float[Tensor, "*B"], self_hypothesis: Float[Tensor, "*B"]
) -> tuple[Float[Tensor, "*B"], Bool[Tensor, "*B"]]:
    r"""Normalise a similarity by those of each text with itself: :math:`C(X,Y)/\sqrt{C(X,X)\,C(Y,Y)}`.

    After centring, a self-similarity can be 0 or below; the quotient is undefined then.

    Args:
        value: :math:`C(X, Y)`.
        self_reference: :math:`C(X, X)`.
        self_hypothesis: :math:`C(Y, Y)`.

    Returns:
        The quotient, 0 where it is undefined, and a mask that is True where it is defined.

    Example:
        >>> normalize_by_self(torch.tensor([0.4]), torch.tensor([0.5]), torch.tensor([0.5]))
        (tensor([0.8000]), tensor([True]))

    Reference:
        Chen et al. 2020 (TWMD), Eq. 1.
    """
    # Not `> 0`, so that NaN is propagated and not treated as an undefined quotient.
    defined = ~((self_reference <= 0) | (self_hypothesis <= 0))
    # The root of each factor, since the product of two small float32 values could underflow.
    roots = [torch.where(defined, one, 1.0).sqrt() for one in (self_reference, self_hypothesis)]
    return torch.where(defined, value / (roots[0] * roots[1]), 0.0), defined
