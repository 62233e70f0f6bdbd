"""Sentences and rows of an explanation that all its views share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.markdown import one_line
from textmover.report.figures.scales import MINUS, signed

if TYPE_CHECKING:
    from textmover.report.explanation.values import ExplainedTrees, Explanation

FLAGS = {
    "empty": "a side has nothing to match",
    "truncated": "a text is longer than the encoder allows and was cut: words after the cut are not read",
    "unknown": "the encoder does not know more than a tenth of a text's tokens: the score means little",
    "script": "a text is in a script that the metric does not support: the score means little",
    "language": "a text does not look English (the metric was made for English): the score means little",
    "repetition": "the hypothesis repeats one phrase, which can score high",
    "copied": "the hypothesis is its source, copied: where there is a reference, that alone judges it",
    "untranslated": "the hypothesis is in the language of its source: the score means little",
    "fallback": "a reference or a source is missing: the other stands in for it",
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
