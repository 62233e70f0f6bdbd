"""Metrics with the interface of Hugging Face `evaluate`, which need not be installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textmover.modules.tokens.text_arguments import listed_texts, normalize_references
from textmover.scoring.scorer import Model, Scorer, as_scorer
from textmover.types import InputError, SegmentScores, SourcedReferences

__all__ = ["EvaluationModule", "load"]

DESCRIPTION = "Optimal transport between contextual token vectors of a generated text and its reference."
INPUTS = """
Args:
    predictions (list of str): generated texts.
    references (list of str, or list of lists of str): for each prediction one text or several.
    sources (list of str): for each prediction the text that it translates, for a metric that reads it.
Returns:
    score: mean over the texts; scores: a number for each; precision, recall, f1: the same, where the metric has them;
    signature, hashcode: everything that the numbers depend on.
"""


class EvaluationModule:
    """A metric with the interface of modules of `evaluate`; can be used in ``evaluate.combine``.

    Args:
        model: Scorer, metric, preset, checkpoint folder or hub id; ``None`` is the default metric.
        name: Prefix that ``evaluate.combine`` adds to values that several metrics return.
        **options: As for :meth:`textmover.Scorer.from_pretrained`.

    Attributes:
        name: See above.
        module_type: ``"metric"``.
        description: Description of the metric.
        inputs_description: Arguments and results of :meth:`compute`.

    Raises:
        InputError: If the metric cannot be loaded.

    Example:
        >>> twmd = EvaluationModule("twmd")
        >>> found = twmd.compute(predictions=["A cat sat there."], references=["There sat a cat."])
        >>> round(found["score"], 4), sorted(found)
        (0.9073, ['f1', 'hashcode', 'precision', 'recall', 'score', 'scores', 'signature'])
    """

    module_type = "metric"
    description = DESCRIPTION
    inputs_description = INPUTS

    def __init__(self, model: Model = None, *, name: str = "textmover", **options: Any) -> None:
        self.name = name
        self.scorer: Scorer = as_scorer(model, **options)
        self._predictions: list[str] = []
        self._references: list[SourcedReferences] = []

    @property
    def features(self) -> list[Any]:
        """The two accepted input formats, as ``datasets`` features."""
        from datasets import Features, Sequence, Value

        text = Value("string")
        return [Features(predictions=text, references=reference_type) for reference_type in (text, Sequence(text))]

    def add(
        self,
        *,
        prediction: str | None = None,
        reference: str | Iterable[str] | None = None,
        predictions: str | None = None,
        references: str | Iterable[str] | None = None,
        source: str | None = None,
    ) -> None:
        """Store one prediction until :meth:`compute`.

        Args:
            prediction: The generated text.
            reference: Its reference or references.
            predictions: Alias of ``prediction``, used by ``evaluate.combine``.
            references: Alias of ``reference``.
            source: Its source text, for a metric that uses sources; the reference is optional then.

        Raises:
            InputError: If the prediction, or both reference and source, are missing or not text.
        """
        text = predictions if prediction is None else prediction
        compared = references if reference is None else reference
        if text is None or (compared is None and source is None):
            raise InputError("Expected a prediction with its reference or source, but got one side alone.")
        sides = {"references": compared, "sources": source}
        self.add_batch(predictions=[text], **{name: [value] for name, value in sides.items() if value is not None})

    def add_batch(self, *, predictions: Any = None, references: Any = None, sources: Any = None) -> None:
        """Store predictions until :meth:`compute`, which takes the same arguments."""
        texts, grouped = _checked(predictions, references, sources)
        self._predictions += texts
        self._references += grouped

    def compute(self, *, predictions: Any = None, references: Any = None, sources: Any = None) -> dict[str, Any]:
        """Score the predictions, together with those added since the last call.

        If scoring fails, added predictions are kept for the next call, and those of this call are dropped.

        Args:
            predictions: ``n`` generated texts; omit them if all were added before.
            references: For each, one text or several.
            sources: For each, its source text.

        Returns:
            ``score``, the mean; lists ``scores`` and, if the metric has them, ``precision``, ``recall`` and ``f1``, one
            number per text; ``signature`` (also as ``hashcode``).

        Raises:
            InputError: If there is nothing to score, the counts differ, or a prediction has no reference.
            TypeError: If an argument is neither a text nor a list of texts.
        """
        texts, grouped = self._predictions, self._references
        if any(argument is not None for argument in (predictions, references, sources)):
            new = _checked(predictions, references, sources)
            texts, grouped = texts + new[0], grouped + new[1]
        if not texts:
            raise InputError("Expected predictions, but got none: give some, or add them before.")
        sources_of_texts = [one.source for one in grouped]
        result = self.scorer.score(texts, grouped, sources_of_texts if any(sources_of_texts) else None)
        self._predictions, self._references = [], []
        signature = str(result.signature)
        scores = {"score": result.mean, "scores": result.scores.tolist(), **columns_of(result)}
        return {**scores, "signature": signature, "hashcode": signature}

    __call__ = compute

    def _feature_names(self) -> list[str]:
        """Return the feature names, which ``evaluate.combine`` uses."""
        return ["predictions", "references"]


def load(model: Model = None, *, name: str = "textmover", **options: Any) -> EvaluationModule:
    """Load a metric by name, like ``evaluate.load``; see :class:`EvaluationModule`."""
    return EvaluationModule(model, name=name, **options)


def _checked(predictions: Any, references: Any, sources: Any) -> tuple[list[str], list[SourcedReferences]]:
    if predictions is None or (references is None and sources is None):
        raise InputError("Expected predictions with references or sources, but got one side alone.")
    texts = listed_texts(predictions, "predictions")
    return texts, normalize_references(texts, references, sources)


def columns_of(scores: SegmentScores) -> dict[str, list[float]]:
    """Return values per segment under the usual names, ``precision``, ``recall``, ``f1``, if the metric has them."""
    named = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f}
    return {name: values.tolist() for name, values in named.items() if values is not None}
