"""Metrics with the methods of the Hugging Face package `evaluate`, which need not be installed."""

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
    """A metric that is called as those of `evaluate` are; it can stand among them in ``evaluate.combine``.

    Args:
        model: Scorer, metric, preset, checkpoint folder or hub id; ``None`` is the default metric.
        name: What ``evaluate.combine`` puts before values that several metrics have.
        **options: As for :meth:`textmover.Scorer.from_pretrained`.

    Attributes:
        name: See above.
        module_type: ``"metric"``.
        description: What it measures.
        inputs_description: What :meth:`compute` takes and returns.

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
        """The two forms of the input, as features of ``datasets``."""
        from datasets import Features, Sequence, Value

        text = Value("string")
        return [Features(predictions=text, references=one) for one in (text, Sequence(text))]

    def add(
        self,
        *,
        prediction: str | None = None,
        reference: str | Iterable[str] | None = None,
        predictions: str | None = None,
        references: str | Iterable[str] | None = None,
        source: str | None = None,
    ) -> None:
        """Keep one prediction until :meth:`compute`.

        Args:
            prediction: The generated text.
            reference: Its reference, or several.
            predictions: The same as ``prediction``: ``evaluate.combine`` says it like this.
            references: The same as ``reference``.
            source: The text that it translates, for a metric that reads it; then it needs no reference.

        Raises:
            InputError: If one of the two lacks, or is not text.
        """
        text = predictions if prediction is None else prediction
        wanted = references if reference is None else reference
        if text is None or (wanted is None and source is None):
            raise InputError("Expected a prediction with its reference or source, but got one side alone.")
        sides = {"references": wanted, "sources": source}
        self.add_batch(predictions=[text], **{name: [one] for name, one in sides.items() if one is not None})

    def add_batch(self, *, predictions: Any = None, references: Any = None, sources: Any = None) -> None:
        """Keep predictions until :meth:`compute`, whose arguments are the same."""
        texts, grouped = _checked(predictions, references, sources)
        self._predictions += texts
        self._references += grouped

    def compute(self, *, predictions: Any = None, references: Any = None, sources: Any = None) -> dict[str, Any]:
        """Score the predictions, along with those that were added since the last call.

        Where scoring fails, added predictions stay for the next call, and those of this call are dropped.

        Args:
            predictions: ``n`` generated texts; none if all were added before.
            references: For each, one text or several.
            sources: For each, the text that it translates.

        Returns:
            ``score``, the mean; ``scores`` and, where the metric has them, ``precision``, ``recall`` and ``f1``, a
            number for each text; ``signature`` (also as ``hashcode``).

        Raises:
            InputError: If there is nothing to score, the counts differ, or a prediction has no reference.
            TypeError: If something is neither a text nor a list of texts.
        """
        texts, grouped = self._predictions, self._references
        if any(one is not None for one in (predictions, references, sources)):
            further = _checked(predictions, references, sources)
            texts, grouped = texts + further[0], grouped + further[1]
        if not texts:
            raise InputError("Expected predictions, but got none: give some, or add them before.")
        given = [one.source for one in grouped]
        found = self.scorer.score(texts, grouped, given if any(given) else None)
        self._predictions, self._references = [], []
        signature = str(found.signature)
        scores = {"score": found.mean, "scores": found.scores.tolist(), **columns_of(found)}
        return {**scores, "signature": signature, "hashcode": signature}

    __call__ = compute

    def _feature_names(self) -> list[str]:
        """Feature names, which ``evaluate.combine`` passes on."""
        return ["predictions", "references"]


def load(model: Model = None, *, name: str = "textmover", **options: Any) -> EvaluationModule:
    """A metric by its name, as ``evaluate.load`` does it; see :class:`EvaluationModule`."""
    return EvaluationModule(model, name=name, **options)


def _checked(predictions: Any, references: Any, sources: Any) -> tuple[list[str], list[SourcedReferences]]:
    if predictions is None or (references is None and sources is None):
        raise InputError("Expected predictions with references or sources, but got one side alone.")
    texts = listed_texts(predictions, "predictions")
    return texts, normalize_references(texts, references, sources)


def columns_of(scores: SegmentScores) -> dict[str, list[float]]:
    """Values by segment under the names of other libraries: ``precision``, ``recall``, ``f1``, if there are any."""
    named = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f}
    return {name: values.tolist() for name, values in named.items() if values is not None}
