"""Word and gap tags, sums of each segment, and the agreement statistics computed from these sums."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.agreement.labels import label_statistics
from textmover.meta_evaluation.statistics.score_arrays import Vector, divide
from textmover.types import InputError, plural
from textmover.types.error_spans import SEVERITIES, ErrorSpan, MarkedSegment, TextErrors

Words = Sequence[tuple[int, int]]
Tags = NDArray[np.bool_]


def word_errors(errors: TextErrors, words: Words) -> tuple[Vector, Vector]:
    """Project probabilities onto words of another tokenisation of the same text.

    A word gets the largest probability of the original words that share a character with it. A gap gets that of the
    original gaps between the end of the previous word and the start of the next; 0 without any.

    Args:
        errors: Errors of the text, with probabilities of the original words and gaps.
        words: Start and end (exclusive) character position of each of ``W`` words, in order.

    Returns:
        Probabilities of the words ``[W]`` and of the gaps ``[W + 1]``.

    Example:
        >>> errors = TextErrors("don't go", (), ((0, 5), (6, 8)), np.array([0.7, 0.1]), np.array([0.0, 0.2, 0.3]))
        >>> [one.tolist() for one in word_errors(errors, [(0, 2), (2, 5), (6, 8)])]
        [[0.7, 0.7, 0.1], [0.0, 0.0, 0.2, 0.3]]
    """
    (starts, ends), (old_starts, old_ends) = _ends(words), _ends(errors.words)
    shared = (old_starts < ends[:, None]) & (starts[:, None] < old_ends)
    (low, high), (old_low, old_high) = _gaps(words), _gaps(errors.words)
    at_place = (old_low <= high[:, None]) & (low[:, None] <= old_high)
    return _largest(shared, errors.word_probabilities), _largest(at_place, errors.gap_probabilities)


def word_tags(spans: Sequence[ErrorSpan], words: Words) -> tuple[Tags, Tags]:
    """Return which words overlap a span ``[W]``, and in which gaps words are missing ``[W + 1]``.

    Example:
        >>> [one.tolist() for one in word_tags([ErrorSpan(4, 6), ErrorSpan(8, 8)], [(0, 5), (6, 8)])]
        [[True, False], [False, False, True]]
    """
    (starts, ends), (low, high) = _ends(words), _gaps(words)
    wrong, missing = np.zeros(len(starts), dtype=bool), np.zeros(len(low), dtype=bool)
    for span in spans:
        for position in (*span.gaps, span.start) if span.missing else span.gaps:
            missing |= (low <= position) & (position <= high)
        if not span.missing:
            wrong |= (starts < span.end) & (span.start < ends)
    return wrong, missing


def judged_words(gold: MarkedSegment, found: TextErrors) -> Words:
    """Return the gold words if available, else the words of the prediction, else whitespace tokens."""
    if gold.words is not None:
        return gold.words
    return found.words or [one.span() for one in re.finditer(r"\S+", gold.hypothesis)]


def overlaps(gold: Sequence[ErrorSpan], found: Sequence[ErrorSpan], words: Words) -> Tags:
    """Return which predicted spans match which gold errors ``[G, F]``; missing words may be predicted one word away."""
    starts, ends = _ends(words)
    table = np.zeros((len(gold), len(found)), dtype=bool)
    for row, error in enumerate(gold):
        low, high = float(error.start), float(error.end)
        if error.missing:
            low = max(starts[ends <= error.start], default=0.0)
            high = min(ends[starts >= error.start], default=np.inf)
        table[row] = [
            low <= span.start <= high if span.missing else span.start < high and low < span.end for span in found
        ]
    return table


def _ends(words: Words) -> tuple[Vector, Vector]:
    starts, ends = np.asarray(words, dtype=np.float64).reshape(-1, 2).T
    return starts, ends


def _gaps(words: Words) -> tuple[Vector, Vector]:
    starts, ends = _ends(words)
    return np.concatenate([[0.0], ends]), np.concatenate([starts, [np.inf]])


def _largest(chosen: Tags, probabilities: Vector) -> Vector:
    return np.where(chosen, probabilities, 0.0).max(axis=1, initial=0.0)


PARTIAL = 0.5  # credit of a character marked with a different severity
COLUMNS = 17  # sums of a segment: 4 of words, 4 of gaps, 3 of characters, 2 of the segment, 4 of spans
ERRORS = 14  # column of the number of gold errors


class SpanF1(NamedTuple):
    """Character-level agreement of predicted error spans with human annotations.

    Attributes:
        precision: Credit divided by the number of predicted characters; NaN if there are none.
        recall: Credit divided by the number of gold characters; NaN if there are none.
        f1: Harmonic mean of both; NaN without gold characters.
        segments: Mean F1 of the segments; 1 for a segment without any errors on both sides.
    """

    precision: float
    recall: float
    f1: float
    segments: float


def span_f1(gold: Sequence[MarkedSegment], found: Sequence[Sequence[ErrorSpan]]) -> SpanF1:
    """Compute the character-level F1 of the WMT span task.

    A character marked by both sides earns 1, or 0.5 if gold severities are known and differ. Missing words count as
    the character that follows. Characters are pooled over the set.

    Args:
        gold: Errors marked by people.
        found: Predicted errors of the same texts.

    Raises:
        InputError: If the numbers of texts differ, a span exceeds its text, or predicted spans overlap.

    Reference: Blain et al. (2023), Findings of the WMT 2023 Shared Task on Quality Estimation, and its scoring script
    (task 2).

    Example:
        >>> gold = [MarkedSegment("A cat sat.", (ErrorSpan(2, 6, "major"),), graded=True)]
        >>> span_f1(gold, [(ErrorSpan(2, 4, "minor"),)])
        SpanF1(precision=0.5, recall=0.25, f1=0.3333333333333333, segments=0.3333333333333333)
    """
    check_pairs(gold, found)
    sums = sum((_character_sums(one, spans) for one, spans in zip(gold, found, strict=True)), np.zeros(5))
    values = _span_figures(sums)
    return SpanF1(*(float(values[name]) for name in SPAN_FIGURES))


def check_pairs(gold: Sequence[MarkedSegment], found: Sequence[Sequence[ErrorSpan]]) -> list[TextErrors]:
    """Return predicted errors as :class:`TextErrors`; raise if texts differ, spans overlap or types are wrong."""
    if len(gold) != len(found):
        raise InputError(
            f"Expected the errors of {plural(len(gold), 'text')}, but got those of {len(found)}: mark the same texts "
            "in the same order."
        )
    errors = list[TextErrors]()
    for row, (segment, spans) in enumerate(zip(gold, found, strict=True)):
        if not isinstance(segment, MarkedSegment) or not isinstance(spans, Sequence):
            raise TypeError(
                f"Expected a MarkedSegment and a list of ErrorSpan for text {row} (counted from 0), but got a "
                f"{type(segment).__name__} and a {type(spans).__name__}: wrap the spans of each text in a list."
            )
        if isinstance(spans, TextErrors) and spans.text != segment.hypothesis:
            raise InputError(
                f"Expected the errors of text {row} (counted from 0), {segment.hypothesis[:40]!r}, but got those of "
                f"{spans.text[:40]!r}: mark the same texts in the same order."
            )
        for span in (*segment.errors, *spans):
            if not isinstance(span, ErrorSpan):
                raise TypeError(
                    f"Expected each error of text {row} (counted from 0) to be an ErrorSpan, but got "
                    f"{repr(span)[:80]}: write ErrorSpan(start, end)."
                )
            if span.end > len(segment.hypothesis):
                raise InputError(
                    f"Expected spans within the {plural(len(segment.hypothesis), 'character')} of text {row} (counted "
                    f"from 0), but got one up to {span.end}: count characters of the text as given."
                )
        for first, second in itertools.pairwise(sorted(spans, key=lambda span: (span.start, span.end))):
            if second.start < first.end or (second.start, second.end) == (first.start, first.end):
                raise InputError(
                    f"Expected found spans that do not overlap in text {row} (counted from 0), but got {first.start} "
                    f"to {first.end} and {second.start} to {second.end}: merge them or leave one out."
                )
        errors.append(spans if isinstance(spans, TextErrors) else TextErrors(segment.hypothesis, tuple(spans)))
    return errors


def segment_sums(gold: MarkedSegment, found: TextErrors) -> Vector:
    """Return the sums of one segment, ``[COLUMNS]``."""
    words = judged_words(gold, found)
    (wrong, missing), (found_wrong, found_missing) = word_tags(gold.errors, words), word_tags(found, words)
    meet = overlaps(gold.errors, found, words)
    spans = [meet.any(axis=1).sum(), len(gold.errors), meet.any(axis=0).sum(), len(found)]
    # Counts of OK as OK, OK as BAD, BAD as OK, BAD as BAD.
    tables = [np.bincount(2 * one + two, minlength=4) for one, two in ((wrong, found_wrong), (missing, found_missing))]
    return np.concatenate([*tables, _character_sums(gold, found), spans]).astype(np.float64)


def figures(sums: Vector) -> dict[str, Vector]:
    """Compute statistics from summed columns ``[…, COLUMNS]``; NaN where undefined."""
    words, gaps = (sums[..., start : start + 4].reshape(*sums.shape[:-1], 2, 2) for start in (0, 4))
    hits, errors, right, marked = np.moveaxis(sums[..., ERRORS - 1 : COLUMNS], -1, 0)
    bad, ok = _f1(words, 1), _f1(words, 0)
    return {
        "mcc_words": _matthews(words),
        "mcc_gaps": _matthews(gaps),
        "mcc": _matthews(words + gaps),
        "f1_bad": bad,
        "f1_ok": ok,
        "f1_mult": bad * ok,
        "f1_mult_tags": _f1(words + gaps, 1) * _f1(words + gaps, 0),
        **_span_figures(sums[..., 8:13]),
        "recall": divide(hits, errors),
        "precision": divide(right, marked),
    }


SPAN_FIGURES = ("span_precision", "span_recall", "span_f1", "span_f1_segments")


def _span_figures(sums: Vector) -> dict[str, Vector]:
    credit, found, gold, f1, segments = np.moveaxis(sums, -1, 0)
    f1_pooled = np.where(gold > 0, divide(2 * credit, found + gold), np.nan)
    values = divide(credit, found), divide(credit, gold), f1_pooled, divide(f1, segments)
    return dict(zip(SPAN_FIGURES, values, strict=True))


def _character_sums(gold: MarkedSegment, found: Sequence[ErrorSpan]) -> Vector:
    """Return credit, predicted characters, gold characters, F1 of the segment, and 1."""
    predicted, gold_marks = (_severities(spans, len(gold.hypothesis)) for spans in (found, gold.errors))
    same = (predicted & gold_marks) > 0 if gold.graded else np.ones(len(predicted), dtype=bool)
    credit = np.where(same, 1.0, PARTIAL)[(predicted > 0) & (gold_marks > 0)].sum()
    n_found, n_gold = (predicted > 0).sum(), (gold_marks > 0).sum()
    return np.array([credit, n_found, n_gold, 2 * credit / (n_found + n_gold) if n_found + n_gold else 1.0, 1.0])


def _severities(spans: Sequence[ErrorSpan], length: int) -> NDArray[np.int64]:
    """Return a bit mask of severities for each character and for the end of the text."""
    marks = np.zeros(length + 1, dtype=np.int64)
    for span in spans:
        marks[span.start : max(span.end, span.start + 1)] |= 1 << SEVERITIES.index(span.severity)
    return marks


def _matthews(table: Vector) -> Vector:
    both = (table.sum(axis=-1) > 0).all(axis=-1)  # people used both tags
    return np.where(both, label_statistics(table)["matthews"], np.nan)


def _f1(table: Vector, tag: int) -> Vector:
    gold, found = table[..., tag, :].sum(axis=-1), table[..., :, tag].sum(axis=-1)
    return np.where(gold > 0, divide(2 * table[..., tag, tag], gold + found), np.nan)
