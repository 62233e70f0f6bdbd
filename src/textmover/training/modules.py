"""Modules that train a metric on ratings, on labels, or on sources of several kinds in one run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from textmover.checkpoints.classifier import save_classifier
from textmover.checkpoints.run_checkpoints import metric_entry
from textmover.data.error_spans import MarkedSource
from textmover.data.labelled import LabelledSource
from textmover.data.paraphrases import ParaphraseSource
from textmover.data.sources import RatedSource, Source
from textmover.modules.classifier import Pooling
from textmover.modules.metric_model import MetricModel
from textmover.training.base_module import FITTING_TEXTS, Bfloat16, StageModule
from textmover.training.optimization import LoraConfig, OptimizerConfig
from textmover.training.tasks.classification import ClassificationTask, ClassWeights, LabelOptions
from textmover.training.tasks.error_spans import ErrorTask
from textmover.training.tasks.paraphrases import ContrastiveTask
from textmover.training.tasks.ratings import RatingTask, check_weights, checked_masks
from textmover.training.tasks.task import Task
from textmover.types import InputError, PairScores, TokenBatch

logger = logging.getLogger(__name__)


def with_heads(metric: Any, **wanted: bool) -> Any:
    """Return a metric to train with each head that is ``wanted`` (by its field), and no other; it shares all else."""
    changed = {name: one for name, one in wanted.items() if getattr(metric.config, name, False) != one}
    if not changed:
        return metric
    if not isinstance(metric, MetricModel):
        raise InputError(
            "Expected a transport metric to learn ratings or marked errors with, but got "
            f"{type(metric).__name__}: choose a preset of `textmover list`."
        )
    if changed.get("mark_errors") is False:
        logger.warning(
            "The head that marks errors is left out, since no marked errors are learned and the encoder changes: the "
            "trained metric marks by its plan. Add a source of marked errors to keep it (configs/errors.yaml)."
        )
    found = MetricModel(metric.config.override(**changed), metric.parts)
    found.load_state_dict(metric.state_dict(), strict=False)
    return found.to(metric.device).train(metric.training)


class RatingsModule(StageModule):
    """Fine-tunes a metric on human ratings by regression, correlation or ranking.

    Ratings keep their own scale, of several sources that of the first one: a calibration head maps scores to it. The
    losses see both in units of the ratings' standard deviation, so that one recipe fits z-scores and 0-100 alike.

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
        return RatingTask(source, self.metric, self.losses, self.signals, main=not len(self.tasks), masks=self.masks)


KINDS: dict[type[Source[Any]], tuple[str, tuple[str, ...]]] = {
    RatedSource: ("ratings", ("losses", "signals", "mask_references", "mask_sources")),
    LabelledSource: ("labels", tuple(one.name for one in fields(LabelOptions))),
    ParaphraseSource: ("paraphrases", ("temperature",)),
    MarkedSource: ("marked errors", ()),
}
"""Name and options of each kind of source."""

RATING_LOSSES: Mapping[str, Any] = {"mse": 1.0, "pearson": 1.0}


