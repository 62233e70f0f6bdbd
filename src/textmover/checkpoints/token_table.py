"""A metric on the embeddings of an encoder as one on a table of token vectors, which needs no transformers."""

from __future__ import annotations

from typing import Any

from textmover.modules.assembly import as_table
from textmover.modules.metric_model import MetricModel
from textmover.types import InputError


def as_token_table(metric: Any) -> MetricModel:
    """The metric with a table of its tokens' vectors in the place of its encoder; all else stays.

    A token's vector is the mean over its places in a text, so scores differ a little from those of the metric itself.

    Raises:
        InputError: If the metric is none of the transport family, or reads another layer than 0, the embeddings.
    """
    if not isinstance(metric, MetricModel):
        raise InputError(f"Expected a metric of the transport family to make a table of, but got {metric.config.kind}.")
    table = MetricModel(metric.config.override(freeze_layers=None), as_table(metric.parts))
    state = {name: one for name, one in metric.state_dict().items() if not name.startswith("encoder.")}
    table.load_state_dict({**state, **{f"encoder.{name}": one for name, one in table.encoder.state_dict().items()}})
    return table.eval()
