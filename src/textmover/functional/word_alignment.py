"""Word alignment with positions: scores, the one-to-one alignment, distances and transport (RoMe), fragmentation.

Rows ``i`` are the ``p`` words of the reference, columns ``j`` the ``q`` words of the hypothesis. Both indices count
only words with a True mask, from 0. Fragmentation measures how far a plan changes the order of the tokens (WMDo).
"""

from __future__ import annotations

from typing import get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from textmover.functional._arguments import check_problem
from textmover.functional.exact import PartialResult, per_mass
from textmover.types import check_choice, check_share
from textmover.types.argument_checks import Penalty, Position

CODE_GAMMA = 0.07
"""Constant γ of the authors' code."""

DIGITS = 6
"""Decimals to which alignment scores are rounded, so that rounding errors of a batch rarely affect the result."""


def alignment_scores(
    similarity: Float[Tensor, "B M N"],
    reference_mask: Bool[Tensor, "B M"],
    hypothesis_mask: Bool[Tensor, "B N"],
    *,
    position: Position = "penalty",
) -> Float[Tensor, "B M N"]:
    r"""Score each word pair: its cosine times a factor of its positions.

    ``penalty``: :math:`A_{ij} = \cos_{ij}\,e^{\gamma_{ij}\Delta_{ij}}` with :math:`\gamma` and :math:`\Delta` of
    :func:`aligned_distances`, so that alignment and distances use the same penalty. It is mild and still aligns words
    that moved far, as in a passive form. ``near``, the authors' code:
    :math:`A_{ij} = \cos_{ij}\,(1 - |i/p - j/q|)`, which favours equal positions so strongly that dissimilar words are
    aligned if all contextual vectors are somewhat similar. ``literal``, Eq. 3 as printed:
    :math:`A_{ij} = \cos_{ij}\,\Delta_{ij}`, which favours distant words: in a text paired with itself, no word is
    aligned with itself.

    Reference: Rony et al. 2022 (RoMe), Eq. 3, and its code; Echizen-ya et al. 2019 (WE_WPI).
    """
    check_choice("position", position, get_args(Position))
    i, j, p, q = _positions(reference_mask, hypothesis_mask, similarity.dtype)
    if position == "near":
        return similarity * (1 - (i / p - j / q).abs())
    if position == "literal":
        return similarity * _relative_distance(i, j, p, q)
    return similarity * _soft_factor(i, j, p, q)


@torch.no_grad()
def hard_alignment(
    scores: Float[Tensor, "B M N"], reference_mask: Bool[Tensor, "B M"], hypothesis_mask: Bool[Tensor, "B N"]
) -> Bool[Tensor, "B M N"]:
    """Align words one to one, greedily by descending score; break ties by reference, then hypothesis position.

    Equivalent to repeatedly aligning the best pair of two free words. Each round aligns all pairs that are the best of
    both their row and their column, so a few rounds suffice. Scores are compared after rounding to 6 decimals.

    Reference: Rony et al. 2022 (RoMe), section 3.1 and figure 4.
    """
    free = reference_mask[:, :, None] & hypothesis_mask[:, None, :]
    left = scores.round(decimals=DIGITS).masked_fill(~free, -torch.inf)
    aligned = torch.zeros_like(free)
    rows = torch.arange(scores.shape[1], device=scores.device)
    for _ in range(min(scores.shape[1:])):
        # Ties go to the first: the lowest column of a row, the lowest row of a column.
        best, column = left.max(dim=2)
        mutual = (left.argmax(dim=1).gather(1, column) == rows) & (best != -torch.inf)  # true for NaN as well
        problem, row = mutual.nonzero(as_tuple=True)
        if not len(problem):
            break
        partner = column[problem, row]
        aligned[problem, row, partner] = True
        left[problem, row] = -torch.inf
        left[problem, :, partner] = -torch.inf
    return aligned


