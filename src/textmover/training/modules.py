"""Modules that train a metric on ratings, labels, or several kinds of sources in one run."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from textmover.checkpoints.classifier import save_classifier
from textmover.checkpoints.lightning_checkpoints import metric_entry
from textmover.data.datamodule import SourcesDataModule
from textmover.data.error_spans import MarkedSource
from textmover.data.labelled import LabelledSource
from textmover.data.paraphrases import ParaphraseSource
from textmover.data.training_sources import RatedSource, Source
from textmover.modules.classifier import ClassifierConfig, Pooling
from textmover.modules.encoder.lora import LoraConfig
from textmover.modules.metric_model import MetricModel
from textmover.training import trainer_checks
from textmover.training.base_module import FITTING_TEXTS, BaseTrainingModule, Bfloat16
from textmover.training.optimization import OptimizerConfig
from textmover.training.tasks.classification import ClassificationTask, ClassWeights
from textmover.training.tasks.error_spans import ErrorTask
from textmover.training.tasks.paraphrases import ContrastiveTask
from textmover.training.tasks.ratings import RatingTask, check_options
from textmover.training.tasks.task import Task
from textmover.types import InputError, PairScores, TokenBatch

logger = logging.getLogger(__name__)


def with_heads(metric: Any, **wanted: bool) -> Any:
    """Return a metric that has exactly the heads ``wanted`` (by field) and shares everything else."""
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
            "Training without marked errors drops the head that marks errors, so the trained metric marks by its plan: "
            "add a source of marked errors to keep the head (configs/errors.yaml)."
        )
    result = MetricModel(metric.config.override(**changed), metric.parts)
    result.load_state_dict(metric.state_dict(), strict=False)
    return result.to(metric.device).train(metric.training)


class RatingsModule(BaseTrainingModule):
    """Fine-tune a metric on human ratings by regression, correlation or ranking.

    A calibration head maps scores to the scale of the ratings (of the first source, if there are several). The losses
    see both in units of the ratings' standard deviation, so that one recipe fits z-scores and 0-100 alike.

    Args:
        metric: Metric to start from: a preset, a checkpoint folder or a hub id.
        overrides: Fields of the metric's configuration to change, such as ``{"temperature": 0.1}``.
        losses: Weight of each loss by name (:data:`~textmover.functional.losses.LOSSES`), or its weight and options.
        signals: Weight of additional targets by name: ``untrained`` (the metric before training), a lexical metric
            such as ``chrf``, a preset, or a checkpoint (:class:`~textmover.training.tasks.ratings.RatingTask`).
        mask_references: Share of the segments with a source whose references are masked at random, to train one metric
            for all modes.
        mask_sources: Share of the segments with references whose source is masked at random.
        optimizer: Learning rates, weight decay and schedule.
        lora: Train low-rank updates of the encoder instead of its weights; ``None`` trains the weights.
        bfloat16: Autocast the encoder: ``yes``, ``no``, or ``auto`` for hardware that supports it.
        gradient_clip: Largest norm of the gradient, above 0; ``None`` does not clip.
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
        masks: dict[str, Any] = {"mask_references": mask_references, "mask_sources": mask_sources}
        options = TaskOptions(losses=losses, signals=signals, **masks)  # fail now rather than at the first batch
        super().__init__(metric, overrides, optimizer, lora, bfloat16, gradient_clip, gradient_checkpointing)
        self.metric = with_heads(self.metric, mark_errors=False)
        self.options = options

    def starting_overrides(self) -> dict[str, Any]:
        """Return the configuration overrides, with a calibration head."""
        return {**self.overrides, "calibrate": True}

    def forward(
        self, hypotheses: TokenBatch, references: TokenBatch | None = None, sources: TokenBatch | None = None
    ) -> PairScores:
        """Return the scores of tokenised texts against references, sources or both, on the human scale."""
        return self.metric(hypotheses, references) if sources is None else self.metric(hypotheses, references, sources)

    def build_task(self, source: Source[Any]) -> RatingTask:
        """Return the rating task of a source."""
        if not isinstance(source, RatedSource):
            raise InputError(f"Expected sources of ratings, but {source.name} is of another kind: use MultiTaskModule.")
        return RatingTask(source, self.metric, main=not len(self.tasks), **self.options.given)


HEAD = ("encoding", "pooling", "hidden", "dropout")
RATED = ("losses", "signals", "mask_references", "mask_sources")
KINDS: dict[type[Source[Any]], tuple[str, Any, tuple[str, ...]]] = {
    RatedSource: ("ratings", RatingTask, RATED),
    LabelledSource: ("labels", ClassificationTask, (*HEAD, "label_smoothing", "class_weights")),
    ParaphraseSource: ("paraphrases", ContrastiveTask, ("temperature",)),
    MarkedSource: ("marked errors", ErrorTask, ()),
}
"""Name, task and option names of each kind of source."""


