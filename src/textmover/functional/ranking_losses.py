"""Losses that see the order of a batch: how scores rank segments against how people rank them.

All take two float vectors ``[B]`` and compare every segment with every other, in O(B²) time and memory. Only segments
of one scale belong in a batch, since a difference of ratings has to mean something. Which segments meet is up to the
batch: with the data's ``batch_group`` set to a column, only those that have the same value there.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from textmover.types import InputError

__all__ = ["cosent_loss", "hinge_loss", "listwise_loss", "pairwise_loss"]


def pairwise_loss(scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""Logistic ranking loss over all pairs of the batch, each weighted by how far people hold the two apart.

    :math:`\sum_{y_i > y_j} (y_i - y_j)\,\log(1 + e^{-(s_i - s_j)}) \big/ \sum_{y_i > y_j} (y_i - y_j)`; 0 where all
    ratings are equal. Only the order and the distance of the ratings matter, not their level.

    Example:
        >>> pairwise_loss(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0]))
        tensor(0.1269)
    """
    gap = _differences(ratings).clamp(min=0)
    lost = torch.nn.functional.softplus(-_differences(scores))
    total = gap.sum()
    return (gap * lost).sum() / torch.where(total > 0, total, 1.0)


def listwise_loss(
    scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"], *, temperature: float = 1.0
) -> Float[Tensor, ""]:
    r"""Cross entropy of the chances to be ranked first, by the ratings and by the scores (ListNet).

    :math:`-\sum_i p_i \log q_i` with :math:`p = \mathrm{softmax}(y/\tau)` and :math:`q = \mathrm{softmax}(s/\tau)`: at
    its smallest, the entropy of ``p``, where scores and ratings differ by a constant only. Equal ratings ask for equal
    scores.

    Args:
        scores: Scores of the batch, in the unit of the ratings.
        ratings: Human ratings of the same segments.
        temperature: ``τ``, positive, in that unit: a low one looks at the best segments of the batch alone, a high one
            at the whole list.

    Raises:
        InputError: If the temperature is not a positive finite number.

    Example:
        >>> listwise_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]))
        tensor(0.6931)

    Reference:
        Cao et al. 2007, Learning to Rank: From Pairwise Approach to Listwise Approach (top one probability).
    """
    _check_number("temperature", temperature, positive=True)
    wanted = (ratings / temperature).softmax(dim=0)
    return -(wanted * (scores / temperature).log_softmax(dim=0)).sum()


def cosent_loss(scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"], *, scale: float = 5.0) -> Float[Tensor, ""]:
    r"""CoSENT: one soft maximum over all pairs that the scores may hold in the wrong order.

    :math:`\log\bigl(1 + \sum_{y_i > y_j} e^{\gamma (s_j - s_i)}\bigr)`; 0 where all ratings are equal. Of the ratings
    only the order matters; pairs of equal ratings have no part.

    Args:
        scores: Scores of the batch.
        ratings: Human ratings of the same segments.
        scale: ``γ``, positive, per unit of the scores. The paper's 20 is meant for cosines, whose deviation is about
            0.25 on sentence pairs: 5 is as sharp on scores whose deviation is 1.

    Raises:
        InputError: If the scale is not a positive finite number.

    Example:
        >>> cosent_loss(torch.tensor([0.8, 0.6]), torch.tensor([1.0, 0.0]), scale=20.0)
        tensor(0.0181)

    Reference:
        Huang et al. 2024, CoSENT: Consistent Sentence Embedding via Similarity Ranking (IEEE/ACM TASLP 32).
    """
    _check_number("scale", scale, positive=True)
    wrong = torch.where(_differences(ratings) > 0, -scale * _differences(scores), -torch.inf)
    return torch.cat([scores.new_zeros(1), wrong.flatten()]).logsumexp(dim=0)  # the zero is the 1 of the formula


def hinge_loss(
    scores: Float[Tensor, " B"], ratings: Float[Tensor, " B"], *, gap: float = 1.0, margin: float = 1.0
) -> Float[Tensor, ""]:
    r"""Mean shortfall from a margin over the pairs that people hold clearly apart.

    DARR judgements prefer one translation of a source to another one of the same source. The pairs here are all those
    of the batch, also of different sources; they are like those of DARR where a batch holds outputs for one source
    only, that is, with the data's ``batch_group`` set to the column of the source or of the reference.

    Mean of :math:`\max(0,\; m - (s_i - s_j))` over the pairs with :math:`y_i > y_j` and :math:`y_i - y_j \ge g`; 0
    where there is no such pair. Pairs that people hardly tell apart have no part, however the scores rank them.

    Args:
        scores: Scores of the batch, in the unit of the ratings.
        ratings: Human ratings of the same segments.
        gap: ``g``, at least 0, in the unit of the ratings. In standard deviations of direct assessments, 1 is about
            the 25 points of 100 from which WMT takes a difference for a preference.
        margin: ``m``, positive, in the unit of the scores: how far apart such a pair should be.

    Raises:
        InputError: If the gap is negative, the margin not positive, or one of them not finite.

    Example:
        >>> hinge_loss(torch.tensor([0.5, 0.0, 0.4]), torch.tensor([2.0, 0.0, 1.9]))
        tensor(0.5500)

    Reference:
        Herbrich et al. 2000, Large Margin Rank Boundaries for Ordinal Regression; Ma et al. 2018, Results of the WMT18
        Metrics Shared Task (DARR).
    """
    _check_number("gap", gap, positive=False)
    _check_number("margin", margin, positive=True)
    apart = _differences(ratings)
    judged = (apart > 0) & (apart >= gap)
    short = (margin - _differences(scores)).clamp(min=0)
    return torch.where(judged, short, 0.0).sum() / judged.sum().clamp(min=1)


def _differences(values: Tensor) -> Tensor:
    """First minus second of every pair, ``[B, B]``."""
    return values[:, None] - values[None, :]


def _check_number(name: str, value: float, *, positive: bool) -> None:
    if not 0 <= value < float("inf") or (positive and value == 0):
        kind = "a positive finite number" if positive else "a finite number of at least 0"
        raise InputError(f"Expected `{name}` to be {kind}, but got {value}: choose another.")
