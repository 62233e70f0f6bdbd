"""Mark the errors of texts with a metric: its head, or the rule of its plan where it has none."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from textmover.explaining.words import TokenWords, words_of_texts
from textmover.modules.error_spans.head import (
    ErrorCalibration,
    ErrorLogits,
    error_calibration,
    error_logits,
    errors_entry,
)
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.reliability_flags import side_flags
from textmover.modules.tokens.text_arguments import References, Sources, Texts, listed_texts, normalize_references
from textmover.scoring.error_spans.spans import error_spans, is_punctuation, lacks_words, whole_words
from textmover.scoring.scorer_statistics import check_fitted, check_sources
from textmover.types import (
    InputError,
    MarkedTexts,
    SegmentMetric,
    Signature,
    SourcedReferences,
    TextErrors,
    TokenEmbeddings,
    compared_texts,
    plural,
)
from textmover.types.text_words import APOSTROPHES

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

logger = logging.getLogger(__name__)

WARNINGS = {
    "empty": "had no words on one side, so that any words of the other are errors",
    "truncated": "had more words than the encoder reads: errors behind the cut are not seen",
}
"""Meanings of flags that differ from those for scores."""

WINDOW = 2048  # segments worked on at a time


class _Odds(NamedTuple):
    """Log-odds of the tokens of a hypothesis ``[N]``, its gaps ``[N + 1]``, and severities ``[N, 3]``."""

    wrong: np.ndarray
    missing: np.ndarray
    severity: np.ndarray | None

    def calibrated(self, by: ErrorCalibration) -> _Odds:
        """Log-odds whose probabilities are shares of errors on held-back texts, with the severities if learned."""
        (scale, offset), (gap_scale, gap_offset) = by.scales
        severity = self.severity if by.graded else None
        return _Odds(scale * self.wrong + offset, gap_scale * self.missing + gap_offset, severity)

    @property
    def mass(self) -> float:
        """Expected number of errors."""
        return float(_probability(self.wrong).sum() + _probability(self.missing).sum())


def mark_errors(
    scorer: Scorer, hypotheses: Texts, references: References | None = None, sources: Sources | None = None
) -> MarkedTexts:
    """Mark the errors of hypotheses; of several references, that counts which leaves the fewest errors."""
    hypotheses = listed_texts(hypotheses, "hypotheses")
    grouped = normalize_references(hypotheses, references, sources)
    _checked(scorer.metric)
    if sources is not None:
        check_sources(scorer.metric)
    scorer = scorer.for_call(hypotheses, grouped)
    check_fitted(scorer.metric)
    return mark_fitted(scorer, hypotheses, grouped)


def mark_fitted(
    scorer: Scorer, hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, warn: bool = True
) -> MarkedTexts:
    """Mark errors with the statistics as they are; see :func:`mark_errors`."""
    scorer = scorer.frozen()
    metric = scorer.metric
    compared = compared_texts(metric, references)
    of_sides = side_flags(hypotheses, compared, getattr(metric, "languages", ()))
    compared = [one.judging(mark) for one, mark in zip(compared, of_sides["copied"], strict=True)]
    texts: list[TextErrors] = []
    for start in range(0, len(hypotheses), WINDOW):
        rows = slice(start, start + WINDOW)
        flags = {name: marked[rows] for name, marked in of_sides.items()}
        texts += _marked(scorer, hypotheses[rows], compared[rows], flags)
    counts = Counter(name for one in texts for name in one.flags)
    if warn:
        warn_marked(scorer, counts)
    entries = {**scorer.signature.compared(metric, references).entries, "errors": errors_entry(_checked(metric))}
    return MarkedTexts(tuple(texts), Signature(entries), counts)


def warn_marked(scorer: Scorer, counts: Mapping[str, int]) -> None:
    """Warn of texts that were out of the ordinary, by kind."""
    scorer.warn({name: number for name, number in counts.items() if name not in WARNINGS})
    for name, sentence in WARNINGS.items():
        if counts.get(name):
            logger.warning("%s %s.", plural(counts[name], "text"), sentence)


def marks_errors(metric: SegmentMetric) -> bool:
    """Return whether a metric can mark errors: a transport metric whose head, if it has one, has learned."""
    return isinstance(metric, MetricModel) and (metric.error_head is None or metric.error_head.fitted.item() > 0)


def _checked(metric: SegmentMetric) -> MetricModel:
    """Return a metric that matches words; refuse others, and one whose head has learned nothing."""
    if not isinstance(metric, MetricModel):
        raise InputError(
            f"Expected a transport metric to mark errors, but got a {type(metric).__name__}, which does not match "
            "words: choose a released metric or a preset such as twmd (`textmover list`)."
        )
    if not marks_errors(metric):
        raise InputError(
            "Expected a head that learned to mark errors, but got a new one: leave `mark_errors` out to mark by the "
            "plan, or train the head (configs/errors.yaml)."
        )
    return metric


def _marked(
    scorer: Scorer, hypotheses: Sequence[str], compared: Sequence[SourcedReferences], of_sides: dict[str, np.ndarray]
) -> list[TextErrors]:
    metric = _checked(scorer.metric)
    pairs = [(one, text) for one, texts in zip(hypotheses, compared, strict=True) for text in texts.texts]
    with scorer.engine() as engine:
        odds, flags = engine.read_pairs(pairs, functools.partial(_read, metric))
    words = words_of_texts(metric, metric.tokenize(list(hypotheses)), hypotheses)
    references, sources = (error_calibration(metric, side) for side in (0, 1))
    found = []
    place = 0
    for row, (text, texts) in enumerate(zip(hypotheses, compared, strict=True)):
        several = [one.calibrated(references) for one in odds[place : place + len(texts)]]
        # A source says less than a reference: their mean marks worse than the reference alone.
        side = min(several, key=lambda one: one.mass, default=None)
        scale = sources if side is None else references
        side = odds[place].calibrated(sources) if side is None else side
        rows = range(place, place + len(texts.texts))
        flagged = {name for name, marked in flags.items() if marked[rows].any()}
        flagged |= {name for name, marked in of_sides.items() if marked[row]}
        flagged |= set() if several else {"unreferenced"}
        empty = is_punctuation(text, 0, len(text)) or not any(one.strip() for one in texts.texts)
        flagged |= {"empty"} if empty else set()
        bare = lacks_words(text, texts.texts)
        found.append(_errors(text, words[row], side, scale.thresholds, tuple(sorted(flagged)), bare))
        place = rows.stop
    return found


def _read(metric: MetricModel, hypotheses: TokenEmbeddings, others: TokenEmbeddings) -> list[_Odds]:
    """Log-odds of the errors of each hypothesis of a batch; those of no ordinary token are minus infinity.

    A hypothesis without words lacks all of the other text.
    """
    logits: ErrorLogits = error_logits(metric, hypotheses, others)
    wrong = logits.wrong.masked_fill(~logits.present | logits.first, -np.inf).double().cpu().numpy()
    missing = logits.missing.masked_fill(~logits.between, -np.inf).double().cpu().numpy()
    words = others.ordinary
    missing[(~logits.present.any(dim=1) & words.any(dim=1)).cpu().numpy(), 0] = np.inf
    severity = None if logits.severity is None else logits.severity.softmax(dim=2).double().cpu().numpy()
    lengths = hypotheses.mask.sum(dim=1).tolist()
    return [
        _Odds(wrong[row, :length], missing[row, : length + 1], None if severity is None else severity[row, :length])
        for row, length in enumerate(lengths)
    ]


def _probability(odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-odds))


def _errors(
    text: str, words: TokenWords, odds: _Odds, thresholds: tuple[float, float], flags: tuple[str, ...], bare: bool
) -> TextErrors:
    """Join tokens to words, each as wrong as the worst of its tokens, and mark the errors of a text.

    An apostrophe is as wrong as the less wrong one of the parts beside it, so that a word like "don't" is one error.
    """
    places = [place for place, span in enumerate(words.spans) if span is not None]
    spans, numbers = whole_words(text, [span for span in words.spans if span is not None])
    if not places:
        flags, bare = tuple(sorted({*flags, "empty"})), True
        chances = np.zeros(0), _probability(odds.missing[:1])
        return TextErrors(text, error_spans(text, (), *chances, thresholds, bare=bare), (), *chances, flags)
    of_token, number = words.of_token, dict(zip(places, numbers, strict=True))
    tokens = [token for token, word in enumerate(of_token.tolist()) if word in number]
    owners = np.array([number[of_token[token]] for token in tokens])
    firsts = np.searchsorted(owners, np.arange(len(spans)))
    wrong = np.maximum.reduceat(odds.wrong[tokens], firsts)
    for place, (start, end) in enumerate(spans[1:-1], start=1):
        if text[start:end] in APOSTROPHES and spans[place - 1][1] == start and spans[place + 1][0] == end:
            wrong[place] = max(wrong[place], min(wrong[place - 1], wrong[place + 1]))
    missing = np.append(odds.missing[np.array(tokens)[firsts]], odds.missing[tokens[-1] + 1])
    severity, sizes = odds.severity, np.bincount(owners)[:, None]
    severities = None if severity is None else np.add.reduceat(severity[tokens], firsts) / sizes
    chances = _probability(wrong), _probability(missing)
    marks = error_spans(text, spans, *chances, thresholds, severities, bare=bare)
    return TextErrors(text, marks, spans, *chances, flags)