@dataclass(frozen=True)
class TaskOptions:
    """Options of one source; the defaults depend on the kind of the source.

    Attributes:
        weight: Weight of the source's loss, above 0.
        losses: Ratings: weight of each loss by name.
        signals: Ratings: weight of additional targets by name.
        mask_references: Ratings: share of the segments whose references are masked, as in :class:`RatingsModule`.
        mask_sources: Ratings: share of the segments whose source is masked.
        encoding: Labels: ``joint`` or ``separate``.
        pooling: Labels: ``mean`` or ``cls``.
        hidden: Labels: width of a tanh layer in the head.
        dropout: Labels: dropout rate of the head's features.
        label_smoothing: Labels: share of each target that is spread over all classes.
        class_weights: Labels: ``balanced`` or weights by class.
        temperature: Paraphrases: temperature of the softmax over scores.
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
        """Check options that no task checks before the first batch."""
        if not 0 < self.weight < float("inf"):
            raise InputError(f"Expected `weight` to be a finite number above 0, but got {self.weight}.")
        rated, head = ({name: one for name, one in self.given.items() if name in names} for names in (RATED, HEAD))
        check_options(**rated)
        ClassifierConfig(("one", "two"), **head)
        if not 0 <= (self.label_smoothing or 0) < 1:
            raise InputError(
                f"Expected `label_smoothing` to be from 0 to below 1, but got {self.label_smoothing}: 0.1 is usual."
            )

    @property
    def given(self) -> dict[str, Any]:
        """Options that are set, without the weight."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "weight"}
        return {name: value for name, value in values.items() if value is not None}


class MultiTaskModule(BaseTrainingModule):
    """Train one encoder on all sources of the data: ratings, labels, paraphrases and marked errors.

    Each source has its own task and head, and each batch comes from one source.
    :class:`~textmover.data.mixture.MixtureDataModule` sets how often each source is sampled. The first source of
    ratings sets the scale of the scores. Without ratings, the corpus mean (if the metric has one) is refitted to the
    current weights at every validation and at the end.

    Args:
        metric: Metric to start from: a preset, a checkpoint folder or a hub id.
        overrides: Fields of the metric's configuration to change, such as ``{"temperature": 0.1}``.
        tasks: Options by source name.
        classifiers: Whether to export each classifier next to the metric, to the folder ``{metric folder}-{source}``.
        optimizer: Learning rates, weight decay and schedule; the heads use the head's rate.
        lora: Train low-rank updates of the encoder instead of its weights; ``None`` trains the weights.
        bfloat16: Autocast the encoder: ``yes``, ``no``, or ``auto`` for hardware that supports it.
        gradient_clip: Largest norm of the gradient, above 0; ``None`` does not clip.
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
        self.options, self.default_options, self.classifiers = dict(tasks or {}), TaskOptions(), classifiers

    def build_tasks(self, data: SourcesDataModule) -> None:
        """Build the tasks, with a calibration head for ratings and an error head for marked errors."""
        sources = data.sources
        unknown = sorted(set(self.options) - set(sources))
        if unknown:
            raise InputError(
                f"Expected `tasks` to give options for the sources {', '.join(sources)}, but got {unknown[0]!r}: name "
                "one of them."
            )
        kinds = {type(source) for source in sources.values()}
        rated = RatedSource in kinds or getattr(self.metric.config, "calibrate", False)
        if rated and RatedSource not in kinds and self._encoder_learns and not self.tasks:
            logger.warning(
                "%s keeps the calibration of its training although no ratings are trained on, so its scores are off "
                "that scale: add a source of ratings, or set `calibrate` to false in `overrides`.",
                self.start,
            )
        self.metric = with_heads(self.metric, calibrate=rated, mark_errors=MarkedSource in kinds)
        super().build_tasks(data)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another metric; without a trainer, add the heads that the checkpoint has."""
        if self._trainer is None:
            config = metric_entry(checkpoint, "the checkpoint")["config"]
            heads = {name: bool(config.get(name)) for name in ("calibrate", "mark_errors")}
            self.metric = with_heads(self.metric, **heads)
        super().on_load_checkpoint(checkpoint)

    def options_of(self, source: Source[Any]) -> TaskOptions:
        """Return the options for a source."""
        return self.options.get(source.name, self.default_options)

    def build_task(self, source: Source[Any]) -> Task[Any]:
        """Return the task for the kind of a source."""
        if type(source) not in KINDS:
            raise InputError(
                f"Expected {source.name} to be ratings, labels, paraphrases or errors, but got {type(source).__name__}."
            )
        kind, task, allowed = KINDS[type(source)]
        given = self.options_of(source).given
        unsupported = [name for name in given if name not in allowed]
        if unsupported:
            raise InputError(
                f"Expected options for {kind} ({', '.join(('weight', *allowed))}) for the source {source.name}, but "
                f"got `{unsupported[0]}`: leave it out."
            )
        first = not any(isinstance(one, task) for one in self.tasks.values())
        return task(source, self.metric, main=first, **given)

    def training_step(self, batch: Any, number: int) -> Tensor:
        """Return the weighted loss of one batch; the unweighted loss is logged."""
        weight = self.options_of(self.data.sources[batch.source]).weight
        return weight * super().training_step(batch, number)

    def on_validation_epoch_start(self) -> None:
        """Clear the collected results, and refit the corpus mean to the current weights."""
        if not self.trainer.sanity_checking:
            self._refit()
        super().on_validation_epoch_start()

    def finish(self) -> None:
        """Make the trained metric ready to score, with a corpus mean and an error head fitted to its final weights."""
        super().finish()
        self._refit()
        for task in self.tasks.values() if self._fitted_items and self._knows_data else ():
            if isinstance(task, ErrorTask) and task.main:
                task.calibrate(self.metric)

    def folders_beside(self, folder: Path, data: SourcesDataModule) -> list[Path]:
        """Return the folders of the classifiers, if they are exported."""
        if not self.classifiers:
            return []
        data.setup()
        labelled = (name for name, source in data.sources.items() if isinstance(source, LabelledSource))
        return [folder.with_name(f"{folder.name}-{name}") for name in labelled]

    def export_beside(self, folder: Path, card: str) -> None:
        """Write the classifiers next to the metric if requested; each refers to the metric."""
        for name, task in self.tasks.items() if self.classifiers else ():
            if isinstance(task, ClassificationTask):
                classifier_folder = folder.with_name(f"{folder.name}-{name}")
                classifier = task.classifier(self.metric)
                save_classifier(classifier, classifier_folder, card=card, metric=f"../{folder.name}", overwrite=True)
                logger.info("Classifier: %s", classifier_folder)

    @property
    def _knows_data(self) -> bool:
        """True if the trainer has the data that the module was fitted on, or no fit has taken place."""
        known = ({}, trainer_checks.training_items(self.data.fingerprint)) if self._trainer is not None else ()
        return self._fitted_items in known

    def _refit(self) -> None:
        """Refit weight-dependent statistics, since label and paraphrase batches do not update them.

        Data that the module was not fitted on leave them as they are, and a module without a trainer has no data.
        """
        names = [name for name in ("mean", "baseline") if self._encoder_learns and name in self.metric.statistics]
        if names and self._knows_data and not any(isinstance(task, RatingTask) for task in self.tasks.values()):
            with self._autocast():
                self.metric.fit(self.data.training_texts(FITTING_TEXTS), names=names)


