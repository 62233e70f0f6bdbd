"""Token similarities and costs, the input of every matching; similarities without a matching."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from textmover.functional._arguments import check_problem

Cost = Literal["cosine", "squared-euclidean", "euclidean"]


def unit_vectors(vectors: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
    r"""Scale vectors to unit length: :math:`x / \|x\|`, and 0 for the zero vector.

    Args:
        vectors: Vectors along the last axis.

    Returns:
        Vectors of length 1 (or 0), with bounded gradients also at 0.

    Example:
        >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    if not vectors.requires_grad:
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        return vectors / torch.where(length > 0, length, 1.0)
    some = (vectors != 0).any(dim=-1, keepdim=True)  # at 0 the norm has no second derivative
    length = torch.linalg.vector_norm(torch.where(some, vectors, 1.0), dim=-1, keepdim=True)
    return vectors / torch.where(some & (length > 0), length, 1.0)


def orthogonal_axes(
    reference: Float[Tensor, "B M D"],
    hypothesis: Float[Tensor, "B N D"],
    reference_kinds: Int[Tensor, "B M"],
    hypothesis_kinds: Int[Tensor, "B N"],
    share: float = 1.0,
) -> tuple[Float[Tensor, "B M E"], Float[Tensor, "B N E"]]:
    """Turn tokens of each kind except 0 to an additional axis per kind, orthogonal to all other tokens.

    Tokens keep their length; tokens of the same kind in a pair of texts share an axis. Those of negative kinds turn to
    it with a ``share`` of their squared length alone, from 0 to 1.
    """
    kinds = torch.cat([reference_kinds, hypothesis_kinds], dim=1)
    ordered, order = kinds.sort(dim=1)
    first = torch.nn.functional.pad(ordered[:, 1:] != ordered[:, :-1], (1, 0), value=True) & (ordered != 0)
    place = torch.zeros_like(kinds).scatter(1, order, first.cumsum(dim=1)) * (kinds != 0)
    axes = int(place.max()) if place.numel() else 0
    sides = []
    sizes = [reference.shape[1], hypothesis.shape[1]]
    for vectors, own, kind in zip(
        (reference, hypothesis), torch.split(place, sizes, dim=1), torch.split(kinds, sizes, dim=1), strict=True
    ):
        moved = own.nonzero(as_tuple=True)  # few tokens; the others are copied once
        turned = torch.where(kind[moved] < 0, share, 1.0).to(vectors)[:, None]
        length = torch.linalg.vector_norm(vectors[moved], dim=-1, keepdim=True) * turned.sqrt()
        rows = torch.nn.functional.pad(vectors[moved] * (1 - turned).sqrt(), (0, axes))
        column = vectors.shape[2] - 1 + own[moved][:, None]
        wider = torch.nn.functional.pad(vectors, (0, axes))
        sides.append(wider.index_put_(moved, rows.scatter(1, column, length)))
    return sides[0], sides[1]


def pairwise_similarity(
    reference: Float[Tensor, "B M D"], hypothesis: Float[Tensor, "B N D"]
) -> Float[Tensor, "B M N"]:
    r"""Return inner products of all token pairs, :math:`S_{ij} = \langle x_i, y_j \rangle`: cosines for unit vectors.

    Args:
        reference: Reference token vectors ``x``.
        hypothesis: Hypothesis token vectors ``y``, of the same dtype and device.

    Returns:
        Similarities in the dtype of the vectors, even under autocast; rows are reference tokens.

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


def scale_losses(
    similarity: Float[Tensor, "B M N"], chosen: Bool[Tensor, "B M N"], factor: float
) -> Float[Tensor, "B M N"]:
    r"""Multiply the losses of chosen token pairs: :math:`\max(1 - f\,(1 - S_{ij}),\ \min(S_{ij}, 0))`.

    Vectors of the same token differ by its context alone, so little that a word in the wrong role costs less than a
    synonym. A factor above 1 evens that out; a loss that is below 1 stays so.

    Args:
        similarity: Cosines of all token pairs.
        chosen: True for the pairs whose losses count more.
        factor: ``f``, at least 1.

    Returns:
        Similarities, those of other pairs as given.

    Example:
        >>> scale_losses(torch.tensor([[[1.0, 0.75, 0.25]]]), torch.tensor([[[True, True, True]]]), 2.0).tolist()
        [[[1.0, 0.5, 0.0]]]
    """
    return torch.where(chosen, (1 - factor * (1 - similarity)).maximum(similarity.clamp(max=0)), similarity)


def pairwise_cost(
    reference: Float[Tensor, "B M D"],
    hypothesis: Float[Tensor, "B N D"],
    similarity: Float[Tensor, "B M N"],
    kind: Cost,
) -> Float[Tensor, "B M N"]:
    r"""Return the cost of moving one unit of mass between each pair of unit vectors.

    ``cosine``: :math:`1 - S`, in [0, 2]; ``squared-euclidean``: :math:`\|x - y\|^2 = 2 - 2S`, in [0, 4];
    ``euclidean``: :math:`\|x - y\|`, in [0, 2], computed from the vectors, since with the root of a rounded
    :math:`2 - 2S` a token would have a distance from itself.

    Args:
        reference: Reference unit vectors.
        hypothesis: Hypothesis unit vectors.
        similarity: Their inner products.
        kind: One of the three.

    Returns:
        Costs, at least 0 up to rounding.

    Raises:
        ValueError: If the kind is unknown.

    Example:
        >>> x, y = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
        >>> [pairwise_cost(x, y, pairwise_similarity(x, y), kind).item() for kind in ("cosine", "squared-euclidean")]
        [1.0, 2.0]
    """
    if kind == "cosine":
        return 1 - similarity
    if kind == "squared-euclidean":
        return 2 - 2 * similarity
    if kind == "euclidean":
        with torch.autocast(reference.device.type, enabled=False):
            return torch.cdist(reference, hypothesis, compute_mode="donot_use_mm_for_euclid_dist")
    raise ValueError(f"Expected `kind` to be 'cosine', 'squared-euclidean' or 'euclidean', but got {kind!r}.")


def mean_cosine(
    similarity: Float[Tensor, "B M N"], a: Float[Tensor, "B M"], b: Float[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    r"""Return the weighted mean of all similarities, :math:`\sum_{ij} a_i b_j S_{ij}`.

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
    r"""Return the weighted mean of all squared similarities, :math:`\sum_{ij} a_i b_j S_{ij}^2`.

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
