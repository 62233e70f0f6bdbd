"""Scorers from whatever names a metric, and scores as plain numbers, for all interfaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textmover.scoring import Scorer
from textmover.types import InputError, SegmentMetric, SegmentScores

Model = Scorer | SegmentMetric | str | Path | None
"""A scorer, a metric (also one that is being trained), or the name of one; ``None`` is the default metric."""


def as_scorer(model: Model = None, **options: Any) -> Scorer:
    """A scorer.

    Example:
        >>> as_scorer(as_scorer("twmd"), device="cpu")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        textmover.types.segments.InputError: Expected no options …
    """
    if model is None or isinstance(model, (str, Path)):
        return Scorer.from_pretrained(model, **options)
    if options:
        raise InputError(
            f"Expected no options beside a metric that is loaded already, but got {', '.join(sorted(options))}: give "
            "them to `Scorer.from_pretrained`."
        )
    return model if isinstance(model, Scorer) else Scorer(model, cache=False)


def columns_of(scores: SegmentScores) -> dict[str, list[float]]:
    """Values by segment under the names of other libraries: ``precision``, ``recall``, ``f1``, if there are any."""
    named = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f}
    return {name: values.tolist() for name, values in named.items() if values is not None}
