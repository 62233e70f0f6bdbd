"""Trainable text-generation metrics from optimal transport over contextual token vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover._version import __version__
from textmover.lazy import names_of
from textmover.moved import keep_old_paths

keep_old_paths()

if TYPE_CHECKING:
    from textmover.metrics import TextMoverBERTScore, TextMoverScore
    from textmover.modules import MetricConfig, MetricModel
    from textmover.scoring import EncoderMemory, Scorer, score
    from textmover.types import InputError, Segment, SegmentMetric, SegmentScores

__all__ = [
    "EncoderMemory",
    "InputError",
    "MetricConfig",
    "MetricModel",
    "Scorer",
    "Segment",
    "SegmentMetric",
    "SegmentScores",
    "TextMoverBERTScore",
    "TextMoverScore",
    "__version__",
    "score",
]

__getattr__ = names_of(__name__, __file__)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
