"""``compute_metrics`` for the ``Seq2SeqTrainer`` of Hugging Face: generated ids in, scores of their texts out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from textmover.interfaces.evaluate import columns_of
from textmover.scoring.scorer import Model, as_scorer
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.scoring import Scorer

__all__ = ["ComputeMetrics", "compute_metrics"]


class ComputeMetrics:
    """Decodes what a model generated and its labels, and scores the one against the other.

    The metric is loaded when it is first called. Every process of several calls it with the predictions of all, and
    gets the same numbers.

    Args:
        tokenizer: That of the model: anything with ``batch_decode`` and ``pad_token_id``.
        model: Scorer, metric, preset, checkpoint folder or hub id; ``None`` is the default metric.
        name: The first value's name; the others are ``NAME_precision``, ``NAME_recall`` and ``NAME_f1``.
        sources: Texts that were translated, in the order of the evaluation set. Without them a metric whose ``mode``
            reads sources decodes the inputs, which ``include_for_metrics=["inputs"]`` hands over.
        **options: As for :meth:`textmover.Scorer.from_pretrained`.
    """

    def __init__(
        self,
        tokenizer: Any,
        model: Model = None,
        *,
        name: str = "textmover",
        sources: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        self.tokenizer, self.model, self.name, self.options = tokenizer, model, name, options
        self.sources = sources
        self._scorer: Scorer | None = None
        self._kept: tuple[list[str], ...] = ([], [], [])

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Score an evaluation.

        Args:
            prediction: ``EvalPrediction`` with ids ``[N, T]`` as ``predictions`` (or first of them) and ``label_ids``.
            compute_result: Whether this is the last batch, as ``batch_eval_metrics=True`` says it; those before it are
                kept until then.

        Returns:
            Means over all texts: the score, and precision, recall and F where the metric has them; nothing before the
            last batch.
        """
        kept, self._kept = self._kept, ([], [], [])  # also where what follows is refused
        given = {"predictions": prediction.predictions, "label_ids": prediction.label_ids}
        given["inputs"] = getattr(prediction, "inputs", None) if self.sources is None else None
        further = ([] if ids is None else self._texts(ids, name) for name, ids in given.items())
        predictions, labels, inputs = (old + new for old, new in zip(kept, further, strict=True))
        if not compute_result:
            self._kept = (predictions, labels, inputs)
            return {}
        if not predictions:
            raise InputError("Expected predictions to score, but got none.")
        reads = getattr(self.scorer.metric, "combination", None) is not None
        sources = self.sources if self.sources is not None else inputs if reads and inputs else None
        found = self.scorer.score(predictions, labels, sources)
        columns = {self.name: found.scores.tolist()}
        columns |= {f"{self.name}_{name}": values for name, values in columns_of(found).items()}
        return {name: sum(values) / len(values) for name, values in columns.items()}

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use."""
        if self._scorer is None:
            self._scorer = as_scorer(self.model, **self.options)
        return self._scorer

    def _texts(self, given: Any, name: str) -> list[str]:
        ids = given[0] if isinstance(given, tuple) else given
        array = np.asarray(ids.cpu() if hasattr(ids, "cpu") else ids)
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"Expected {name} to be rows of token ids, but got {array.dtype} of shape {list(array.shape)}: use "
                "`Seq2SeqTrainingArguments(predict_with_generate=True)`, so that the model generates."
            )
        fillers = (-100, self.tokenizer.pad_token_id)  # -100 in labels, and in predictions that were gathered
        rows = [[int(one) for one in row if one not in fillers] for row in array]
        if not rows:
            return []  # some tokenizers make one empty text of it
        return [text.strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]


def compute_metrics(
    tokenizer: Any,
    model: Model = None,
    *,
    name: str = "textmover",
    sources: Sequence[str] | None = None,
    **options: Any,
) -> ComputeMetrics:
    """Build the function for ``Seq2SeqTrainer(compute_metrics=…)``; see :class:`ComputeMetrics`.

    Example:
        >>> from types import SimpleNamespace
        >>> words = ["", "a", "cat", "dog"]
        >>> decode = lambda rows, **_: [" ".join(words[one] for one in row) for row in rows]
        >>> metrics = compute_metrics(SimpleNamespace(pad_token_id=0, batch_decode=decode), "twmd")
        >>> found = metrics(SimpleNamespace(predictions=np.array([[1, 2, 0]]), label_ids=np.array([[1, 2, -100]])))
        >>> {name: round(value, 4) for name, value in found.items()}
        {'textmover': 1.0, 'textmover_precision': 1.0, 'textmover_recall': 1.0, 'textmover_f1': 1.0}
    """
    return ComputeMetrics(tokenizer, model, name=name, sources=sources, **options)
