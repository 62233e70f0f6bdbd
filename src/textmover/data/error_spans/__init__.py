"""Marked errors to learn from: of people, and made by rules."""

from textmover.data.error_spans.augmentation import with_references
from textmover.data.error_spans.datamodule import MarkedDataModule
from textmover.data.error_spans.made_errors import MadeErrorsDataModule, made_errors
from textmover.data.error_spans.source import MarkedBatch, MarkedSource

__all__ = ["MadeErrorsDataModule", "MarkedBatch", "MarkedDataModule", "MarkedSource", "made_errors", "with_references"]
