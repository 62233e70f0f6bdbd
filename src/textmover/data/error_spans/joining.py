"""Marked segments joined to longer texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textmover.perturbations.phrases import keyed_random
from textmover.types import MarkedSegment

MOST = 8
"""Most segments that are joined."""


def joined_segments(segments: Sequence[MarkedSegment], share: float, seed: int) -> list[MarkedSegment]:
    """Join neighbours, two to eight of them, so that a share of the texts are longer ones.

    Example:
        >>> from textmover.types import ErrorSpan
        >>> one = MarkedSegment("A cat.", (ErrorSpan(2, 5),), ("A dog.",))
        >>> joined = joined_segments([one, one], 1.0, 0)[0]
        >>> joined.hypothesis, [error.start for error in joined.errors]
        ('A cat. A cat.', [2, 9])
    """
    rng, found, place = keyed_random(f"joined {seed}"), [], 0
    while place < len(segments):
        count = rng.randint(2, MOST) if rng.random() < share else 1
        found.append(_joined(segments[place : place + count]))
        place += count
    return found


def _joined(group: Sequence[MarkedSegment]) -> MarkedSegment:
    first = group[0]
    if len(group) == 1:
        return first
    errors, words, start = [], [], 0
    for one in group:
        errors += [replace(error, start=error.start + start, end=error.end + start) for error in one.errors]
        words += [(low + start, high + start) for low, high in one.words or ()]
        start += len(one.hypothesis) + 1
    together = " ".join(one.references[0] for one in group if one.references)
    return replace(
        first,
        hypothesis=" ".join(one.hypothesis for one in group),
        errors=tuple(errors),
        references=(together,) if together else (),
        source=None if any(one.source is None for one in group) else " ".join(one.source or "" for one in group),
        words=None if any(one.words is None for one in group) else tuple(words),
        graded=all(one.graded for one in group),
    )
