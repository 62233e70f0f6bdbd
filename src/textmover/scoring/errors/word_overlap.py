"""Errors by exact word overlap: the baseline of metrics that mark errors."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from textmover.scoring.errors.spans import error_spans, lacks_words
from textmover.types import MarkedTexts, Signature, TextErrors
from textmover.types.text_words import text_words

NAME = "word-overlap"


def word_overlap_errors(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> MarkedTexts:
    """Mark the words that do not stand in the reference at their place, and the gaps where it has words more.

    Words are aligned by the longest blocks that both texts share (:mod:`difflib`). The reference that shares most words
    counts.

    Args:
        hypotheses: Texts to mark.
        references: For each, one or more references.

    Example:
        >>> word_overlap_errors(["A cat sat on it ."], [["A dog sat on it there ."]])[0].marked()
        'A [cat] sat on it[] .'
    """
    texts = tuple(_marked(one, several) for one, several in zip(hypotheses, references, strict=True))
    return MarkedTexts(texts, Signature({"metric": NAME}))


def _marked(text: str, references: Sequence[str]) -> TextErrors:
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
