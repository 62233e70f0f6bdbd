"""Training a metric to agree with human ratings."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from textmover.data.batching import RatingBatch
from textmover.data.datamodule import RatingsDataModule
from textmover.functional.losses import combined_loss
from textmover.meta_evaluation.correlation import Correlation, MeanCorrelation, grouped_correlations, mean_correlation
from textmover.metrics.ordered import OrderedScores
from textmover.scoring.checkpoint import load_metric
from textmover.scoring.precision import has_bfloat16
from textmover.training.optimization import OptimizerConfig, build_optimizer, warmup_then_linear_decay
from textmover.types import InputError, PairScores, Segment, SegmentMetric, TokenBatch, TrainableMetric

__all__ = ["RatingsModule"]

logger = logging.getLogger(__name__)

FITTING_TEXTS = 2000
"""Texts of the training part that a corpus mean is fitted on before training."""

CALIBRATION_SEGMENTS = 1000
"""Rated segments that scale and offset start from."""


class RatingsModule(pl.LightningModule):
    """Fine-tunes a metric on human ratings by regression, correlation or ranking.

    Ratings keep their own scale: a calibration head maps scores to it, and the losses see both in units of the
    ratings' standard deviation, so that one recipe fits z-scores and 0-100 alike. Before the first step the corpus
    mean (where there is one) and the head are fitted on the training part.

    Args:
        metric: What to start from: a preset, a checkpoint folder or a hub id.
        overrides: Fields of the metric's configuration to change, such as ``{"temperature": 0.1}``.
        losses: Weight of each loss by name: ``mse``, ``huber``, ``pearson``, ``pairwise``.
        optimizer: Rates, decay and schedule.
        bfloat16: Autocast the encoder: ``auto`` where the hardware has it, ``yes`` or ``no``. Transport and losses
            stay in float32.
        gradient_clip: Largest norm of the gradient; ``None`` leaves it alone.
    """

    def __init__(
        self,
        metric: str = "twmd",
        overrides: dict[str, Any] | None = None,
        losses: dict[str, float] = {"mse": 1.0, "pearson": 1.0},  # noqa: B006 - never changed
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008 - frozen
        bfloat16: Literal["auto", "yes", "no"] = "auto",
        gradient_clip: float | None = 1.0,
    ) -> None:
        super().__init__()
        combined_loss(torch.zeros(2), torch.zeros(2), losses)  # refuses unknown names now, not at the first batch
        self.start, self.overrides = metric, dict(overrides or {})
        self.losses = dict(losses)
        self.optimizer_config = optimizer
        self.bfloat16, self.gradient_clip = bfloat16, gradient_clip
        self.metric = self._trainable(**{**self.overrides, "calibrate": True})
        self.rating_mean: Tensor
        self.rating_deviation: Tensor
        self.prepared: Tensor
        self.register_buffer("rating_mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("rating_deviation", torch.ones((), dtype=torch.float64))
        self.register_buffer("prepared", torch.zeros((), dtype=torch.bool))
        self._collected: list[OrderedScores] = []
        self.validation: dict[str, dict[str, Correlation]] = {}
        """Correlations of the last validation, by part and group."""

    def _trainable(self, **overrides: Any) -> Any:
        # A TrainableMetric that is a torch module too, which Python's types cannot say.
        loaded = load_metric(self.start, shipped=False, **overrides)  # its mean is fitted on the training part
        if not isinstance(loaded, TrainableMetric) or not isinstance(loaded, nn.Module):
            raise InputError(f"Expected a metric that can be trained, but {self.start!r} cannot.")
        return loaded.train()

    def untrained(self) -> SegmentMetric:
        """The metric that training starts from, fitted where it needs to be: what a gain is measured against."""
        metric = self._trainable(**self.overrides).eval().to(self.device)
        self._fit_statistics(metric, self._data())
        return metric

    def forward(self, hypotheses: TokenBatch, references: TokenBatch) -> PairScores:
        """Scores of pairs of tokenised texts, on the human scale."""
        return self.metric(hypotheses, references)

    def on_fit_start(self) -> None:
        """Fit the corpus mean and the calibration head on the training part, unless a resumed run brings them."""
        if bool(self.prepared):
            return
        data = self._data()
        if self.metric.multi_reference == "all" and any(len(one.references) > 1 for one in data.segments):
            raise InputError(
                "Expected multi_reference 'best' or 'mean' to train on several references, but got 'all': override it, "
                "and set it to 'all' where the trained metric scores."
            )
        self._fit_statistics(self.metric, data)
        ratings = torch.from_numpy(data.ratings_of(data.segments))
        deviation = ratings.std()
        if not deviation > 0:
            raise InputError("Expected ratings that differ, but all ratings to train on are equal: check the column.")
        self.rating_mean.copy_(ratings.mean())
        self.rating_deviation.copy_(deviation)
        self._fit_calibration(data)
        self.prepared.fill_(True)

    def training_step(self, batch: RatingBatch, _: int) -> Tensor:
        """Loss of one batch, in units of the ratings' standard deviation."""
        with self._autocast():
            scores = self._segment_scores(batch)
        loss = combined_loss(self._standardized(scores), self._standardized(batch.ratings), self.losses)
        if not torch.isfinite(loss):
            raise InputError(
                f"Expected a finite loss, but got {loss.item()} at step {self.global_step} (segments "
                f"{batch.positions.tolist()} of the training part): lower the learning rate."
            )
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch))
        return loss

    def on_validation_epoch_start(self) -> None:
        """Start collecting afresh, one collector for each part."""
        self._collected = [OrderedScores().to(self.device) for _ in self._data().parts]

    def validation_step(self, batch: RatingBatch, _: int, dataloader_idx: int = 0) -> None:
        """Collect scores; they are judged when all are there."""
        self._collected[dataloader_idx].update(self._segment_scores(batch), batch.positions)

    def on_validation_epoch_end(self) -> None:
        """Correlate each part with its ratings, per group; log the means over groups."""
        data = self._data()
        for (name, segments), collected in zip(data.parts.items(), self._collected, strict=True):
            scores = collected.compute().cpu().numpy()
            if self.trainer.sanity_checking or len(scores) < len(segments):
                continue  # a few batches say nothing
            by_group = grouped_correlations(scores, data.ratings_of(segments), data.groups_of(segments))
            self.validation[name] = by_group
            mean = mean_correlation(by_group)
            for statistic in ("pearson", "spearman", "kendall"):
                # float32 is all that loggers and early stopping take; the report computes in float64.
                self.log(f"{name}/{statistic}", torch.tensor(getattr(mean, statistic), dtype=torch.float32))
            logger.info("%s", _table(name, self.current_epoch, by_group, mean))

    def configure_optimizers(self) -> Any:
        """AdamW, warm-up and linear decay over all steps of the run."""
        optimizer = build_optimizer(
            self.metric.encoder_parameters(), self.metric.head_parameters(), self.optimizer_config
        )
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = warmup_then_linear_decay(optimizer, steps, self.optimizer_config)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by norm, in one pass over all parameters (Lightning refuses to clip for a fused optimiser).

        Raises:
            InputError: If the trainer is asked to clip as well.
        """
        if gradient_clip_val is not None:
            raise InputError(
                "Expected the module alone to clip gradients, but got trainer.gradient_clip_val: "
                "set model.init_args.gradient_clip instead."
            )
        if self.gradient_clip is not None:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self.gradient_clip, foreach=True)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what ``textmover export`` needs to rebuild the metric."""
        checkpoint["textmover"] = {"start": self.start, "config": self.metric.config.to_dict()}

    def _segment_scores(self, batch: RatingBatch) -> Tensor:
        """Score of each segment ``[B]``: over its references the best, or the mean, as the metric says."""
        scores = self.metric(batch.hypotheses, batch.references).score
        if len(batch.owners) == len(batch):
            return scores
        reduce = "mean" if self.metric.multi_reference == "mean" else "amax"
        start = torch.zeros(len(batch), dtype=scores.dtype, device=scores.device)
        return start.scatter_reduce(0, batch.owners, scores, reduce, include_self=False)

    def _standardized(self, values: Tensor) -> Tensor:
        return ((values - self.rating_mean) / self.rating_deviation).float()

    def _autocast(self) -> Any:
        wanted = self.bfloat16 == "yes" or (self.bfloat16 == "auto" and has_bfloat16(self.device))
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if wanted else contextlib.nullcontext()

    def _fit_statistics(self, metric: SegmentMetric, data: RatingsDataModule) -> None:
        if metric.needs_fit:
            texts = data.training_texts(FITTING_TEXTS)
            with self._autocast():
                metric.fit(texts)

    def _fit_calibration(self, data: RatingsDataModule) -> None:
        step = max(1, len(data.segments) // CALIBRATION_SEGMENTS)
        sample = data.segments[::step][:CALIBRATION_SEGMENTS]
        with self._autocast():
            self.metric.fit_calibration(_pairs(self.metric, sample), torch.from_numpy(data.ratings_of(sample)))

    def _data(self) -> RatingsDataModule:
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(data, RatingsDataModule):
            raise InputError("Expected `data` to be a RatingsDataModule: name it by class_path.")
        return data


def _pairs(
    metric: SegmentMetric, segments: Sequence[Segment], size: int = 32
) -> Iterator[tuple[TokenBatch, TokenBatch]]:
    """Tokens of hypotheses and their first references, in batches."""
    for start in range(0, len(segments), size):
        chunk = segments[start : start + size]
        yield (
            metric.tokenize([one.hypothesis for one in chunk]),
            metric.tokenize([one.references[0] for one in chunk]),
        )


def _table(name: str, epoch: int, by_group: dict[str, Correlation], mean: MeanCorrelation) -> str:
    """Correlations per group and their mean as lines of text."""
    width = max(len("mean"), *(len(group) for group in by_group))
    lines = [f"Epoch {epoch + 1}, {name}", f"  {'':{width}}      n  Pearson Spearman Kendall"]
    rows: list[tuple[str, Any]] = [*by_group.items()]
    if len(rows) > 1:
        rows.append(("mean", mean))
    lines += [
        f"  {group:{width}} {row.n:6d}  {row.pearson:7.4f}  {row.spearman:7.4f} {row.kendall:7.4f}"
        for group, row in rows
    ]
    return "\n".join(lines)
