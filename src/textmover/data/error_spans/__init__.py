"""Training data of marked errors: human annotations and rule-based errors."""

from textmover.data.error_spans.datamodule import MarkedBatch, MarkedDataModule, MarkedSource
from textmover.data.error_spans.made_errors import MadeErrorsDataModule, made_errors
from textmover.data.error_spans.segment_augmentation import with_references

__all__ = ["MadeErrorsDataModule", "MarkedBatch", "MarkedDataModule", "MarkedSource", "made_errors", "with_references"]
