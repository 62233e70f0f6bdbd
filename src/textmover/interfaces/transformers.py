"""``compute_metrics`` for the ``Seq2SeqTrainer`` of Hugging Face: decodes generated ids and scores the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from textmover.interfaces.evaluate import columns_of
from textmover.modules.tokens.text_arguments import listed_texts
from textmover.scoring.scorer import Model, Scorer, as_scorer
from textmover.types import InputError

__all__ = ["ComputeMetrics", "compute_metrics"]


class ComputeMetrics:
    """Decode generated ids and labels, and score the texts against each other.

    The metric is loaded at the first call. In distributed evaluation every process is called with all predictions, and
    returns the same numbers.

    Args:
        tokenizer: Tokenizer of the model: any object with ``batch_decode`` and ``pad_token_id``.
        model: Scorer, metric, preset, checkpoint folder or hub id; ``None`` is the default metric.
        name: Name of the score; other values are ``NAME_precision``, ``NAME_recall`` and ``NAME_f1``.
        sources: Source texts in the order of the evaluation set. Without them, a metric whose ``mode`` uses sources
            decodes the inputs, which requires ``include_for_metrics=["inputs"]``.
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
        self.sources = None if sources is None else listed_texts(sources, "sources")
        self._scorer: Scorer | None = None
        self._pending: tuple[list[str], ...] = ([], [], [])

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Score an evaluation.

        Args:
            prediction: ``EvalPrediction`` with ids ``[N, T]`` as ``predictions`` (or first of them) and ``label_ids``.
            compute_result: Whether this is the last batch, as set with ``batch_eval_metrics=True``; earlier batches are
                stored until then.

        Returns:
            Means over all texts of the score and, if the metric has them, precision, recall and F; empty before the
            last batch.
        """
        earlier, self._pending = self._pending, ([], [], [])  # cleared even if an error follows
        arrays_by_name = {"predictions": prediction.predictions, "label_ids": prediction.label_ids}
        arrays_by_name["inputs"] = getattr(prediction, "inputs", None) if self.sources is None else None
        new_texts = ([] if ids is None else self._texts(ids, name) for name, ids in arrays_by_name.items())
        predictions, labels, inputs = (old + new for old, new in zip(earlier, new_texts, strict=True))
        if not compute_result:
            self._pending = (predictions, labels, inputs)
            return {}
        if not predictions:
            raise InputError("Expected predictions to score, but got none.")
        uses_sources = getattr(self.scorer.metric, "combination", None) is not None
        sources = self.sources if self.sources is not None else inputs if uses_sources and inputs else None
        scores = self.scorer.score(predictions, labels, sources)
        columns = {self.name: scores.scores.tolist()}
        columns |= {f"{self.name}_{name}": values for name, values in columns_of(scores).items()}
        return {name: sum(values) / len(values) for name, values in columns.items()}

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use."""
        if self._scorer is None:
            self._scorer = as_scorer(self.model, **self.options)
        return self._scorer

    def _texts(self, predictions: Any, name: str) -> list[str]:
        ids = predictions[0] if isinstance(predictions, tuple) else predictions
        try:
            array = np.asarray(ids.cpu() if hasattr(ids, "cpu") else ids)
        except ValueError as error:
            raise InputError(
                f"Expected {name} to be rows of token ids of one length, but got rows of several: pad them with -100."
            ) from error
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"Expected {name} to be rows of token ids, but got {array.dtype} of shape {list(array.shape)}: use "
                "`Seq2SeqTrainingArguments(predict_with_generate=True)`, so that the model generates."
            )
        padding_ids = (-100, self.tokenizer.pad_token_id)  # -100 pads labels and gathered predictions
        rows = [[int(token) for token in row if token not in padding_ids] for row in array]
        if not rows:
            return []  # some tokenizers would decode it to one empty text
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
