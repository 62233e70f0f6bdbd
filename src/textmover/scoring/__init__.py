"""Scoring: the scorer, its engine, back-ends and caches."""

from typing import TYPE_CHECKING

from textmover.lazy import names_of

if TYPE_CHECKING:
    from textmover.checkpoints.adapter import AdapterConfig, adapter_report
    from textmover.checkpoints.averaging import average_metrics, interpolate
    from textmover.checkpoints.hub import push_to_hub
    from textmover.checkpoints.loading import load_checkpoint, load_metric
    from textmover.checkpoints.saving import save_checkpoint, save_encoder
    from textmover.scoring.cache.hidden_states import EncoderMemory
    from textmover.scoring.scorer import Scorer, score

__all__ = [
    "AdapterConfig",
    "EncoderMemory",
    "Scorer",
    "adapter_report",
    "average_metrics",
    "interpolate",
    "load_checkpoint",
    "load_metric",
    "push_to_hub",
    "save_checkpoint",
    "save_encoder",
    "score",
]

__getattr__ = names_of(__name__, __file__)