class ClassificationModule(MultiTaskModule):
    """Fine-tune a metric's encoder through a classifier, such as MoverScore's encoder on MNLI.

    The next stage starts from the metric; the classifiers can be exported too. Each source of labels has its own
    classifier on the shared encoder.

    Args:
        metric: Metric to start from: a preset, a checkpoint folder or a hub id.
        overrides: Fields of the metric's configuration to change, such as ``{"layer": 6}``.
        encoding: ``joint`` encodes both texts of a pair in one sequence, ``separate`` encodes each alone. Ignored for
            single texts.
        pooling: Text vector: the ``mean`` of the token vectors, or the first token's (``cls``).
        hidden: Width of a tanh layer in the head; 0 for none.
        dropout: Dropout rate of the head's features.
        label_smoothing: Share of each target that is spread over all classes, 0 to 1.
        class_weights: Weight of each class in the loss: ``balanced`` weights by inverse frequency; ``None`` weights
            equally.
        classifiers: Whether to export each classifier next to the metric, to the folder ``{metric folder}-{source}``.
        optimizer: Learning rates, weight decay and schedule; the head uses the head's rate.
        lora: Train low-rank updates of the encoder instead of its weights; ``None`` trains the weights.
        bfloat16: Autocast the encoder: ``yes``, ``no``, or ``auto`` for hardware that supports it.
        gradient_clip: Largest norm of the gradient, above 0; ``None`` does not clip.
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
        head: dict[str, Any] = {"encoding": encoding, "pooling": pooling, "hidden": hidden, "dropout": dropout}
        self.default_options = TaskOptions(**head, label_smoothing=label_smoothing, class_weights=class_weights)

    def build_task(self, source: Source[Any]) -> Task[Any]:
        """Return the classification task of a source."""
        if not isinstance(source, LabelledSource):
            raise InputError(f"Expected sources of labels, but {source.name} is of another kind: use MultiTaskModule.")
        return super().build_task(source)
