"""Similarity of token vectors by layer: of random words, of a word in two texts, and of words of one text.

Reference: Chen et al. 2020 (TWMD), section 5 and figures 1 and 2; Ethayarajh 2019.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textmover.experiments.papers.specification import LayerSpec
from textmover.functional import unit_vectors
from textmover.modules.devices import evaluating, own_arithmetic
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.windows import longest_first
from textmover.modules.encoder_parts import EncoderParts
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.statistics import CorpusMean
from textmover.readers.segments import read_texts
from textmover.report import Line, Panel, draw_panels
from textmover.report.table_formats import number
from textmover.scoring.scorer import Scorer
from textmover.terminal import AdvancePart
from textmover.types import InputError, TokenTrait, check_choice, check_whole, fixed, plural

CENTERINGS = ("none", "dimension", "sentence", "corpus")
"""Means that can be subtracted, except that of a batch, which only approximates the corpus mean in training."""

WINDOW = 2048  # texts tokenised at a time
BATCH_TOKENS = 4096  # default tokens per batch of the encoder

Indices = NDArray[np.int64]


class Estimate(NamedTuple):
    """Mean cosine of sampled pairs."""

    mean: float  # in [-1, 1]; NaN if no pair can be drawn
    error: float  # standard error, in which repeated pairs count once; NaN for fewer than two distinct pairs
    pairs: int  # pairs with a defined cosine: both centred vectors are non-zero

    def __str__(self) -> str:
        return number(self.mean) + ("" if math.isnan(self.error) else f" ± {number(self.error)}")


class LayerSimilarity(NamedTuple):
    """Three similarities of a layer with one kind of centring."""

    centering: str  # subtracted mean: one of :data:`CENTERINGS`
    layer: int  # counted from 0, the embeddings
    baseline: Estimate  # two random words of different texts
    self_similarity: Estimate  # the same word in two different texts
    intra_similarity: Estimate  # two words of the same text


class LayerAnalysis(NamedTuple):
    """Results of a layer analysis, with sample sizes."""

    rows: tuple[LayerSimilarity, ...]  # sorted by centring, then by layer
    texts: int  # texts with at least one ordinary token
    tokens: int  # ordinary tokens in them
    words: int  # distinct words that occur in at least two texts


class TextTokens(NamedTuple):
    """Ordinary tokens of all texts, concatenated."""

    text: Indices  # index of each token's text, ascending, ``[n]``
    place: Indices  # position in its text, counting special tokens, ``[n]``
    ids: Indices  # token id, ``[n]``
    whole: NDArray[np.bool_]  # true for a token that is a whole word, bool ``[n]``
    lengths: Indices  # tokens of each text, special ones included, ``[T]``


class TokenPairs(NamedTuple):
    """Pairs of tokens, as indices into :class:`TextTokens`."""

    baseline: Indices  # of different texts, ``[pairs, 2]``
    same_word: Indices  # with the same id, in different texts, ``[pairs, 2]``, or empty
    same_text: Indices  # at different positions of the same text, ``[pairs, 2]``, or empty
    words: int  # distinct words from which ``same_word`` was drawn


def with_all_layers(parts: EncoderParts) -> EncoderParts:
    """Return the parts with an encoder of the same weights that returns all its layers, from the embeddings on."""
    encoder = parts.encoder
    if not isinstance(encoder, Encoder):
        return parts
    top = min(encoder.depth, encoder.model.config.num_hidden_layers)  # layers above may have been removed
    return replace(parts, encoder=Encoder(encoder.model, encoder.depth, range(top + 1), window=encoder.window))


@own_arithmetic()
@torch.no_grad()
def analyse_layers(
    parts: EncoderParts,
    texts: Sequence[str],
    *,
    centerings: Sequence[str] = CENTERINGS,
    pairs: int = 1000,
    seed: int = 0,
    batch_tokens: int = BATCH_TOKENS,
    on_progress: Callable[[int], None] | None = None,
) -> LayerAnalysis:
    """Compute for each layer the mean cosine of random words, of a word in two texts, and of two words of a text.

    Each distinct text is encoded once, and at most ``6 * pairs`` vectors per layer are kept. Words are tokens except
    special ones, which the subtracted means also exclude. For a word in two texts, only tokens that are whole words
    are used.

    Reference: Chen et al. 2020 (TWMD), section 5.
    """
    for name in centerings:
        check_choice("centering", name, CENTERINGS)
    for name, value in (("pairs", pairs), ("batch_tokens", batch_tokens)):
        check_whole(name, value)
    distinct = list(dict.fromkeys(text.strip() for text in texts))
    tokens = read_tokens(parts, distinct)
    drawn = draw_pairs(tokens, pairs, seed)
    selected, places = np.unique(np.concatenate([*drawn[:3]]), return_inverse=True)
    chosen = np.split(places.reshape(-1, 2), np.cumsum([len(one) for one in drawn[:2]]))
    layers = _read_layers(parts, distinct, tokens, selected, batch_tokens, on_progress or (lambda _: None))
    rows = [
        LayerSimilarity(name, layer, *(_estimate(vectors - means[name], one) for one in chosen))
        for layer, (vectors, means) in zip(parts.encoder.layers, layers, strict=True)
        for name in centerings
    ]
    rows.sort(key=lambda row: (list(centerings).index(row.centering), row.layer))
    return LayerAnalysis(tuple(rows), len(np.unique(tokens.text)), len(tokens.text), drawn.words)


def read_tokens(parts: EncoderParts, texts: Sequence[str]) -> TextTokens:
    """Tokenise texts and return their ordinary tokens."""
    none = np.zeros(0, dtype=np.int64)
    columns: list[tuple[NDArray[Any], ...]] = [(none, none, none, none.astype(bool))]
    lengths = [none]
    for start in range(0, len(texts), WINDOW):
        batch = parts.tokenizer(texts[start : start + WINDOW])
        if batch.traits is None:
            raise ValueError("Expected a tokenizer that tells traits, but got one without: set subwords to 'first'.")
        ordinary = batch.ordinary.numpy()
        continuing = (batch.traits & TokenTrait.CONTINUATION).numpy() != 0
        continued = np.zeros_like(continuing)
        continued[:, :-1] = continuing[:, 1:]
        row, place = np.nonzero(ordinary)
        columns.append((row + start, place, batch.input_ids.numpy()[ordinary], ~(continuing | continued)[ordinary]))
        lengths.append(batch.lengths.numpy())
    text, place, ids, whole = map(np.concatenate, zip(*columns, strict=True))
    return TextTokens(text, place, ids, whole, np.concatenate(lengths))


def draw_pairs(tokens: TextTokens, pairs: int, seed: int) -> TokenPairs:
    """Draw pairs of tokens of each kind, with replacement.

    Random words are drawn uniformly from all pairs of tokens of different texts. For a word in two texts, a word is
    drawn first, then two of its positions; for words of one text, a text first.
    """
    if len(np.unique(tokens.text)) < 2:
        raise InputError("Expected at least two different texts with words, but got fewer: give a file with more.")
    rng = np.random.default_rng(seed)
    everywhere = np.arange(len(tokens.text))
    baseline = [_draw_two_texts(everywhere, tokens.text, rng) for _ in range(pairs)]
    words = [places for places in _grouped(tokens.ids, tokens.whole) if len(np.unique(tokens.text[places])) > 1]
    same_word = [_draw_two_texts(words[word], tokens.text, rng) for word in _draw(len(words), pairs, rng)]
    long = [places for places in _grouped(tokens.text, np.ones_like(tokens.whole)) if len(places) > 1]
    same_text = [rng.choice(long[text], size=2, replace=False) for text in _draw(len(long), pairs, rng)]
    first, second, third = (np.asarray(one, dtype=np.int64).reshape(-1, 2) for one in (baseline, same_word, same_text))
    return TokenPairs(first, second, third, len(words))


def _draw(choices: int, times: int, rng: np.random.Generator) -> list[int]:
    """Draw integers below ``choices``; return none if ``choices`` is 0."""
    return rng.integers(choices, size=times).tolist() if choices else []


def _draw_two_texts(members: Indices, text: Indices, rng: np.random.Generator) -> Indices:
    """Draw two tokens of different texts by rejection sampling."""
    while True:
        pair = members[rng.integers(len(members), size=2)]
        if text[pair[0]] != text[pair[1]]:
            return pair


def _grouped(keys: Indices, where: NDArray[np.bool_]) -> list[Indices]:
    """Group the indices selected by ``where`` by key; groups are sorted by key, indices ascending."""
    places = np.flatnonzero(where)
    places = places[np.argsort(keys[places], kind="stable")]
    return np.split(places, np.flatnonzero(np.diff(keys[places])) + 1) if len(places) else []


def _read_layers(
    parts: EncoderParts,
    texts: Sequence[str],
    tokens: TextTokens,
    selected: Indices,
    batch_tokens: int,
    report: Callable[[int], None],
) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """Return the vectors ``[S, D]`` of the ``selected`` tokens in each layer, and the mean of each kind of centring."""
    encoder = parts.encoder
    owners, slots = np.unique(tokens.text[selected], return_inverse=True)  # texts whose means are needed
    shape = (len(encoder.layers), len(selected), encoder.dimension)
    vectors, means = torch.zeros(shape), torch.zeros(shape[0], len(owners), shape[2])
    corpora = [CorpusMean(encoder.dimension).to(encoder.device) for _ in encoder.layers]
    with evaluating(encoder):
        filled = np.flatnonzero(tokens.lengths).tolist()  # exclude texts without tokens
        for chosen, _ in longest_first(tokens.lengths[filled].tolist(), batch_tokens):
            rows = [filled[row] for row in chosen]
            batch = parts.tokenizer([texts[row] for row in rows]).to(encoder.device)
            ordinary = batch.ordinary
            weights = ordinary[:, :, None].float()
            row_of = np.full(len(texts), -1)
            row_of[rows] = np.arange(len(rows))
            inside, averaged = np.flatnonzero(row_of[tokens.text[selected]] >= 0), np.flatnonzero(row_of[owners] >= 0)
            at = row_of[tokens.text[selected[inside]]], tokens.place[selected[inside]]
            for layer, state in enumerate(one.float() for one in encoder(batch)):
                vectors[layer, inside] = state[at].cpu()
                mean = (state * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
                means[layer, averaged] = mean[row_of[owners[averaged]]].cpu()
                corpora[layer].add(state, ordinary)
            report(len(rows))
    layers = []
    for one, mean, corpus in zip(vectors, means, corpora, strict=True):
        centres = (torch.zeros(()), one.mean(dim=-1, keepdim=True), mean[slots], corpus.mean.cpu())
        layers.append((one, dict(zip(CENTERINGS, centres, strict=True))))
    return layers


def _estimate(vectors: Tensor, pairs: Indices) -> Estimate:
    first, second = (unit_vectors(vectors[torch.from_numpy(pairs[:, side].copy())].double()) for side in (0, 1))
    defined = first.any(dim=1) & second.any(dim=1)
    cosines = (first * second).sum(dim=1)[defined].numpy()
    if not len(cosines):
        return Estimate(float("nan"), float("nan"), 0)
    different = len(np.unique(np.sort(pairs[defined.numpy()], axis=1), axis=0))
    error = float(cosines.std(ddof=1)) / different**0.5 if different > 1 else float("nan")
    return Estimate(float(cosines.mean()), error, len(cosines))


# --- tables and figure ------------------------------------------------------------------------------------------------

SIMILARITIES = {
    "baseline": "random words",
    "self_similarity": "same word, two texts",
    "intra_similarity": "two words, same text",
}
"""Labels of the similarities in tables and the figure."""

CONFIDENCE = 1.96  # standard errors to each side of a 95 % interval


def choose_texts(texts: Sequence[str], most: int, seed: int) -> list[str]:
    """Sample distinct, non-empty texts, in the order of the file."""
    distinct = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(distinct) <= most:
        return distinct
    chosen = np.random.default_rng(seed).choice(len(distinct), size=most, replace=False)
    return [distinct[row] for row in np.sort(chosen).tolist()]


def analyse(
    spec: LayerSpec, path: str, encoder: str, options: argparse.Namespace, advance: AdvancePart
) -> tuple[LayerAnalysis, str]:
    """Analyse the layers of an encoder on the texts of a file; return the analysis and the encoder's identity."""
    texts = choose_texts(read_texts(path, spec.column), spec.texts, options.seed)
    # A metric on the last layer loads all layers; `subwords` makes it map subwords to words.
    loading = {"device": options.device, "revision": options.revision, "backend": "torch"}
    metric = Scorer.from_pretrained("sbert", **loading, encoder=encoder, layer=-1, subwords="first").metric
    if not isinstance(metric, MetricModel):
        raise InputError(f"Expected an encoder with layers, but got {type(metric).__name__}: name one with --encoder.")
    analysis = analyse_layers(
        with_all_layers(metric.parts),
        texts,
        centerings=spec.centerings,
        pairs=spec.pairs,
        seed=options.seed,
        batch_tokens=options.batch_tokens or BATCH_TOKENS,
        on_progress=lambda done: advance("reading", done, len(texts)),
    )
    return analysis, metric.parts.identity


