"""RoMe's semantic feature: earth mover's distance of word vectors after a position-aware alignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from textmover.functional.cost import pairwise_similarity, unit_vectors
from textmover.functional.exact import partial_transport
from textmover.functional.token_pooling import Units
from textmover.functional.word_alignment import (
    aligned_distances,
    aligned_transport,
    alignment_scores,
    hard_alignment,
    partners,
)
from textmover.rome.config import SEMANTICS, SemanticConfig
from textmover.rome.features.word_vectors import WordIdf, is_word, word_key
from textmover.types import check_choice

WordWeighting = Literal["uniform", "idf", "tf-idf"]
"""Weight of each word: 1, its idf, or its idf times its share of the words of its text."""


class SemanticResult(NamedTuple):
    """The semantic feature of ``B`` pairs, with alignment and transport.

    Attributes:
        value: F_sem ``[B]``, 1 minus the earth mover's distance, in ``config.bounds``.
        empty: True if the mask of a text selects no word, bool ``[B]``; the value is 0 then.
        alignment: Reference word of each hypothesis word, -1 if none is similar enough, int64 ``[B, N]``. With
            ``align=False``, the reference word with the largest flow.
        flow: Mass moved between each word pair, ``[B, M, N]``, without gradients.
        distance: Distance of each word pair, ``[B, M, N]``.
    """

    value: Tensor
    empty: Tensor
    alignment: Tensor
    flow: Tensor
    distance: Tensor


def semantic_similarity(reference: Units, hypothesis: Units, config: SemanticConfig | None = None) -> SemanticResult:
    r"""Compute RoMe's :math:`F_{sem} = 1 - \mathrm{EMD}` of text pairs.

    With an alignment, EMD has a closed form (:func:`~textmover.functional.word_alignment.aligned_transport`). Without
    one, it is solved exactly (:func:`~textmover.functional.exact.partial_transport`). Gradients flow to vectors and
    weights, not through the alignment.

    Args:
        reference: Words of ``B`` references: vectors ``[B, M, D]`` of any norm, mask ``[B, M]``, and weights
            ``[B, M]``, at least 0. Masked words can be anywhere: positions count only the selected words.
        hypothesis: Words of ``B`` hypotheses, likewise.
        config: Options; ``None`` for ``SEMANTICS["paper"]``.

    Returns:
        Value with alignment, flow and distances. Padding has flow 0 and alignment -1.

    Raises:
        TypeError: If dtypes or devices are mixed, or below float32.

    Example:
        >>> words = Units(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool), torch.full((1, 3), 1 / 3))
        >>> swapped = words._replace(vectors=words.vectors[:, [1, 0, 2]])
        >>> [round(semantic_similarity(words, one).value.item(), 3) for one in (words, swapped)]
        [1.0, 0.93]
        >>> semantic_similarity(words, swapped).alignment
        tensor([[1, 0, 2]])

    Reference: Rony et al. 2022 (RoMe), section 3.1.
    """
    config = config or SEMANTICS["paper"]
    sides = reference.mask, hypothesis.mask
    with torch.autocast(reference.vectors.device.type, enabled=False):
        similarity = pairwise_similarity(unit_vectors(reference.vectors), unit_vectors(hypothesis.vectors))
        a, b = (side.weights.where(side.mask, 0.0) for side in (reference, hypothesis))
        if config.align:
            scores = alignment_scores(similarity, *sides, position=config.position)
            distance, matched = aligned_distances(
                similarity, hard_alignment(scores, *sides), *sides, penalty=config.penalty, threshold=config.threshold
            )
            transport = aligned_transport(distance, matched, a, b)
        else:
            distance = 1 - similarity
            transport = partial_transport(distance, a, b)
            most = transport.plan.amax(dim=1, keepdim=True) if transport.plan.shape[1] else transport.plan.new_zeros(1)
            matched = (transport.plan == most) & (transport.plan > 0)
    empty = ~(reference.mask.any(dim=1) & hypothesis.mask.any(dim=1))
    value = torch.where(transport.mass == 0, 0.0, 1 - transport.emd)
    return SemanticResult(value, empty, partners(matched), transport.plan, distance.detach())


def word_mask(mask: Tensor, words: Sequence[Sequence[str]]) -> Tensor:
    """Return a mask ``[B, W]`` of the words that have a vector and are not only punctuation or symbols."""
    flags = torch.zeros(mask.shape, dtype=torch.bool)
    for row, text in enumerate(words):
        flags[row, : len(text)] = torch.tensor([is_word(one) for one in text], dtype=torch.bool)
    return mask & flags.to(mask.device)


def word_weights(
    words: Sequence[Sequence[str]],
    mask: Tensor,
    idf: WordIdf | None = None,
    *,
    weighting: WordWeighting = "tf-idf",
    normalize: bool = True,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    r"""Return the weights of the words of texts, by default :math:`w_t = \mathrm{tf}(t)\,\mathrm{idf}(t)`.

    The frequency :math:`\mathrm{tf}(t) = \#t / n` is the share of the word in the selected words of its text.
    Each occurrence gets the weight.

    If weights sum to 1 (the paper's "sentence-level and normalized"), omissions cost as much as additions. With
    ``normalize=False`` the heavier text's surplus is free.

    Args:
        words: Words of each text as written, ``B`` lists.
        mask: True for each word to weight, ``[B, W]``.
        idf: Table of a corpus. If it is missing or unfitted, all words have the same weight.
        weighting: One of the options of ``WordWeighting``.
        normalize: Whether the weights of each text are scaled to sum 1.
        dtype: Type of the weights.

    Returns:
        Weights ``[B, W]``, at least 0, 0 for masked words; and flags ``[B]`` of texts whose idf weights are all 0, so
        that all words have the same weight.

    Raises:
        InputError: If ``weighting`` is unknown.

    Example:
        >>> words, mask = [["the", "cat", "the"]], torch.ones(1, 3, dtype=torch.bool)
        >>> idf = WordIdf("plus-one")
        >>> idf.add_words([["the", "cat"], ["the"]])
        >>> word_weights(words, mask, idf)[0]
        tensor([[0.3758, 0.2484, 0.3758]])
        >>> word_weights(words, mask, idf, weighting="idf")[0]
        tensor([[0.3010, 0.3979, 0.3010]])

    Reference: Rony et al. 2022 (RoMe), section 2.1.
    """
    check_choice("weighting", weighting, get_args(WordWeighting))
    uniform = mask.to(dtype)
    weights, unweighted = uniform, torch.zeros_like(mask[:, :0].any(dim=1))
    if weighting != "uniform" and idf is not None and idf.fitted:
        idf_weights = idf(idf.ids(words))
        padded = torch.nn.functional.pad(idf_weights, (0, mask.shape[1] - idf_weights.shape[1]))
        weights = padded.to(uniform) * uniform
        if weighting == "tf-idf":
            weights = weights * _frequencies(words, mask).to(uniform)
        unweighted = mask.any(dim=1) & (weights.sum(dim=1) <= 0)
        weights = torch.where(unweighted[:, None], uniform, weights)
    if normalize:
        total = weights.sum(dim=1, keepdim=True)
        weights = weights / torch.where(total > 0, total, 1.0)
    return weights, unweighted


def _frequencies(words: Sequence[Sequence[str]], mask: Tensor) -> Tensor:
    frequencies = torch.zeros(mask.shape)
    for row, (text, flags) in enumerate(zip(words, mask.tolist(), strict=True)):
        keys = [word_key(word) for word in text]
        counts = Counter(key for key, selected in zip(keys, flags, strict=False) if selected)
        frequencies[row, : len(keys)] = torch.tensor([counts[key] for key in keys]) / max(1, counts.total())
    return frequencies
