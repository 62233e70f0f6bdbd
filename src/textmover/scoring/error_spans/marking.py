"""Mark the errors of texts with a metric's head, or with a rule of its plan if it has none."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from textmover.explaining.word_matches import TokenWords, words_of_texts
from textmover.modules.error_spans.head import ErrorCalibration, error_calibration, error_logits, errors_entry
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.text_arguments import References, Sources, Texts, listed_texts, normalize_references
from textmover.modules.tokens.text_flags import side_flags
from textmover.modules.tokens.weighting import marked_foreign
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
from textmover.types.word_splitting import APOSTROPHES, legible

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

logger = logging.getLogger(__name__)

WARNINGS = {
    "empty": "had no words on one side, so that any words of the other are errors",
    "truncated": "had more words than the encoder reads: errors behind the cut are not seen",
}
"""Warnings of flags whose meaning differs from that for scores."""

WINDOW = 2048  # segments processed at a time


class _Odds(NamedTuple):
    """Log-odds of errors for the tokens of a hypothesis ``[N]`` and its gaps ``[N + 1]``, and severities ``[N, 3]``."""

    wrong: np.ndarray
    missing: np.ndarray
    severity: np.ndarray | None

    def calibrated(self, calibration: ErrorCalibration) -> _Odds:
        """Return log-odds calibrated on held-back texts; drop severities if they were not learned."""
        (scale, offset), (gap_scale, gap_offset) = calibration.scales
        severity = self.severity if calibration.graded else None
        return _Odds(scale * self.wrong + offset, gap_scale * self.missing + gap_offset, severity)

    @property
    def mass(self) -> float:
        """Expected number of errors."""
        return float(_probability(self.wrong).sum() + _probability(self.missing).sum())


def mark_errors(
    scorer: Scorer, hypotheses: Texts, references: References | None = None, sources: Sources | None = None
) -> MarkedTexts:
    """Mark the errors of hypotheses, each against the reference that yields the fewest errors."""
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
    """Mark errors with the present statistics; see :func:`mark_errors`."""
    scorer = scorer.frozen()
    metric = scorer.metric
    compared = compared_texts(metric, references)
    flags_of_sides = side_flags(hypotheses, compared, metric)
    compared = [segment.judging(mark) for segment, mark in zip(compared, flags_of_sides["copied"], strict=True)]
    texts: list[TextErrors] = []
    for start in range(0, len(hypotheses), WINDOW):
        rows = slice(start, start + WINDOW)
        flags = {name: marked[rows] for name, marked in flags_of_sides.items()}
        texts += _marked(scorer, hypotheses[rows], compared[rows], flags)
    counts = Counter(name for marked_text in texts for name in marked_text.flags)
    if warn:
        warn_marked(scorer, counts)
    entries = {**scorer.signature.compared(metric, references).entries, "errors": errors_entry(_checked(metric))}
    return MarkedTexts(tuple(texts), Signature(entries), counts)


def warn_marked(scorer: Scorer, counts: Mapping[str, int]) -> None:
    """Log one warning per flag with the number of flagged texts."""
    scorer.warn({name: number for name, number in counts.items() if name not in WARNINGS})
    for name, sentence in WARNINGS.items():
        if counts.get(name):
            logger.warning("%s %s.", plural(counts[name], "text"), sentence)


def can_mark_errors(metric: SegmentMetric) -> bool:
    """Return whether a metric can mark errors: a transport metric without a head, or with a trained one."""
    return isinstance(metric, MetricModel) and (metric.error_head is None or metric.error_head.fitted.item() > 0)


def _checked(metric: SegmentMetric) -> MetricModel:
    """Return the metric if it can mark errors, else raise an error."""
    if not isinstance(metric, MetricModel):
        raise InputError(
            f"Expected a transport metric to mark errors, but got a {type(metric).__name__}, which does not match "
            "words: choose a released metric or a preset such as twmd (`textmover list`)."
        )
    if not can_mark_errors(metric):
        raise InputError(
            "Expected a head that learned to mark errors, but got a new one: leave `mark_errors` out to mark by the "
            "plan, or train the head (configs/errors.yaml)."
        )
    return metric


def _marked(
    scorer: Scorer, hypotheses: Sequence[str], compared: Sequence[SourcedReferences], side_marks: dict[str, np.ndarray]
) -> list[TextErrors]:
    metric = _checked(scorer.metric)
    pairs = [(hypothesis, text) for hypothesis, texts in zip(hypotheses, compared, strict=True) for text in texts.texts]
    with scorer.engine() as engine:
        odds, flags = engine.read_pairs(pairs, functools.partial(_read, metric))
    tokens = metric.tokenize(list(hypotheses))
    words, foreign = words_of_texts(metric, tokens, hypotheses), marked_foreign(tokens)
    references, sources = (error_calibration(metric, side) for side in (0, 1))
    marked_texts = []
    start = 0
    for row, (text, texts) in enumerate(zip(hypotheses, compared, strict=True)):
        reference_odds = [odds_of_pair.calibrated(references) for odds_of_pair in odds[start : start + len(texts)]]
        # A source is less informative than a reference: averaging both marks worse than the reference alone.
        chosen = min(reference_odds, key=lambda odds_of_pair: odds_of_pair.mass, default=None)
        scale = sources if chosen is None else references
        chosen = odds[start].calibrated(sources) if chosen is None else chosen
        rows = range(start, start + len(texts.texts))
        flagged = {name for name, marked in flags.items() if marked[rows].any()}
        flagged |= {name for name, marked in side_marks.items() if marked[row]}
        flagged |= set() if reference_odds else {"unreferenced"}
        flagged |= {"off target"} if foreign[row] else set()
        empty = is_punctuation(text, 0, len(text)) or not any(map(legible, texts.texts))
        flagged |= {"empty"} if empty else set()
        bare = lacks_words(text, texts.texts) or bool(foreign[row])
        marked_texts.append(_errors(text, words[row], chosen, scale.thresholds, tuple(sorted(flagged)), bare))
        start = rows.stop
    return marked_texts


def _read(metric: MetricModel, hypotheses: TokenEmbeddings, compared: TokenEmbeddings) -> list[_Odds]:
    """Return log-odds of the errors of each hypothesis; minus infinity for tokens that are not ordinary.

    A hypothesis without words misses all words of the other text; in one outside the target language all are wrong.
    """
    logits = error_logits(metric, hypotheses, compared)
    foreign = logits.present & marked_foreign(hypotheses)[:, None]
    marks = logits.wrong.masked_fill(~logits.present | logits.first, -np.inf).masked_fill(foreign, np.inf)
    wrong = marks.double().cpu().numpy()
    missing = logits.missing.masked_fill(~logits.between, -np.inf).double().cpu().numpy()
    words = compared.ordinary
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
    """Join tokens to words, each with the largest log-odds of its tokens, and mark the errors of a text.

    An apostrophe gets at least the lower log-odds of its two neighbours, so that a word like "don't" is one error.
    """
    indices = [index for index, span in enumerate(words.spans) if span is not None]
    spans, word_indices = whole_words(text, [span for span in words.spans if span is not None])
    if not indices:
        flags, bare = tuple(sorted({*flags, "empty"})), True
        probabilities = np.zeros(0), _probability(odds.missing[:1])
        return TextErrors(text, error_spans(text, (), *probabilities, thresholds, bare=bare), (), *probabilities, flags)
    word_of_token, index_of = words.of_token, dict(zip(indices, word_indices, strict=True))
    tokens = [token for token, word in enumerate(word_of_token.tolist()) if word in index_of]
    owners = np.array([index_of[word_of_token[token]] for token in tokens])
    firsts = np.searchsorted(owners, np.arange(len(spans)))
    wrong = np.maximum.reduceat(odds.wrong[tokens], firsts)
    for index, (start, end) in enumerate(spans[1:-1], start=1):
        if text[start:end] in APOSTROPHES and spans[index - 1][1] == start and spans[index + 1][0] == end:
            wrong[index] = max(wrong[index], min(wrong[index - 1], wrong[index + 1]))
    missing = np.append(odds.missing[np.array(tokens)[firsts]], odds.missing[tokens[-1] + 1])
    severity, sizes = odds.severity, np.bincount(owners)[:, None]
    severities = None if severity is None else np.add.reduceat(severity[tokens], firsts) / sizes
    probabilities = _probability(wrong), _probability(missing)
    marks = error_spans(text, spans, *probabilities, thresholds, severities, bare=bare)
    return TextErrors(text, marks, spans, *probabilities, flags)
