"""From token vectors to the similarity block that every matching starts from."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["pairwise_similarity", "unit_vectors"]


def unit_vectors(vectors: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
    r"""Scale vectors to unit length: :math:`x / \|x\|`, and 0 for the zero vector.

    Args:
        vectors: Vectors along the last axis.

    Returns:
        Vectors of length 1 (or 0), with gradients of ordinary size also at 0.

    Example:
        >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > 0, length, 1.0)


def pairwise_similarity(
    reference: Float[Tensor, "B M D"], hypothesis: Float[Tensor, "B N D"]
) -> Float[Tensor, "B M N"]:
    r"""Inner products of all pairs of tokens: :math:`S_{ij} = \langle x_i, y_j \rangle`, the cosine of unit vectors.

    Args:
        reference: Reference token vectors ``x``.
        hypothesis: Hypothesis token vectors ``y``, of the same dtype and device.

    Returns:
        Similarities in the dtype of the vectors, under autocast too; rows are reference tokens.

    Raises:
        TypeError: If dtype or device differ.

    Example:
        >>> x = torch.eye(2)[None]
        >>> pairwise_similarity(x, x).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
    """
    if reference.dtype != hypothesis.dtype or reference.device != hypothesis.device:
        raise TypeError(
            "Expected `reference` and `hypothesis` to share dtype and device, but got "
            f"{reference.dtype} on {reference.device} and {hypothesis.dtype} on {hypothesis.device}."
        )
    with torch.autocast(reference.device.type, enabled=False):
        return torch.bmm(reference, hypothesis.transpose(1, 2))
