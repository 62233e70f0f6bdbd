"""Any metric of the project as a torchmetrics Metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from textmover.metrics.segment_values import SegmentValues
from textmover.scoring import Scorer
from textmover.types import SegmentMetric


class TextMoverScore(SegmentValues):
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

    value_score: list[Tensor]

    def __init__(
        self,
        model: str | Path | Scorer | SegmentMetric | None = None,
        *,
        reduction: Literal["mean", "none"] = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__(model, reduction=reduction, **kwargs)

    @staticmethod
    def value_names(scorer: Scorer) -> tuple[str, ...]:
        """The score alone."""
        return ("score",)

    def compute(self) -> Tensor:
        """Mean score, or the scores of all segments in order, float64; torchmetrics makes a single one a scalar."""
        return self.reduced()["score"]
