"""Normalisation of a matching's values: the F score, and division by self-similarity."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from textmover.types import check_share


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
