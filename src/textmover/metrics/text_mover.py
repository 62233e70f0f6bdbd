"""Any metric of the project as a torchmetrics Metric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.metrics.ordered import OrderedScores
from textmover.modules.config import check_choice
from textmover.scoring import Scorer
from textmover.scoring.scorer import normalize_references
from textmover.types import InputError, SegmentMetric

__all__ = ["TextMoverScore"]


class _Reference:
    """Holds a scorer without owning it: copies of the holder share it."""

    def __init__(self, target: Scorer) -> None:
        self.target = target

    def __deepcopy__(self, memo: dict[int, Any]) -> _Reference:
        # Where the metric was copied along with its holder (a whole training module), the copy is what it refers to.
        copied = memo.get(id(self.target.metric))
        return self if copied is None else _Reference(Scorer(copied, cache=False))


class TextMoverScore(OrderedScores):
    """Scores of generated texts, accumulated over batches and processes.

    Each update is scored at once; what is kept and gathered is one float64 score per segment and its int64 position,
    so that results come back in order (see :class:`OrderedScores` for how positions are numbered).

    A metric given as a module, such as ``pl_module.model``, is referred to and not registered: its weights stay where
    they are, are not saved twice, and each update scores with their current values.

    Args:
        model: Preset name, checkpoint folder, hub id, :class:`Scorer`, or a metric module that lives elsewhere.
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

    is_differentiable = False
    full_state_update = False

    def __init__(
        self,
        model: str | Path | Scorer | SegmentMetric = "twmd",
        *,
        reduction: Literal["mean", "none"] = "mean",
        **kwargs: Any,
    ) -> None:
        own = {name: kwargs.pop(name) for name in list(kwargs) if name in _TORCHMETRICS_OPTIONS}
        super().__init__(**own)
        check_choice("reduction", reduction, ("mean", "none"))
        self.reduction = reduction
        if isinstance(model, (str, Path)):
            scorer = Scorer.from_pretrained(model, **kwargs)
        elif kwargs:
            raise TypeError(
                f"Expected options only where the model is loaded by name, but got {', '.join(kwargs)} with an object."
            )
        else:
            # The weights of a module that lives elsewhere may change between updates: nothing is kept.
            scorer = model if isinstance(model, Scorer) else Scorer(model, cache=False)
        self._scorer = _Reference(scorer)

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """False for distances."""
        return self.scorer.metric.higher_is_better

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        """Lowest score that can occur, where there is one."""
        low = self.scorer.metric.range[0]
        return low if low > float("-inf") else None

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """Highest score that can occur, where there is one."""
        high = self.scorer.metric.range[1]
        return high if high < float("inf") else None

    @property
    def scorer(self) -> Scorer:
        """What scores."""
        return self._scorer.target

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
        if self.scorer.metric.fits_on_call:
            raise InputError(
                "Expected idf weights that all updates share, but this metric fits them on the texts of each call: fit "
                "them on a corpus with `Scorer.fit(texts)` and give that scorer as `model`, or a file that `textmover "
                "fit-idf` wrote as `statistics`."
            )
        hypotheses = [preds] if isinstance(preds, str) else list(preds)
        scores = self.scorer.score(hypotheses, normalize_references(hypotheses, target)).scores
        self.append(torch.from_numpy(scores), positions)

    def compute(self) -> Tensor:
        """Mean score, or the scores of all segments in order, float64; torchmetrics makes a single one a scalar."""
        scores, _ = self.ordered()
        return scores.mean() if self.reduction == "mean" else scores


_TORCHMETRICS_OPTIONS = (
    "compute_on_cpu",
    "dist_sync_on_step",
    "process_group",
    "dist_sync_fn",
    "distributed_available_fn",
    "sync_on_compute",
    "compute_with_cache",
)
"""Keyword arguments of ``torchmetrics.Metric``."""
