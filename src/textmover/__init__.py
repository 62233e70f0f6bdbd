"""Trainable text-generation metrics from optimal transport over contextual token vectors."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

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

_HOMES = {
    "EncoderMemory": "textmover.scoring",
    "InputError": "textmover.types",
    "MetricConfig": "textmover.modules",
    "MetricModel": "textmover.modules",
    "Scorer": "textmover.scoring",
    "Segment": "textmover.types",
    "SegmentMetric": "textmover.types",
    "SegmentScores": "textmover.types",
    "TextMoverBERTScore": "textmover.metrics",
    "TextMoverScore": "textmover.metrics",
    "score": "textmover.scoring",
}


def __getattr__(name: str) -> Any:
    """Load a public name where it is first used, so that ``import textmover`` stays fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'textmover' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
