"""Classification of texts and text pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textmover.data.labelled import LabelBatch, LabelledSource
from textmover.meta_evaluation.agreement.labels import confusion_matrix, label_statistics
from textmover.metrics.ordered_states import OrderedStates
from textmover.modules.classifier import ClassifierConfig, Encoding, TextClassifier
from textmover.training.sharding import gather_values
from textmover.training.tasks.task import Task, TaskResult
from textmover.types import InputError, fixed, plural

ClassWeights = Literal["balanced"] | dict[str, float] | None


class _Predictions(OrderedStates):
    """Collect the predicted class of each item, and whether its texts were truncated."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__({"predicted": torch.long, "cut": torch.long}, **kwargs)

    def update(self, predicted: Tensor, cut: Tensor, positions: Tensor) -> None:
        self.keep({"predicted": predicted, "cut": cut}, len(predicted), positions)

    def compute(self) -> Tensor:
        """Return classes and flags in the order of the items, int64 ``[2, n]``."""
        rows, _ = self.order()
        return torch.stack([self.column("predicted")[rows], self.column("cut")[rows]])


class ClassificationTask(Task[LabelledSource]):
    r"""Classification of the items of one source by cross entropy.

    The loss of a batch is :math:`\sum_i w_{y_i} \ell_i / \sum_i w_{y_i}` with class weights :math:`w` and the cross
    entropy :math:`\ell_i` of the logits and the class, over the batch of all processes.
    """

    collector = _Predictions

    def __init__(
        self,
        source: LabelledSource,
        metric: Any,
        *,
        main: bool = True,
        encoding: Encoding = "joint",
        label_smoothing: float = 0.0,
        class_weights: ClassWeights = None,
        **head: Any,
    ) -> None:
        super().__init__(source, main=main)
        config = ClassifierConfig(source.classes, encoding if source.pairs else "single", **head)
        self.head = TextClassifier.untrained(metric, config).head
        self.label_smoothing = label_smoothing
        self.weights: Tensor | None
        self.register_buffer("weights", loss_weights(source, class_weights), persistent=False)
        self._classifier: tuple[Any, TextClassifier] | None = None

    def classifier(self, metric: Any) -> TextClassifier:
        """Return the head on the encoder of a metric, in the training mode of the head."""
        if self._classifier is None or self._classifier[0] is not metric:
            # A tuple keeps the weights of the metric out of the parameters of the task.
            self._classifier = (metric, TextClassifier(metric, self.head))
        return self._classifier[1]

    def loss(self, metric: Any, batch: LabelBatch) -> Tensor:
        """Return the cross entropy over the batch of all processes."""
        logits = gather_values(self.classifier(metric)(*batch.texts), batch.joint)
        labels = gather_values(batch.labels, batch.joint)
        smoothing = self.label_smoothing
        return torch.nn.functional.cross_entropy(logits, labels, weight=self.weights, label_smoothing=smoothing)

    def collect(self, part: str, metric: Any, batch: LabelBatch) -> None:
        """Collect the predicted classes of a batch."""
        cut = self.classifier(metric).cut(*batch.texts)
        self._collected[part].update(self.outcome(metric, batch), cut, batch.positions)

    def outcome(self, metric: Any, batch: LabelBatch) -> Tensor:
        """Return the predicted class of each item, int64 ``[B]``."""
        return self.classifier(metric)(*batch.texts).argmax(dim=1)

    def judge(self, part: str) -> TaskResult | None:
        """Compute accuracy, macro-F1 and Matthews correlation on a part."""
        found = self.collected(part)
        if found is None:
            return None
        predicted, cut = found
        labels = [item.label for item in self.source.parts[part]]
        confusion = confusion_matrix(labels, predicted, len(self.source.classes))
        values = {name: float(value) for name, value in label_statistics(confusion).items()}
        return TaskResult(values, _table(self.source.classes, confusion, values, int(cut.sum())), confusion)


def loss_weights(source: LabelledSource, wanted: ClassWeights) -> Tensor | None:
    """Return the weight of each class in the loss, float32 ``[C]``; ``None`` if all are equal, 1 for unnamed classes.

    Balanced weights have mean 1 over the items.
    """
    if wanted is None:
        return None
    counts = np.bincount([item.label for item in source.items], minlength=len(source.classes))
    if wanted == "balanced":
        if not counts.all():
            missing = source.classes[int(np.flatnonzero(counts == 0)[0])]
            raise InputError(
                f"Expected items of every class of {source.name} to balance `class_weights`, but got none of "
                f"{missing!r}: leave it out of `labels`, or give weights."
            )
        return torch.from_numpy(len(source.items) / (len(counts) * counts)).float()
    if isinstance(wanted, str):
        raise InputError(f"Expected `class_weights` to be balanced or weights by class, but got {wanted!r}.")
    unknown = sorted(set(wanted) - set(source.classes))
    if unknown or not all(0 < weight < float("inf") for weight in wanted.values()):
        raise InputError(
            f"Expected `class_weights` to be finite numbers above 0 for the classes {', '.join(source.classes)}, but "
            f"got {wanted}."
        )
    return torch.tensor([wanted.get(name, 1.0) for name in source.classes])


def _table(classes: Sequence[str], confusion: NDArray[np.int64], values: dict[str, float], cut: int) -> str:
    width = max(map(len, classes))
    lines = [f"  {'':{width}}      n  recall precision"]
    true, found = confusion.sum(axis=1), confusion.sum(axis=0)
    for place, name in enumerate(classes):
        right = confusion[place, place]
        recall, precision = right / max(1, true[place]), right / max(1, found[place])
        lines.append(f"  {name:{width}} {true[place]:6d}  {recall:6.4f}    {precision:6.4f}")
    lines.append("  " + ", ".join(f"{name} {fixed(value, 4)}" for name, value in values.items()))
    if cut:
        lines.append(f"  cut at the length limit: {cut} of {plural(int(true.sum()), 'item')}")
    return "\n".join(lines)
