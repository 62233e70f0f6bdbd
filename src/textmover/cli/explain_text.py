"""An explanation as text: score, values, words, trees."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from textmover.cli.console import print_table

if TYPE_CHECKING:
    from textmover.scoring.explanation import ExplainedText, ExplainedTrees, Explanation, WordPair

__all__ = ["print_explanation"]

FLAGS = {
    "empty": "a side has nothing to match",
    "truncated": "a text is longer than the encoder allows and was cut: words behind the cut are not shown",
    "unweighted": "all idf weights of a text are 0: every word weighs the same",
    "undefined": "a self-similarity is 0 or below: the value is 0",
    "long": "a text has so many words that the trees were compared in stretches",
    "not converged": "the plan did not converge: raise `max_iterations`, or the temperature",
}


def print_explanation(found: Explanation) -> None:
    """Print an explanation on standard output."""
    several = len(found.reference_scores) > 1
    _say(f"hypothesis  {readable(found.hypothesis.text)}")
    number = f" {found.chosen + 1}" if several else ""
    _say(f"reference{number}{' ' * max(1, 3 - len(number))}{readable(found.reference.text)}")
    _say(f"score       {found.score:.4f}  ({found.steps[-1].how})")
    if several:
        listed = ", ".join(f"{value:.4f}" for value in found.reference_scores)
        _say(f"references  {listed}: this is the best; all together {found.segment_score:.4f}")
    for flag in found.flags:
        _say(f"note        {FLAGS.get(flag, flag)}")
    steps = found.steps[:-1]
    if steps:
        _say("")
        print_table(("value", "", "what it is"), [(name, f"{value:.4f}", how) for name, value, how in steps],
                    numbers=("",), narrow=("value", ""))  # fmt: skip
    _say("")
    _print_words(found)
    if found.trees is not None:
        _say("")
        _print_trees(found.trees)


def readable(text: str) -> str:
    r"""A text on one line, control characters written as escapes, so that none reaches a terminal.

    Example:
        >>> readable("a\tb\x1b[31m")
        'a b\\x1b[31m'
    """
    return "".join(
        one if unicodedata.category(one) not in ("Cc", "Cs") else one.encode("unicode_escape").decode()
        for one in " ".join(text.split())
    )


def _print_words(found: Explanation) -> None:
    """Which words belong together, and which are left."""
    words, others = found.hypothesis, found.reference
    if found.pairs and found.pairs[0].penalty is not None:
        rows = [
            (
                _word(words, one.hypothesis),
                _word(others, one.reference),
                f"{one.similarity:.2f}",
                f"{one.penalty:.2f}",
                f"{one.mass:.3f}",
            )
            for one in found.pairs
        ]
        headers = ("word", "aligned with", "cosine", "penalty", "flow")
        print_table(headers, rows, numbers=headers[2:])
    elif found.pairs:
        drawn = found.matches[-1].plan.sum(axis=0)
        partners = [
            (_word(words, column), ", ".join(_partner(others, one, drawn[column]) for one in group))
            for column, group in groupby(found.pairs, key=lambda one: one.hypothesis)
        ]
        print_table(("word", "draws on (cosine, share of its mass)"), partners, narrow=("word",))
    _say_words("Not in the reference: ", words, found.unmatched_hypothesis)
    _say_words("Not in the hypothesis: ", others, found.unmatched_reference)


def _partner(others: ExplainedText, pair: WordPair, drawn: float) -> str:
    return f"{_word(others, pair.reference)} ({pair.similarity:.2f}, {pair.mass / drawn:.0%})"


def _print_trees(trees: ExplainedTrees) -> None:
    """What becomes of the words on the way from tree to tree."""
    if not trees.largest:
        _say("Trees: none to compare, since a side has no words")
        return
    counts = {kind: sum(one.kind == kind for one in trees.edits) for kind in ("kept", "changed", "deleted", "inserted")}
    listed = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    _say(f"Trees, from the reference to the hypothesis: {listed}; cost {trees.distance:.2f} of {trees.largest:.2f}")
    rows = [
        (
            one.kind,
            "" if one.reference is None else readable(trees.reference.words[one.reference]),
            "" if one.hypothesis is None else readable(trees.hypothesis.words[one.hypothesis]),
            f"{one.cost:.2f}",
        )
        for one in sorted(trees.edits, key=lambda one: one.kind != "kept")
    ]
    if rows:
        print_table(("node", "reference", "hypothesis", "cost"), rows, numbers=("cost",))


def _word(text: ExplainedText, place: int) -> str:
    return readable(text.words[place])


def _say_words(what: str, text: ExplainedText, places: Iterable[int]) -> None:
    words: Sequence[str] = [_word(text, place) for place in places]
    if words:
        _say(what + ", ".join(words))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
