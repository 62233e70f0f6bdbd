"""Losses of a batch of scores: against human ratings, by their order, and contrastive.

Those against ratings take two float vectors ``[B]`` and give a scalar that stays finite, with finite gradients, also
where all ratings or all scores of the batch are equal.

Ranking losses compare every segment with every other, in O(B²) time and memory. Only segments of one scale belong in a
batch, since a difference of ratings has to mean something. Which segments meet is up to the batch: with the data's
``batch_group`` set to a column, only those that have the same value there. The contrastive loss takes the scores of
every hypothesis of a batch with every reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from textmover.functional._arguments import LOG_ZERO
from textmover.types import InputError


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

OPTIONS: dict[str, tuple[str, ...]] = {"listwise": ("temperature",), "cosent": ("scale",), "hinge": ("gap", "margin")}
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


def contrastive_loss(
    similarities: Float[Tensor, "B B"],
    temperature: float = 0.05,
    positives: Bool[Tensor, "B B"] | None = None,
    exclude: Bool[Tensor, "B B"] | None = None,
) -> Float[Tensor, ""]:
    r"""InfoNCE in both directions: a paraphrase has to be found among the other texts of the batch.

    With :math:`e_{ij} = e^{s_{ij}/\tau}`, the mean over all positive pairs (i, j) of
    :math:`-\frac12 \log \frac{e_{ij}}{e_{ij} + \sum_n e_{in}} - \frac12 \log \frac{e_{ij}}{e_{ij} + \sum_n e_{nj}}`,
    the sums over negatives only: neither over further positives nor over excluded pairs. 0 where nothing is positive,
    and for a pair without negatives, without a gradient.

    Args:
        similarities: Score of hypothesis ``i`` (row) with reference ``j`` (column); higher means more alike.
        temperature: ``τ``, positive, in the unit of the scores.
        positives: Pairs of the same meaning; the diagonal if ``None``.
        exclude: Pairs that are no negatives, such as those of a text that occurs twice in the batch
            (:func:`shared_texts`). What is positive stays positive.

    Returns:
        The loss, in nats.

    Raises:
        InputError: If the temperature is not a positive finite number.

    Example:
        >>> contrastive_loss(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), temperature=1.0)
        tensor(0.4037)
        >>> contrastive_loss(torch.tensor([[0.9, 0.9], [0.9, 0.9]]), exclude=torch.ones(2, 2, dtype=torch.bool))
        tensor(0.)

    Reference:
        van den Oord et al. 2018, Representation Learning with Contrastive Predictive Coding, Eq. 4; both ways and
        negatives of the batch as in Radford et al. 2021 (CLIP).
    """
    _check_number("temperature", temperature, positive=True)
    if positives is None:
        positives = torch.eye(len(similarities), dtype=torch.bool, device=similarities.device)
    negatives = ~positives if exclude is None else ~(positives | exclude)
    logits = similarities / temperature
    rivals = torch.where(negatives, logits, LOG_ZERO)  # finite, so that a text without negatives has a gradient of 0
    lost = sum(torch.nn.functional.softplus(rivals.logsumexp(dim=dim, keepdim=True) - logits) for dim in (1, 0))
    return torch.where(positives, lost, 0.0).sum() / (2 * positives.sum().clamp(min=1))


def shared_texts(hypotheses: Int[Tensor, " B"], references: Int[Tensor, " B"]) -> Bool[Tensor, "B B"]:
    """Pairs of segments that share a text (equal numbers are equal texts), so are no negatives of each other."""
    texts = torch.stack([hypotheses, references], dim=1)  # [B, 2]
    return (texts[:, None, :, None] == texts[None, :, None, :]).flatten(2).any(dim=2)
