"""Words of a text, their matches in the other text, and words without a counterpart."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from textmover.functional import pairwise_similarity, unit_vectors
from textmover.modules.devices import scoring_mode
from textmover.modules.metric_model import MetricModel
from textmover.modules.probe_sentences import PROBES
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.modules.tokens.weighting import Role, Side
from textmover.modules.tokens.word_tokenizer import split_words
from textmover.report.evaluation.disagreements import Alignment, Link
from textmover.report.explanation.explanation import ExplainedMatch, ExplainedText, WordPair
from textmover.types import InputError, SegmentMetric, SpecialToken, TokenBatch
from textmover.types.text_words import UNSPACED, goes_on

Span = tuple[int, int]

START, END = "[start]", "[end]"  # common names of special tokens, which encoders name differently


class TokenWords(NamedTuple):
    """Words of a text, special tokens among them, their spans in it (if any), and the word of each token ``[L]``."""

    words: tuple[str, ...]
    spans: tuple[Span | None, ...]
    of_token: np.ndarray


def words_of_texts(metric: MetricModel, batch: TokenBatch, texts: Sequence[str]) -> list[TokenWords]:
    """Words of the tokens of texts: joined letters and digits; any other token is one, as each of Chinese or Thai."""
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
            while start < end and text[start].isspace():  # some tokens begin with the space before their word
                start += 1
            while start < end < len(text) and goes_on(text, end):
                end += 1  # a mark of the last character, which tokenizers take off
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
    """Return whether a token that starts at a place goes on with the word before it."""
    first, last = word
    if start != last:
        return start < last  # the second half of a character
    if first == last:
        return True  # nothing but a mark of white space
    before, after = text[last - 1], text[start : start + 1]
    return bool(after) and all(map(_joins_others, (before, after)))


def _joins_others(character: str) -> bool:
    """Return whether a character is part of longer words: a digit, or a letter or mark of a script with spaces."""
    joins = unicodedata.category(character)[0] in "LNM"
    return joins and (character.isdigit() or not UNSPACED.match(character))


def _static_words(metric: MetricModel, text: str, length: int) -> TokenWords:
    """Words of a tokenizer that takes each word of :func:`split_words` by itself."""
    written = split_words(text)
    counts = [int(one) for one in metric.tokenizer(written).lengths] if written else []
    of_token = np.repeat(np.arange(len(written)), counts)[:length]
    return TokenWords(tuple(written), tuple(word_spans(text, written)), of_token)


def word_spans(text: str, words: Sequence[str]) -> Iterator[Span | None]:
    """Spans of words in the order of the text; ``None`` for a word that the text spells differently."""
    place = 0
    for word in words:
        start = text.find(word, place)
        if start < 0:
            yield None  # in another normal form of Unicode
        else:
            place = start + len(word)
            yield (start, place)


SHARE = 0.1  # least part of the best partner's flow that a word of the reference has to give to be named beside it
PARTNERS = 3  # most words of the reference that are named for a word of the hypothesis
ROLES: tuple[Role, Role] = ("hypothesis", "reference")

UNRELATED = 0.95
"""Share of the words of unrelated sentences that are less close to any word of the other sentence than the floor is."""


def unrelated_closeness(metric: MetricModel) -> float:
    """Cosine that one word in twenty reaches by chance between unrelated sentences, which differs by encoder."""
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
    """Matched words, largest flow first, and those of each side without a counterpart closer than ``floor``."""
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
    """Words without a counterpart: drawn on by none or no closer than unrelated words, and not repeated as they are."""
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


FAINT = 0.15  # share of the weight of either word below which a link is left out


def align_words(metric: SegmentMetric, hypothesis: str, reference: str, number: int = 0) -> Alignment | None:
    """Match words between white space as a fitted metric matches their tokens, with the largest cosine of these.

    The reference is that of a number, from 0. ``None`` if the metric matches no words, or cannot place them.
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
    mass, cosine = (one[0].cpu().double().numpy() for one in (plan, cosines))
    for token, row in rows:
        for other, column in columns:
            moved[row, column] += mass[token, other]
            alike[row, column] = max(alike[row, column], cosine[token, other])
    heaviest = np.minimum(moved.max(axis=1, keepdims=True, initial=0.0), moved.max(axis=0, keepdims=True, initial=0.0))
    links = tuple(
        Link(column, row, float(moved[row, column]), float(min(1.0, alike[row, column])))
        for row, column in np.argwhere((moved > 0) & (moved >= FAINT * heaviest)).tolist()
    )
    return Alignment(hypothesis_words, reference_words, links, number)


def _taking_part(numbers: tuple[int | None, ...], side: Side) -> list[tuple[int, int]]:
    """Tokens that are matched, each with the number of its word; special tokens are of none."""
    weights = side.weights[0].cpu().numpy()
    return [
        (token, word) for token, word in enumerate(numbers[: len(weights)]) if word is not None and weights[token] > 0
    ]
