"""Contrastive loss over the scores of every hypothesis of a batch with every reference."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from textmover.functional._arguments import LOG_ZERO
from textmover.types import InputError

__all__ = ["contrastive_loss", "shared_texts"]


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
    if not 0 < temperature < float("inf"):
        raise InputError(
            f"Expected `temperature` to be a positive finite number, but got {temperature}: choose another."
        )
    if positives is None:
        positives = torch.eye(len(similarities), dtype=torch.bool, device=similarities.device)
    negatives = ~positives if exclude is None else ~(positives | exclude)
    logits = similarities / temperature
    rivals = torch.where(negatives, logits, LOG_ZERO)  # finite, so that a text without negatives has a gradient of 0
    lost = sum(torch.nn.functional.softplus(rivals.logsumexp(dim=dim, keepdim=True) - logits) for dim in (1, 0))
    return torch.where(positives, lost, 0.0).sum() / (2 * positives.sum().clamp(min=1))


def shared_texts(hypotheses: Int[Tensor, " B"], references: Int[Tensor, " B"]) -> Bool[Tensor, "B B"]:
    """Pairs of segments that have a text in common, which are no negatives of each other.

    Args:
        hypotheses: A number for the text of each hypothesis.
        references: The same for the references: equal numbers for equal texts, whichever side they are on.

    Returns:
        True where segment ``i`` and segment ``j`` share a text, the diagonal included.

    Example:
        >>> shared_texts(torch.tensor([0, 2, 4]), torch.tensor([1, 0, 5]))
        tensor([[ True,  True, False],
                [ True,  True, False],
                [False, False,  True]])
    """
    texts = torch.stack([hypotheses, references], dim=1)  # [B, 2]
    return (texts[:, None, :, None] == texts[None, :, None, :]).flatten(2).any(dim=2)
