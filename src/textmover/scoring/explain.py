"""Explain a score: :func:`explain` for any scorer."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from textmover.explaining.rome import explain_rome
from textmover.explaining.transport import explain_transport
from textmover.modules.devices import scoring_mode
from textmover.modules.matching.calibration import Calibration
from textmover.modules.metric_model import MetricModel
from textmover.report.explanation.values import Explanation
from textmover.rome.metric import RomeMetric
from textmover.scoring.scorer_statistics import check_fitted, check_sources
from textmover.types import InputError, SourcedReferences, compared_texts

if TYPE_CHECKING:
    from textmover.modules.configured_metric import SourceCombination
    from textmover.scoring.scorer import Scorer

LONGEST = 25_000_000
"""Most pairs of words, estimated from the spaces in the texts, whose plans are laid out: 200 MB to a matrix."""


def explain(
    scorer: Scorer, hypothesis: str, references: str | Sequence[str] | None = None, source: str | None = None
) -> Explanation:
    """Explain a score; a metric that fits idf weights on each call fits them on these texts: fit it on more before."""
    compared = _checked(hypothesis, references, source)
    if source is not None:
        check_sources(scorer.metric)
    return explain_fitted(scorer.for_call([hypothesis], [compared]), hypothesis, compared)


def explain_fitted(scorer: Scorer, hypothesis: str, references: str | Sequence[str] | None) -> Explanation:
    """Explain with the statistics as they are; see :func:`explain`."""
    given = _checked(hypothesis, references, getattr(references, "source", None))
    scorer = scorer.frozen()
    metric = scorer.metric
    check_fitted(metric)
    (compared,) = compared_texts(metric, [given])
    if compared and compared.source is not None:
        raise InputError("Expected one side to explain, but `mode` is both: set it to reference or source.")
    grouped = compared.texts
    if metric.multi_reference == "all" and len(grouped) > 1:
        raise InputError(
            f"Expected one reference to explain where multi_reference='all' makes one text of them, but got "
            f"{len(grouped)}: give one, or choose 'best' or 'mean'."
        )
    pairs = [compared] if compared.source is not None else [SourcedReferences([one]) for one in grouped]
    alone = scorer.score_fitted([hypothesis] * len(grouped), pairs, warn=False)
    whole = alone if len(grouped) == 1 else scorer.score_fitted([hypothesis], [compared], warn=False)
    chosen = int(alone.scores.argmax() if metric.higher_is_better else alone.scores.argmin())
    values = {name: float(array[chosen]) for name, array in alone.values.items()}
    flags = tuple(scorer.score_fitted([hypothesis], [pairs[chosen]], warn=False).counts)
    with scorer.engine(), scoring_mode(metric):
        parts_of = metric if compared.source is None else _of_sources(cast("MetricModel", metric))
        found = _parts(parts_of, hypothesis, grouped[chosen], values, empty="empty" in flags)
    unknown = metric.tokenize([hypothesis, grouped[chosen]]).unknown_words or ()
    return Explanation(
        score=values.pop("score"),
        components=values,
        flags=flags,
        signature=scorer.signature,
        chosen=chosen,
        compared_with="reference" if compared.source is None else "source",
        reference_scores=tuple(alone.scores.tolist()),
        segment_score=float(whole.scores[0]),
        unknown_words=tuple(dict.fromkeys(itertools.chain.from_iterable(unknown))),
        **found,
    )


def _of_sources(metric: MetricModel) -> MetricModel:
    """The metric whose calibration maps similarities to sources to its scores; it shares everything else."""
    combination = cast("SourceCombination", metric.combination)
    if (float(combination.source.scale.detach()), float(combination.source.offset.detach())) == (1, 0):
        return metric
    changed, first = copy.copy(metric), metric.calibration or Calibration()
    changed._modules = dict(metric._modules)
    changed.calibration = Calibration()
    changed.calibration.scale.data = first.scale.data * combination.source.scale.data
    changed.calibration.offset.data = combination.scaled(first.offset, metric.ends).detach()
    return changed


def _checked(hypothesis: str, references: str | Sequence[str] | None, source: str | None) -> SourcedReferences:
    """References and source of a hypothesis, as :meth:`Scorer.score` would take it."""
    from textmover.modules.tokens.given_texts import normalize_references

    if not isinstance(hypothesis, str):
        raise TypeError(f"Expected `hypothesis` to be a text, but got {type(hypothesis).__name__}.")
    several: Any = None if references is None and source is not None else [references]
    (compared,) = normalize_references([hypothesis], several, None if source is None else [source])
    words = len(hypothesis.split()), max(len(one.split()) for one in compared.texts)
    if words[0] * words[1] > LONGEST:
        raise InputError(
            f"Expected texts of at most {LONGEST:,} pairs of words to explain, but got {words[0]:,} by {words[1]:,} "
            "words: explain a paragraph at a time."
        )
    return compared


def _parts(metric: Any, hypothesis: str, reference: str, values: dict[str, float], *, empty: bool) -> dict[str, Any]:
    if isinstance(metric, MetricModel):
        return explain_transport(metric, hypothesis, reference, values)
    if isinstance(metric, RomeMetric):
        return explain_rome(metric, hypothesis, reference, values, empty=empty)
    raise InputError(
        f"Expected a transport metric or RoMe to explain, but got a {type(metric).__name__}, which does not say how "
        "its words are matched: choose a preset of `textmover list`."
    )
