"""Which words of two texts a metric matched, and with what weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textmover.functional import pairwise_similarity, unit_vectors
from textmover.modules.devices import scoring_mode
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.modules.tokens.weighting import Side
from textmover.types import SegmentMetric


@dataclass(frozen=True, eq=False)
class WordAlignment:
    """How the words of a reference were matched with those of a hypothesis.

    Attributes:
        hypothesis: ``N`` words, as they stand between white space.
        reference: ``M`` words.
        plan: Weight of each match, float64 ``[M, N]``: what the transport plan moves between the tokens of two words,
            or how much greedy matching gives them.
        similarity: Largest cosine between tokens of two words, float64 ``[M, N]``; 0 where no token takes part.
    """

    hypothesis: tuple[str, ...]
    reference: tuple[str, ...]
    plan: np.ndarray
    similarity: np.ndarray


def align_words(metric: SegmentMetric, hypothesis: str, reference: str) -> WordAlignment | None:
    """Match the words of two texts as a metric matches their tokens.

    Args:
        metric: The metric, fitted.
        hypothesis: The text that is judged.
        reference: What it is compared with.

    Returns:
        The alignment; ``None`` for metrics that match no single tokens (sentences, n-grams, words as means of their
        pieces), over static vectors, or whose tokenizer cannot say where a token stands.
    """
    if not isinstance(metric, MetricModel) or metric.weighting.pools or not isinstance(metric.tokenizer, Tokenizer):
        return None
    found, given_words = metric.tokenizer.words(hypothesis), metric.tokenizer.words(reference)
    if found is None or given_words is None:
        return None
    (hypothesis_words, of_hypothesis), (reference_words, of_reference) = found, given_words
    with scoring_mode(metric):
        features = [metric.text_features(metric.tokenize([text]).to(metric.device)) for text in (hypothesis, reference)]
        if features[0] is None or features[1] is None:
            return None
        given, wanted = metric.weighting.sides(features[1], features[0])
        plan = metric.matching(pairwise_similarity(given.vectors, wanted.vectors), given, wanted, with_plan=True).plan
        if plan is None:
            return None
        cosines = pairwise_similarity(unit_vectors(given.vectors), unit_vectors(wanted.vectors))
    rows, columns = _taking_part(of_reference, given), _taking_part(of_hypothesis, wanted)
    size = len(reference_words), len(hypothesis_words)
    moved, alike = np.zeros(size), np.full(size, -np.inf)
    mass, cosine = (one[0].double().cpu().numpy() for one in (plan, cosines))
    for token, row in rows:
        for other, column in columns:
            moved[row, column] += mass[token, other]
            alike[row, column] = max(alike[row, column], cosine[token, other])
    return WordAlignment(hypothesis_words, reference_words, moved, np.where(np.isinf(alike), 0.0, alike))


def _taking_part(numbers: tuple[int | None, ...], side: Side) -> list[tuple[int, int]]:
    """Tokens that are matched, each with the number of its word; special tokens are of none."""
    weights = side.weights[0].cpu().numpy()
    return [
        (token, word) for token, word in enumerate(numbers[: len(weights)]) if word is not None and weights[token] > 0
    ]
