"""Similarities that need no matching: the mean of all cosines, and the centred kernel alignment of two sets."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from textmover.functional._arguments import check_problem


def mean_cosine(
    similarity: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    r"""Weighted mean of all similarities, :math:`\sum_{ij} a_i b_j S_{ij}`.

    Normalised by self-similarity it is the cosine of the two mean token vectors (SBERT in the TWMD paper).

    Args:
        similarity: Cosines of all token pairs.
        a: Reference weights, each row sums to 1; 0 where padded.
        b: Hypothesis weights, likewise.

    Returns:
        Values in the range of the similarities.

    Example:
        >>> half = torch.full((1, 2), 0.5)
        >>> mean_cosine(torch.eye(2)[None], half, half)
        tensor([0.5000])

    Reference:
        Chen et al. 2020 (TWMD), section 2.
    """
    check_problem(similarity, a, b)
    with torch.autocast(similarity.device.type, enabled=False):
        return torch.einsum("bm,bmn,bn->b", a, similarity, b)


def wordset_cka(
    similarity: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    r"""Weighted mean of all squared similarities, :math:`\sum_{ij} a_i b_j S_{ij}^2`.

    Normalised by self-similarity it is the linear centred kernel alignment of the two sets of token vectors.

    Args:
        similarity: Cosines of all token pairs, of vectors that were centred by their own dimension mean.
        a: Reference weights, each row sums to 1; 0 where padded.
        b: Hypothesis weights, likewise.

    Returns:
        Values of 0 and above.

    Example:
        >>> half = torch.full((1, 2), 0.5)
        >>> wordset_cka(torch.eye(2)[None], half, half)
        tensor([0.5000])

    Reference:
        Chen et al. 2020 (TWMD), section 2; Zhelezniak et al. 2019.
    """
    return mean_cosine(similarity.square(), a, b)
