"""Explain RoMe: aligned words, tree edits, and the steps from features to the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from textmover.explaining.shares import rome_shares
from textmover.explaining.word_matches import word_spans
from textmover.functional import pairwise_similarity, unit_vectors
from textmover.modules.tokens.unknown_tokens import separate_unknown
from textmover.report.explanation.explanations import (
    ExplainedMatch,
    ExplainedText,
    ExplainedTrees,
    NodeEdit,
    Step,
    WordPair,
)
from textmover.rome.config import SyntacticOptions
from textmover.rome.features.pairs import compare_trees
from textmover.rome.features.semantic import word_mask, word_weights
from textmover.rome.features.syntactic import WordEdit, syntactic_edits
from textmover.rome.features.text_features import RomeFeatures, parses_of
from textmover.rome.metric import RomeMetric

MEANINGS = {
    "semantic": "1 less the mean distance of what is moved: 1 where every word has a counterpart of like meaning in "
    "about the same place",
    "syntactic": "1 less the edits from tree to tree, as a share of the most: 1 for the same structure over matching "
    "words",
    "acceptability": "probability that the hypothesis is acceptable English, whatever the reference says",
    "length-ratio": "words of the shorter text to those of the longer one",
    "chrf": "F-score of the n-grams of characters that both texts share",
}
"""Descriptions of features; a feature not listed is the score of the metric with its name."""


def explain_rome(
    metric: RomeMetric, hypothesis: str, reference: str, components: Mapping[str, float], *, empty: bool
) -> dict[str, Any]:
    """Return the fields of the :class:`~textmover.report.explanation.explanations.Explanation` of a RoMe score."""
    hyp, ref = (metric.text_features(metric.tokenize([text]).to(metric.device)) for text in (hypothesis, reference))
    vectors = (aligned.vectors for aligned in separate_unknown(ref, hyp))
    similarity = pairwise_similarity(*map(unit_vectors, vectors))[0].cpu().double().numpy()
    texts = tuple(_text(metric, side) for side in (ref, hyp))
    match, pairs = _match(metric, hyp, ref, similarity)
    unmatched = [set(np.flatnonzero(text.weights > 0).tolist()) for text in texts]
    unmatched[0] -= {pair.reference for pair in pairs}
    unmatched[1] -= {pair.hypothesis for pair in pairs}
    shares = rome_shares(metric, match, components, empty=empty)
    return {
        "hypothesis": texts[1],
        "reference": texts[0],
        "similarity": similarity,
        "matches": (match,) if match.plan.any() else (),
        "pairs": pairs,
        "unmatched_reference": tuple(sorted(unmatched[0])),
        "unmatched_hypothesis": tuple(sorted(unmatched[1])),
        "steps": _steps(metric, components, empty=empty),
        **shares._asdict(),
        "trees": _trees(metric, hyp, ref, similarity) if "syntactic" in metric.config.features else None,
    }


def _text(metric: RomeMetric, side: RomeFeatures) -> ExplainedText:
    """Return a text with its words; words that are not matched have weight 0."""
    (text,) = side.texts
    mask = word_mask(side.mask, [text.words])
    weights, _ = word_weights(
        [text.words], mask, metric.idf, weighting=metric.config.weights, normalize=metric.config.balanced
    )
    spans = text.parsed.spans if text.parsed is not None else word_spans(text.text, text.words)
    return ExplainedText(text.text, text.words, tuple(spans), weights[0].cpu().double().numpy())


def _match(
    metric: RomeMetric, hyp: RomeFeatures, ref: RomeFeatures, similarity: np.ndarray
) -> tuple[ExplainedMatch, tuple[WordPair, ...]]:
    """Return the plan of the semantic feature, with total mass 1, and the aligned words."""
    result = metric.semantic(hyp, ref)
    flow, distance = (tensor[0].cpu().double().numpy() for tensor in (result.flow, result.distance))
    plan = flow / flow.sum() if flow.any() else flow
    pairs = []
    for column, row in enumerate(result.alignment[0].tolist()):
        if row >= 0:
            cell = row, column
            cosine, rate = float(similarity[cell]), float(distance[cell])
            penalty = (1 - rate) / cosine if metric.config.semantic.align else None
            pairs.append(WordPair(row, column, cosine, float(plan[cell]), rate, penalty))
    return ExplainedMatch("cost", plan, distance, "cost"), tuple(pairs)


def _trees(metric: RomeMetric, hyp: RomeFeatures, ref: RomeFeatures, similarity: np.ndarray) -> ExplainedTrees:
    (reference,), (hypothesis,) = parses_of(ref.texts), parses_of(hyp.texts)
    options = metric.config.syntactic
    edits = syntactic_edits(reference, hypothesis, similarity.astype(np.float32), options)
    largest = float(compare_trees(metric.config, hyp, ref).largest[0])
    return ExplainedTrees(reference, hypothesis, tuple(_edit(edit, options) for edit in edits), largest)


def _edit(edit: WordEdit, options: SyntacticOptions) -> NodeEdit:
    if edit.reference is None:
        return NodeEdit("inserted", *edit)
    if edit.hypothesis is None:
        return NodeEdit("deleted", *edit)
    return NodeEdit("kept" if edit.cost < options.change / 2 else "changed", *edit)


def _steps(metric: RomeMetric, components: Mapping[str, float], *, empty: bool) -> tuple[Step, ...]:
    """Return the features and their combination to the score."""
    config = metric.config
    steps = [
        Step(name, components[name], MEANINGS.get(name, f"score of the metric {name}")) for name in config.features
    ]
    listed = ", ".join(config.features)
    if empty:
        note = "a side has no words: 0"
    elif metric.scorer is None:
        note = f"mean of {listed}" if len(config.features) > 1 else listed
    else:
        layers = metric.scorer.config
        shape = f"{len(layers.features)}-{'-'.join(map(str, (*layers.hidden, 1)))}"
        rising = ", in which no feature can lower the score" if layers.monotone else ""
        note = f"network {config.scorer} ({shape}) of {listed}{rising}"
    if metric.calibration is not None:
        scale, offset = float(metric.calibration.scale), float(metric.calibration.offset)
        note += f", on the human scale: {scale:.4g} * s {'+' if offset >= 0 else '-'} {abs(offset):.4g}"
    return (*steps, Step("score", components["score"], note))