def draw_layers(analysis: LayerAnalysis, path: Path | str, title: str) -> None:
    """Draw a panel for each centring, with a line and its 95 % interval for each similarity."""
    panels = []
    for centering in dict.fromkeys(row.centering for row in analysis.rows):
        members = [row for row in analysis.rows if row.centering == centering]
        lines = []
        for name, label in SIMILARITIES.items():
            estimates: list[Estimate] = [getattr(one, name) for one in members]
            low, high = ([one.mean + sign * one.error for one in estimates] for sign in (-CONFIDENCE, CONFIDENCE))
            lines.append(Line(label, [one.mean for one in estimates], low, high))
        panels.append(Panel(f"centering: {centering}", lines))
    layers = list(dict.fromkeys(str(row.layer) for row in analysis.rows))
    draw_panels(panels, layers, path, x_label="layer", y_label="mean cosine", title=title)


NEAR_ZERO = 0.05  # largest mean cosine of random words that counts as near zero


def layer_remarks(found: LayerAnalysis, spec: LayerSpec, seed: int) -> Iterator[str]:
    """Yield remarks on the size of the data and on the paper's three properties of similarities."""
    yield (
        f"Mean cosine and its standard error over {plural(spec.pairs, 'pair')} of each kind, seed {seed}, drawn from "
        f"{plural(found.tokens, 'token')} of {plural(found.texts, 'text')} ({found.words:,} different words occur in "
        "more than one)."
    )
    for name in spec.centerings:
        rows = [row for row in found.rows if row.centering == name and row.layer > 0]
        if len(rows) < 2:
            continue
        largest = max(abs(row.baseline.mean) for row in rows)
        first, last = rows[0], rows[-1]
        yield (
            f"{name}: random words at most {largest:.3f} alike ({'near' if largest <= NEAR_ZERO else 'not near'} "
            f"zero); from layer {first.layer} to {last.layer} the same word "
            f"{_change(first.self_similarity, last.self_similarity)}, words of one text "
            f"{_change(first.intra_similarity, last.intra_similarity)}."
        )


def _change(first: Estimate, last: Estimate) -> str:
    """Describe the change of a similarity; a change within its standard errors is "stays".

    Example:
        >>> _change(Estimate(0.5, 0.01, 9), Estimate(0.2, 0.01, 9)), _change(Estimate(0, 0.1, 9), Estimate(0.1, 0.1, 9))
        ('falls (-0.300)', 'stays (+0.100, within the error)')
    """
    change = last.mean - first.mean
    if not abs(change) > CONFIDENCE * math.hypot(first.error, last.error):
        return f"stays ({fixed(change, 3, plus=True)}, within the error)"
    return f"{'rises' if change > 0 else 'falls'} ({fixed(change, 3, plus=True)})"
