"""RoMe's semantic feature: earth mover's distance over word vectors that are aligned with a view to their positions."""

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
from textmover.rome.features.words import WordIdf, is_word, word_key
from textmover.types import check_choice

WordWeighting = Literal["uniform", "idf", "tf-idf"]
"""Weight of each word: 1, its idf, or its idf times its share of the words of its text."""


class SemanticResult(NamedTuple):
    """The semantic feature of ``B`` pairs, and how it came about.

    Attributes:
        value: F_sem ``[B]``, 1 less the earth mover's distance, in ``config.bounds``.
        empty: True where a text has no word that takes part; the value is 0 there. bool ``[B]``.
        alignment: Reference word of each hypothesis word, -1 where none is similar enough, int64 ``[B, N]``; of a plain
            EMD, the one that gets most of its mass.
        flow: What is moved between each word pair, ``[B, M, N]``; a constant.
        distance: Distance of each word pair, ``[B, M, N]``.
    """

    value: Tensor
    empty: Tensor
    alignment: Tensor
    flow: Tensor
    distance: Tensor


def semantic_similarity(reference: Units, hypothesis: Units, config: SemanticConfig | None = None) -> SemanticResult:
    r"""RoMe's :math:`F_{sem} = 1 - \mathrm{EMD}` of pairs of texts.

    An alignment gives a closed form (:func:`~textmover.functional.word_alignment.aligned_transport`); without one the
    distance is solved exactly (:func:`~textmover.functional.exact.partial_transport`). Gradients flow to vectors and
    weights; the alignment itself is a constant.

    Args:
        reference: Words of ``B`` references: vectors ``[B, M, D]`` of any length, those that take part ``[B, M]``, and
            their weights ``[B, M]``, at least 0. Words need not be at the front: positions count those that take part.
        hypothesis: Words of as many hypotheses, likewise.
        config: ``SEMANTICS["paper"]`` if ``None``.

    Returns:
        Value and what it is made of; padding has flow 0 and alignment -1.

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
            found = aligned_transport(distance, matched, a, b)
        else:
            distance = 1 - similarity
            found = partial_transport(distance, a, b)
            most = found.plan.amax(dim=1, keepdim=True) if found.plan.shape[1] else found.plan.new_zeros(1)
            matched = (found.plan == most) & (found.plan > 0)
    empty = ~(reference.mask.any(dim=1) & hypothesis.mask.any(dim=1))
    value = torch.where(found.mass == 0, 0.0, 1 - found.emd)
    return SemanticResult(value, empty, partners(matched), found.plan, distance.detach())


def taking_part(mask: Tensor, words: Sequence[Sequence[str]]) -> Tensor:
    """The words ``[B, W]`` that have a vector and are more than punctuation or symbols."""
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
    r"""Weights of the words of texts: :math:`w_t = \mathrm{tf}(t)\,\mathrm{idf}(t)`.

    The frequency :math:`\mathrm{tf}(t) = \#t / n` is the share of the word in the words of its text that take part.
    Each occurrence of a word has the weight.

    Scaled to sum 1 (the paper's "sentence-level and normalized"), what a hypothesis leaves out costs as much as what it
    adds. With ``normalize=False`` the heavier text's surplus is free.

    Args:
        words: The words of each text as they are written, ``B`` lists.
        mask: True for each word that takes part, ``[B, W]``.
        idf: Fitted on a corpus; without one, or before it is fitted, every word weighs the same.
        weighting: One of the three.
        normalize: Whether the weights of each text are scaled to sum 1.
        dtype: Type of the weights.

    Returns:
        Weights ``[B, W]``, at least 0, 0 where a word takes no part; and True ``[B]`` for texts in which all idf
        weights are 0, so that every word weighs the same.

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
        of_words = idf(idf.ids(words))
        padded = torch.nn.functional.pad(of_words, (0, mask.shape[1] - of_words.shape[1]))
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
    found = torch.zeros(mask.shape)
    for row, (text, flags) in enumerate(zip(words, mask.tolist(), strict=True)):
        keys = [word_key(one) for one in text]
        counts = Counter(key for key, takes_part in zip(keys, flags, strict=False) if takes_part)
        found[row, : len(keys)] = torch.tensor([counts[key] for key in keys]) / max(1, counts.total())
    return found
