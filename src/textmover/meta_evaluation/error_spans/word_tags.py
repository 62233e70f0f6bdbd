"""Tags of words and of the gaps between them, from spans and from probabilities."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.statistics.scores import Vector
from textmover.types.error_spans import ErrorSpan, MarkedSegment, TextErrors

Words = Sequence[tuple[int, int]]
Tags = NDArray[np.bool_]


def project(errors: TextErrors, words: Words) -> tuple[Vector, Vector]:
    """Project probabilities onto words of another tokenisation of the same text.

    A word is as probably wrong as the worst of the marked words that share a character with it. A gap takes the largest
    probability of the marked gaps that lie at its place, between the end of the word before it and the start of the
    next; 0 where there is none.

    Args:
        errors: Errors of the text, with the probabilities of its own words and gaps.
        words: First character of each of ``W`` words by place, and that behind its last.

    Returns:
        Probabilities of the words ``[W]`` and of the gaps ``[W + 1]``.

    Example:
        >>> errors = TextErrors("don't go", (), ((0, 5), (6, 8)), np.array([0.7, 0.1]), np.array([0.0, 0.2, 0.3]))
        >>> [one.tolist() for one in project(errors, [(0, 2), (2, 5), (6, 8)])]
        [[0.7, 0.7, 0.1], [0.0, 0.0, 0.2, 0.3]]
    """
    (starts, ends), (own_starts, own_ends) = _ends(words), _ends(errors.words)
    shared = (own_starts < ends[:, None]) & (starts[:, None] < own_ends)
    (low, high), (own_low, own_high) = _gaps(words), _gaps(errors.words)
    at_place = (own_low <= high[:, None]) & (low[:, None] <= own_high)
    return _largest(shared, errors.word_probabilities), _largest(at_place, errors.gap_probabilities)


def word_tags(spans: Sequence[ErrorSpan], words: Words) -> tuple[Tags, Tags]:
    """Return which words a span overlaps ``[W]``, and in which gaps words are missing ``[W + 1]``.

    Example:
        >>> [one.tolist() for one in word_tags([ErrorSpan(4, 6), ErrorSpan(8, 8)], [(0, 5), (6, 8)])]
        [[True, False], [False, False, True]]
    """
    (starts, ends), (low, high) = _ends(words), _gaps(words)
    wrong, missing = np.zeros(len(starts), dtype=bool), np.zeros(len(low), dtype=bool)
    for one in spans:
        if one.missing or one.gap_before:
            missing |= (low <= one.start) & (one.start <= high)
        if not one.missing:
            wrong |= (starts < one.end) & (one.start < ends)
    return wrong, missing


def judged_words(gold: MarkedSegment, found: TextErrors) -> Words:
    """Return the words that people tagged, else those of the marked text, else those between white space."""
    if gold.words is not None:
        return gold.words
    return found.words or [one.span() for one in re.finditer(r"\S+", gold.hypothesis)]


def overlaps(gold: Sequence[ErrorSpan], found: Sequence[ErrorSpan], words: Words) -> Tags:
    """Return which found spans meet which known errors ``[G, F]``; missing words may be found one word away."""
    starts, ends = _ends(words)
    table = np.zeros((len(gold), len(found)), dtype=bool)
    for row, one in enumerate(gold):
        low, high = float(one.start), float(one.end)
        if one.missing:
            low = max(starts[ends <= one.start], default=0.0)
            high = min(ends[starts >= one.start], default=np.inf)
        table[row] = [
            low <= other.start <= high if other.missing else other.start < high and low < other.end for other in found
        ]
    return table


def _ends(words: Words) -> tuple[Vector, Vector]:
    starts, ends = np.asarray(words, dtype=np.float64).reshape(-1, 2).T
    return starts, ends


def _gaps(words: Words) -> tuple[Vector, Vector]:
    """First and last place of each gap."""
    starts, ends = _ends(words)
    return np.concatenate([[0.0], ends]), np.concatenate([starts, [np.inf]])


def _largest(chosen: Tags, probabilities: Vector) -> Vector:
    return np.where(chosen, probabilities, 0.0).max(axis=1, initial=0.0)
