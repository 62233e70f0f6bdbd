"""Any metric of the project as a torchmetrics Metric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.metrics.scorer_metric import ScorerMetric, as_scorer, refuse_fit_on_call, split_options
from textmover.modules.config import check_choice
from textmover.scoring import Scorer
from textmover.types import SegmentMetric

__all__ = ["TextMoverScore"]


class TextMoverScore(ScorerMetric):
    """Scores of generated texts, accumulated over batches and processes.

    Each update is scored at once; what is kept and gathered is one float64 score per segment and its int64 position,
    so that results come back in order (see :class:`~textmover.metrics.ordered.OrderedStates` for how positions are
    numbered).

    A metric given as a module, such as ``pl_module.model``, is referred to and not registered: its weights stay where
    they are, are not saved twice, and each update scores with their current values.

    Args:
        model: Name of a released metric or a preset, checkpoint folder, hub id, :class:`Scorer`, or a metric module
            that lives elsewhere; ``None`` as for :meth:`Scorer.from_pretrained`.
        reduction: ``"mean"`` for one number (what ``self.log`` takes), ``"none"`` for one per segment.
        **kwargs: Options of torchmetrics (``sync_on_compute``, …), and whatever :meth:`Scorer.from_pretrained` takes
            where the model is given by name: ``precision``, ``device``, fields of the metric's configuration.

    Example:
        >>> from textmover import TextMoverScore
        >>> metric = TextMoverScore("twmd")  # doctest: +SKIP
        >>> metric.update(["A cat sat there."], [["There sat a cat.", "A cat was sitting there."]])  # doctest: +SKIP
        >>> metric.compute()  # doctest: +SKIP
        tensor(0.9269, dtype=torch.float64)
    """

    values: list[Tensor]

    def __init__(
        self,
        model: str | Path | Scorer | SegmentMetric | None = None,
        *,
        reduction: Literal["mean", "none"] = "mean",
        **kwargs: Any,
    ) -> None:
        check_choice("reduction", reduction, ("mean", "none"))
        own, options = split_options(kwargs)
        if model is None or isinstance(model, (str, Path)):
            scorer = Scorer.from_pretrained(model, **options)
        else:
            scorer = as_scorer(model, options)
        super().__init__(scorer, {"values": torch.float64}, **own)
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
        scores = self.scorer.score(preds, target).scores
        self.keep({"values": torch.from_numpy(scores)}, len(scores), positions)

    def compute(self) -> Tensor:
        """Mean score, or the scores of all segments in order, float64; torchmetrics makes a single one a scalar."""
        scores = self.column("values")[self.order()[0]]
        return scores.mean() if self.reduction == "mean" else scores
