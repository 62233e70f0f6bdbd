"""Write explanations as text, JSON or HTML page to standard output or a file, or as figure."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from textmover.files import atomic_file, check_output, output_format
from textmover.markdown_escaping import as_unicode, one_line
from textmover.report.error_spans import print_marked, visible
from textmover.report.explanation.page import render_explanations
from textmover.report.explanation.parts import SideName, decomposition, flag_notes, tree_rows
from textmover.report.figures.colours import SEQUENTIAL, shades, step_of
from textmover.report.figures.matplotlib_figures import FORMATS as PICTURES
from textmover.report.figures.matplotlib_figures import check_matplotlib
from textmover.report.templating import check_jinja
from textmover.terminal import console, print_table
from textmover.types import fixed

if TYPE_CHECKING:
    from textmover.report.explanation.explanations import ExplainedLine, ExplainedTrees, Explanation

UNMATCHED = "underline"  # additional style of words without a counterpart, visible without colours too
BAR = 12  # length of the longest bar, in characters
LABEL = 12  # width of labels, in characters


def print_explanation(found: Explanation) -> None:
    """Print an explanation to standard output, with colours on a terminal unless ``NO_COLOR`` is set."""
    has_references = len(found.reference_scores) > 1
    _print_text("hypothesis", found, "hypothesis")
    _print_text(f"reference {found.chosen + 1}" if has_references else found.compared_with, found, "reference")
    if found.matches and console().is_terminal:
        _print_scale(found)
    if found.errors:
        print_marked(found.errors, "errors".ljust(LABEL))
    _print_line("score", f"{fixed(found.score, 4)}  ({found.steps[-1].how})")
    _print_line("adds up", decomposition(found, plain=True))
    if has_references:
        listed = ", ".join(fixed(value, 4) for value in found.reference_scores)
        _print_line("references", f"{listed}: this is the best; all together {fixed(found.segment_score or 0.0, 4)}")
    for note in flag_notes(found):
        _print_line("note", note)
    steps = [(name, fixed(value, 4), how) for name, value, how in found.steps[:-1]]
    if steps:
        sys.stdout.write("\n")
        print_table(("value", "", "what it is"), steps, numbers=("",), narrow=("value", ""))
    sys.stdout.write("\n")
    _print_words(found)
    if found.trees is not None:
        sys.stdout.write("\n")
        _print_trees(found.trees)
    if found.source is not None:
        sys.stdout.write("\n")
        print_explanation(found.source)


def _print_line(label: str, line: str) -> None:
    sys.stdout.write(f"{label.ljust(LABEL)}{line}\n")


# --- the texts --------------------------------------------------------------------------------------------------------


def _print_text(label: str, found: Explanation, side: SideName) -> None:
    label = label if len(label) < LABEL else f"{label} "
    stream = console()
    if not stream.is_terminal:
        _print_line(label, one_line(found.text(side).text))
        return
    table = Table.grid(padding=0)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(label.ljust(LABEL), _coloured(found, side))
    stream.print(table)


def _coloured(found: Explanation, side: SideName) -> Text:
    text, closeness, unmatched = found.text(side), found.closeness(side), set(found.unmatched(side))
    marks: list[tuple[float, bool] | None] = [None] * len(text.text)
    for place, span in enumerate(text.spans):
        if span is None or text.weights[place] <= 0:
            continue
        for at in range(*span):
            old, this = marks[at], (float(closeness[place]), place in unmatched)
            marks[at] = this if old is None else (max(old[0], this[0]), old[1] and this[1])
    written = Text()
    for shade, group in groupby(zip(marks, text.text, strict=True), key=lambda one: one[0]):
        characters = "".join(one for _, one in group)
        written.append(visible(characters if written else characters.lstrip()), shade and _style(*shade))
    return written


def _style(closeness: float, unmatched: bool = False) -> str:
    step = shades("sequential")[step_of(closeness)]
    return f"{step.text} on {step.fill}{f' {UNMATCHED}' if unmatched else ''}"


def _print_scale(found: Explanation) -> None:
    scale = Text(f"{' ' * LABEL}cosine 0 ", style="dim")
    for step in range(SEQUENTIAL):
        scale.append("  ", _style((step + 0.5) / SEQUENTIAL))
    scale.append(" 1   ", "dim")
    if found.unmatched_hypothesis or found.unmatched_reference:
        scale.append("underlined", f"dim {UNMATCHED}")
        scale.append(": without a counterpart", "dim")
    console().print(scale)


# --- tables -----------------------------------------------------------------------------------------------------------


def _print_words(found: Explanation) -> None:
    words, targets = ([one_line(word) for word in side.words] for side in (found.hypothesis, found.reference))
    adds = _contribution_cells(found)
    if found.pairs and found.pairs[0].penalty is not None:
        rows = []
        for one in found.pairs:
            figures = (fixed(one.similarity, 2), f"{one.penalty:.2f}", f"{one.mass:.3f}")
            rows.append((words[one.hypothesis], targets[one.reference], *figures, adds[one.hypothesis]))
        headers = ("word", "aligned with", "cosine", "penalty", "mass", "   adds")
        print_table(headers, rows, numbers=headers[2:5])
    elif found.pairs:
        drawn = found.matches[-1].plan.sum(axis=0)
        partners = []
        for column, group in groupby(found.pairs, key=lambda one: one.hypothesis):
            shares = (f"{targets[p.reference]} ({fixed(p.similarity, 2)}, {p.mass / drawn[column]:.0%})" for p in group)
            partners.append((words[column], ", ".join(shares), adds[column]))
        print_table(("word", "matched with (cosine, share of mass)", "   adds"), partners, narrow=("word", "   adds"))
    _print_unmatched(found.compared_with, words, found.unmatched_hypothesis)
    _print_unmatched("hypothesis", targets, found.unmatched_reference)


def _contribution_cells(found: Explanation) -> list[str]:
    adds, stream = found.adds("hypothesis"), console()
    largest = float(abs(adds).max(initial=0))
    numbers = [fixed(value, 4).rjust(7) for value in adds]
    if not stream.is_terminal or largest <= 0 or not stream.encoding.lower().startswith("utf"):
        return numbers
    halves = (divmod(round(2 * BAR * abs(float(value)) / largest), 2) for value in adds)
    return [f"{number} {'━' * whole}{'╸' * half}" for number, (whole, half) in zip(numbers, halves, strict=True)]


def _print_trees(trees: ExplainedTrees) -> None:
    if not trees.largest:
        sys.stdout.write("Trees: none to compare, since a side has no words\n")
        return
    counts = {kind: sum(one.kind == kind for one in trees.edits) for kind in ("kept", "changed", "deleted", "inserted")}
    listed = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    cost = f"cost {trees.distance:.2f} of {trees.largest:.2f}"
    sys.stdout.write(f"Trees, from the reference to the hypothesis: {listed}; {cost}\n")
    rows = [(*words, f"{cost:.2f}") for *words, cost in tree_rows(trees, kept_first=True)]
    if rows:
        print_table(("node", "reference", "hypothesis", "cost"), rows, numbers=("cost",))


def _print_unmatched(other: str, words: list[str], places: Iterable[int]) -> None:
    quoted = [f'"{words[place]}"' for place in places]  # quoted, since a word may be a comma
    if quoted:
        sys.stdout.write(f"Without a counterpart in the {other}: {', '.join(quoted)}\n")


FORMATS = ("text", "json", "jsonl", "html")
SUFFIXES = {".txt": "text", ".json": "json", ".jsonl": "jsonl", ".html": "html", ".htm": "html"}
"""Output format by file suffix; :data:`PICTURES` are handled separately."""


class Target(NamedTuple):
    """Output format, one of :data:`FORMATS` or ``picture``, and path; ``None`` for standard output."""

    format: str
    path: Path | None = None


def choose_target(
    options: argparse.Namespace,
    inputs: Iterable[str],
    suffixes: Mapping[str, str] = SUFFIXES,
    pictures: Sequence[str] = PICTURES,
) -> Target:
    """Return the output target of command-line options, and check it before any expensive work."""
    format, path = options.format or "text", None
    if options.output is not None:
        path = check_output(options.output, list(inputs))
        format = output_format(path, options.format, {**dict.fromkeys(pictures, "picture"), **suffixes})
    if format == "picture":
        check_matplotlib()
    if format == "html":
        check_jinja()
    return Target(format, path)


def write_explained(target: Target, explained: Iterable[ExplainedLine], *, remark: str = "", expected: int = 1) -> str:
    """Write 1 to ``expected`` explanations as they are read, and return their signature."""
    signature = ""

    def with_signature() -> Iterator[ExplainedLine]:
        nonlocal signature
        for one in explained:
            signature = str(one.found.signature)
            yield one

    if target.format == "picture":
        for one in with_signature():
            one.found.draw(target.path)
        return signature
    with contextlib.nullcontext(sys.stdout) if target.path is None else atomic_file(target.path) as stream:
        if target.format == "text":
            _write_text(stream, with_signature(), several=expected > 1)
        elif target.format == "html":
            stream.write(render_explanations(with_signature(), expected=expected, remark=remark))
        else:
            _write_json(stream, with_signature(), listed=target.format == "json" and expected > 1)
    return signature


def _write_text(stream: IO[str], explained: Iterable[ExplainedLine], *, several: bool) -> None:
    printed = stream is sys.stdout
    for place, one in enumerate(explained):
        with contextlib.nullcontext() if printed else contextlib.redirect_stdout(io.StringIO()) as written:
            if several:
                sys.stdout.write(f"{'' if place == 0 else chr(10)}line        {one.line}\n")
            print_explanation(one.found)
        if written is not None:
            stream.write(as_unicode(written.getvalue()))
        stream.flush()


def _write_json(stream: IO[str], explained: Iterable[ExplainedLine], *, listed: bool) -> None:
    for place, one in enumerate(explained):
        line = {} if one.line is None else {"line": one.line}
        text = as_unicode(json.dumps({**line, **one.found.to_dict()}, ensure_ascii=False))
        stream.write(("[\n" if place == 0 else ",\n") + text if listed else f"{text}\n")
        stream.flush()
    if listed:
        stream.write("\n]\n")
