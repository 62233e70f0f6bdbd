"""Losses of a batch of scores: against human ratings, by their order, and contrastive.

Losses against ratings take two vectors ``[B]``, the scores as floats, and return a finite scalar with finite gradients,
even if all ratings or all scores of the batch are equal. A NaN among either makes the loss NaN.

Ranking losses compare every segment with every other, in O(B²) time and memory. All ratings of a batch must be on one
scale, so that their differences are meaningful. With ``batch_group`` set to a column of the data, a batch holds only
segments with the same value in it. The contrastive loss takes the scores of every hypothesis with every reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from textmover.functional._arguments import LOG_ZERO
from textmover.types import InputError


def mse_loss(scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""Mean squared error :math:`\frac1B\sum_i (s_i - y_i)^2`.

    Example:
        >>> mse_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]))
        tensor(2.)
    """
    return torch.nn.functional.mse_loss(scores, _checked_ratings(scores, ratings))


def huber_loss(scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""Squared error up to a distance of 1, linear beyond: mean of :math:`\min(\frac12 d^2, |d| - \frac12)`.

    Example:
        >>> huber_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]))
        tensor(0.7500)
    """
    return torch.nn.functional.huber_loss(scores, _checked_ratings(scores, ratings))


def pearson_loss(scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""One minus Pearson's correlation within the batch, in [0, 2]; 1 if scores or ratings are constant.

    Example:
        >>> pearson_loss(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])).round(decimals=5)
        tensor(0.)
    """
    ratings = _checked_ratings(scores, ratings)
    x, y = scores - scores.mean(), ratings - ratings.mean()
    # A constant vector has a rounding error in float32; below this floor its direction is meaningless.
    floor = (16 * torch.finfo(scores.dtype).eps) ** 2
    x_square, y_square = x.square().sum(), y.square().sum()
    varies = (x_square > floor * scores.square().sum()) & (y_square > floor * ratings.square().sum())
    # Divide by each length separately, since the product of two small sums of squares could underflow.
    lengths = [torch.where(varies, square, 1.0).sqrt() for square in (x_square, y_square)]
    return 1 - torch.where(varies, (x / lengths[0] * (y / lengths[1])).sum(), 0.0 * (x.sum() + y.sum()))


