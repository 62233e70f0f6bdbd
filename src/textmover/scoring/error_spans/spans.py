"""From probabilities of words and gaps to spans: the one rule by which errors are marked; exact word overlap."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from unicodedata import category

import numpy as np

from textmover.types import SEVERITIES, ErrorSpan, MarkedTexts, Severity, Signature, TextErrors
from textmover.types.text_words import APOSTROPHES, text_words

Places = tuple[tuple[int, int], ...]

MASS = {"minor": 1.0, "major": 3.0}
"""Largest sum of the probabilities of a span's words and gaps by severity, where none was learned; more is critical."""

LIKELY = 0.5  # probability from which missing words are a major error; below they are a minor one

SIGNS, SYMBOLS, QUOTES = "-‐‑–.,:/", "%‰‱٪&@#*§/\\", "`´"
"""Characters before a number that belong to it, symbols that Unicode calls punctuation, and the reverse."""


def whole_words(text: str, parts: Sequence[tuple[int, int]]) -> tuple[Places, list[int]]:
    """Join parts that touch within a word of :func:`text_words`, but apostrophes; return words, and that of each part.

    Example:
        >>> whole_words("1,200 don't", [(0, 1), (1, 2), (2, 5), (6, 9), (9, 10), (10, 11)])
        (((0, 5), (6, 9), (9, 10), (10, 11)), [0, 0, 0, 1, 2, 3])
    """
    starts = {place: start for start, end in text_words(text) for place in range(start, end)}
    found, numbers = [(-1, -1)], []
    for start, end in parts:
        first, last = found[-1]
        apart = last != start or starts.get(start, start) != starts.get(first)
        if apart or {text[first:last], text[start:end]} & set(APOSTROPHES):
            found.append((start, end))
        else:
            found[-1] = first, end
        numbers.append(len(found) - 2)
    return tuple(found[1:]), numbers


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
    """Mark the errors of a text, by place.

    A word is wrong from the first threshold up, and words are missing in a gap from the second up. Wrong words beside
    one another are one span with the gaps between and beside them. Any other gap is a span of no characters, behind the
    word before it; of those with punctuation alone between them the likeliest is marked. The confidence of a span is
    the largest of its probabilities.

    Args:
        text: The text.
        words: First character of each of ``W`` words, and that behind its last.
        wrong: Probability of each word to be wrong, ``[W]``.
        missing: Probability that words are missing before each word and behind the last, ``[W + 1]``.
        thresholds: Probabilities from which words and gaps are marked.
        severities: Probability of each severity for each word, ``[W, 3]``; by :data:`MASS` if ``None``.
        bare: Whether the text lacks all words, a critical error.

    Example:
        >>> error_spans("A cat sat", [(0, 1), (2, 5), (6, 9)], np.array([0.1, 0.9, 0.8]), np.zeros(4), (0.5, 0.5))
        (ErrorSpan(start=2, end=9, severity='major', confidence=0.9),)
    """
    ends = [words[0][0] if words else 0, *(end for _, end in words)]
    marked, gaps = np.append(wrong >= thresholds[0], False), missing >= thresholds[1]
    before = np.append(False, marked[:-1])
    found: list[ErrorSpan] = []
    for place, at in enumerate(ends):
        if gaps[place] and not marked[place] and not before[place]:
            chance = float(missing[place])
            one = ErrorSpan(at, at, "critical" if bare else "major" if chance >= LIKELY else "minor", chance)
            found[-1:] = _joined(text, found[-1], one) if found else (one,)
        if before[place] or not marked[place]:
            continue
        rows = slice(place, place + int(marked[place:].argmin()))
        missed = place + np.flatnonzero(gaps[place : rows.stop + 1])
        chances = np.concatenate([wrong[rows], missing[missed]])
        beside = tuple(ends[one] for one in missed if one in (rows.start, rows.stop))
        learned = None if severities is None else severities[rows] * wrong[rows, None]
        start, end = words[place][0], ends[rows.stop]
        severity = "minor" if is_punctuation(text, start, end) else _severity(float(chances.sum()), learned)
        severity = "critical" if bare else severity
        found.append(ErrorSpan(start, end, severity, float(chances.max()), beside))
    return tuple(found)


def _joined(text: str, last: ErrorSpan, one: ErrorSpan) -> tuple[ErrorSpan, ...]:
    """A gap behind another error; one mark where both are gaps and nothing but punctuation is between."""
    if not last.missing or not is_punctuation(text, last.start, one.start):
        return last, one
    rest, kept = sorted((last, one), key=lambda gap: gap.confidence)
    return (dataclasses.replace(kept, gaps=(*last.gaps, rest.start)),)


def lacks_words(text: str, others: Iterable[str]) -> bool:
    """Return whether a text is empty or punctuation alone, and one of the others is not."""
    return is_punctuation(text, 0, len(text)) and not all(is_punctuation(one, 0, len(one)) for one in others)


def is_punctuation(text: str, start: int, end: int) -> bool:
    """Return whether a stretch is punctuation alone, and neither sign nor point of the number behind it."""
    signs = text[end - 1 : end] in [*SIGNS] and text[end : end + 1].isnumeric()
    marks = (one for one in text[start:end] if not one.isspace())
    return not signs and all(one in QUOTES or (category(one)[0] == "P" and one not in SYMBOLS) for one in marks)


def _severity(mass: float, learned: np.ndarray | None) -> Severity:
    if learned is not None:
        return SEVERITIES[int(learned.sum(axis=0).argmax())]
    return next((name for name in SEVERITIES[:2] if mass <= MASS[name]), SEVERITIES[-1])


WORD_OVERLAP = "word-overlap"


def word_overlap_errors(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> MarkedTexts:
    """Mark the words that do not stand in the reference at their place, and the gaps where it has words more.

    Words are aligned by the longest blocks that both texts share (:mod:`difflib`). The reference that shares most words
    counts.

    Example:
        >>> word_overlap_errors(["A cat sat on it ."], [["A dog sat on it there ."]])[0].marked()
        'A [cat] sat on it[] .'
    """
    texts = tuple(_overlap(one, several) for one, several in zip(hypotheses, references, strict=True))
    return MarkedTexts(texts, Signature({"metric": WORD_OVERLAP}))


def _overlap(text: str, references: Sequence[str]) -> TextErrors:
    spans = text_words(text)
    words = [text[start:end] for start, end in spans]
    pairs = [[one[start:end] for start, end in text_words(one)] for one in references]
    matched = max(
        (difflib.SequenceMatcher(None, one, words, False) for one in pairs),
        key=difflib.SequenceMatcher.ratio,
        default=None,
    )
    wrong, missing = np.zeros(len(words)), np.zeros(len(words) + 1)
    for tag, first, last, start, end in matched.get_opcodes() if matched else ():
        if tag != "equal":
            wrong[start:end] = 1
            missing[start] = max(missing[start], last - first > end - start)
    marks = error_spans(text, spans, wrong, missing, (0.5, 0.5), bare=lacks_words(text, references))
    return TextErrors(text, marks, spans, wrong, missing)
