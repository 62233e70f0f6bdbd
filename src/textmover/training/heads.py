"""Heads of a metric that training adds, or leaves out where nothing would teach them."""

from __future__ import annotations

import logging
from typing import Any

from textmover.modules.metric_model import MetricModel
from textmover.types import InputError

logger = logging.getLogger(__name__)


def with_heads(metric: Any, **wanted: bool) -> Any:
    """Return the metric with each head that is wanted, and without the others; it shares all else.

    Args:
        metric: A metric to train.
        **wanted: Whether it is to have a head, by the field of its configuration.

    Raises:
        InputError: If a head is wanted of a metric that can have none.
    """
    changed = {name: one for name, one in wanted.items() if getattr(metric.config, name, False) != one}
    if not changed:
        return metric
    if not isinstance(metric, MetricModel):
        raise InputError(
            "Expected a transport metric to learn ratings or marked errors with, but got "
            f"{type(metric).__name__}: choose a preset of `textmover list`."
        )
    if changed.get("mark_errors") is False:
        logger.warning(
            "The head that marks errors is left out, since no marked errors are learned and the encoder changes: the "
            "trained metric marks by its plan. Add a source of marked errors to keep it (configs/errors.yaml)."
        )
    found = MetricModel(metric.config.override(**changed), metric.parts)
    found.load_state_dict(metric.state_dict(), strict=False)
    return found.to(metric.device).train(metric.training)
