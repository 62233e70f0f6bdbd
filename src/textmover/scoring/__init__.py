"""Scoring: the engine, the scorer over it, and checkpoints."""

from textmover.scoring.adapter import AdapterConfig, adapter_report
from textmover.scoring.averaging import average_metrics, interpolate
from textmover.scoring.checkpoint import load_checkpoint, load_metric, save_checkpoint
from textmover.scoring.encoder_memory import EncoderMemory
from textmover.scoring.hub import push_to_hub
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
    "score",
]
