"""Parts that the views of an explanation share: words as rows and columns, sentences, and rows of edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from textmover.markdown_escaping import one_line
from textmover.report.figures.scales import MINUS, signed
from textmover.report.figures.svg import shortened
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.report.explanation.explanation import ExplainedTrees, Explanation, SideName

MOST_WORDS = 60  # rows or columns of a picture; words of longer texts are drawn in stretches
LONGEST_LABEL = 18  # characters of a label


class Line(NamedTuple):
    """A row or column."""

    label: str  # a word, or the first one of a stretch
    first: int  # position of that word in its text, from 0
    unmatched: bool  # whether none of its words has a counterpart
    special: bool  # whether it is not a word of the text, or takes no part
    adds: float  # what its words add to the score
    blank: bool = False  # whether its words are neither matched nor compared, so that there are no cosines to show


class Grid(NamedTuple):
    """Rows, columns and values of the picture."""

    rows: tuple[Line, ...]  # words of the reference
    columns: tuple[Line, ...]  # words of the hypothesis
    similarity: np.ndarray  # cosines ``[rows, columns]``; of stretches the mean over their words of the closest one's
    plans: dict[str, np.ndarray]  # what is moved ``[rows, columns]``, as a share of all, by the name of its value
    words_to_a_row: int  # words that a row stands for
    words_to_a_column: int  # words that a column stands for


def grid_of(found: Explanation, plan: str | None = None) -> Grid:
    """Rows and columns, at most :data:`MOST_WORDS` of each, with the one plan that is wanted or all."""
    places = [stretches(len(text), MOST_WORDS) for text in (found.reference, found.hypothesis)]
    lines = [_lines(found, "reference", places[0]), _lines(found, "hypothesis", places[1])]
    alike = found.similarity
    plans = {one.name: one.plan for one in found.matches if plan in (None, one.name)}
    if found.matches and not plans:
        names = " or ".join(repr(one.name) for one in found.matches)
        raise InputError(f"Expected `plan` to be {names}, but got {plan!r}: choose one that there is.")
    steps = [max(map(len, one), default=1) for one in places]
    if all(places):
        starts = [[one.start for one in side] for side in places]
        if max(steps) > 1:
            alike = _alike(alike, starts, [[len(one) for one in side] for side in places])
        plans = {
            name: np.add.reduceat(np.add.reduceat(one, starts[0], axis=0), starts[1], axis=1)
            for name, one in plans.items()
        }
    return Grid(lines[0], lines[1], alike, plans, steps[0], steps[1])


def stretches(count: int, most: int) -> list[range]:
    """Stretches of as many words each, at most so many."""
    step = max(1, -(-count // most))
    return [range(first, min(count, first + step)) for first in range(0, count, step)]


def blank_words(found: Explanation, side: SideName) -> list[bool]:
    """Words that the metric leaves out, so that they were compared with nothing, as some do with ``[SEP]``."""
    cosines = found.similarity if side == "reference" else found.similarity.T
    return [not weight and not row.any() for weight, row in zip(found.text(side).weights, cosines, strict=True)]


def _lines(found: Explanation, side: SideName, places: Sequence[range]) -> tuple[Line, ...]:
    text, adds, lonely = found.text(side), found.adds(side), set(found.unmatched(side))
    blank = blank_words(found, side)
    lines = []
    for words in places:
        first, several = words.start, len(words) > 1
        label = shortened(one_line(text.words[first]), LONGEST_LABEL) + (" …" if several else "")
        taking = [one for one in words if text.weights[one] > 0]
        lines.append(
            Line(
                label,
                first,
                bool(taking) and lonely.issuperset(taking),
                not taking or (not several and text.spans[first] is None),
                float(adds[words].sum()),
                all(blank[one] for one in words),
            )
        )
    return tuple(lines)


def _alike(values: np.ndarray, starts: Sequence[Sequence[int]], sizes: Sequence[Sequence[int]]) -> np.ndarray:
    """Mean similarity of stretches: the best match of each word in the other one."""
    lengths = np.array(sizes[0])[:, None], np.array(sizes[1])[None]
    down = np.add.reduceat(np.maximum.reduceat(values, starts[1], axis=1), starts[0], axis=0) / lengths[0]
    across = np.add.reduceat(np.maximum.reduceat(values, starts[0], axis=0), starts[1], axis=1) / lengths[1]
    return np.asarray((down + across) / 2)


# --- sentences --------------------------------------------------------------------------------------------------------

FLAGS = {
    "empty": "a side has nothing to match",
    "truncated": "a text is longer than the encoder allows and was cut: words after the cut are not read",
    "unknown": "the encoder does not know more than a tenth of a text's tokens: the score means little",
    "script": "a text is in a script that the metric does not support: the score means little",
    "language": "a text does not look English (the metric was made for English): the score means little",
    "repetition": "the hypothesis repeats one phrase, which can score high",
    "copied": "the hypothesis is its source, copied: where there is a reference, that alone judges it",
    "untranslated": "the hypothesis is in the language of its source: the score means little",
    "off target": "the hypothesis is in another language than its reference: the score means little",
    "fallback": "a reference or a source is missing: the other stands in for it",
    "unreferenced": "there is no reference: errors are marked from the source alone, which is unreliable",
    "unweighted": "all idf weights of a text are 0: every word weighs the same",
    "undefined": "a self-similarity is 0 or below: the value is 0",
    "long": "a text has so many words that the trees were compared in stretches",
    "not converged": "the plan did not converge: raise `max_iterations`, or the temperature",
}
"""Descriptions of flags, by their names in scores."""


def flag_notes(found: Explanation) -> list[str]:
    """Sentences about what is out of the ordinary."""
    notes = [FLAGS.get(flag, flag) for flag in found.flags]
    if found.unknown_words:
        notes.append(f"unknown to the encoder, matched only with the same spelling: {', '.join(found.unknown_words)}")
    return notes


def signed_terms(found: Explanation) -> list[tuple[str, float]]:
    """Terms of the score: all words together, and each remainder by its name."""
    return [("words", found.by_words), *((one.name, one.value) for one in found.remainders)]


def decomposition(found: Explanation, *, plain: bool = False) -> str:
    """Sum of words and remainders, such as ``"words 0.72 - baseline 0.13 = score 0.59"``; plain with a hyphen."""
    minus, parts = "-" if plain else MINUS, []
    for place, (name, value) in enumerate(signed_terms(found)):
        sign = "" if place == 0 and value >= 0 else f"{minus} " if value < 0 else "+ "
        parts.append(f"{sign}{name} {signed(abs(value), 4)}")
    return f"{' '.join(parts)} = score {signed(found.score, 4).replace(MINUS, minus)}"


def tree_rows(trees: ExplainedTrees, *, kept_first: bool) -> list[tuple[str, str, str, float]]:
    """Each edit with its words and its cost, those of kept words first or last."""
    return [
        (
            one.kind,
            "" if one.reference is None else one_line(trees.reference.words[one.reference]),
            "" if one.hypothesis is None else one_line(trees.hypothesis.words[one.hypothesis]),
            one.cost,
        )
        for one in sorted(trees.edits, key=lambda one: (one.kind == "kept") != kept_first)
    ]
