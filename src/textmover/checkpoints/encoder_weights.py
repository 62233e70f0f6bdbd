"""The encoder's weights among those of its metric: their names, and what the signature calls them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from textmover.modules.assembly import untrained
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.encoder_identity import BaseEncoder, base_of, identity_of, remember_base, weights_print
from textmover.types import InputError, SegmentMetric

logger = logging.getLogger(__name__)


def trained_encoder(metric: SegmentMetric) -> Encoder:
    """The encoder of a metric, where it has weights that can be trained."""
    encoder = metric.runnable_encoder
    if not isinstance(encoder, Encoder):
        raise InputError(
            "Expected a metric on a pretrained encoder, but got one whose encoder has no weights to train: "
            "choose another encoder, or leave the metric's weights as they are."
        )
    return encoder


def encoder_prefix(metric: SegmentMetric) -> str:
    """Prefix of the encoder's weights among those of its metric."""
    encoder = trained_encoder(metric)
    if not isinstance(metric, nn.Module):
        raise TypeError(f"Expected `metric` to be a torch module, but got {type(metric).__name__}.")
    return next(f"{name}." for name, module in metric.named_modules() if module is encoder)


def split_state(metric: SegmentMetric, state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The encoder's part of a metric's state, under the encoder's own names, and the rest of it."""
    prefix = encoder_prefix(metric)
    inside = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
    return inside, {name: one for name, one in state.items() if not name.startswith(prefix)}


def name_weights(metric: Any) -> None:
    """Let a metric's signature tell the present weights of its encoder from those that it was built on.

    The encoder ``all-MiniLM-L6-v2@53aa5117`` becomes ``all-MiniLM-L6-v2+0c1d2e3f@53aa5117`` once it is trained, where
    the first hash is that of the weights as they are and the second one that of the encoder they started from. Where
    the latter cannot be compared any more, the weights count as trained.
    """
    encoder = metric.runnable_encoder
    base = base_of(encoder)
    if base is None or not isinstance(encoder, Encoder):
        return
    if base.weights is None and base.folder is not None:
        try:
            base = replace(base, weights=weights_print(untrained(encoder).state_dict()))
        except InputError as error:  # it was removed or trained in its place
            logger.info("The weights that training started from cannot be compared: %s", error)
        remember_base(encoder, base)
    metric.encoder_identity = identity_of(metric.encoder_identity, base, weights_print(encoder.state_dict()))


def encoder_entry(metric: Any) -> dict[str, Any]:
    """Entry of a run's checkpoint for the encoder that training starts from: its base, or its name.

    Nothing is hashed here: an encoder knows its base from when it was read.
    """
    base = base_of(metric.runnable_encoder)
    return {"identity": metric.encoder_identity} if base is None else {"base": base.entry()}


def encoder_misfit(metric: Any, entry: Mapping[str, Any]) -> str | None:
    """Begin a sentence on how a metric's encoder differs from the one of an :func:`encoder_entry`; ``None`` if not.

    Entries of earlier versions are empty and fit any encoder.
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
