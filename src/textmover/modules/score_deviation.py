"""Sentence pairs for measuring how much another precision or back-end changes a metric's scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from textmover.modules.devices import scoring_mode
from textmover.types import SegmentMetric, TextFeatures, TokenBatch, TokenTrait

PROBES = (
    ("The council approved the new budget on Tuesday.", "On Tuesday the council passed the new budget."),
    ("She has never been to Norway.", "She has been to Norway many times."),
    ("Profits rose by 14 percent in the third quarter.", "In the third quarter, earnings fell by 40 percent."),
    ("Boil the rice for twelve minutes and let it rest.", "Let the rice rest after boiling it for twelve minutes."),
    ("Heavy rain closed two roads near the river.", "Two roads by the river were shut because of the rain."),
    ("Where did you leave the keys?", "The museum opens at nine."),
    ("No one was injured in the fire.", "Nobody got hurt in the blaze, officials said."),
    ("It works.", "It does not work at all, whatever we try to do about it."),
)
"""Sentence pairs on which deviations are measured."""


def probe_batches(metric: SegmentMetric, pairs: Sequence[tuple[str, str]] = PROBES) -> tuple[TokenBatch, TokenBatch]:
    """Tokenise both sides of the pairs; all take part, whatever the metric's target language."""
    batches = (metric.tokenize(list(texts)).to(metric.device) for texts in zip(*pairs, strict=True))
    hypotheses, references = (
        one if one.traits is None else replace(one, traits=one.traits & ~TokenTrait.FOREIGN) for one in batches
    )
    return hypotheses, references


def probe_scores(metric: SegmentMetric, *, pairs: Sequence[tuple[str, str]] = PROBES) -> Tensor:
    """Score the pairs; return F before calibration if the metric has it, else the score, float32 on the CPU."""
    with scoring_mode(metric):  # in training mode an encoder applies dropout and no back-end
        return probe_values(metric, *probe_batches(metric, pairs))


def probe_values(
    metric: SegmentMetric, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch
) -> Tensor:
    """Score tokenised or encoded pairs as :func:`probe_scores` does."""
    scores = metric.pair_scores(hypotheses, references)
    return (scores.score if scores.f is None else scores.f).float().cpu()
