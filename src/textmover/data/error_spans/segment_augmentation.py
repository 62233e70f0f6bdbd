"""Augmentation of marked segments: other references, joined texts and lost words, which translations rarely have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from textmover.data.paraphrases import CHUNK, tf_idf
from textmover.data.split import normalise_reference
from textmover.perturbations.editable_sentences import NEGATIVE, keyed_random
from textmover.perturbations.parsed_clauses import Parse
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.registry import all_perturbations
from textmover.perturbations.severity import shipped_table
from textmover.types import MarkedSegment
from textmover.types.error_spans import ErrorSpan
from textmover.types.word_splitting import text_words

GIVEN, PARAPHRASE, OTHER = "given", "paraphrase", "other"  # of the row, paraphrased, or of another row
SAME_MEANING = ("passive", "active", "synonym", "notation")  # meaning-preserving perturbations, in order of application
KIND = "reference"  # group with the kind of reference of a segment
MOST = 8  # maximum number of joined segments
CHANGED = 0.2  # share of joined texts without one of their segments, and share with one segment twice
NEGATIONS = NEGATIVE | {
    "nicht", "kein", "keine", "keinen", "keiner", "nie", "не", "nu", "不", "没", "未", "无", "非", "别",
}  # fmt: skip
"""Negations, one of which is lost in half of the texts that have one."""


def with_references(
    segments: Sequence[MarkedSegment], weights: Mapping[str, float], seed: int, parse: Parse | None = None
) -> list[MarkedSegment]:
    """Give each segment a reference of a random kind, drawn by weight from the seed and the texts of the segment.

    The kind (``given``, ``paraphrase``, by rules for English, or ``other``) becomes the group ``reference``. A segment
    keeps its references if no other can be made. ``parse`` allows paraphrases in passive or active voice.
    """
    positive = {kind: weight for kind, weight in weights.items() if weight > 0}
    kinds = [_drawn(segment, positive, seed) for segment in segments]
    others = closest_others(segments, [row for row, kind in enumerate(kinds) if kind == OTHER])
    result = []
    for row, (segment, kind) in enumerate(zip(segments, kinds, strict=True)):
        text = reworded(segment.references[0], seed, parse) if kind == PARAPHRASE else others.get(row)
        groups = {**segment.groups, KIND: GIVEN if text is None else kind}
        result.append(replace(segment, references=segment.references if text is None else (text,), groups=groups))
    return result


def _drawn(segment: MarkedSegment, weights: Mapping[str, float], seed: int) -> str:
    if not segment.references:
        return GIVEN
    rng = keyed_random(f"reference {seed}\n{segment.hypothesis}\n{segment.references[0]}")
    return rng.choices(list(weights), list(weights.values()))[0]


def reworded(text: str, seed: int, parse: Parse | None = None) -> str | None:
    """Return a paraphrase of an English text, or ``None`` if no rule applies.

    Example:
        >>> reworded("We live in a beautiful house with 12 rooms.", 0)
        'We live in a lovely house with twelve rooms.'
    """
    available, table, result = all_perturbations(parse), shipped_table(), text
    for kind in SAME_MEANING:
        degrees = reversed(table.degrees(kind) if kind in available else ())
        tries = (perturb(result, kind, degree, seed=seed, perturbations=available) for degree in degrees)
        result = next((perturbation.text for perturbation in tries if perturbation is not None), result)
    return None if result == text else result


def closest_others(segments: Sequence[MarkedSegment], rows: Sequence[int]) -> dict[int, str]:
    """Return for each given row the reference of another text that is closest by tf-idf, if it shares a word."""
    if not rows:
        return {}
    texts = [segment.references[0] if segment.references else "" for segment in segments]
    vectors = tf_idf(texts, _words)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(map(normalise_reference, texts)))}
    text_numbers = np.array([numbers[normalise_reference(text)] for text in texts])
    closest = {}
    for start in range(0, len(rows), CHUNK):
        chunk = np.array(rows[start : start + CHUNK])
        similarities = np.asarray((vectors[chunk] @ vectors.T).todense())
        similarities[text_numbers[chunk, None] == text_numbers] = 0
        best = similarities.argmax(axis=1)
        shares = similarities[np.arange(len(chunk)), best] > 0
        closest.update({int(row): texts[place] for row, place in zip(chunk[shares], best[shares], strict=True)})
    return closest


def _words(text: str) -> list[str]:
    words = [text[start:stop] for start, stop in text_words(text)]
    return [word for word in words if any(map(str.isalnum, word))]


def joined_segments(segments: Sequence[MarkedSegment], share: float, seed: int) -> list[MarkedSegment]:
    """Join two to eight neighbouring segments, so that a share of the texts are longer.

    A fifth of these lack a segment (a critical error at its position). A fifth repeat one (the copy is a major error).

    Example:
        >>> from textmover.types import ErrorSpan
        >>> one = MarkedSegment("A cat.", (ErrorSpan(2, 5),), ("A dog.",))
        >>> joined = joined_segments([one, one], 1.0, 0)[0]
        >>> joined.hypothesis, [error.start for error in joined.errors]
        ('A cat. A cat.', [2, 9])
    """
    rng, result, start = keyed_random(f"joined {seed}"), [], 0
    while start < len(segments):
        count = rng.randint(2, MOST) if rng.random() < share else 1
        group = segments[start : start + count]
        result.append(_joined(group, rng) if len(group) > 1 else group[0])
        start += count
    return result


def _joined(group: Sequence[MarkedSegment], rng: Random) -> MarkedSegment:
    first, copies = group[0], [1] * len(group)
    draw = rng.random()
    if draw < 2 * CHANGED:
        copies[rng.randrange(len(group))] = 0 if draw < CHANGED else 2
    texts, errors, words, start = list[str](), list[ErrorSpan](), list[tuple[int, int]](), 0
    for item, count in zip(group, copies, strict=True):
        if not count:
            errors.append(ErrorSpan(max(start - 1, 0), max(start - 1, 0), "critical"))
        for copy in range(count):
            moved = [replace(error, start=error.start + start, end=error.end + start) for error in item.errors]
            errors += [ErrorSpan(start, start + len(item.hypothesis), "major")] if copy else moved
            words += [(low + start, high + start) for low, high in item.words or ()]
            texts.append(item.hypothesis)
            start += len(item.hypothesis) + 1
    joined_references = " ".join(item.references[0] for item in group if item.references)
    return replace(
        first,
        hypothesis=" ".join(texts),
        errors=tuple(errors),
        references=(joined_references,) if joined_references else (),
        source=None if any(item.source is None for item in group) else " ".join(item.source or "" for item in group),
        words=None if any(item.words is None for item in group) else tuple(words),
        graded=all(item.graded for item in group),
    )


def with_lost_words(segments: Sequence[MarkedSegment], share: float, seed: int) -> list[MarkedSegment]:
    """Replace a share of the texts by their reference without one word, whose position is the only error.

    The word is a negation in half of the texts that have one. Scripts without spaces lose letters.

    Example:
        >>> one = MarkedSegment("他在这。", (), ("他不在。",))
        >>> lost = with_lost_words([one], 1.0, 2)[0]
        >>> lost.hypothesis, [(error.start, error.end) for error in lost.errors]
        ('他在。', [(1, 1)])
    """
    rng = keyed_random(f"lost {seed}")
    return [_lost(segment, rng) if rng.random() < share and segment.references else segment for segment in segments]


def _lost(item: MarkedSegment, rng: Random) -> MarkedSegment:
    text = item.references[0]
    places = [(low, high) for low, high in text_words(text) if text[low].isalnum()]
    if len(places) < 2:
        return item
    negations = [place for place in places if text[slice(*place)].lower() in NEGATIONS]
    low, high = rng.choice(negations if negations and rng.random() < 0.5 else places)
    left, right = text[:low].rstrip(" "), text[high:].lstrip(" ")
    rest = left + (" " if text[:low].endswith(" ") and right[:1] not in ".,;:!?)”" else "") + right
    words = text_words(rest)
    if not any(len(left) in word for word in words):  # the letters around a lost one form a word
        return item
    return replace(item, hypothesis=rest, errors=(ErrorSpan(len(left), len(left), "major"),), words=words, graded=False)
