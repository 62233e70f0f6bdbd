"""The metrics as torchmetrics Metrics."""

from textmover.metrics.bert_score import TextMoverBERTScore
from textmover.metrics.ordered import OrderedScores
from textmover.metrics.rome_score import RoMeScore
from textmover.metrics.text_mover import TextMoverScore

__all__ = ["OrderedScores", "RoMeScore", "TextMoverBERTScore", "TextMoverScore"]
