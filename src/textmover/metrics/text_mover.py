"""Any metric of the package, and RoMe with its features, as torchmetrics metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.metrics.scorer_metric import ScorerMetric, split_options
from textmover.scoring import Scorer
from textmover.scoring.scorer import as_scorer
from textmover.types import InputError, SegmentMetric, check_choice

Reduction = Literal["mean", "none"]


class SegmentValues(ScorerMetric):
    """Named values of each segment from a scorer; see :class:`TextMoverScore` for the arguments."""

    def __init__(
        self, model: str | Path | Scorer | SegmentMetric | None = None, *, reduction: Reduction = "mean", **kwargs: Any
    ) -> None:
        check_choice("reduction", reduction, ("mean", "none"))
        torchmetrics_options, options = split_options(kwargs)
        scorer = as_scorer(model, **options)
        self.names = self.value_names(scorer)
        super().__init__(scorer, {_state(name): torch.float64 for name in self.names}, **torchmetrics_options)
        self.reduction = reduction

    @staticmethod
    def value_names(scorer: Scorer) -> tuple[str, ...]:
        """Return the names of the values to store: only the score."""
        return ("score",)

    def update(  # type: ignore[override]
        self,
        preds: str | Sequence[str],
        target: str | Sequence[str] | Sequence[Sequence[str]] | None = None,
        sources: str | Sequence[str] | None = None,
        positions: Sequence[int] | Tensor | None = None,
    ) -> None:
        """Score further hypotheses.

        Args:
            preds: One hypothesis or several.
            target: For each, its reference or references.
            sources: For each, its source text, for a metric whose ``mode`` or ``fallback`` uses it.
            positions: Position of each segment among all; by default segments are numbered as by distributed samplers.

        Raises:
            InputError: If the counts differ, a hypothesis has no reference, or the metric would fit idf weights on the
                texts of each update.
        """
        if self.scorer.metric.fits_on_call:  # scores would depend on how texts are split into updates
            raise InputError(
                "Expected idf weights that all updates share, but this metric fits them on the texts of each call. "
                "Give a scorer fitted with `Scorer.fit(texts)` as `model`, or a file of `textmover fit-idf` as "
                "`statistics`."
            )
        scores = self.scorer.score(preds, target, sources)
        values = {"score": scores.scores, **scores.components}
        columns = {_state(name): torch.from_numpy(values[name]) for name in self.names}
        self.keep(columns, len(scores), positions)

    def reduced(self) -> dict[str, Tensor]:
        """Return values by name, float64: means, or the values of all segments in order.

        Raises:
            InputError: If there is no segment to average over.
        """
        order = self.order()[0]
        if self.reduction == "mean" and not len(order):
            raise InputError("Expected at least one segment for a mean, but got none: call `update` before `compute`.")
        values = {name: self.column(_state(name))[order] for name in self.names}
        return {name: tensor.mean() for name, tensor in values.items()} if self.reduction == "mean" else values


def _state(name: str) -> str:
    """Return the name of a value's state, a valid attribute name: a metric's name may contain dashes."""
    return f"value_{name}"


class TextMoverScore(SegmentValues):
    """Scores of generated texts, accumulated over batches and processes.

    Each update scores its texts and stores one float64 score per segment with its int64 position (see
    :class:`~textmover.metrics.ordered_states.OrderedStates` for the numbering of positions).

    A metric given as a module, such as ``pl_module.model``, is referenced and not registered as a submodule: its
    weights are not saved twice, and each update uses their current values.

    Args:
        model: Name of a released metric or a preset, checkpoint folder, hub id, :class:`Scorer`, or a metric module;
            ``None`` as for :meth:`Scorer.from_pretrained`.
        reduction: ``"mean"`` for one number (for ``self.log``), ``"none"`` for one per segment.
        **kwargs: Options of torchmetrics (``sync_on_compute``, …), and, if the model is given by name, of
            :meth:`Scorer.from_pretrained`: ``precision``, ``device``, fields of the metric's configuration.

    Example:
        >>> from textmover import TextMoverScore
        >>> metric = TextMoverScore("twmd")  # doctest: +SKIP
        >>> metric.update(["A cat sat there."], [["There sat a cat.", "A cat was sitting there."]])  # doctest: +SKIP
        >>> metric.compute()  # doctest: +SKIP
        tensor(0.9269, dtype=torch.float64)
    """

    value_score: list[Tensor]

    def compute(self) -> Tensor:
        """Return the mean score, or all scores in order, float64; torchmetrics turns a single score into a scalar."""
        return self.reduced()["score"]


class RoMeScore(SegmentValues):
    """RoMe score of generated texts with its features, accumulated over batches and processes.

    Like :class:`~textmover.metrics.text_mover.TextMoverScore`, but :meth:`compute` returns values by name: ``score``,
    and each feature of the configuration (``semantic``, ``syntactic``, ``acceptability``, …), all in [0, 1].

    Args:
        model: Preset or checkpoint of RoMe, a :class:`Scorer` with it, or the metric itself.
        reduction: ``"mean"`` for one number per value, ``"none"`` for one per segment.
        **kwargs: Options of torchmetrics, and, if the model is given by name, of :meth:`Scorer.from_pretrained`, such
            as ``parser`` or ``scorer``.

    Raises:
        InputError: If the model is not RoMe.

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
        self, model: str | Path | Scorer | SegmentMetric = "rome", *, reduction: Reduction = "mean", **kwargs: Any
    ) -> None:
        super().__init__(model, reduction=reduction, **kwargs)

    @staticmethod
    def value_names(scorer: Scorer) -> tuple[str, ...]:
        """Return the names of the score and of the features.

        Raises:
            InputError: If the scorer's metric is not RoMe.
        """
        config = scorer.metric.config
        if config.kind != "rome":
            raise InputError(
                f"Expected a RoMe metric, but got one of kind {config.kind!r}: take the preset rome, or TextMoverScore "
                "for other metrics."
            )
        return ("score", *config.features)

    def compute(self) -> dict[str, Tensor]:
        """Return values by name, float64: means, or the values of all segments in order."""
        return self.reduced()
