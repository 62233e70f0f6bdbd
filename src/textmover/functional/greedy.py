"""Greedy matching: each token is matched with its most similar partner (BERTScore, relaxed word mover)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from textmover.functional._arguments import LOG_ZERO, check_problem, with_empty_token
from textmover.functional.score_combination import f_score, token_score
from textmover.types import MatchResult


def greedy_matching(
    similarity: Float[Tensor, "B M N"],
    a: Float[Tensor, "B M"],
    b: Float[Tensor, "B N"],
    reference_mask: Bool[Tensor, "B M"],
    hypothesis_mask: Bool[Tensor, "B N"],
    *,
    alpha: float = 0.5,
    error_norm: float = 1.0,
    with_plan: bool = False,
) -> MatchResult:
    r"""Match tokens to their best partners: :math:`R = \sum_i a_i \max_j S_{ij}`, :math:`P = \sum_j b_j \max_i S_{ij}`.

    A token may be matched if its mask is True, even with weight 0 (BERTScore's special tokens). Gradients flow through
    the chosen partners.

    Args:
        similarity: Cosines of all token pairs.
        a: Reference weights, each row sums to 1; 0 where padded.
        b: Hypothesis weights, likewise.
        reference_mask: True for reference tokens that may be matched.
        hypothesis_mask: True for hypothesis tokens that may be matched.
        alpha: Weight of F_alpha (see :func:`~textmover.functional.score_combination.f_score`).
        error_norm: Norm of the hypothesis tokens' losses in precision (see
            :func:`~textmover.functional.score_combination.token_score`).
        with_plan: Return the recall plan, ``a_i`` at each token's (first) best partner.

    Returns:
        Recall, precision and F_alpha, in the range of the similarities; 0 where one side has no token.

    Example:
        >>> similarity = torch.tensor([[[0.9, 0.1], [0.2, 0.4]]])
        >>> half, both = torch.full((1, 2), 0.5), torch.ones(1, 2, dtype=torch.bool)
        >>> greedy_matching(similarity, half, half, both, both).recall
        tensor([0.6500])

    Reference:
        Zhang et al. 2020 (BERTScore); Chen et al. 2020 (TWMD), Eq. 3.
    """
    check_problem(similarity, a, b)
    if not (a.shape[1] and b.shape[1]):
        padded = with_empty_token(similarity, a, b, reference_mask, hypothesis_mask)
        found = greedy_matching(*padded, alpha=alpha, error_norm=error_norm, with_plan=with_plan)
        return found._replace(plan=None if found.plan is None else found.plan[:, :-1, :-1])
    to_hypothesis = similarity.masked_fill(~hypothesis_mask[:, None, :], LOG_ZERO)
    to_reference = similarity.masked_fill(~reference_mask[:, :, None], LOG_ZERO)
    matchable = reference_mask.any(dim=1) & hypothesis_mask.any(dim=1)
    recall = torch.where(matchable, (a * to_hypothesis.amax(dim=2)).sum(dim=1), 0.0)
    precision = token_score(torch.where(matchable[:, None], to_reference.amax(dim=1), 0.0), b, error_norm)
    plan = None
    if with_plan:
        best = to_hypothesis.argmax(dim=2, keepdim=True)
        plan = torch.zeros_like(similarity).scatter_(2, best, a.where(matchable[:, None], 0.0)[:, :, None])
    return MatchResult(recall, precision, f_score(precision, recall, alpha), plan)