@dataclass(frozen=True)
class TaskOptions:
    """Options of one source; those not given follow from the kind of the source.

    Attributes:
        weight: Weight of the source's loss, above 0.
        losses: Of ratings: weight of each loss by name.
        signals: Of ratings: weight of further targets by name.
        mask_references: Of ratings: share of the segments whose references are left out, as in :class:`RatingsModule`.
        mask_sources: Of ratings: share of the segments whose source is left out.
        encoding: Of labels: ``joint`` or ``separate``.
        pooling: Of labels: ``mean`` or ``cls``.
        hidden: Of labels: width of a tanh layer in the head.
        dropout: Of labels: share of the features that the head leaves out in training.
        label_smoothing: Of labels: share of each target that is spread over all classes.
        class_weights: Of labels: ``balanced`` or weights by class.
        temperature: Of paraphrases: temperature of the softmax over scores.
    """

    weight: float = 1.0
    losses: dict[str, Any] | None = None
    signals: dict[str, float] | None = None
    mask_references: float | None = None
    mask_sources: float | None = None
    encoding: Literal["joint", "separate"] | None = None
    pooling: Pooling | None = None
    hidden: int | None = None
    dropout: float | None = None
    label_smoothing: float | None = None
    class_weights: ClassWeights = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        """Check what no task checks before the first batch."""
        if not 0 < self.weight < float("inf"):
            raise InputError(f"Expected `weight` to be a finite number above 0, but got {self.weight}.")
        check_weights(RATING_LOSSES if self.losses is None else self.losses, self.signals or {})

    @property
    def given(self) -> dict[str, Any]:
        """Options that are given, beside the weight."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "weight"}
        return {name: value for name, value in found.items() if value is not None}


class MultiTaskModule(StageModule):
    """Trains one encoder on all sources of the data: ratings, labelled texts and paraphrases.

    Each source has a task of its own with its own head, and each batch is of one source; how often a source comes up is
    the business of :class:`~textmover.data.mixture.MixtureDataModule`. Where there are ratings, those of the first
    such source set the scale of the scores. Where there are none, the corpus mean (if the metric has one) is fitted
    again to the changing weights at every validation and at the end.

    Args:
        metric: What to start from: a preset, a checkpoint folder or a hub id.
        overrides: Fields of the metric's configuration to change, such as ``{"temperature": 0.1}``.
        tasks: Options by the name of the source.
        classifiers: Whether to write a folder for each classifier beside the exported metric, whose name is that of
            the metric's folder with the name of the source behind it.
        optimizer: Rates, decay and schedule; the heads take the head's rate.
        lora: Train low-rank updates of the encoder in place of its weights; ``None`` trains the weights.
        bfloat16: Autocast the encoder: ``auto`` where the hardware has it, ``yes`` or ``no``.
        gradient_clip: Largest norm of the gradient, above 0; ``None`` leaves it alone.
        gradient_checkpointing: Whether to trade time for memory in the encoder.
    """

    def __init__(
        self,
        metric: str = "twmd",
        overrides: dict[str, Any] | None = None,
        tasks: dict[str, TaskOptions] | None = None,
        classifiers: bool = False,
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008 - frozen
        lora: LoraConfig | None = None,
        bfloat16: Bfloat16 = "auto",
        gradient_clip: float | None = 1.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__(metric, overrides, optimizer, lora, bfloat16, gradient_clip, gradient_checkpointing)
        self.options, self.classifiers = dict(tasks or {}), classifiers

    def setup(self, stage: str) -> None:
        """Build the tasks, and give the metric a head for the scale of ratings where there are any."""
        sources = self.data.sources
        unknown = sorted(set(self.options) - set(sources))
        if unknown:
            raise InputError(
                f"Expected `tasks` to give options for the sources {', '.join(sources)}, but got {unknown[0]!r}: name "
                "one of them."
            )
        kinds = {type(source) for source in sources.values()}
        rated = RatedSource in kinds or getattr(self.metric.config, "calibrate", False)
        self.metric = with_heads(self.metric, calibrate=rated, mark_errors=MarkedSource in kinds)
        super().setup(stage)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another metric; outside of a trainer, take its calibration head without the data."""
        if self._trainer is None:
            config = metric_entry(checkpoint, "the checkpoint")["config"]
            heads = {name: bool(config.get(name)) for name in ("calibrate", "mark_errors")}
            self.metric = with_heads(self.metric, **heads)
        super().on_load_checkpoint(checkpoint)

    def options_of(self, source: Source[Any]) -> TaskOptions:
        """The options for a source."""
        return self.options.get(source.name, TaskOptions())

    def build_task(self, source: Source[Any]) -> Task[Any]:
        """The task that goes with the kind of a source."""
        if type(source) not in KINDS:
            raise InputError(
                f"Expected sources of ratings, labels, paraphrases or marked errors, but {source.name} is none of them."
            )
        kind, allowed = KINDS[type(source)]
        options = self.options_of(source)
        wrong = [name for name in options.given if name not in allowed]
        if wrong:
            raise InputError(
                f"Expected options for {kind} ({', '.join(('weight', *allowed))}) for the source {source.name}, but "
                f"got `{wrong[0]}`: leave it out."
            )
        if isinstance(source, RatedSource):
            first = not any(isinstance(task, RatingTask) for task in self.tasks.values())
            losses = RATING_LOSSES if options.losses is None else options.losses
            masks = checked_masks(options.mask_references or 0.0, options.mask_sources or 0.0)
            return RatingTask(source, self.metric, losses, options.signals or {}, main=first, masks=masks)
        if isinstance(source, MarkedSource):
            source.mode, source.fallback = getattr(self.metric, "mode", "reference"), self.metric.fallback
            return ErrorTask(source, main=not any(isinstance(task, ErrorTask) for task in self.tasks.values()))
        if isinstance(source, LabelledSource):
            return ClassificationTask(source, self.metric, replace(LabelOptions(), **options.given))
        paraphrases: Any = source  # the kind that is left
        return ContrastiveTask(paraphrases, **options.given)

    def training_step(self, batch: Any, number: int) -> Tensor:
        """Weighted loss of one batch; what is logged is the loss itself."""
        weight = self.options_of(self.data.sources[batch.source]).weight
        return weight * super().training_step(batch, number)

    def on_validation_epoch_start(self) -> None:
        """Start collecting afresh, with a corpus mean of the present weights."""
        if not self.trainer.sanity_checking:
            self._refit()
        super().on_validation_epoch_start()

    def finish(self) -> None:
        """Turn the trained metric into one that scores, with a corpus mean of its own weights."""
        super().finish()
        self._refit()

    def export_beside(self, folder: Path, card: str) -> None:
        """Write the classifiers beside the metric, where that is wanted; each refers to it."""
        for name, task in self.tasks.items() if self.classifiers else ():
            if isinstance(task, ClassificationTask):
                beside = folder.with_name(f"{folder.name}-{name}")
                classifier = task.classifier(self.metric)
                save_classifier(classifier, beside, card=card, metric=f"../{folder.name}", overwrite=True)

    def _refit(self) -> None:
        """Fit what follows from the weights again: batches of labels and paraphrases do not track it."""
        names = [name for name in ("mean", "baseline") if self._encoder_learns and name in self.metric.statistics]
        if names and not any(isinstance(task, RatingTask) for task in self.tasks.values()):
            with self._autocast():
                self.metric.fit(self.data.training_texts(FITTING_TEXTS), names=names)


