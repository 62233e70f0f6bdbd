r"""The corpus mean that comes along for the embedded encoder, so that ``twmd-b`` and ``trwmd-b`` need no fit.

``all-MiniLM-L6-v2.safetensors`` holds the mean token vector of each of its layers (0: the embeddings), special tokens
included, and in its metadata the hash of the encoder, the corpora with their licences and their numbers of sentences
and tokens, and the seed of the draw. Plain text files make it again::

    python -m textmover.checkpoints.shipped all-MiniLM-L6-v2.safetensors --column sentence \
        --corpus "UD English EWT, CC BY-SA 4.0" ud_ewt_sentences.txt all \
        --corpus "WikiText-2 validation and test, CC BY-SA 3.0" wikitext2_valid_test_sentences.tsv all \
        --corpus "WMT newstest 2015-2016, English side, free for research" wmt_newstest_english.tsv all \
        --corpus "Tatoeba (LASER's selection), CC BY 2.0 FR" tatoeba_laser_eng.txt 20000

The short sentences of Tatoeba are drawn down to a number like that of the others, so that none of the four kinds of
text (web, encyclopaedia, news, everyday sentences) outweighs the rest.
"""

from __future__ import annotations

import logging
from importlib import resources

import torch
from torch import nn

from textmover.modules.encoder.source import EMBEDDED_SHA256
from textmover.types import SegmentMetric

__all__ = ["EMBEDDED_MEANS", "fill_mean"]

logger = logging.getLogger(__name__)

EMBEDDED_MEANS = "all-MiniLM-L6-v2.safetensors"
"""File with the means of the embedded encoder's layers."""


def fill_mean(metric: SegmentMetric) -> bool:
    """Give a metric whose corpus mean has not been fitted the one that is shipped for its encoder and layer."""
    mean = metric.statistics.get("mean")
    if mean is None or mean.fitted:
        return False
    basis = metric.statistic_basis("mean")
    # One layer as it is: any mix of layers has further entries.
    if set(basis) != {"encoder", "layer"} or not basis["encoder"].endswith(f"@{EMBEDDED_SHA256[:8]}"):
        return False
    from safetensors.torch import load

    means = load(resources.files(__name__).joinpath(EMBEDDED_MEANS).read_bytes())
    found = means.get(f"layer.{basis['layer']}")
    if found is None or not isinstance(mean, nn.Module):
        return False
    mean.load_state_dict({"mean": found, "count": torch.as_tensor(means["tokens"])})
    logger.info("Corpus mean: shipped for layer %s of %s.", basis["layer"], basis["encoder"])
    return True
