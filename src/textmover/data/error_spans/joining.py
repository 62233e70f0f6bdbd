"""Marked segments joined to longer texts, and references that lost words: errors that few translations have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from textmover.perturbations.phrases import NEGATIVE, keyed_random
from textmover.types import MarkedSegment
from textmover.types.error_spans import ErrorSpan
from textmover.types.text_words import text_words

MOST = 8
"""Most segments that are joined."""

CHANGED = 0.2
"""Share of the joined texts that lack a segment, and of those that hold one twice."""

NEGATIONS = NEGATIVE | {
    "nicht", "kein", "keine", "keinen", "keiner", "nie", "не", "nu", "不", "没", "未", "无", "非", "别",
}  # fmt: skip
"""Words that are lost in half of the texts that have one."""


def joined_segments(segments: Sequence[MarkedSegment], share: float, seed: int) -> list[MarkedSegment]:
    """Join neighbours, two to eight of them, so that a share of the texts are longer ones.

    A fifth of these lack one of their segments, whose place is a critical error, and a fifth have one twice, whose
    second copy is a major error.

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
        group = segments[place : place + count]
        found.append(_joined(group, rng) if len(group) > 1 else group[0])
        place += count
    return found


def _joined(group: Sequence[MarkedSegment], rng: Random) -> MarkedSegment:
    first, copies = group[0], [1] * len(group)
    draw = rng.random()
    if draw < 2 * CHANGED:
        copies[rng.randrange(len(group))] = 0 if draw < CHANGED else 2
    texts, errors, words, start = list[str](), list[ErrorSpan](), list[tuple[int, int]](), 0
    for one, count in zip(group, copies, strict=True):
        if not count:
            errors.append(ErrorSpan(max(start - 1, 0), max(start - 1, 0), "critical"))
        for copy in range(count):
            moved = [replace(error, start=error.start + start, end=error.end + start) for error in one.errors]
            errors += [ErrorSpan(start, start + len(one.hypothesis), "major")] if copy else moved
            words += [(low + start, high + start) for low, high in one.words or ()]
            texts.append(one.hypothesis)
            start += len(one.hypothesis) + 1
    together = " ".join(one.references[0] for one in group if one.references)
    return replace(
        first,
        hypothesis=" ".join(texts),
        errors=tuple(errors),
        references=(together,) if together else (),
        source=None if any(one.source is None for one in group) else " ".join(one.source or "" for one in group),
        words=None if any(one.words is None for one in group) else tuple(words),
        graded=all(one.graded for one in group),
    )


def with_lost_words(segments: Sequence[MarkedSegment], share: float, seed: int) -> list[MarkedSegment]:
    """Let the reference stand for a share of the texts, without one of its words, whose place is the only error.

    The word is a negation in half of the texts that have one. Words are those of
    :func:`~textmover.types.text_words.text_words`, so that scripts without spaces lose letters.

    Example:
        >>> one = MarkedSegment("他在这。", (), ("他不在。",))
        >>> lost = with_lost_words([one], 1.0, 2)[0]
        >>> lost.hypothesis, [(error.start, error.end) for error in lost.errors]
        ('他在。', [(1, 1)])
    """
    rng = keyed_random(f"lost {seed}")
    return [_lost(one, rng) if rng.random() < share and one.references else one for one in segments]


def _lost(one: MarkedSegment, rng: Random) -> MarkedSegment:
    text = one.references[0]
    places = [(low, high) for low, high in text_words(text) if text[low].isalnum()]
    if len(places) < 2:
        return one
    negations = [place for place in places if text[slice(*place)].lower() in NEGATIONS]
    low, high = rng.choice(negations if negations and rng.random() < 0.5 else places)
    left, right = text[:low].rstrip(" "), text[high:].lstrip(" ")
    kept = left + (" " if text[:low].endswith(" ") and right[:1] not in ".,;:!?)”" else "") + right
    words = text_words(kept)
    if not any(len(left) in word for word in words):  # letters around a lost one made one word
        return one
    return replace(one, hypothesis=kept, errors=(ErrorSpan(len(left), len(left), "major"),), words=words, graded=False)
