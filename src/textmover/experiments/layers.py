"""Layers of an encoder, as ``analyse-layers`` and the experiments look at them: texts, similarities, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from textmover.modules.analysis import Estimate, LayerAnalysis, LayerSimilarity
from textmover.modules.metric_model import MetricModel
from textmover.report import Line, Panel, draw_panels
from textmover.types import InputError

SIMILARITIES = {
    "baseline": "random words",
    "self_similarity": "same word, two texts",
    "intra_similarity": "two words, same text",
}
"""What each similarity is of, as the figure calls it."""

CONFIDENCE = 1.96
"""Standard errors that a 95 % interval reaches to each side."""


def choose_texts(texts: Sequence[str], number: int, seed: int) -> list[str]:
    """A random choice of the different texts that are not empty, in the order of the file."""
    distinct = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(distinct) <= number:
        return distinct
    chosen = np.random.default_rng(seed).choice(len(distinct), size=number, replace=False)
    return [distinct[row] for row in np.sort(chosen).tolist()]


def layered_metric(encoder: str, revision: str | None, device: str | None) -> MetricModel:
    """A metric whose encoder has all its layers and whose pieces know their words.

    Raises:
        InputError: If there is no such encoder.
    """
    from textmover.scoring.scorer import Scorer

    # Any metric that reads the last layer has all layers; one that asks for words can tell their pieces.
    scorer = Scorer.from_pretrained(
        "sbert", device=device, revision=revision, backend="torch", encoder=encoder, layer=-1, subwords="first"
    )
    metric = scorer.metric
    if not isinstance(metric, MetricModel):
        raise InputError(f"Expected an encoder with layers, but got {type(metric).__name__}: name one with --encoder.")
    return metric


def estimates(row: LayerSimilarity) -> dict[str, Estimate]:
    """The three similarities of a row by their names."""
    return {name: getattr(row, name) for name in SIMILARITIES}


def draw_layers(analysis: LayerAnalysis, path: Path | str, title: str) -> None:
    """One panel for each centring, one line with its interval for each similarity."""
    panels = []
    for centering in dict.fromkeys(row.centering for row in analysis.rows):
        members = [estimates(row) for row in analysis.rows if row.centering == centering]
        lines = []
        for name, label in SIMILARITIES.items():
            means, errors = [one[name].mean for one in members], [one[name].error for one in members]
            low, high = (
                [mean + sign * error for mean, error in zip(means, errors, strict=True)]
                for sign in (-CONFIDENCE, CONFIDENCE)
            )
            lines.append(Line(label, means, low, high))
        panels.append(Panel(f"centering: {centering}", lines))
    layers = list(dict.fromkeys(str(row.layer) for row in analysis.rows))
    draw_panels(panels, layers, path, x_label="layer", y_label="mean cosine", title=title)
