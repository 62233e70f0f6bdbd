"""Shipped statistics: the corpus mean of the embedded encoder, and document frequencies of English words.

``all-MiniLM-L6-v2.safetensors`` holds the mean token vector of each layer (0: the embeddings), special tokens included,
so that ``twmd-b`` and ``trwmd-b`` need no fit. ``words.safetensors`` holds lower-case words that occur in at least
three sentences, with their document frequencies, for RoMe's word weights. The metadata name encoder or parser, corpora
and licences. ``benchmarks/fit_shipped.py`` builds both files.
"""

from __future__ import annotations

import logging
from importlib import resources

import torch
from safetensors.torch import load
from torch import nn

from textmover.modules.encoder.source import EMBEDDED_SHA256
from textmover.rome.features.word_vectors import WordIdf
from textmover.types import SegmentMetric

__all__ = ["EMBEDDED_MEANS", "WORDS", "fill_idf", "fill_mean"]

logger = logging.getLogger(__name__)

EMBEDDED_MEANS = "all-MiniLM-L6-v2.safetensors"  # mean token vectors of the embedded encoder's layers
WORDS = "words.safetensors"  # words and their document frequencies


def fill_mean(metric: SegmentMetric) -> bool:
    """Load the shipped corpus mean into a metric without a fitted one; return whether one was loaded."""
    mean = metric.statistics.get("mean")
    if mean is None or mean.fitted:
        return False
    basis = metric.statistic_basis("mean")
    # Shipped means exist for single layers; a mix of layers has more basis entries.
    if set(basis) != {"encoder", "layer"} or not basis["encoder"].endswith(f"@{EMBEDDED_SHA256[:8]}"):
        return False
    means = load(resources.files(__name__).joinpath(EMBEDDED_MEANS).read_bytes())
    vector = means.get(f"layer.{basis['layer']}")
    if vector is None or not isinstance(mean, nn.Module):
        return False
    mean.load_state_dict({"mean": vector, "count": torch.as_tensor(means["tokens"])})
    logger.info("Corpus mean: shipped for layer %s of %s.", basis["layer"], basis["encoder"])
    return True


def fill_idf(metric: SegmentMetric) -> bool:
    """Load the shipped word idf into a metric that has not been fitted and is not fitted on each call."""
    table = metric.statistics.get("idf")
    if not isinstance(table, WordIdf) or table.fitted or metric.fits_on_call:
        return False
    tensors = load(resources.files(__name__).joinpath(WORDS).read_bytes())
    table.load_state_dict({**table.state_dict(), **{name: tensors[name] for name in ("words", "counts", "documents")}})
    logger.info("Weights of words: shipped, of %d sentences.", int(table.documents))
    return True
