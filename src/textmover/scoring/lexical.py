"""Metrics of surface overlap, as sacrebleu and rouge-score compute them: the rows that every comparison begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from textmover.types import InputError, SegmentScores, Signature

__all__ = ["LEXICAL", "LexicalMetric", "lexical_scores"]

SACREBLEU, ROUGE = "sacrebleu", "rouge-score"

EXTRA = "lexical"
"""The extra that brings both packages."""

STEP = 64
"""Segments after which progress is told."""

ScoreOne = Callable[[str, Sequence[str]], float]


@dataclass(frozen=True)
class LexicalMetric:
    """A metric of surface overlap.

    Attributes:
        package: The package that computes it.
        make: Gives a function of one hypothesis and its references.
        settings: What the signature says of it, beside the package's version.
        higher_is_better: False for an error rate.
    """

    package: str
    make: Callable[[], ScoreOne]
    settings: Mapping[str, str]
    higher_is_better: bool = True


def _sacrebleu(name: str, **options: Any) -> Callable[[], ScoreOne]:
    def make() -> ScoreOne:
        from sacrebleu import metrics

        metric = getattr(metrics, name)(**options)
        return lambda hypothesis, references: float(metric.sentence_score(hypothesis, list(references)).score)

    return make


def _rouge(kind: str) -> Callable[[], ScoreOne]:
    def make() -> ScoreOne:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer([kind], use_stemmer=True)
        return lambda hypothesis, references: float(scorer.score_multi(list(references), hypothesis)[kind].fmeasure)

    return make


_CHRF = {"case": "mixed", "eff": "yes", "nc": "6", "beta": "2", "space": "no"}

LEXICAL: Mapping[str, LexicalMetric] = {
    "sentbleu": LexicalMetric(
        SACREBLEU,
        _sacrebleu("BLEU", effective_order=True),
        {"case": "mixed", "eff": "yes", "tok": "13a", "smooth": "exp"},
    ),
    "chrf": LexicalMetric(SACREBLEU, _sacrebleu("CHRF", word_order=0, beta=2), {**_CHRF, "nw": "0"}),
    "chrf++": LexicalMetric(SACREBLEU, _sacrebleu("CHRF", word_order=2, beta=2), {**_CHRF, "nw": "2"}),
    "ter": LexicalMetric(
        SACREBLEU,
        _sacrebleu("TER"),
        {"case": "lc", "tok": "tercom", "norm": "no", "punct": "yes", "asian": "no"},
        higher_is_better=False,
    ),
    **{
        name: LexicalMetric(ROUGE, _rouge(kind), {"stemmer": "porter", "f": "1"})
        for name, kind in (("rouge-1", "rouge1"), ("rouge-2", "rouge2"), ("rouge-l", "rougeL"))
    },
}
"""By name: sentence BLEU, chrF, chrF++ and TER of sacrebleu, in percent, and F1 of ROUGE in [0, 1].

Of several references BLEU counts all n-grams together, chrF, TER and ROUGE take the best one.
"""


def lexical_scores(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    on_progress: Callable[[int], None] | None = None,
) -> SegmentScores:
    """Score each hypothesis by itself with a metric of surface overlap.

    Args:
        name: One of :data:`LEXICAL`.
        hypotheses: ``n`` texts.
        references: For each, one or more texts.
        on_progress: Called with the number of segments that have been finished since the last call.

    Returns:
        Scores in input order, with the settings and the package's version in the signature.

    Raises:
        InputError: If the name is unknown, or the package is not installed.

    Example:
        >>> found = lexical_scores("chrf", ["a cat sat there"], [["there sat a cat", "a cat sat here"]])
        >>> found.scores.round(2), found.signature.entries["refs"]
        (array([74.04]), '2')
    """
    metric = LEXICAL.get(name)
    if metric is None:
        raise InputError(f"Expected the name of a metric to be {', '.join(LEXICAL)}, but got {name!r}: choose one.")
    try:
        version = metadata.version(metric.package)
        score = metric.make()
    except ImportError as error:  # of the package's metadata, or of what it needs itself
        raise InputError(
            f"Expected the package {metric.package} to compute {name}, but it is not installed: "
            f'pip install "textmover[{EXTRA}]".'
        ) from error
    scores = np.empty(len(hypotheses), dtype=np.float64)
    for row, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True)):
        scores[row] = score(hypothesis, texts)
        if on_progress is not None and (row + 1) % STEP == 0:
            on_progress(STEP)
    if on_progress is not None and len(hypotheses) % STEP:
        on_progress(len(hypotheses) % STEP)
    counts = sorted({len(texts) for texts in references})
    of_each = str(counts[0]) if len(counts) == 1 else "var"
    entries = {"metric": name, "package": f"{metric.package}-{version}", "refs": of_each, **metric.settings}
    return SegmentScores(
        scores=scores, precision=None, recall=None, f=None, signature=Signature(entries), counts=_empty(hypotheses)
    )


def _empty(hypotheses: Sequence[str]) -> dict[str, int]:
    """How many hypotheses hold no word."""
    number = sum(not text.strip() for text in hypotheses)
    return {"empty": number} if number else {}