class ClassificationModule(MultiTaskModule):
    """Fine-tunes a metric's encoder by a classifier on top of it, such as MoverScore's encoder on MNLI.

    The metric is what the next stage starts from; the classifier may be kept beside it. Of several sources of labels
    each one has a classifier of its own over the same encoder.

    Args:
        metric: What to start from: a preset, a checkpoint folder or a hub id.
        overrides: Fields of the metric's configuration to change, such as ``{"layer": 6}``.
        encoding: ``joint`` reads both texts of a pair in one sequence, ``separate`` each by itself. Single texts are
            read as they are.
        pooling: From token vectors to one: their ``mean``, or the first token's (``cls``).
        hidden: Width of a tanh layer in the head; 0 for none.
        dropout: Share of the features that the head leaves out in training.
        label_smoothing: Share of each target that is spread over all classes, 0 to 1.
        class_weights: Weight of each class in the loss: ``balanced`` weighs by the inverse of how often it occurs;
            equal if ``None``.
        classifiers: Whether to write the classifier into a folder beside that of the exported metric, whose name is
            that of the metric's folder with the name of the source behind it.
        optimizer: Rates, decay and schedule; the head takes the head's rate.
        lora: Train low-rank updates of the encoder in place of its weights; ``None`` trains the weights.
        bfloat16: Autocast the encoder: ``auto`` where the hardware has it, ``yes`` or ``no``.
        gradient_clip: Largest norm of the gradient, above 0; ``None`` leaves it alone.
        gradient_checkpointing: Whether to trade time for memory in the encoder.

    Reference:
        Zhao et al. 2019 (MoverScore), section 4, for the fine-tuning on MNLI; Warstadt et al. 2019 for CoLA.
    """

    def __init__(
        self,
        metric: str = "twmd",
        overrides: dict[str, Any] | None = None,
        encoding: Literal["joint", "separate"] = "joint",
        pooling: Pooling = "mean",
        hidden: int = 0,
        dropout: float = 0.1,
        label_smoothing: float = 0.0,
        class_weights: ClassWeights = None,
        classifiers: bool = False,
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008 - frozen
        lora: LoraConfig | None = None,
        bfloat16: Bfloat16 = "auto",
        gradient_clip: float | None = 1.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__(
            metric, overrides, None, classifiers, optimizer, lora, bfloat16, gradient_clip, gradient_checkpointing
        )
        self.labels = LabelOptions(encoding, pooling, hidden, dropout, label_smoothing, class_weights)

    def build_task(self, source: Source[Any]) -> ClassificationTask:
        """The classes of a source."""
        if not isinstance(source, LabelledSource):
            raise InputError(
                f"Expected sources of labels, but {source.name} is none: take MultiTaskModule for several kinds."
            )
        return ClassificationTask(source, self.metric, self.labels)
