"""Pooling of tokens into words and n-grams: vectors, weights and masks of larger units."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Units(NamedTuple):
    """Units to match: vectors ``[B, L, D]``, their mask ``[B, L]``, and their weights ``[B, L]``."""

    vectors: Float[Tensor, "B L D"]
    mask: Bool[Tensor, "B L"]
    weights: Float[Tensor, "B L"]


def compact(units: Units) -> Units:
    """Move the units selected by the mask to the front, in order, and trim to the longest text.

    Example:
        >>> mask = torch.tensor([[False, True, True]])
        >>> compact(Units(torch.eye(3)[None], mask, torch.tensor([[0.0, 0.3, 0.7]]))).weights
        tensor([[0.3000, 0.7000]])
    """
    longest = int(units.mask.sum(dim=1).max()) if len(units.mask) else 0
    order = torch.argsort(~units.mask, dim=1, stable=True)[:, :longest]
    mask = units.mask.gather(1, order)
    vectors = units.vectors.gather(1, order[:, :, None].expand(-1, -1, units.vectors.shape[2]))
    return Units(vectors, mask, units.weights.gather(1, order).where(mask, 0.0))


def ngrams(units: Units, n: int | None) -> Units:
    r"""Build all n-grams of ``n`` units: :math:`v_k = \sum_t w_t x_t / \sum_t w_t` and :math:`w_k = \sum_t w_t`.

    A text of fewer than ``n`` units is one n-gram, as in the authors' code. An n-gram without weight has weight 0 and
    the zero vector; ``n = 1`` leaves the units unchanged.

    Args:
        units: Selected units, at the front (see :func:`compact`).
        n: Length of an n-gram, at least 1; ``None`` joins the whole text.

    Returns:
        The n-grams, at the front; their vectors are means, not unit vectors.

    Raises:
        ValueError: If ``n`` is below 1.

    Example:
        >>> units = Units(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 3))
        >>> ngrams(units, 2).vectors.tolist()
        [[[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]]
        >>> ngrams(units, None).weights
        tensor([[3.]])

    Reference:
        Zhao et al. 2019 (MoverScore), section 3.1.
    """
    if n is not None and n < 1:
        raise ValueError(f"Expected `n` to be at least 1 or None, but got {n}.")
    vectors, mask, weights = units
    if n == 1 or mask.shape[1] == 0:
        return units
    size = mask.shape[1] if n is None else min(n, mask.shape[1])
    count = mask.shape[1] - size + 1
    weights = weights.where(mask, 0.0)
    weighted = weights[:, :, None] * vectors
    # Add shifted units, since differences of cumulative sums would lose precision.
    total = torch.stack([weights[:, start : start + count] for start in range(size)]).sum(dim=0)
    summed = weighted[:, :count].clone()
    for start in range(1, size):
        summed = summed + weighted[:, start : start + count]
    lengths = mask.sum(dim=1, keepdim=True)
    complete = torch.arange(count, device=mask.device) <= (lengths - size).clamp(min=0)
    complete = complete & (lengths > 0)
    means = summed / torch.where(total > 0, total, 1.0)[:, :, None]
    return Units(means * complete[:, :, None], complete, total.where(complete, 0.0))


def words(units: Units, starts: Bool[Tensor, "B L"]) -> Units:
    """Pool pieces into words with the mean vector and mean weight of their pieces.

    Args:
        units: Pieces; those outside the mask are excluded.
        starts: True for each piece that begins a word.

    Returns:
        The words in order, at the front, padded to the number of pieces.

    Example:
        >>> units = Units(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 3))
        >>> words(units, torch.tensor([[True, False, True]])).vectors[0, :2].tolist()
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    vectors, mask, weights = units
    word = starts.cumsum(dim=1)
    # A word whose first piece is outside the mask begins with its first piece inside it.
    latest = word.where(mask, -1).cummax(dim=1).values
    first = mask & (word > torch.nn.functional.pad(latest, (1, 0), value=-1)[:, :-1])
    index = (first.cumsum(dim=1) - 1).clamp(min=0)
    counts = torch.zeros_like(weights).scatter_add(1, index, mask.to(weights.dtype))
    share = torch.where(counts > 0, counts, 1.0)
    summed = torch.zeros_like(vectors).scatter_add(1, index[:, :, None].expand_as(vectors), vectors * mask[:, :, None])
    weight = torch.zeros_like(weights).scatter_add(1, index, weights.where(mask, 0.0))
    return Units(summed / share[:, :, None], counts > 0, weight / share)