def partners(aligned: Bool[Tensor, "B M N"]) -> Int[Tensor, "B N"]:
    """Return the reference word of each hypothesis word, -1 if it is not aligned."""
    if aligned.shape[1] == 0:
        return torch.full(aligned.shape[::2], -1, dtype=torch.long, device=aligned.device)
    return torch.where(aligned.any(dim=1), aligned.int().argmax(dim=1), -1)


def aligned_distances(
    similarity: Float[Tensor, "B M N"],
    aligned: Bool[Tensor, "B M N"],
    reference_mask: Bool[Tensor, "B M"],
    hypothesis_mask: Bool[Tensor, "B N"],
    *,
    penalty: Penalty = "paper",
    threshold: float = 0.6,
) -> tuple[Float[Tensor, "B M N"], Bool[Tensor, "B M N"]]:
    r"""Compute distances of aligned, similar words, :math:`d_{ij} = 1 - \cos_{ij}\,s_{ij}`; all others are 1.

    ``paper``: :math:`s = e^{\gamma\Delta}` with :math:`\Delta = |q(i+1) - p(j+1)|/(pq)` and
    :math:`\gamma = -|j - i|/\max(p, q)`, in (1/e, 1] (Eq. 4). ``code``:
    :math:`s = \exp(-0.07 \cdot \tfrac{2|p - q|}{p + q} \cdot |i/p - j/q|)`, in (0.86, 1]: no penalty at equal lengths.
    ``none``: :math:`s = 1`.

    Reference: Rony et al. 2022 (RoMe), Eq. 4 and section "Soft-penalization", and its code.
    """
    check_choice("penalty", penalty, get_args(Penalty))
    check_share("threshold", threshold)
    near = similarity
    if penalty != "none":
        i, j, p, q = _positions(reference_mask, hypothesis_mask, similarity.dtype)
        if penalty == "paper":
            near = similarity * _soft_factor(i, j, p, q)
        else:
            lengths = 2 * (p - q).abs() / (p + q)
            near = similarity * (-CODE_GAMMA * lengths * (i / p - j / q).abs()).exp()
    matched = aligned & ~(similarity <= threshold)  # propagates NaN instead of returning a distance of 1
    # Rounding can make a cosine larger than 1.
    return torch.where(matched, (1 - near).clamp(min=0), 1.0), matched


def aligned_transport(
    distance: Float[Tensor, "B M N"], matched: Bool[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]
) -> PartialResult:
    r"""Solve partial transport over the distances of an alignment in closed form.

    Distances are 1 outside the alignment and at most 1 on it, and a word is aligned at most once. It is therefore
    optimal to move :math:`\min(a_i, b_j)` between aligned words and the remaining mass at distance 1:

    .. math:: \mathrm{EMD} = 1 - \frac{\sum_{(i,j)} \min(a_i, b_j)\,(1 - d_{ij})}{\min(\sum a, \sum b)}

    This equals the result of :func:`~textmover.functional.partial_transport`, without a solver and on any device. The
    plan distributes the remaining mass in proportion to the remaining weights.

    Reference: Rony et al. 2022 (RoMe), Eq. 1, 2 and 5.
    """
    check_problem(distance, a, b, name="distance")
    share = torch.minimum(a[:, :, None], b[:, None, :]).where(matched, 0.0)
    mass = torch.minimum(a.sum(dim=1), b.sum(dim=1))
    work = mass - (share * (1 - distance)).sum(dim=(1, 2))
    left_a, left_b = (a - share.sum(dim=2)).detach(), (b - share.sum(dim=1)).detach()
    most = torch.maximum(left_a.sum(dim=1), left_b.sum(dim=1))
    rest = left_a[:, :, None] * left_b[:, None, :] / torch.where(most > 0, most, 1.0)[:, None, None]
    converged = torch.ones_like(mass, dtype=torch.bool)
    return PartialResult(share.detach() + rest, work, mass, per_mass(work, mass), converged)


