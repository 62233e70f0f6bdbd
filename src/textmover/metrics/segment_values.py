"""What torchmetrics Metrics that keep a scorer's values of each segment have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.metrics.scorer_metric import ScorerMetric, as_scorer, refuse_fit_on_call, split_options
from textmover.modules.config import check_choice
from textmover.scoring import Scorer
from textmover.types import InputError, SegmentMetric

Reduction = Literal["mean", "none"]


class SegmentValues(ScorerMetric):
    """Values of each segment by name, as a scorer gives them.

    Args:
        model: Name of a released metric or a preset, checkpoint folder, hub id, :class:`Scorer`, or a metric module
            that lives elsewhere; ``None`` as for :meth:`Scorer.from_pretrained`.
        reduction: ``"mean"`` for one number of each value, ``"none"`` for one per segment.
        **kwargs: Options of torchmetrics, and whatever :meth:`Scorer.from_pretrained` takes where the model is given by
            name.
    """

    def __init__(
        self, model: str | Path | Scorer | SegmentMetric | None, *, reduction: Reduction, **kwargs: Any
    ) -> None:
        check_choice("reduction", reduction, ("mean", "none"))
        own, options = split_options(kwargs)
        if model is None or isinstance(model, (str, Path)):
            scorer = Scorer.from_pretrained(model, **options)
        else:
            scorer = as_scorer(model, options)
        self.names = self.value_names(scorer)
        super().__init__(scorer, {_state(name): torch.float64 for name in self.names}, **own)
        self.reduction = reduction

    @staticmethod
    @abstractmethod
    def value_names(scorer: Scorer) -> tuple[str, ...]:
        """Names of the values that are kept.

        Raises:
            InputError: If the scorer is not one for this metric.
        """

    def update(  # type: ignore[override]
        self,
        preds: str | Sequence[str],
        target: str | Sequence[str] | Sequence[Sequence[str]],
        positions: Sequence[int] | Tensor | None = None,
    ) -> None:
        """Score further hypotheses.

        Args:
            preds: One hypothesis or several.
            target: For each, its reference or references.
            positions: Place of each segment among all; numbered as distributed samplers do where not given.

        Raises:
            InputError: If the counts differ, a hypothesis has no reference, or idf weights would be fitted on the texts
                of each update.
        """
        refuse_fit_on_call(self.scorer.metric)
        found = self.scorer.score(preds, target)
        values = {"score": found.scores, **found.components}
        columns = {_state(name): torch.from_numpy(values[name]) for name in self.names}
        self.keep(columns, len(found), positions)

    def reduced(self) -> dict[str, Tensor]:
        """Values by name, float64: means, or those of all segments in order.

        Raises:
            InputError: If there is no segment to average over.
        """
        order = self.order()[0]
        if self.reduction == "mean" and not len(order):
            raise InputError("Expected at least one segment for a mean, but got none: call `update` before `compute`.")
        values = {name: self.column(_state(name))[order] for name in self.names}
        return {name: one.mean() for name, one in values.items()} if self.reduction == "mean" else values


def _state(name: str) -> str:
    """Name of a value's state, which is an attribute: a metric's name may hold dashes."""
    return f"value_{name}"
