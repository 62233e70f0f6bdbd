"""Words of a text, their matches in the other text, and unmatched words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from textmover.functional import pairwise_similarity, unit_vectors
from textmover.modules.metric_model import MetricModel
from textmover.modules.score_deviation import PROBES, probe_batches
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.modules.tokens.weighting import Role
from textmover.modules.tokens.word_tokenizer import split_words
from textmover.report.explanation.explanations import ExplainedMatch, ExplainedText, WordPair
from textmover.types import InputError, SpecialToken, TokenBatch
from textmover.types.word_splitting import UNSPACED, goes_on

Span = tuple[int, int]

START, END = "[start]", "[end]"  # names of special tokens, the same for all encoders


class TokenWords(NamedTuple):
    """Words of a text including special tokens, their spans (if any), and the word of each token ``[L]``."""

    words: tuple[str, ...]
    spans: tuple[Span | None, ...]
    of_token: np.ndarray


def words_of_texts(metric: MetricModel, batch: TokenBatch, texts: Sequence[str]) -> list[TokenWords]:
    """Return the words of each text: tokens of letters and digits are joined, except in scripts without spaces."""
    lengths = batch.lengths.tolist()
    if not isinstance(metric.tokenizer, Tokenizer):
        return [_static_words(metric, text, length) for text, length in zip(texts, lengths, strict=True)]
    offsets = metric.tokenizer.offsets(texts)
    if offsets is None:
        raise InputError(
            "Expected a tokenizer that gives the places of its tokens, but this encoder has another: take one with a "
            "fast tokenizer."
        )
    rows = zip(texts, lengths, offsets.tolist(), batch.special.tolist(), strict=True)
    return [_joined_words(text, places[:length], special[:length]) for text, length, places, special in rows]


def _joined_words(text: str, places: Sequence[Sequence[int]], special: Sequence[int]) -> TokenWords:
    words: list[str] = []
    spans: list[Span | None] = []
    of_token = []
    for (start, end), kind in zip(places, special, strict=True):
        if kind != SpecialToken.NONE:
            words.append(START if kind == SpecialToken.FIRST else END)
            spans.append(None)
        else:
            while start < end and text[start].isspace():  # some tokens include the space before their word
                start += 1
            while start < end < len(text) and goes_on(text, end):
                end += 1  # a combining mark of the last character, which tokenizers strip
            last = spans[-1] if spans else None
            if last is not None and _joins(text, last, start):
                start, end = last[0], max(last[1], end)
                spans[-1], words[-1] = (start, end), text[start:end]
            else:
                spans.append((start, end))
                words.append(text[start:end])
        of_token.append(len(words) - 1)
    return TokenWords(tuple(words), tuple(spans), np.array(of_token, dtype=np.int64))


def _joins(text: str, word: Span, start: int) -> bool:
    """Return whether a token starting at ``start`` continues the previous word."""
    first, last = word
    if start != last:
        return start < last  # a token that splits a character
    if first == last:
        return True  # the previous token is a whitespace marker only
    before, after = text[last - 1], text[start : start + 1]
    return bool(after) and all(map(_joins_neighbours, (before, after)))


def _joins_neighbours(character: str) -> bool:
    """Return whether a character joins words: a digit, or a letter or mark of a script with spaces."""
    joins = unicodedata.category(character)[0] in "LNM"
    return joins and (character.isdigit() or not UNSPACED.match(character))


def _static_words(metric: MetricModel, text: str, length: int) -> TokenWords:
    """Return the words of a tokenizer that tokenises each word of :func:`split_words` separately."""
    words = split_words(text)
    counts = [int(count) for count in metric.tokenizer(words).lengths] if words else []
    of_token = np.repeat(np.arange(len(words)), counts)[:length]
    return TokenWords(tuple(words), tuple(word_spans(text, words)), of_token)


def word_spans(text: str, words: Sequence[str]) -> Iterator[Span | None]:
    """Yield the span of each word, in order; ``None`` for a word that the text spells differently."""
    position = 0
    for word in words:
        start = text.find(word, position)
        if start < 0:
            yield None  # in another Unicode normal form
        else:
            position = start + len(word)
            yield (start, position)


SHARE = 0.1  # minimum flow of a further reference word, as a share of the largest, to be listed as a partner
PARTNERS = 3  # maximum number of reference words listed per hypothesis word
ROLES: tuple[Role, Role] = ("hypothesis", "reference")

UNRELATED = 0.95
"""Quantile of the closeness of words in unrelated sentences that sets the floor."""


_FLOORS: WeakKeyDictionary[MetricModel, tuple[str, float]] = WeakKeyDictionary()
"""Signature and floor of each metric; the floor holds as long as the signature does."""


def unrelated_similarity(metric: MetricModel) -> float:
    """Return the cosine that one word in twenty reaches by chance between unrelated sentences with this encoder."""
    signature = str(metric.signature)
    if _FLOORS.get(metric, ("",))[0] != signature:
        _FLOORS[metric] = signature, _unrelated_similarity(metric)
    return _FLOORS[metric][1]


def _unrelated_similarity(metric: MetricModel) -> float:
    vectors, counts = [], []
    for batch, role in zip(probe_batches(metric), ROLES, strict=True):
        features = metric.text_features(batch)
        if features is None:  # the metric encodes texts jointly
            return 0.0
        side = metric.weighting(features, role)
        # Exclude special tokens, which are close in all texts. (Pooled words contain none.)
        plain = batch.special == 0 if side.weights.shape == batch.special.shape else True
        vectors.append(unit_vectors(side.vectors))
        counts.append((side.weights > 0) & plain)
    best = []
    for step in range(1, len(PROBES)):
        order = torch.arange(len(PROBES)).roll(step)
        cosines = pairwise_similarity(vectors[0], vectors[1][order])
        hypotheses, references = counts[0], counts[1][order]
        cosines = cosines.masked_fill(~(hypotheses[:, :, None] & references[:, None]), -torch.inf)
        best += [cosines.amax(dim=2)[hypotheses], cosines.amax(dim=1)[references]]
    closeness = torch.cat(best).double()
    closeness = closeness[closeness.isfinite()]
    return float(closeness.quantile(UNRELATED)) if len(closeness) else 0.0


def counterparts(
    matches: Sequence[ExplainedMatch], similarity: np.ndarray, texts: tuple[ExplainedText, ExplainedText], floor: float
) -> tuple[tuple[WordPair, ...], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return matched words, largest flow first, and per side the words without a match closer than ``floor``."""
    if not matches:
        return (), (_weighted_words(texts[0]), _weighted_words(texts[1]))
    recall, precision = matches[0], matches[-1]
    # Weight flow by similarity: with fixed marginals, mass may have to move to unrelated words.
    useful_flow = precision.plan * similarity.clip(min=0)
    pairs = []
    for column in np.flatnonzero(texts[1].weights > 0):
        best = np.argsort(-useful_flow[:, column], kind="stable")[:PARTNERS]
        for row in best[useful_flow[best, column] > SHARE * useful_flow[:, column].max()]:
            cell = int(row), int(column)
            pairs.append(WordPair(*cell, *(float(one[cell]) for one in (similarity, precision.plan, precision.rates))))
    useful_flow_back = (recall.plan * similarity.clip(min=0)).T
    return tuple(pairs), (
        _unmatched(texts[0], texts[1], useful_flow, similarity, floor),
        _unmatched(texts[1], texts[0], useful_flow_back, similarity.T, floor),
    )


