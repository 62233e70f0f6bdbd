"""Encoder weights within a metric: names in the state dict, and identity in the signature."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.encoder_identity import (
    BaseEncoder,
    base_of,
    identity_of,
    remember_base,
    weights_fingerprint,
)
from textmover.modules.encoder.lora import has_lora, merge_lora
from textmover.modules.encoder_parts import untrained
from textmover.types import InputError, SegmentMetric

logger = logging.getLogger(__name__)


def check_module(metric: Any) -> nn.Module:
    """Return a loaded metric; raise a TypeError with the way out for anything else, such as its name or a scorer."""
    if isinstance(metric, nn.Module) and isinstance(metric, SegmentMetric):
        return metric
    got, way_out = type(metric).__name__, "load one with `textmover.scoring.load_metric`"
    if isinstance(metric, (str, os.PathLike)):
        got, way_out = f"the name {os.fspath(metric)!r}", "load it with `textmover.scoring.load_metric`"
    elif isinstance(getattr(metric, "metric", None), nn.Module):
        way_out = "give its `metric`"
    raise TypeError(f"Expected a metric that is a torch module, but got {got}: {way_out}.")


def without_lora(metric: Any) -> Any:
    """Return the metric, or a copy with merged weights if its encoder has LoRA matrices."""
    encoder = metric.runnable_encoder
    if encoder is None or not has_lora(encoder):
        return metric
    merged = copy.deepcopy(metric)
    merge_lora(merged.runnable_encoder)
    return merged


def trained_encoder(metric: SegmentMetric) -> Encoder:
    """Return the encoder of a metric; raise an error if it has no trainable weights."""
    check_module(metric)
    encoder = metric.runnable_encoder
    if not isinstance(encoder, Encoder):
        raise InputError(
            "Expected a metric on a pretrained encoder, but got one whose encoder has no weights to train: "
            "choose another encoder, or leave the metric's weights as they are."
        )
    return encoder


def encoder_prefix(metric: SegmentMetric) -> str:
    """Return the prefix of the encoder's weights in the metric's state dict."""
    encoder = trained_encoder(metric)
    return next(f"{name}." for name, module in check_module(metric).named_modules() if module is encoder)


def split_state(metric: SegmentMetric, state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Split a metric's state into encoder weights, without their prefix, and the rest."""
    prefix = encoder_prefix(metric)
    encoder_state = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
    return encoder_state, {name: one for name, one in state.items() if not name.startswith(prefix)}


def name_weights(metric: Any) -> None:
    """Update the encoder's identity in a metric's signature to its current weights.

    After training, ``all-MiniLM-L6-v2@53aa5117`` becomes ``all-MiniLM-L6-v2+0c1d2e3f@53aa5117``: the first hash is that
    of the current weights, the second that of the base encoder. If the base is no longer available for comparison, the
    weights count as trained.
    """
    encoder = metric.runnable_encoder
    base = base_of(encoder)
    if base is None or not isinstance(encoder, Encoder):
        return
    if base.weights is None and base.folder is not None:
        try:
            base = replace(base, weights=weights_fingerprint(untrained(encoder).state_dict()))
        except InputError as error:  # the base was removed or overwritten
            logger.info("The weights that training started from cannot be compared: %s", error)
        remember_base(encoder, base)
    metric.encoder_identity = identity_of(metric.encoder_identity, base, weights_fingerprint(encoder.state_dict()))


def encoder_entry(metric: Any) -> dict[str, Any]:
    """Return the entry of a run's checkpoint for the encoder that training starts from: its base, or its identity.

    Nothing is hashed here: an encoder stores its base when it is loaded.
    """
    base = base_of(metric.runnable_encoder)
    return {"identity": metric.encoder_identity} if base is None else {"base": base.entry()}


def encoder_misfit(metric: Any, entry: Mapping[str, Any]) -> str | None:
    """Return the start of an error message if a metric's encoder differs from an :func:`encoder_entry`, else ``None``.

    Entries of earlier versions are empty and match any encoder.
    """
    base = base_of(metric.runnable_encoder)
    if "base" in entry and base is not None:
        before = BaseEncoder(**entry["base"])
        misfit = before.misfit(base)
        return None if misfit is None else f"Expected the encoder that training started from, {before.name}, {misfit}"
    if "identity" in entry and entry["identity"] != metric.encoder_identity:
        return (
            f"Expected the encoder that training started from to be {entry['identity']}, but got "
            f"{metric.encoder_identity}"
        )
    return None
