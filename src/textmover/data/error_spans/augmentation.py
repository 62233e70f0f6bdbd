"""Marked segments with other references, joined to longer texts, or with lost words: what few translations have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from textmover.data.paraphrases import CHUNK, tf_idf
from textmover.data.split import normalise_reference
from textmover.perturbations.clauses import Parse
from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.sentence_edits import NEGATIVE, keyed_random
from textmover.perturbations.severity import shipped_table
from textmover.types import InputError, MarkedSegment
from textmover.types.error_spans import ErrorSpan
from textmover.types.text_words import text_words

GIVEN, PARAPHRASE, OTHER = "given", "paraphrase", "other"  # references: of the row, in other words, of another row
SAME_MEANING = ("passive", "active", "synonym", "notation")  # perturbations that leave what is said, in their order
KIND = "reference"  # group of the kind of reference that a segment has
MOST = 8  # segments that are joined
CHANGED = 0.2  # share of the joined texts that lack a segment, and of those that hold one twice
NEGATIONS = NEGATIVE | {
    "nicht", "kein", "keine", "keinen", "keiner", "nie", "не", "nu", "不", "没", "未", "无", "非", "别",
}  # fmt: skip
"""Words that are lost in half of the texts that have one."""


def check_kinds(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Weights of kinds of references; the given ones alone if ``None``."""
    found = {GIVEN: 1.0} if weights is None else dict(weights)
    for kind, weight in found.items():
        if kind not in (GIVEN, PARAPHRASE, OTHER) or not 0 <= weight < float("inf"):
            raise InputError(
                f"Expected `references` to give weights of at least 0 to {GIVEN}, {PARAPHRASE} and {OTHER}, but got "
                f"{kind}: {weight}."
            )
    if not any(found.values()):
        raise InputError("Expected `references` to give some kind a weight above 0, but got none: name one.")
    return found


def with_references(
    segments: Sequence[MarkedSegment], weights: Mapping[str, float], seed: int, parse: Parse | None = None
) -> list[MarkedSegment]:
    """Give each segment a reference of a kind that is drawn by its weight, by the seed and the texts of the segment.

    The kind (``given``, ``paraphrase``, by rules for English, or ``other``) becomes the group ``reference``. A segment
    keeps its references where nothing else can be made. ``parse`` makes passives and actives possible.
    """
    positive = {kind: weight for kind, weight in weights.items() if weight > 0}
    drawn = [_drawn(one, positive, seed) for one in segments]
    others = closest_others(segments, [row for row, kind in enumerate(drawn) if kind == OTHER])
    found = []
    for row, (one, kind) in enumerate(zip(segments, drawn, strict=True)):
        text = reworded(one.references[0], seed, parse) if kind == PARAPHRASE else others.get(row)
        groups = {**one.groups, KIND: GIVEN if text is None else kind}
        found.append(replace(one, references=one.references if text is None else (text,), groups=groups))
    return found


def _drawn(segment: MarkedSegment, weights: Mapping[str, float], seed: int) -> str:
    if not segment.references:
        return GIVEN
    rng = keyed_random(f"reference {seed}\n{segment.hypothesis}\n{segment.references[0]}")
    return rng.choices(list(weights), list(weights.values()))[0]


def reworded(text: str, seed: int, parse: Parse | None = None) -> str | None:
    """Return an English text in other words of the same meaning, or ``None`` where no rule applies.

    Example:
        >>> reworded("We live in a beautiful house with 12 rooms.", 0)
        'We live in a lovely house with twelve rooms.'
    """
    known, table, made = all_perturbations(parse), shipped_table(), text
    for kind in SAME_MEANING:
        degrees = reversed(table.degrees(kind) if kind in known else ())
        tries = (perturb(made, kind, degree, seed=seed, perturbations=known) for degree in degrees)
        made = next((one.text for one in tries if one is not None), made)
    return None if made == text else made


def closest_others(segments: Sequence[MarkedSegment], rows: Sequence[int]) -> dict[int, str]:
    """Return the closest other reference of some segments by tf-idf, as far as one shares a word with theirs."""
    if not rows:
        return {}
    texts = [one.references[0] if one.references else "" for one in segments]
    vectors = tf_idf(texts, _words)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(map(normalise_reference, texts)))}
    own = np.array([numbers[normalise_reference(text)] for text in texts])
    found = {}
    for start in range(0, len(rows), CHUNK):
        chunk = np.array(rows[start : start + CHUNK])
        alike = np.asarray((vectors[chunk] @ vectors.T).todense())
        alike[own[chunk, None] == own] = 0
        best = alike.argmax(axis=1)
        shares = alike[np.arange(len(chunk)), best] > 0
        found.update({int(row): texts[place] for row, place in zip(chunk[shares], best[shares], strict=True)})
    return found


def _words(text: str) -> list[str]:
    words = [text[start:stop] for start, stop in text_words(text)]
    return [word for word in words if any(map(str.isalnum, word))]


def joined_segments(segments: Sequence[MarkedSegment], share: float, seed: int) -> list[MarkedSegment]:
    """Join neighbours, two to eight of them, so that a share of the texts are longer ones.

    A fifth of these lack a segment: a critical error at its place. A fifth have one twice: the copy is a major error.

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

    The word is a negation in half of the texts that have one. Scripts without spaces lose letters.

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
