"""RoMe as a torchmetrics Metric: the score and the features that it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from textmover.metrics.segment_values import SegmentValues
from textmover.scoring import Scorer
from textmover.types import InputError, SegmentMetric


class RoMeScore(SegmentValues):
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
        super().__init__(model, reduction=reduction, **kwargs)

    @staticmethod
    def value_names(scorer: Scorer) -> tuple[str, ...]:
        """The score and the features.

        Raises:
            InputError: If the scorer is not one of RoMe.
        """
        config = scorer.metric.config
        if config.kind != "rome":
            raise InputError(
                f"Expected a RoMe metric, but got one of kind {config.kind!r}: take the preset rome, or TextMoverScore "
                "for other metrics."
            )
        return ("score", *config.features)

    def compute(self) -> dict[str, Tensor]:
        """Values by name, float64: means, or those of all segments in order."""
        return self.reduced()
