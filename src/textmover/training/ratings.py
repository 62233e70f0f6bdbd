"""Training a metric to agree with human ratings."""

from __future__ import annotations

from typing import Any

from textmover.data.sources import RatedSource, Source
from textmover.training.heads import with_heads
from textmover.training.lora import LoraConfig
from textmover.training.optimization import OptimizerConfig
from textmover.training.stage import Bfloat16, StageModule
from textmover.training.tasks.ratings import RatingTask, check_batches, check_references, check_weights, checked_masks
from textmover.types import InputError, PairScores, TokenBatch


class RatingsModule(StageModule):
    """Fine-tunes a metric on human ratings by regression, correlation or ranking.

    Ratings keep their own scale: a calibration head maps scores to it, and the losses see both in units of the
    ratings' standard deviation, so that one recipe fits z-scores and 0-100 alike. Of several sources the first one sets
    the scale.

    Args:
        metric: What to start from: a preset, a checkpoint folder or a hub id.
        overrides: Fields of the metric's configuration to change, such as ``{"temperature": 0.1}``.
        losses: Weight of each loss by name (:data:`~textmover.functional.losses.LOSSES`), or its weight and options.
        signals: Weight of further targets by name: ``untrained`` (the metric before training), a metric of surface
            overlap such as ``chrf``, a preset, or a checkpoint (:class:`~textmover.training.tasks.ratings.RatingTask`).
        mask_references: Share of the segments with a source whose references are left out at random, for one metric of
            all modes.
        mask_sources: Share of the segments with references whose source is left out at random.
        optimizer: Rates, decay and schedule.
        lora: Train low-rank updates of the encoder in place of its weights; ``None`` trains the weights.
        bfloat16: Autocast the encoder: ``auto`` where the hardware has it, ``yes`` or ``no``.
        gradient_clip: Largest norm of the gradient, above 0; ``None`` leaves it alone.
        gradient_checkpointing: Whether to trade time for memory in the encoder.
    """

    def __init__(
        self,
        metric: str = "twmd",
        overrides: dict[str, Any] | None = None,
        losses: dict[str, float | dict[str, float]] = {"mse": 1.0, "pearson": 1.0},  # noqa: B006 - never changed
        signals: dict[str, float] | None = None,
        mask_references: float = 0.0,
        mask_sources: float = 0.0,
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008 - frozen
        lora: LoraConfig | None = None,
        bfloat16: Bfloat16 = "auto",
        gradient_clip: float | None = 1.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        check_weights(losses, signals or {})  # now, not at the first batch
        super().__init__(metric, overrides, optimizer, lora, bfloat16, gradient_clip, gradient_checkpointing)
        self.metric = with_heads(self.metric, mark_errors=False)
        self.losses, self.signals = dict(losses), dict(signals or {})
        self.masks = checked_masks(mask_references, mask_sources)

    def starting_overrides(self) -> dict[str, Any]:
        """Fields of the configuration, and a calibration head."""
        return {**self.overrides, "calibrate": True}

    def forward(
        self, hypotheses: TokenBatch, references: TokenBatch | None = None, sources: TokenBatch | None = None
    ) -> PairScores:
        """Scores of tokenised texts against references, sources or both, on the human scale."""
        return self.metric(hypotheses, references) if sources is None else self.metric(hypotheses, references, sources)

    def build_task(self, source: Source[Any]) -> RatingTask:
        """Agreement with a source's ratings."""
        if not isinstance(source, RatedSource):
            raise InputError(f"Expected sources of ratings, but {source.name} is none: take another module for it.")
        check_references(self.metric, source)
        check_batches(source, self.losses, self.signals)
        return RatingTask(source, self.losses, self.signals, main=not len(self.tasks), masks=self.masks)
