"""An explanation as text: score, values, words, trees; with the words in colour on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from textmover.markdown import one_line
from textmover.report.explanation.wording import decomposition, flag_notes
from textmover.report.figures.colours import SEQUENTIAL, sequential
from textmover.terminal import console, print_table

if TYPE_CHECKING:
    from textmover.report.explanation.values import ExplainedText, ExplainedTrees, ExplanationValues, SideName, WordPair

ALONE = "underline"
"""Style of words without a counterpart, on top of their colour: it shows without colours, too."""

BAR = 12
"""Characters of the longest bar."""


def print_explanation(found: ExplanationValues) -> None:
    """Print an explanation on standard output, in colour where that is a terminal (``NO_COLOR`` turns it off)."""
    several = len(found.reference_scores) > 1
    number = f" {found.chosen + 1}" if several else ""
    _print_text("hypothesis  ", found, "hypothesis")
    _print_text(f"reference{number}{' ' * max(1, 3 - len(number))}", found, "reference")
    if found.matches and console().is_terminal:
        _print_scale(found)
    _say(f"score       {found.score:.4f}  ({found.steps[-1].how})")
    _say(f"adds up     {decomposition(found, plain=True)}")
    if several:
        listed = ", ".join(f"{value:.4f}" for value in found.reference_scores)
        _say(f"references  {listed}: this is the best; all together {found.segment_score:.4f}")
    for note in flag_notes(found):
        _say(f"note        {note}")
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


# --- the texts --------------------------------------------------------------------------------------------------------


def _print_text(what: str, found: ExplanationValues, side: SideName) -> None:
    """A text: as it is into a file or pipe, and its words in their colours on a terminal."""
    text: ExplainedText = getattr(found, side)
    stream = console()
    if not stream.is_terminal:
        _say(what + one_line(text.text))
        return
    table = Table.grid(padding=0)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(what, _coloured(found, side))
    stream.print(table)


def _coloured(found: ExplanationValues, side: SideName) -> Text:
    """The characters of a text, each in the colour of the closest matched word that it is of."""
    text: ExplainedText = getattr(found, side)
    closeness, lonely = found.closeness(side), set(found.unmatched(side))
    shades: list[tuple[float, bool] | None] = [None] * len(text.text)
    for place, span in enumerate(text.spans):
        if span is None or text.weights[place] <= 0:
            continue
        for at in range(*span):
            old, this = shades[at], (float(closeness[place]), place in lonely)
            shades[at] = this if old is None else (max(old[0], this[0]), old[1] and this[1])
    written = Text()
    for shade, group in groupby(zip(shades, text.text, strict=True), key=lambda one: one[0]):
        characters = "".join(one for _, one in group)
        gap = " " if characters[:1].isspace() and written else ""
        tail = " " if characters[-1:].isspace() and characters.strip() else ""
        written.append(gap + one_line(characters) + tail, None if shade is None else _style(*shade))
    return written


def _style(closeness: float, alone: bool = False) -> str:
    """Colours of a word; both of them, so that it can be read on any terminal."""
    step = sequential("light")[min(SEQUENTIAL - 1, int(max(0.0, closeness) * SEQUENTIAL))]
    return f"{step.text} on {step.fill}{f' {ALONE}' if alone else ''}"


def _print_scale(found: ExplanationValues) -> None:
    """Print the meaning of the colours."""
    scale = Text("            cosine 0 ", style="dim")
    for step in range(SEQUENTIAL):
        scale.append("  ", _style((step + 0.5) / SEQUENTIAL))
    scale.append(" 1   ", "dim")
    if found.unmatched_hypothesis or found.unmatched_reference:
        scale.append("underlined", f"dim {ALONE}")
        scale.append(": without a counterpart", "dim")
    console().print(scale)


# --- tables -----------------------------------------------------------------------------------------------------------


def _print_words(found: ExplanationValues) -> None:
    """Print matched words with their contributions, and those without a counterpart."""
    words, others = found.hypothesis, found.reference
    adds = found.adds("hypothesis")
    largest = float(abs(adds).max(initial=0))
    if found.pairs and found.pairs[0].penalty is not None:
        rows = [
            (
                _word(words, one.hypothesis),
                _word(others, one.reference),
                f"{one.similarity:.2f}",
                f"{one.penalty:.2f}",
                f"{one.mass:.3f}",
                _added(float(adds[one.hypothesis]), largest),
            )
            for one in found.pairs
        ]
        headers = ("word", "aligned with", "cosine", "penalty", "flow", "   adds")
        print_table(headers, rows, numbers=headers[2:5])
    elif found.pairs:
        drawn = found.matches[-1].plan.sum(axis=0)
        partners = [
            (
                _word(words, column),
                ", ".join(_partner(others, one, drawn[column]) for one in group),
                _added(float(adds[column]), largest),
            )
            for column, group in groupby(found.pairs, key=lambda one: one.hypothesis)
        ]
        print_table(("word", "draws on (cosine, share of its mass)", "   adds"), partners, narrow=("word", "   adds"))
    _say_words("Without a counterpart in the reference: ", words, found.unmatched_hypothesis)
    _say_words("Without a counterpart in the hypothesis: ", others, found.unmatched_reference)


def _added(value: float, largest: float) -> str:
    """Contribution of a word, with a bar on a terminal."""
    number = f"{value:.4f}".rjust(7)
    stream = console()
    if not stream.is_terminal or largest <= 0 or not stream.encoding.lower().startswith("utf"):
        return number
    whole, half = divmod(round(2 * BAR * abs(value) / largest), 2)
    return f"{number} {'━' * whole}{'╸' * half}"


def _partner(others: ExplainedText, pair: WordPair, drawn: float) -> str:
    return f"{_word(others, pair.reference)} ({pair.similarity:.2f}, {pair.mass / drawn:.0%})"


def _print_trees(trees: ExplainedTrees) -> None:
    """Print the edits of words from tree to tree."""
    if not trees.largest:
        _say("Trees: none to compare, since a side has no words")
        return
    counts = {kind: sum(one.kind == kind for one in trees.edits) for kind in ("kept", "changed", "deleted", "inserted")}
    listed = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    _say(f"Trees, from the reference to the hypothesis: {listed}; cost {trees.distance:.2f} of {trees.largest:.2f}")
    rows = [
        (
            one.kind,
            "" if one.reference is None else one_line(trees.reference.words[one.reference]),
            "" if one.hypothesis is None else one_line(trees.hypothesis.words[one.hypothesis]),
            f"{one.cost:.2f}",
        )
        for one in sorted(trees.edits, key=lambda one: one.kind != "kept")
    ]
    if rows:
        print_table(("node", "reference", "hypothesis", "cost"), rows, numbers=("cost",))


def _word(text: ExplainedText, place: int) -> str:
    return one_line(text.words[place])


def _say_words(what: str, text: ExplainedText, places: Iterable[int]) -> None:
    words = [f'"{_word(text, place)}"' for place in places]  # a word may be a comma
    if words:
        _say(what + ", ".join(words))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
