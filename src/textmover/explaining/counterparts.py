"""Which words of an explained pair belong together, and which have no counterpart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from textmover.functional import pairwise_similarity, unit_vectors
from textmover.modules.metric_model import MetricModel
from textmover.modules.probes import PROBES
from textmover.modules.tokens.weighting import Role
from textmover.report.explanation.view import ExplainedMatch, ExplainedText, WordPair

SHARE = 0.1
"""Least part of the best partner's flow that a word of the reference has to give to be named beside it."""

PARTNERS = 3
"""Most words of the reference that are named for a word of the hypothesis."""

ROLES: tuple[Role, Role] = ("hypothesis", "reference")

UNRELATED = 0.95
"""Share of the words of unrelated sentences that are less close to any word of the other sentence than the floor is."""


def unrelated_closeness(metric: MetricModel) -> float:
    """How close words of unrelated sentences come to be: a cosine that one word in twenty reaches by chance.

    Encoders differ in it: of all-MiniLM-L6-v2 it is .2 to .4 by what it was trained on, of encoders whose vectors all
    point the same way .9 and more. It is taken over the words of eight sentences, each beside those of seven pairs
    that it does not belong to.

    Args:
        metric: The metric, in evaluation mode.
    """
    vectors, counted = [], []
    for place, role in enumerate(ROLES):
        batch = metric.tokenize([pair[place] for pair in PROBES]).to(metric.device)
        features = metric.text_features(batch)
        if features is None:  # no text has vectors of its own
            return 0.0
        side = metric.weighting(features, role)
        # Special tokens are close to one another in all texts. (Those of pooled words have gone already.)
        plain = batch.special == 0 if side.weights.shape == batch.special.shape else True
        vectors.append(unit_vectors(side.vectors))
        counted.append((side.weights > 0) & plain)
    best = []
    for step in range(1, len(PROBES)):
        order = torch.arange(len(PROBES)).roll(step)
        cosines = pairwise_similarity(vectors[0], vectors[1][order])
        own, other = counted[0], counted[1][order]
        cosines = cosines.masked_fill(~(own[:, :, None] & other[:, None]), -torch.inf)
        best += [cosines.amax(dim=2)[own], cosines.amax(dim=1)[other]]
    found = torch.cat(best).double()
    found = found[found.isfinite()]
    return float(found.quantile(UNRELATED)) if len(found) else 0.0


def counterparts(
    matches: Sequence[ExplainedMatch], similarity: np.ndarray, texts: tuple[ExplainedText, ExplainedText], floor: float
) -> tuple[tuple[WordPair, ...], tuple[tuple[int, ...], tuple[int, ...]]]:
    """The words that belong together, and those of each side that have no counterpart.

    Args:
        matches: The values of the matching with their plans; none where a side is empty.
        similarity: Cosines of the words, ``[M, N]``.
        texts: Reference and hypothesis.
        floor: What a word has to be closer to a word of the other side than (see :func:`unrelated_closeness`).

    Returns:
        The pairs, those with the largest flow first, and the words of reference and hypothesis that are left over.
    """
    if not matches:
        return (), (_taking(texts[0]), _taking(texts[1]))
    recall, precision = matches[0], matches[-1]
    # What counts is mass that finds something alike; mass has to go somewhere in a plan with fixed sums.
    drawn = precision.plan * similarity.clip(min=0)
    pairs = []
    for column in np.flatnonzero(texts[1].weights > 0):
        best = np.argsort(-drawn[:, column], kind="stable")[:PARTNERS]
        for row in best[drawn[best, column] > SHARE * drawn[:, column].max()]:
            at = int(row), int(column)
            pairs.append(WordPair(*at, *(float(one[at]) for one in (similarity, precision.plan, precision.rates))))
    back = (recall.plan * similarity.clip(min=0)).T
    lonely = [
        _lonely(texts[0], texts[1], drawn, similarity, floor),
        _lonely(texts[1], texts[0], back, similarity.T, floor),
    ]
    return tuple(pairs), (lonely[0], lonely[1])


def _taking(text: ExplainedText) -> tuple[int, ...]:
    """The words of a text that take part, without special tokens."""
    return tuple(place for place in np.flatnonzero(text.weights > 0).tolist() if text.spans[place] is not None)


def _lonely(
    text: ExplainedText, other: ExplainedText, drawn: np.ndarray, similarity: np.ndarray, floor: float
) -> tuple[int, ...]:
    """Words of a text that have no counterpart in the other one.

    Either no word draws on them most, or they are no closer to any word than half of all pairs of words are, or than
    words of unrelated texts come to be: what is left over of both texts has to go somewhere, and would vouch for one
    another. A word that stands in the other text as it is has a counterpart, as often as it stands there.

    Args:
        text: The text, of ``m`` words.
        other: The other one, of ``n`` words.
        drawn: What each word of the other text draws from those of this one, ``[m, n]``.
        similarity: Cosines, ``[m, n]``.
        floor: How close words of unrelated texts come to be.
    """
    own, others = _taking(text), _taking(other)
    if not own or not others:
        return own
    wanted = set(drawn.argmax(axis=0)[drawn.max(axis=0) > 0].tolist())
    cosines = similarity[np.ix_(own, others)]
    close = cosines.max(axis=1) >= max(float(np.median(cosines)), floor)
    lonely = [place for place, near in zip(own, close, strict=True) if place not in wanted or not near]
    left = Counter(other.words[place].casefold() for place in others)
    left.subtract(text.words[place].casefold() for place in own if place not in lonely)
    found = []
    for place in lonely:
        word = text.words[place].casefold()
        left[word] -= 1
        if left[word] < 0:
            found.append(place)
    return tuple(found)
