"""The metrics as torchmetrics Metrics."""

from textmover.metrics.bert_score import TextMoverBERTScore
from textmover.metrics.ordered import OrderedScores
from textmover.metrics.text_mover import RoMeScore, TextMoverScore

__all__ = ["OrderedScores", "RoMeScore", "TextMoverBERTScore", "TextMoverScore"]
