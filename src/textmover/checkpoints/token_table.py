"""A metric on the embeddings of an encoder as one on a table of token vectors, which needs no transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textmover.modules.assembly import as_table
from textmover.modules.metric_model import MetricModel
from textmover.types import InputError


def as_token_table(metric: Any, dimension: int | None = None, texts: Sequence[str] = ()) -> MetricModel:
    """The metric with a table of its tokens' vectors in the place of its encoder; all else stays.

    A token's vector is the mean over its places in a text, so scores differ a little from those of the metric itself.

    Args:
        metric: Of the transport family, on layer 0.
        dimension: Directions that are kept of the vectors, those with the largest squares; ``None`` for all. Fewer are
            smaller and faster, and often agree better with people.
        texts: A corpus to fit the mean and the baseline on again, which depend on the directions.

    Raises:
        InputError: If the metric is none of the transport family, reads another layer than 0, the embeddings, or
            misses texts to be fitted on.
    """
    if not isinstance(metric, MetricModel):
        raise InputError(f"Expected a metric of the transport family to make a table of, but got {metric.config.kind}.")
    table = MetricModel(metric.config.override(freeze_layers=None), as_table(metric.parts, dimension))
    changed = ("encoder.", *(f"{one}." for one in ("centering", "baseline") if dimension is not None))
    table.load_state_dict(
        {
            **table.state_dict(),
            **{name: one for name, one in metric.state_dict().items() if not name.startswith(changed)},
        }
    )
    if (missing := [name for name, one in table.statistics.items() if not one.fitted]) and not texts:
        raise InputError(
            f"Expected texts to fit {' and '.join(missing)} again on, which depend on the directions kept, but "
            "got none: give some, or keep all directions."
        )
    if missing:
        table.fit(list(texts), names=missing)
    return table.eval()