def _positions(
    reference_mask: Tensor, hypothesis_mask: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return positions ``i [B, M, 1]`` and ``j [B, 1, N]`` from 0, and numbers of words ``p`` and ``q``, at least 1."""
    i, j = ((mask.cumsum(dim=1) - 1).clamp(min=0).to(dtype) for mask in (reference_mask, hypothesis_mask))
    p, q = (mask.sum(dim=1).clamp(min=1).to(dtype)[:, None, None] for mask in (reference_mask, hypothesis_mask))
    return i[:, :, None], j[:, None, :], p, q


def _relative_distance(i: Tensor, j: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Return the relative distance of two positions, in [0, 1)."""
    return (q * (i + 1) - p * (j + 1)).abs() / (p * q)


def _soft_factor(i: Tensor, j: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Return the factor of the soft penalty of Eq. 4, in (1/e, 1]."""
    return (-(j - i).abs() / torch.maximum(p, q) * _relative_distance(i, j, p, q)).exp()


TIE = 1e-5
"""Relative difference up to which two masses of a plan count as equal, to allow for rounding."""


@torch.no_grad()
def fragmentation(
    plan: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    r"""Return the number of chunks matched in order per matched token, :math:`\min(\text{chunks}/\text{matched}, 1)`.

    Reference tokens are processed in order. Each one with weight and mass is matched with the hypothesis token that
    receives most of its mass. Ties go to the one nearest to the previous match, then to the earlier one. The count of
    chunks starts at 1. A match that does not directly follow the previous one starts a new chunk, and so does a first
    match that is not at the start of the hypothesis. The authors' code matches word types with the occurrence nearest
    to the previous match; here each token has its own row and column.

    Args:
        plan: Transport plan, at least 0. Its columns are the positions of the hypothesis in text order.
        a: Reference weights, 0 where padded.
        b: Hypothesis weights, likewise; positions of weight 0 are not counted, so they do not split chunks.

    Returns:
        Values in [0, 1], ``1/M`` for a text matched with itself; 0 without matches. No gradient.

    Raises:
        ValueError: If shapes do not fit.

    Example:
        >>> third = torch.full((1, 3), 1 / 3)
        >>> fragmentation(torch.eye(3)[None] / 3, third, third)
        tensor([0.3333])
        >>> fragmentation(torch.eye(3).flip(0)[None] / 3, third, third)
        tensor([1.])

    Reference:
        Chow, Specia and Madhyastha 2019 (WMDo, W19-5356) and its code; Banerjee and Lavie 2005 for METEOR's chunks.
    """
    if plan.ndim != 3:
        raise ValueError(f"Expected `plan` to have shape [B, M, N], but got {list(plan.shape)}.")
    if a.shape != plan.shape[:2]:
        raise ValueError(f"Expected `a` to have shape {list(plan.shape[:2])}, but got {list(a.shape)}.")
    if b.shape != plan.shape[::2]:
        raise ValueError(f"Expected `b` to have shape {list(plan.shape[::2])}, but got {list(b.shape)}.")
    batch, rows, columns = plan.shape
    if columns == 0:
        return plan.new_zeros(batch)
    most = plan.amax(dim=2)
    matched = (a > 0) & (most > 0)  # [B, M]
    candidates = (plan >= (1 - TIE) * most[:, :, None]) & (b > 0)[:, None]
    positions = (b > 0).cumsum(dim=1) - 1  # [B, N]
    current = torch.full((batch, 1), -1, device=plan.device)
    chunks = torch.ones_like(current)
    for row in range(rows):
        # Twice the distance, plus 1 for a later position, so that all values differ.
        distance = 2 * (positions - current).abs() + (positions > current)  # [B, N]
        nearest = distance.masked_fill(~candidates[:, row], 2 * columns + 2).argmin(dim=1, keepdim=True)
        nearest = positions.gather(1, nearest)
        here = matched[:, row, None]
        chunks += here & (nearest != current + 1)
        current = torch.where(here, nearest, current)
    count = matched.sum(dim=1)
    share = chunks[:, 0].to(plan.dtype) / count.clamp(min=1)
    return torch.where(count > 0, share.clamp(max=1), 0.0)
