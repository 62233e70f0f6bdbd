"""Explain the score of any scorer: :func:`explain`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textmover.explaining.rome import explain_rome
from textmover.explaining.transport import explain_transport
from textmover.modules.devices import scoring_mode
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.text_arguments import normalize_references
from textmover.report.explanation.explanations import Explanation, Step
from textmover.rome.metric import RomeMetric
from textmover.scoring.error_spans.marking import can_mark_errors, mark_fitted
from textmover.scoring.scorer_statistics import check_fitted, check_sources
from textmover.types import InputError, SourcedReferences, compared_texts

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

LONGEST = 25_000_000
"""Maximum number of word pairs to explain, estimated from whitespace: a plan of this size takes 200 MB."""

NAMES = "reference", "source"  # step names: the other side, and its replacement for scores against the source


def explain(
    scorer: Scorer, hypothesis: str, references: str | Sequence[str] | None = None, source: str | None = None
) -> Explanation:
    """Explain a score. A metric that fits idf weights per call fits them on these texts: fit it on a corpus first."""
    compared = _checked(hypothesis, references, source)
    if source is not None:
        check_sources(scorer.metric)
    return explain_fitted(scorer.for_call([hypothesis], [compared]), hypothesis, compared)


def explain_fitted(scorer: Scorer, hypothesis: str, references: str | Sequence[str] | None) -> Explanation:
    """Explain a score with the present statistics; see :func:`explain`."""
    references_given = _checked(hypothesis, references, getattr(references, "source", None))
    scorer = scorer.frozen()
    metric = scorer.metric
    check_fitted(metric)
    (compared,) = compared_texts(metric, [references_given])
    if metric.multi_reference == "all" and len(compared) > 1:
        raise InputError(
            f"Expected one reference to explain where multi_reference='all' makes one text of them, but got "
            f"{len(compared)}: give one, or choose 'best' or 'mean'."
        )
    pairs = [SourcedReferences([reference], compared.source) for reference in compared] or [compared]
    alone = scorer.score_fitted([hypothesis] * len(pairs), pairs, warn=False)
    all_references = alone if len(pairs) == 1 else scorer.score_fitted([hypothesis], [compared], warn=False)
    chosen = int(alone.scores.argmax() if metric.higher_is_better else alone.scores.argmin())
    flags = tuple(scorer.score_fitted([hypothesis], [pairs[chosen]], warn=False).counts)
    texts = pairs[chosen].texts
    with scorer.engine() as engine, scoring_mode(metric):
        pair_scores = engine.score([hypothesis] * len(pairs), pairs, warn=False, by_pair=True).values
        explanations = []
        for index, text in enumerate(texts, start=chosen * len(texts)):
            values = {name: float(array[index]) for name, array in pair_scores.items()}
            parts = _parts(metric, hypothesis, text, values, empty="empty" in flags)
            unknown = metric.tokenize([hypothesis, text]).unknown_words or ()
            parts["unknown_words"] = tuple(dict.fromkeys(itertools.chain.from_iterable(unknown)))
            explanations.append(Explanation(values.pop("score"), values, flags, scorer.signature, **parts))
    values = {name: float(array[chosen]) for name, array in alone.values.items()}
    marked = mark_fitted(scorer, [hypothesis], [pairs[chosen]], warn=False) if can_mark_errors(metric) else None
    return replace(
        explanations[0] if compared.source is None else _with_source(metric, explanations, copied="copied" in flags),
        score=values.pop("score"),
        components=values,
        chosen=chosen,
        reference_scores=tuple(alone.scores.tolist()),
        segment_score=float(all_references.scores[0]),
        errors=marked[0] if marked else None,
        flags=(*flags, *(flag for flag in (marked[0].flags if marked else ()) if flag == "unreferenced")),
        signature=marked.signature if marked else alone.signature,
    )


def _with_source(metric: Any, explanations: list[Explanation], *, copied: bool) -> Explanation:
    """Return the explanation against the source, or against a reference combined with the source."""
    *references, second = explanations
    if references and copied:  # a copy of the source is scored on its reference alone
        return references[0]
    steps = [Step(name.replace(*NAMES), value, how.replace(*NAMES)) for name, value, how in second.steps]
    second, scale = replace(second, compared_with="source", steps=tuple(steps)), metric.combination.source.scale.item()
    offset = Step("scale of sources", metric.combination.scaled(0 * metric.ends[0], metric.ends).item(), "its offset")
    source = second.mapped(scale, offset, f"{scale:.4g} * source {offset.value:+.4g}, on the scale of references")
    source = source if (scale, offset.value) != (1, 0) else second
    if not references:
        return source
    weight = metric.combination.logit.sigmoid().item()
    added = Step("source", weight * source.score, f"{weight:.4g} times the score against the source")
    how = f"{1 - weight:.4g} * reference + {weight:.4g} * source"
    return replace(references[0].mapped(1 - weight, added, how), source=source)


def _checked(hypothesis: str, references: str | Sequence[str] | None, source: str | None) -> SourcedReferences:
    """Validate the texts as :meth:`Scorer.score` does; return references and source."""
    if not isinstance(hypothesis, str):
        raise TypeError(f"Expected `hypothesis` to be a text, but got {type(hypothesis).__name__}.")
    listed: Any = None if references is None else [references]
    (compared,) = normalize_references([hypothesis], listed, None if source is None else [source])
    words = len(hypothesis.split()), max(len(text.split()) for text in compared.texts)
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
