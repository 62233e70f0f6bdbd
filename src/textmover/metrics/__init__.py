"""Metrics with the torchmetrics interface."""

from textmover.metrics.bert_score import TextMoverBERTScore
from textmover.metrics.error_span_agreement import ErrorSpanAgreement
from textmover.metrics.ordered_states import OrderedScores
from textmover.metrics.text_mover import RoMeScore, TextMoverScore

__all__ = ["ErrorSpanAgreement", "OrderedScores", "RoMeScore", "TextMoverBERTScore", "TextMoverScore"]
