"""Features of text pairs for RoMe, including surface measures (length ratio, chrF)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from textmover.functional.cost import pairwise_similarity, unit_vectors
from textmover.functional.token_pooling import Units
from textmover.modules.tokens.unknown_tokens import separate_unknown
from textmover.rome.config import RomeConfig
from textmover.rome.features.semantic import SemanticResult, semantic_similarity, word_mask, word_weights
from textmover.rome.features.syntactic import SyntacticSimilarity, syntactic_similarity
from textmover.rome.features.text_features import ParsedWords, RomeFeatures, parses_of
from textmover.rome.features.word_vectors import WordIdf, is_word
from textmover.rome.scorer.network import named_features
from textmover.types import needs_extra


def length_ratio(hypothesis: ParsedWords, reference: ParsedWords) -> float:
    """Return the ratio of the word counts of shorter and longer text, 0 to 1; 1 for two texts without words."""
    counts = sorted(sum(map(is_word, one.words)) for one in (hypothesis, reference))
    return counts[0] / counts[1] if counts[1] else 1.0


def chrf(hypothesis: ParsedWords, reference: ParsedWords) -> float:
    """Return the chrF of the hypothesis, 0 to 1 (Popović 2015)."""
    return float(_chrf().sentence_score(hypothesis.text, [reference.text]).score) / 100


@cache
def _chrf() -> Any:
    with needs_extra("lexical", "sacrebleu for the feature chrf"):
        from sacrebleu.metrics.chrf import CHRF
    return CHRF()


SURFACE: Mapping[str, Callable[[ParsedWords, ParsedWords], float]] = {"length-ratio": length_ratio, "chrf": chrf}
"""Functions of hypothesis and reference that compute surface features, by name."""


def pair_features(
    config: RomeConfig,
    idf: WordIdf | None,
    metrics: Mapping[str, Any],
    acceptability: Callable[[Sequence[str]], Tensor] | None,
    hypotheses: RomeFeatures,
    references: RomeFeatures,
) -> tuple[Tensor, Tensor]:
    """Return features ``[B, F]`` in the order of the configuration, and flags ``[B, 2]``: any text empty, any long."""
    device = references.vectors.device
    references, hypotheses = separate_unknown(references, hypotheses)
    units = (_units(config, idf, side) for side in (references, hypotheses))
    # Cut after the last selected word: long texts have words beyond the encoder's limit.
    first, second = (Units(*(part[:, : _width(one.mask)] for part in one)) for one in units)
    semantic = semantic_similarity(first, second, config.semantic)
    named = {"semantic": semantic.value}
    empty, long = semantic.empty, torch.zeros_like(semantic.empty)
    if hypotheses.unknown is not None and references.unknown is not None:
        for mask, numbers in (first.mask, references.unknown), (second.mask, hypotheses.unknown):
            empty = empty | ~(mask & (numbers[:, : mask.shape[1]] == 0)).any(dim=1)
    if "syntactic" in config.features:
        trees = compare_trees(config, hypotheses, references)
        named["syntactic"] = trees.similarity.to(device)
        empty, long = empty | trees.empty.to(device), trees.long.to(device)
    if acceptability is not None:
        named["acceptability"] = acceptability([one.text for one in hypotheses.texts]).to(device)
    for name in SURFACE.keys() & set(config.features):
        pairs = zip(hypotheses.texts, references.texts, strict=True)
        named[name] = torch.tensor([SURFACE[name](hypothesis, reference) for hypothesis, reference in pairs]).to(device)
    for name, metric in metrics.items():
        named[name] = metric.pair_scores(hypotheses.others[name][0], references.others[name][0]).score
    features = named_features({name: value.float() for name, value in named.items()}, config.features)
    return features, torch.stack([empty, long], dim=1)


def match_words(
    config: RomeConfig, idf: WordIdf | None, hypotheses: RomeFeatures, references: RomeFeatures
) -> SemanticResult:
    """Return the semantic feature with alignment and flow, padded to all words."""
    references, hypotheses = separate_unknown(references, hypotheses)
    return semantic_similarity(_units(config, idf, references), _units(config, idf, hypotheses), config.semantic)


def compare_trees(config: RomeConfig, hypotheses: RomeFeatures, references: RomeFeatures) -> SyntacticSimilarity:
    """Return the syntactic feature with distances; words after the last one with a vector have cosine 0."""
    references, hypotheses = separate_unknown(references, hypotheses)
    # Cut after the last vector: the matrix of thousands of words beyond the encoder's limit would not fit in memory.
    sides = [side.vectors[:, : _width(side.mask)] for side in (references, hypotheses)]
    cosines = pairwise_similarity(*(unit_vectors(side) for side in sides))
    return syntactic_similarity(parses_of(references.texts), parses_of(hypotheses.texts), cosines, config.syntactic)


def _units(config: RomeConfig, idf: WordIdf | None, side: RomeFeatures) -> Units:
    words = [one.words for one in side.texts]
    mask = word_mask(side.mask, words)
    weights, _ = word_weights(words, mask, idf, weighting=config.weights, normalize=config.balanced)
    return Units(side.vectors, mask, weights)


def _width(mask: Tensor) -> int:
    """Return the number of columns up to the last true one of a mask ``[B, W]``, at least 1."""
    return max([1, *(mask.any(dim=0).nonzero().flatten() + 1).tolist()])