def _weighted_words(text: ExplainedText) -> tuple[int, ...]:
    """Return the indices of words with positive weight, without special tokens."""
    return tuple(place for place in np.flatnonzero(text.weights > 0).tolist() if text.spans[place] is not None)


def _unmatched(
    text: ExplainedText, other: ExplainedText, useful_flow: np.ndarray, similarity: np.ndarray, floor: float
) -> tuple[int, ...]:
    """Return words without flow or no closer than unrelated words, unless the other text repeats them exactly."""
    words, other_words = _weighted_words(text), _weighted_words(other)
    if not words or not other_words:
        return words
    matched = set(useful_flow.argmax(axis=0)[useful_flow.max(axis=0) > 0].tolist())
    cosines = similarity[np.ix_(words, other_words)]
    close = cosines.max(axis=1) >= max(float(np.median(cosines)), floor)
    candidates = [place for place, is_close in zip(words, close, strict=True) if place not in matched or not is_close]
    remaining = Counter(other.words[place].casefold() for place in other_words)
    remaining.subtract(text.words[place].casefold() for place in words if place not in candidates)
    unmatched = []
    for place in candidates:
        word = text.words[place].casefold()
        remaining[word] -= 1
        if remaining[word] < 0:
            unmatched.append(place)
    return tuple(unmatched)
