"""The metric as a module of the Hugging Face package `evaluate`, loaded from this folder.

    pip install evaluate "textmover[embedded]"

    >>> import evaluate
    >>> metric = evaluate.load("examples/textmover_metric", "twmd")  # any preset, checkpoint folder or hub id
    >>> metric.compute(predictions=["A cat sat there."], references=["There sat a cat."])["score"]
    0.9073…

A metric that reads sources takes ``sources=`` in ``compute``, also without references.

Run it from a folder without a file `evaluate.py` (the root of this project has one).
"""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

import textmover.interfaces.evaluate as ours


class TextMoverMetric(evaluate.Metric):
    """Scores by the metric that the configuration names; the default one if it names none."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=ours.DESCRIPTION,
            inputs_description=ours.INPUTS,
            citation="",
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def _download_and_prepare(self, dl_manager: Any) -> None:
        self.module = ours.load(None if self.config_name == "default" else self.config_name)

    def compute(
        self, *, predictions: Any = None, references: Any = None, sources: Any = None, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Score the predictions, along with those that were added; sources are those of all of them."""
        if references is None and predictions is not None and sources is not None:
            references = [[] for _ in predictions]
        return super().compute(predictions=predictions, references=references, sources=sources, **kwargs)

    def _compute(self, predictions: list[str], references: list[Any], sources: Any = None) -> dict[str, Any]:
        return self.module.compute(predictions=predictions, references=references, sources=sources)
