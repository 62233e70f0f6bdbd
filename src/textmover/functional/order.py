"""How far a transport plan keeps the order of the tokens (WMDo)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["fragmentation"]

TIE = 1e-5
"""Share of the largest mass by which another may fall short and still be as large: what rounding takes from a plan."""


@torch.no_grad()
def fragmentation(
    plan: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    r"""Chunks of tokens matched in order per matched token, :math:`\min(\text{chunks}/\text{matched}, 1)`.

    Reference tokens are taken in order. Each one with weight and mass is matched with the hypothesis token that gets
    most of it; of several, with the nearest to the previous match (the earlier one of two). A match that does not
    follow directly on the previous one, or the first on the start of the hypothesis, begins a further chunk; the count
    starts at 1. The authors' code matches word types with the occurrence nearest to the previous match; here every
    token has a row and a column of its own.

    Args:
        plan: Transport plan, at least 0. Its columns are the positions of the hypothesis in text order.
        a: Reference weights, 0 where padded.
        b: Hypothesis weights, likewise; positions of weight 0 are not counted, so that they separate nothing.

    Returns:
        Values in [0, 1], ``1/M`` for a text matched with itself; 0 where nothing is matched. No gradient.

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
        # Twice the distance, and 1 more for a later position: no two positions have the same.
        distance = 2 * (positions - current).abs() + (positions > current)  # [B, N]
        nearest = distance.masked_fill(~candidates[:, row], 2 * columns + 2).argmin(dim=1, keepdim=True)
        nearest = positions.gather(1, nearest)
        here = matched[:, row, None]
        chunks += here & (nearest != current + 1)
        current = torch.where(here, nearest, current)
    count = matched.sum(dim=1)
    share = chunks[:, 0].to(plan.dtype) / count.clamp(min=1)
    return torch.where(count > 0, share.clamp(max=1), 0.0)
