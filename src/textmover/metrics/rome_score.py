"""RoMe as a torchmetrics Metric: the score and the features that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.metrics.scorer_metric import ScorerMetric, as_scorer, refuse_fit_on_call, split_options
from textmover.modules.config import check_choice
from textmover.scoring import Scorer
from textmover.types import InputError, SegmentMetric

__all__ = ["RoMeScore"]


class RoMeScore(ScorerMetric):
    """RoMe of generated texts with its features, accumulated over batches and processes.

    As :class:`~textmover.metrics.text_mover.TextMoverScore`, but :meth:`compute` gives every value by name: ``score``,
    and each feature of the configuration (``semantic``, ``syntactic``, ``acceptability``, …), all in [0, 1].

    Args:
        model: Preset or checkpoint of RoMe, a :class:`Scorer` over one, or the metric itself.
        reduction: ``"mean"`` for one number each, ``"none"`` for one per segment.
        **kwargs: Options of torchmetrics, and where the model is given by name whatever
            :meth:`Scorer.from_pretrained` takes, such as ``parser`` or ``scorer``.

    Raises:
        InputError: If the model is no RoMe.

    Reference:
        Rony et al. 2022 (RoMe).

    Example:
        >>> from textmover.metrics import RoMeScore
        >>> metric = RoMeScore()  # doctest: +SKIP
        >>> metric.update(["A cat sat there."], ["There sat a cat."])  # doctest: +SKIP
        >>> sorted(metric.compute())  # doctest: +SKIP
        ['acceptability', 'score', 'semantic', 'syntactic']
    """

    def __init__(
        self,
        model: str | Path | Scorer | SegmentMetric = "rome",
        *,
        reduction: Literal["mean", "none"] = "mean",
        **kwargs: Any,
    ) -> None:
        check_choice("reduction", reduction, ("mean", "none"))
        own, options = split_options(kwargs)
        if isinstance(model, (str, Path)):
            scorer = Scorer.from_pretrained(model, **options)
        else:
            scorer = as_scorer(model, options)
        if scorer.metric.config.kind != "rome":
            raise InputError(
                f"Expected a RoMe metric, but got one of kind {scorer.metric.config.kind!r}: take the preset rome, or "
                "TextMoverScore for other metrics."
            )
        self.names = ("score", *scorer.metric.config.features)
        super().__init__(scorer, {_column(name): torch.float64 for name in self.names}, **own)
        self.reduction = reduction

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
        columns = {_column(name): torch.from_numpy(values[name]) for name in self.names}
        self.keep(columns, len(found.scores), positions)

    def compute(self) -> dict[str, Tensor]:
        """Values by name, float64: means, or those of all segments in order."""
        order = self.order()[0]
        values = {name: self.column(_column(name))[order] for name in self.names}
        return {name: one.mean() for name, one in values.items()} if self.reduction == "mean" else values


def _column(name: str) -> str:
    """Name of a state, which is an attribute: a metric's name may hold dashes."""
    return f"value_{name}"
