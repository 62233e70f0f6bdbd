"""Scoring: the engine, the scorer over it, and checkpoints."""

from textmover.scoring.checkpoint import load_checkpoint, load_metric, save_checkpoint
from textmover.scoring.encoder_memory import EncoderMemory
from textmover.scoring.scorer import Scorer, score

__all__ = ["EncoderMemory", "Scorer", "load_checkpoint", "load_metric", "save_checkpoint", "score"]
