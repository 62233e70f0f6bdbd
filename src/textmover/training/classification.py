"""Training an encoder to classify texts or pairs of texts: natural language inference, acceptability."""

from __future__ import annotations

from typing import Any, Literal

from textmover.data.labelled import LabelledSource
from textmover.data.sources import Source
from textmover.modules.classifier import Pooling
from textmover.training.lora import LoraConfig
from textmover.training.multitask import MultiTaskModule
from textmover.training.optimization import OptimizerConfig
from textmover.training.stage import Bfloat16
from textmover.training.tasks.classification import ClassificationTask, ClassWeights, LabelOptions
from textmover.types import InputError


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
