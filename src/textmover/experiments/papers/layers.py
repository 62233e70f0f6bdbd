"""The analysis of layers as an experiment: how alike token vectors are under each centring."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textmover.experiments.layers import CONFIDENCE, choose_texts, layered_metric
from textmover.experiments.papers.specification import LayerSpec
from textmover.modules.analysis import Estimate, LayerAnalysis, analyse_layers, with_all_layers
from textmover.modules.config import DEFAULT_ENCODER
from textmover.readers.segments import read_texts
from textmover.scoring.field_flags import FIELD

BATCH_TOKENS = 4096
"""Tokens to a batch of the encoder where the user names no number."""

NEAR_ZERO = 0.05
"""A mean cosine of random words below this counts as none."""


@dataclass(frozen=True)
class LayerResult:
    """What was found of the layers.

    Attributes:
        spec: What was asked.
        analysis: The similarities.
        encoder: Of which encoder.
        remarks: On how much, and which of the paper's three properties hold.
    """

    spec: LayerSpec
    analysis: LayerAnalysis
    encoder: str
    remarks: tuple[str, ...]


def analyse(spec: LayerSpec, path: str, options: argparse.Namespace, on_progress: Callable[[int], None]) -> LayerResult:
    """Analyse the layers of the encoder that the options name.

    Args:
        spec: What is asked.
        path: File of the texts.
        options: The command's options.
        on_progress: Called with the number of texts that have been read since the last call.

    Returns:
        What was found.

    Raises:
        InputError: If texts or encoder cannot be used.
    """
    texts = choose_texts(read_texts(path, spec.column), spec.texts, options.seed)
    metric = layered_metric(getattr(options, f"{FIELD}encoder", DEFAULT_ENCODER), options.revision, options.device)
    found = analyse_layers(
        with_all_layers(metric.parts),
        texts,
        centerings=spec.centerings,
        pairs=spec.pairs,
        seed=options.seed,
        batch_tokens=options.batch_tokens or BATCH_TOKENS,
        on_progress=on_progress,
    )
    said = [
        f"Mean cosine and its standard error over {spec.pairs:,} pairs of each kind, seed {options.seed}, drawn from "
        f"{found.tokens:,} tokens of {found.texts:,} texts ({found.words:,} different words occur in more than one).",
        *_properties(found, spec.centerings),
    ]
    return LayerResult(spec, found, metric.parts.identity.split("@")[0], tuple(said))


def _properties(found: LayerAnalysis, centerings: Sequence[str]) -> list[str]:
    """For each centring the three properties that the paper asks for, over the layers behind the embeddings."""
    said = []
    for name in centerings:
        rows = [row for row in found.rows if row.centering == name and row.layer > 0]
        if len(rows) < 2:
            continue
        largest = max(abs(row.baseline.mean) for row in rows)
        first, last = rows[0], rows[-1]
        said.append(
            f"{name}: random words at most {largest:.3f} alike ({'near' if largest <= NEAR_ZERO else 'not near'} "
            f"zero); from layer {first.layer} to {last.layer} the same word "
            f"{_change(first.self_similarity, last.self_similarity)}, words of one text "
            f"{_change(first.intra_similarity, last.intra_similarity)}."
        )
    return said


def _change(first: Estimate, last: Estimate) -> str:
    """How a similarity changes, as far as its standard errors let it be told.

    Example:
        >>> _change(Estimate(0.5, 0.01, 9), Estimate(0.2, 0.01, 9)), _change(Estimate(0, 0.1, 9), Estimate(0.1, 0.1, 9))
        ('falls (-0.300)', 'stays (+0.100, within the error)')
    """
    change = last.mean - first.mean
    if not abs(change) > CONFIDENCE * math.hypot(first.error, last.error):
        return f"stays ({change:+.3f}, within the error)"
    return f"{'rises' if change > 0 else 'falls'} ({change:+.3f})"
