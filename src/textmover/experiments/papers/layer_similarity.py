"""Layer analyses of experiments: similarity of token vectors by layer and centring, as tables and a figure."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from textmover.experiments.anisotropy import Estimate, LayerAnalysis, analyse_layers, with_all_layers
from textmover.experiments.papers.specification import LayerSpec
from textmover.modules.metric_model import MetricModel
from textmover.readers.segments import read_texts
from textmover.report import Line, Panel, draw_panels
from textmover.scoring.scorer import Scorer
from textmover.types import InputError, plural

SIMILARITIES = {
    "baseline": "random words",
    "self_similarity": "same word, two texts",
    "intra_similarity": "two words, same text",
}
"""Labels of the similarities in tables and the figure."""

CONFIDENCE = 1.96  # standard errors to each side of a 95 % interval


def choose_texts(texts: Sequence[str], number: int, seed: int) -> list[str]:
    """Sample distinct, non-empty texts, in the order of the file."""
    distinct = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(distinct) <= number:
        return distinct
    chosen = np.random.default_rng(seed).choice(len(distinct), size=number, replace=False)
    return [distinct[row] for row in np.sort(chosen).tolist()]


def analyse(
    spec: LayerSpec, path: str, encoder: str, options: argparse.Namespace, advance: Callable[[str, int, int], None]
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


BATCH_TOKENS = 4096  # default tokens per batch of the encoder
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
        return f"stays ({change:+.3f}, within the error)"
    return f"{'rises' if change > 0 else 'falls'} ({change:+.3f})"
