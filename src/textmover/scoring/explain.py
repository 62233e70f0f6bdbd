"""Explain a score: :func:`explain` for any scorer."""

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
from textmover.report.explanation.explanation import Explanation, Step
from textmover.rome.metric import RomeMetric
from textmover.scoring.error_spans.marking import mark_fitted, marks_errors
from textmover.scoring.scorer_statistics import check_fitted, check_sources
from textmover.types import InputError, SourcedReferences, compared_texts

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

LONGEST = 25_000_000
"""Most pairs of words, estimated from the spaces in the texts, whose plans are laid out: 200 MB to a matrix."""

NAMES = "reference", "source"  # name of the other side in steps, and that which it has instead


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
    if metric.multi_reference == "all" and len(compared) > 1:
        raise InputError(
            f"Expected one reference to explain where multi_reference='all' makes one text of them, but got "
            f"{len(compared)}: give one, or choose 'best' or 'mean'."
        )
    pairs = [SourcedReferences([one], compared.source) for one in compared] or [compared]
    alone = scorer.score_fitted([hypothesis] * len(pairs), pairs, warn=False)
    whole = alone if len(pairs) == 1 else scorer.score_fitted([hypothesis], [compared], warn=False)
    chosen = int(alone.scores.argmax() if metric.higher_is_better else alone.scores.argmin())
    flags = tuple(scorer.score_fitted([hypothesis], [pairs[chosen]], warn=False).counts)
    texts = pairs[chosen].texts
    with scorer.engine() as engine, scoring_mode(metric):
        plain = engine.score([hypothesis] * len(pairs), pairs, warn=False, by_pair=True).values
        found = []
        for place, text in enumerate(texts, start=chosen * len(texts)):
            values = {name: float(array[place]) for name, array in plain.items()}
            parts = _parts(metric, hypothesis, text, values, empty="empty" in flags)
            unknown = metric.tokenize([hypothesis, text]).unknown_words or ()
            parts["unknown_words"] = tuple(dict.fromkeys(itertools.chain.from_iterable(unknown)))
            found.append(Explanation(values.pop("score"), values, flags, scorer.signature, **parts))
    values = {name: float(array[chosen]) for name, array in alone.values.items()}
    marked = mark_fitted(scorer, [hypothesis], [pairs[chosen]], warn=False) if marks_errors(metric) else None
    return replace(
        found[0] if compared.source is None else _with_source(metric, found, copied="copied" in flags),
        score=values.pop("score"),
        components=values,
        chosen=chosen,
        reference_scores=tuple(alone.scores.tolist()),
        segment_score=float(whole.scores[0]),
        errors=marked[0] if marked else None,
        flags=(*flags, *(one for one in (marked[0].flags if marked else ()) if one == "unreferenced")),
        signature=marked.signature if marked else alone.signature,
    )


def _with_source(metric: Any, found: list[Explanation], *, copied: bool) -> Explanation:
    """The explanation of a score against the source, or of one against a reference with that against the source."""
    *references, plain = found
    if references and copied:  # it is judged by its reference alone
        return references[0]
    own = [Step(name.replace(*NAMES), value, how.replace(*NAMES)) for name, value, how in plain.steps]
    plain, scale = replace(plain, compared_with="source", steps=tuple(own)), metric.combination.source.scale.item()
    offset = Step("scale of sources", metric.combination.scaled(0 * metric.ends[0], metric.ends).item(), "its offset")
    source = plain.mapped(scale, offset, f"{scale:.4g} * source {offset.value:+.4g}, on the scale of references")
    source = source if (scale, offset.value) != (1, 0) else plain
    if not references:
        return source
    weight = metric.combination.logit.sigmoid().item()
    adds = Step("source", weight * source.score, f"{weight:.4g} times the score against the source")
    how = f"{1 - weight:.4g} * reference + {weight:.4g} * source"
    return replace(references[0].mapped(1 - weight, adds, how), source=source)


def _checked(hypothesis: str, references: str | Sequence[str] | None, source: str | None) -> SourcedReferences:
    """References and source of a hypothesis, as :meth:`Scorer.score` would take it."""
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
