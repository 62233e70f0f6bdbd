"""Turn probabilities of words and gaps into error spans; exact word overlap."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from unicodedata import category

import numpy as np

from textmover.types import SEVERITIES, ErrorSpan, MarkedTexts, Severity, Signature, TextErrors
from textmover.types.word_splitting import APOSTROPHES, text_words

Places = tuple[tuple[int, int], ...]

MASS = {"minor": 1.0, "major": 3.0}
"""Maximum expected number of errors in a span by severity, if severities were not learned; above is critical."""

LIKELY = 0.5  # probability from which missing words are a major error, otherwise minor

SIGNS, SYMBOLS, QUOTES = "-‐‑–.,:/", "%‰‱٪&@#*§/\\", "`´"
"""Characters of a number that precede it, symbols that Unicode counts as punctuation, and quotes it does not."""


def whole_words(text: str, parts: Sequence[tuple[int, int]]) -> tuple[Places, list[int]]:
    """Join parts of a word of :func:`text_words`, except apostrophes; return words, and the word index of each part.

    Example:
        >>> whole_words("1,200 don't", [(0, 1), (1, 2), (2, 5), (6, 9), (9, 10), (10, 11)])
        (((0, 5), (6, 9), (9, 10), (10, 11)), [0, 0, 0, 1, 2, 3])
    """
    starts = {place: start for start, end in text_words(text) for place in range(start, end)}
    words, indices = [(-1, -1)], []
    for start, end in parts:
        first, last = words[-1]
        separate = last != start or starts.get(start, start) != starts.get(first)
        if separate or {text[first:last], text[start:end]} & set(APOSTROPHES):
            words.append((start, end))
        else:
            words[-1] = first, end
        indices.append(len(words) - 2)
    return tuple(words[1:]), indices


def error_spans(
    text: str,
    words: Sequence[tuple[int, int]],
    wrong: np.ndarray,
    missing: np.ndarray,
    thresholds: tuple[float, float],
    severities: np.ndarray | None = None,
    *,
    bare: bool = False,
) -> tuple[ErrorSpan, ...]:
    """Mark the errors of a text, in order.

    A word is wrong from the first threshold up, and words are missing in a gap from the second up. Adjacent wrong words
    form one span, with the gaps between and next to them. Any other gap is an empty span after the word before it; of
    gaps separated by punctuation only, the most probable one is marked. The confidence of a span is its largest
    probability.

    Args:
        text: The text.
        words: Start and end character of each of ``W`` words.
        wrong: Probability of each word to be wrong, ``[W]``.
        missing: Probability of missing words before each word and after the last, ``[W + 1]``.
        thresholds: Probabilities from which words and gaps are marked.
        severities: Probability of each severity for each word, ``[W, 3]``; if ``None``, :data:`MASS` decides.
        bare: Whether the text has no words at all, or none in the target language: a critical error.

    Example:
        >>> error_spans("A cat sat", [(0, 1), (2, 5), (6, 9)], np.array([0.1, 0.9, 0.8]), np.zeros(4), (0.5, 0.5))
        (ErrorSpan(start=2, end=9, severity='major', confidence=0.9),)
    """
    ends = [words[0][0] if words else 0, *(end for _, end in words)]
    marked, gaps = np.append(wrong >= thresholds[0], False), missing >= thresholds[1]
    after_wrong = np.append(False, marked[:-1])
    spans: list[ErrorSpan] = []
    for index, at in enumerate(ends):
        if gaps[index] and not marked[index] and not after_wrong[index]:
            chance = float(missing[index])
            gap = ErrorSpan(at, at, "critical" if bare else "major" if chance >= LIKELY else "minor", chance)
            spans[-1:] = _add_gap(text, spans[-1], gap) if spans else (gap,)
        if after_wrong[index] or not marked[index]:
            continue
        rows = slice(index, index + int(marked[index:].argmin()))
        gaps_of_span = index + np.flatnonzero(gaps[index : rows.stop + 1])
        probabilities = np.concatenate([wrong[rows], missing[gaps_of_span]])
        outer_gaps = tuple(ends[gap] for gap in gaps_of_span if gap in (rows.start, rows.stop))
        severity_mass = None if severities is None else severities[rows] * wrong[rows, None]
        start, end = words[index][0], ends[rows.stop]
        severity = "minor" if is_punctuation(text, start, end) else _severity(float(probabilities.sum()), severity_mass)
        severity = "critical" if bare else severity
        spans.append(ErrorSpan(start, end, severity, float(probabilities.max()), outer_gaps))
    return tuple(spans)


def _add_gap(text: str, last: ErrorSpan, gap: ErrorSpan) -> tuple[ErrorSpan, ...]:
    """Append a gap after the last error; keep only the likelier of two gaps separated by punctuation only."""
    if not last.missing or not is_punctuation(text, last.start, gap.start):
        return last, gap
    dropped, likelier = sorted((last, gap), key=lambda gap: gap.confidence)
    return (dataclasses.replace(likelier, gaps=(*last.gaps, dropped.start)),)


def lacks_words(text: str, others: Iterable[str]) -> bool:
    """Return whether a text is empty or punctuation only, and one of the others is not."""
    return is_punctuation(text, 0, len(text)) and not all(is_punctuation(one, 0, len(one)) for one in others)


def is_punctuation(text: str, start: int, end: int) -> bool:
    """Return whether a span is punctuation only, and not the sign or point of a following number."""
    signs = text[end - 1 : end] in [*SIGNS] and text[end : end + 1].isnumeric()
    characters = (one for one in text[start:end] if not one.isspace())
    return not signs and all(one in QUOTES or (category(one)[0] == "P" and one not in SYMBOLS) for one in characters)


def _severity(mass: float, severity_mass: np.ndarray | None) -> Severity:
    if severity_mass is not None:
        return SEVERITIES[int(severity_mass.sum(axis=0).argmax())]
    return next((name for name in SEVERITIES[:2] if mass <= MASS[name]), SEVERITIES[-1])


WORD_OVERLAP = "word-overlap"


def word_overlap_errors(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> MarkedTexts:
    """Mark words that are not at their position in the reference, and gaps where the reference has more words.

    Words are aligned by the longest blocks that both texts share (:mod:`difflib`), with the reference that shares most.

    Example:
        >>> word_overlap_errors(["A cat sat on it ."], [["A dog sat on it there ."]])[0].marked()
        'A [cat] sat on it[] .'
    """
    texts = tuple(_overlap(text, several) for text, several in zip(hypotheses, references, strict=True))
    return MarkedTexts(texts, Signature({"metric": WORD_OVERLAP}))


def _overlap(text: str, references: Sequence[str]) -> TextErrors:
    spans = text_words(text)
    words = [text[start:end] for start, end in spans]
    pairs = [[reference[start:end] for start, end in text_words(reference)] for reference in references]
    matcher = max(
        (difflib.SequenceMatcher(None, words_of_reference, words, False) for words_of_reference in pairs),
        key=difflib.SequenceMatcher.ratio,
        default=None,
    )
    wrong, missing = np.zeros(len(words)), np.zeros(len(words) + 1)
    for tag, first, last, start, end in matcher.get_opcodes() if matcher else ():
        if tag != "equal":
            wrong[start:end] = 1
            missing[start] = max(missing[start], last - first > end - start)
    marks = error_spans(text, spans, wrong, missing, (0.5, 0.5), bare=lacks_words(text, references))
    return TextErrors(text, marks, spans, wrong, missing)
