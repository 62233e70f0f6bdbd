"""Shared building blocks of explanation views: word grids, sentences and tree edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from textmover.markdown_escaping import one_line
from textmover.report.figures.evaluation_plots import shortened
from textmover.report.figures.scales import MINUS, signed
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.report.explanation.explanations import ExplainedTrees, Explanation

SideName = Literal["hypothesis", "reference"]
SIDES: tuple[SideName, SideName] = ("hypothesis", "reference")

MOST_WORDS = 60  # maximum rows or columns of a figure; longer texts are grouped into chunks of words
LONGEST_LABEL = 18  # maximum characters of a label


class Line(NamedTuple):
    """A row or column: a word or a chunk of words."""

    label: str  # the word, or the first word of a chunk
    first: int  # index of that word in its text
    unmatched: bool  # whether none of its words has a counterpart
    special: bool  # whether it is a special token, or has no weight
    adds: float  # contribution of its words to the score
    blank: bool = False  # whether its words are neither matched nor compared, so that cosines are missing


class Grid(NamedTuple):
    """Rows, columns and values of the figure."""

    rows: tuple[Line, ...]  # words of the reference
    columns: tuple[Line, ...]  # words of the hypothesis
    similarity: np.ndarray  # cosines ``[rows, columns]``; for chunks, the mean over words of their best match's cosine
    plans: dict[str, np.ndarray]  # transported mass ``[rows, columns]``, as a fraction of the total, by value name
    words_to_a_row: int  # words per row
    words_to_a_column: int  # words per column


def grid_of(found: Explanation, plan: str | None = None) -> Grid:
    """Build the grid of an explanation, at most :data:`MOST_WORDS` rows and columns, with one plan or all plans."""
    chunks = [stretches(len(text), MOST_WORDS) for text in (found.reference, found.hypothesis)]
    similarity = found.similarity
    plans = {one.name: one.plan for one in found.matches if plan in (None, one.name)}
    if found.matches and not plans:
        names = " or ".join(repr(one.name) for one in found.matches)
        raise InputError(f"Expected `plan` to be {names}, but got {plan!r}: choose one of them.")
    if all(chunks):
        rows, columns = ([one.start for one in side] for side in chunks)
        plans = {name: np.add.reduceat(np.add.reduceat(one, rows), columns, axis=1) for name, one in plans.items()}
        # The mean over the words of both chunks of their best match in the other chunk.
        heights, widths = (np.array(list(map(len, side))) for side in chunks)
        down = np.add.reduceat(np.maximum.reduceat(similarity, columns, axis=1), rows) / heights[:, None]
        across = np.add.reduceat(np.maximum.reduceat(similarity, rows), columns, axis=1) / widths
        similarity = (down + across) / 2
    lines = _lines(found, "reference", chunks[0]), _lines(found, "hypothesis", chunks[1])
    steps = [max(map(len, one), default=1) for one in chunks]
    return Grid(*lines, similarity, plans, steps[0], steps[1])


def stretches(count: int, most: int) -> list[range]:
    """Split ``count`` words into at most ``most`` chunks of equal size; the last may be shorter."""
    step = max(1, -(-count // most))
    return [range(first, min(count, first + step)) for first in range(0, count, step)]


def blank_words(found: Explanation, side: SideName) -> list[bool]:
    """Return flags of words that the metric excludes from matching and comparison, such as ``[SEP]``."""
    cosines = found.similarity if side == "reference" else found.similarity.T
    return [not weight and not row.any() for weight, row in zip(found.text(side).weights, cosines, strict=True)]


def _lines(found: Explanation, side: SideName, places: Sequence[range]) -> tuple[Line, ...]:
    text, adds, unmatched = found.text(side), found.adds(side), set(found.unmatched(side))
    blank = blank_words(found, side)
    lines = []
    for words in places:
        first, several = words.start, len(words) > 1
        label = shortened(one_line(text.words[first]), LONGEST_LABEL) + (" …" if several else "")
        weighted = [one for one in words if text.weights[one] > 0]
        alone = bool(weighted) and unmatched.issuperset(weighted)
        special = not weighted or (not several and text.spans[first] is None)
        lines.append(Line(label, first, alone, special, float(adds[words].sum()), all(blank[one] for one in words)))
    return tuple(lines)


# --- sentences --------------------------------------------------------------------------------------------------------

FLAGS = {
    "empty": "a side has nothing to match",
    "truncated": "a text is longer than the encoder allows and was cut: words after the cut are not read",
    "unknown": "more than a tenth of a text's tokens are unknown to the encoder: the score means little",
    "script": "a text is in a script that the metric does not support: the score means little",
    "language": "a text does not look English (the metric was made for English): the score means little",
    "look-alikes": "some signs only look like plain text, such as ligatures: the encoder reads other words",
    "repetition": "the hypothesis repeats one phrase, which can score high",
    "copied": "the hypothesis is a copy of its source: if a reference is given, only that judges it",
    "untranslated": "the hypothesis is in the language of its source: the score means little",
    "off target": "the hypothesis is in another language than its reference: the score means little",
    "fallback": "a reference or a source is missing: the other stands in for it",
    "unreferenced": "there is no reference: errors are marked from the source alone, which is unreliable",
    "unweighted": "all idf weights of a text are 0: every word weighs the same",
    "undefined": "a self-similarity is 0 or below: the value is 0",
    "long": "a text has so many words that the trees were compared in stretches",
    "not converged": "the plan did not converge: raise `max_iterations`, or the temperature",
}
"""Descriptions of flags by name."""


def flag_notes(found: Explanation) -> list[str]:
    """Return sentences about flags and unknown words."""
    notes = [FLAGS.get(flag, flag) for flag in found.flags]
    if (target := found.signature.entries.get("target")) and not np.any(found.hypothesis.weights):
        outside = (
            f"the hypothesis is in another language than {target}, the target language: it scores as an empty text"
        )
        notes = [outside if note == FLAGS["off target"] else note for note in notes]
    if found.unknown_words:
        notes.append(f"unknown to the encoder, matched only with the same spelling: {', '.join(found.unknown_words)}")
    return notes


def decomposition(found: Explanation, *, plain: bool = False) -> str:
    """Format the score as a sum such as ``"words 0.72 - baseline 0.13 = score 0.59"``; ``plain`` uses ASCII minus."""
    minus, parts = "-" if plain else MINUS, []
    for place, (name, value, _) in enumerate(found.terms):
        sign = "" if place == 0 and value >= 0 else f"{minus} " if value < 0 else "+ "
        parts.append(f"{sign}{name} {signed(abs(value), 4)}")
    return f"{' '.join(parts)} = score {signed(found.score, 4).replace(MINUS, minus)}"


def tree_rows(trees: ExplainedTrees, *, kept_first: bool) -> list[tuple[str, str, str, float]]:
    """Return kind, words and cost of each edit; kept words come first or last."""
    rows: list[tuple[str, str, str, float]] = []
    for one in sorted(trees.edits, key=lambda one: (one.kind == "kept") != kept_first):
        reference = "" if one.reference is None else one_line(trees.reference.words[one.reference])
        hypothesis = "" if one.hypothesis is None else one_line(trees.hypothesis.words[one.hypothesis])
        rows.append((one.kind, reference, hypothesis, one.cost))
    return rows
