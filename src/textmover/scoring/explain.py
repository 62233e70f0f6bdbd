"""Explain a score: :func:`explain` for any scorer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textmover.explaining.rome import explain_rome
from textmover.explaining.transport import explain_transport
from textmover.modules.devices import scoring_mode
from textmover.modules.metric_model import MetricModel
from textmover.report.explanation.values import Explanation
from textmover.rome.metric import RomeMetric
from textmover.scoring.scorer_statistics import check_fitted
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

LONGEST = 25_000_000
"""Most pairs of words, estimated from the spaces in the texts, whose plans are laid out: 200 MB to a matrix."""


def explain(scorer: Scorer, hypothesis: str, references: str | Sequence[str]) -> Explanation:
    """Explain a score; a metric that fits idf weights on each call fits them on these texts: fit it on more before."""
    hypothesis, grouped = _checked(hypothesis, references)
    return explain_fitted(scorer.for_call([hypothesis], [grouped]), hypothesis, grouped)


def explain_fitted(scorer: Scorer, hypothesis: str, references: str | Sequence[str]) -> Explanation:
    """Explain with the statistics as they are; see :func:`explain`."""
    hypothesis, grouped = _checked(hypothesis, references)
    scorer = scorer.frozen()
    metric = scorer.metric
    check_fitted(metric)
    if metric.multi_reference == "all" and len(grouped) > 1:
        raise InputError(
            f"Expected one reference to explain where multi_reference='all' makes one text of them, but got "
            f"{len(grouped)}: give one, or choose 'best' or 'mean'."
        )
    alone = scorer.score_fitted([hypothesis] * len(grouped), [[one] for one in grouped], warn=False)
    whole = alone if len(grouped) == 1 else scorer.score_fitted([hypothesis], [grouped], warn=False)
    chosen = int(alone.scores.argmax() if metric.higher_is_better else alone.scores.argmin())
    values = {name: float(array[chosen]) for name, array in alone.values.items()}
    flags = tuple(scorer.score_fitted([hypothesis], [[grouped[chosen]]], warn=False).counts)
    with scorer.engine(), scoring_mode(metric):
        found = _parts(metric, hypothesis, grouped[chosen], values, empty="empty" in flags)
    unknown = metric.tokenize([hypothesis, grouped[chosen]]).unknown_words or ()
    return Explanation(
        score=values.pop("score"),
        components=values,
        flags=flags,
        signature=scorer.signature,
        chosen=chosen,
        reference_scores=tuple(alone.scores.tolist()),
        segment_score=float(whole.scores[0]),
        unknown_words=tuple(dict.fromkeys(itertools.chain.from_iterable(unknown))),
        **found,
    )


def _checked(hypothesis: str, references: str | Sequence[str]) -> tuple[str, list[str]]:
    """A hypothesis and its references as :meth:`Scorer.score` would take them."""
    from textmover.modules.tokens.given_texts import normalize_references

    if not isinstance(hypothesis, str):
        raise TypeError(f"Expected `hypothesis` to be a text, but got {type(hypothesis).__name__}.")
    (grouped,) = normalize_references([hypothesis], [references])
    words = len(hypothesis.split()), max(len(one.split()) for one in grouped)
    if words[0] * words[1] > LONGEST:
        raise InputError(
            f"Expected texts of at most {LONGEST:,} pairs of words to explain, but got {words[0]:,} by {words[1]:,} "
            "words: explain a paragraph at a time."
        )
    return hypothesis, list(grouped)


def _parts(metric: Any, hypothesis: str, reference: str, values: dict[str, float], *, empty: bool) -> dict[str, Any]:
    if isinstance(metric, MetricModel):
        return explain_transport(metric, hypothesis, reference, values)
    if isinstance(metric, RomeMetric):
        return explain_rome(metric, hypothesis, reference, values, empty=empty)
    raise InputError(
        f"Expected a transport metric or RoMe to explain, but got a {type(metric).__name__}, which does not say how "
        "its words are matched: choose a preset of `textmover list`."
    )