def pairwise_loss(scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"]) -> Float[Tensor, ""]:
    r"""Logistic ranking loss over all pairs of the batch, each weighted by the difference of its ratings.

    :math:`\sum_{y_i > y_j} (y_i - y_j)\,\log(1 + e^{-(s_i - s_j)}) \big/ \sum_{y_i > y_j} (y_i - y_j)`; 0 if all
    ratings are equal. Only the differences of the ratings matter, not their level.

    Example:
        >>> pairwise_loss(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0]))
        tensor(0.1269)
    """
    gap = _differences(_checked_ratings(scores, ratings)).clamp(min=0)
    loss = torch.nn.functional.softplus(-_differences(scores))
    total = gap.sum()
    return (gap * loss).sum() / torch.where(total > 0, total, 1.0)


def listwise_loss(
    scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"], *, temperature: float = 1.0
) -> Float[Tensor, ""]:
    r"""Cross entropy between the top-one probabilities of the ratings and of the scores (ListNet).

    :math:`-\sum_i p_i \log q_i` with :math:`p = \mathrm{softmax}(y/\tau)` and :math:`q = \mathrm{softmax}(s/\tau)`. The
    minimum, the entropy of ``p``, is reached if scores and ratings differ only by a constant. Equal ratings require
    equal scores.

    Args:
        scores: Scores of the batch, in the unit of the ratings.
        ratings: Human ratings of the same segments.
        temperature: ``τ``, positive, in that unit: a low one weights only the best segments of the batch, a high one
            the whole list.

    Raises:
        InputError: If the temperature is not a positive finite number.

    Example:
        >>> listwise_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]))
        tensor(0.6931)

    Reference:
        Cao et al. 2007, Learning to Rank: From Pairwise Approach to Listwise Approach (top one probability).
    """
    _check_number("temperature", temperature, positive=True)
    target = (_checked_ratings(scores, ratings) / temperature).softmax(dim=0)
    return -(target * (scores / temperature).log_softmax(dim=0)).sum()


def cosent_loss(scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"], *, scale: float = 5.0) -> Float[Tensor, ""]:
    r"""CoSENT: one soft maximum over the score differences of all pairs with different ratings.

    :math:`\log\bigl(1 + \sum_{y_i > y_j} e^{\gamma (s_j - s_i)}\bigr)`; 0 if all ratings are equal. Only the order of
    the ratings matters; pairs of equal ratings are ignored.

    Args:
        scores: Scores of the batch.
        ratings: Human ratings of the same segments.
        scale: ``γ``, positive, per unit of the scores. The paper's 20 is meant for cosines, whose standard deviation is
            about 0.25 on sentence pairs: 5 is equivalent for scores with a standard deviation of 1.

    Raises:
        InputError: If the scale is not a positive finite number.

    Example:
        >>> cosent_loss(torch.tensor([0.8, 0.6]), torch.tensor([1.0, 0.0]), scale=20.0)
        tensor(0.0181)

    Reference:
        Huang et al. 2024, CoSENT: Consistent Sentence Embedding via Similarity Ranking (IEEE/ACM TASLP 32).
    """
    _check_number("scale", scale, positive=True)
    difference = _differences(_checked_ratings(scores, ratings))
    wrong = torch.where(difference > 0, -scale * _differences(scores), -torch.inf)
    zero = 0.0 * difference.sum()[None].to(scores)  # the 1 of the formula, NaN if a rating is
    return torch.cat([zero, wrong.flatten()]).logsumexp(dim=0)


def hinge_loss(
    scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"], *, gap: float = 1.0, margin: float = 1.0
) -> Float[Tensor, ""]:
    r"""Margin ranking loss over the pairs with clearly different ratings.

    Mean of :math:`\max(0,\; m - (s_i - s_j))` over the pairs with :math:`y_i > y_j` and :math:`y_i - y_j \ge g`; 0
    without such a pair. Pairs with a smaller difference of ratings are ignored.

    DARR judgements compare two translations of the same source. Here all pairs of the batch count, also of different
    sources. To compare only outputs for one source as in DARR, set the data's ``batch_group`` to the column of the
    source or of the reference.

    Args:
        scores: Scores of the batch, in the unit of the ratings.
        ratings: Human ratings of the same segments.
        gap: ``g``, at least 0, in the unit of the ratings. For standardised direct assessments, 1 is about the 25
            points of 100 from which WMT counts a difference as a preference.
        margin: ``m``, positive, in the unit of the scores: required score difference of such a pair.

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
    difference = _differences(_checked_ratings(scores, ratings))
    judged = (difference > 0) & (difference >= gap)
    shortfall = (margin - _differences(scores)).clamp(min=0)
    return torch.where(judged, shortfall, 0.0 * difference.to(scores)).sum() / judged.sum().clamp(min=1)


def _differences(values: Tensor) -> Tensor:
    """Return the differences ``values[i] - values[j]``, ``[B, B]``."""
    return values[:, None] - values[None, :]


def _checked_ratings(scores: Tensor, ratings: Tensor) -> Tensor:
    """Return the ratings as floats; refuse shapes that would be broadcast to another loss."""
    if scores.ndim != 1 or scores.shape != ratings.shape:
        raise ValueError(
            f"Expected `scores` and `ratings` of one shape [B], but got {list(scores.shape)} and "
            f"{list(ratings.shape)}: give one rating for each score, both as vectors."
        )
    return ratings if ratings.is_floating_point() else ratings.to(scores)


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
"""Losses by their names in configurations."""

OPTIONS: dict[str, tuple[str, ...]] = {"listwise": ("temperature",), "cosent": ("scale",), "hinge": ("gap", "margin")}
"""Options of losses with options."""

FEWEST: dict[str, int] = {"mse": 1, "huber": 1, "pearson": 3, "pairwise": 2, "listwise": 2, "cosent": 2, "hinge": 2}
"""Minimum batch size of each loss; with fewer segments it has no gradient. One segment has no order, and two always
correlate with 1 or -1."""

LossWeights: TypeAlias = Mapping[str, float | Mapping[str, float]]
"""Weight of each loss by name, or its weight and options: ``{"mse": 1, "cosent": {"weight": 2, "scale": 3}}``."""


def combined_loss(scores: Float[Tensor, " B"], ratings: Real[Tensor, " B"], weights: LossWeights) -> Float[Tensor, ""]:
    r"""Weighted sum of named losses, :math:`\sum_k w_k\,\ell_k(s, y)`.

    Args:
        scores: Scores of the batch.
        ratings: Human ratings of the same segments.
        weights: Weight of each loss in :data:`LOSSES` by name, or a mapping of its ``weight`` (default 1) and its
            options in :data:`OPTIONS`.

    Returns:
        The sum.

    Raises:
        InputError: If no loss is named, a name or an option is unknown, or a number is out of range. A call with two
            zeros as scores and ratings checks this before training.

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
    losses = []
    for name, given in weights.items():
        weight, options = _weight_and_options(name, given)
        losses.append(weight * LOSSES[name](scores, ratings, **options))
    return torch.stack(losses).sum()


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
    r"""InfoNCE in both directions: distinguish a paraphrase from the other texts of the batch.

    With :math:`e_{ij} = e^{s_{ij}/\tau}`, the mean over all positive pairs (i, j) of
    :math:`-\frac12 \log \frac{e_{ij}}{e_{ij} + \sum_n e_{in}} - \frac12 \log \frac{e_{ij}}{e_{ij} + \sum_n e_{nj}}`.
    The sums run over negatives only, excluding other positives and excluded pairs. Without positives, and for a pair
    without negatives, the loss is 0 and has no gradient.

    Args:
        similarities: Score of hypothesis ``i`` (row) with reference ``j`` (column); higher means more alike.
        temperature: ``τ``, positive, in the unit of the scores.
        positives: Pairs of the same meaning; the diagonal if ``None``.
        exclude: Pairs that are not negatives, such as those of a text that occurs twice in the batch
            (:func:`shared_texts`). Positives stay positive.

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
        van den Oord et al. 2018, Representation Learning with Contrastive Predictive Coding, Eq. 4; both directions and
        in-batch negatives as in Radford et al. 2021 (CLIP).
    """
    _check_number("temperature", temperature, positive=True)
    if positives is None:
        positives = torch.eye(len(similarities), dtype=torch.bool, device=similarities.device)
    negatives = ~positives if exclude is None else ~(positives | exclude)
    logits = similarities / temperature
    rivals = torch.where(negatives, logits, LOG_ZERO)  # finite, so that a text without negatives has a gradient of 0
    loss = sum(torch.nn.functional.softplus(rivals.logsumexp(dim=dim, keepdim=True) - logits) for dim in (1, 0))
    return torch.where(positives, loss, 0.0).sum() / (2 * positives.sum().clamp(min=1))


def shared_texts(hypotheses: Int[Tensor, " B"], references: Int[Tensor, " B"]) -> Bool[Tensor, "B B"]:
    """Return which pairs of segments share a text (equal numbers are equal texts) and so are not negatives."""
    texts = torch.stack([hypotheses, references], dim=1)  # [B, 2]
    return (texts[:, None, :, None] == texts[None, :, None, :]).flatten(2).any(dim=2)
