"""Output of ``textmover compare``: text, JSON, LaTeX or a page."""

from __future__ import annotations

import itertools
import platform
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from textmover._version import __version__
from textmover.markdown import one_line
from textmover.meta_evaluation import ComparedSystems, SystemPair
from textmover.readers.streams import Row
from textmover.report.evaluation.latex import latex_table, latex_text
from textmover.report.systems.comparison_page import ComparedSegment, p_value, render_comparison, verdict
from textmover.terminal import print_table

FEW = 30
"""Segments below which tests say little: randomisation has few ways to exchange scores, and samples repeat."""

MOST_TOLD = 15
"""Pairs of systems up to which each gets a sentence: those of six systems."""

LONGEST = 300
"""Characters of a text that are shown."""


class Comparison(NamedTuple):
    """Systems, their texts, and what the scores depend on.

    Attributes:
        found: What is known of them.
        rows: Their texts, one row a segment; none where scores alone were given.
        lines: Line or row of each segment.
        signature: Of the metric.
        shown: How many segments to show.
        command: What was typed.
    """

    found: ComparedSystems
    rows: Sequence[Row]
    lines: Sequence[int]
    signature: str
    shown: int
    command: str = ""

    def row(self, place: int) -> Row:
        """The texts of a segment, empty where there are none."""
        return self.rows[place] if self.rows else Row(self.lines[place], (), ())

    @property
    def remarks(self) -> list[str]:
        """Remarks that a reader needs first."""
        count = self.found.scores.shape[1]
        these = "This is 1 segment" if count == 1 else f"These are {count} segments"
        few = [f"{these}: intervals and tests say little of fewer than {FEW}."] if count < FEW else []
        return [*few, *map(too_sure, self._too_few())]

    def _too_few(self) -> list[SystemPair]:
        """Systems that a test tells apart though no count of their segments could."""
        level = self.found.significant
        return [
            pair
            for pair in self.found.pairs
            if min(pair.bootstrap.p_value, pair.randomisation.p_value) <= level < pair.least
        ]


def print_comparison(comparison: Comparison, *, signature: bool) -> None:
    """Print tables and the segments on which the systems differ most.

    Args:
        comparison: What to print.
        signature: Whether the signature of the metric is printed, on standard error.
    """
    found = comparison.found
    headers, rows = system_table(found)
    pairs, left = _told_pairs(found)
    print_table(headers, [tuple(map(one_line, row)) for row in rows], numbers=headers[1:], narrow=headers[1:])
    sys.stdout.write("\n")
    for said in (*(pair_sentence(pair, found) for pair in pairs), *left, *comparison.remarks):
        sys.stdout.write(f"{one_line(said)}\n")
    places = found.differing(comparison.shown)
    if places:
        sys.stdout.write("\nSegments on which they differ most:\n")
    for place in places:
        row = comparison.row(place)
        sys.stdout.write(f"\nline {row.line}\n")
        for reference in row.references:
            sys.stdout.write(f"  reference: {_short(reference)}\n")
        for number in found.best_first(place):
            score = found.scores[number, place]
            text = f": {_short(row.hypotheses[number])}" if row.hypotheses else ""
            sys.stdout.write(f"  {one_line(found.systems[number])} {score:.3f}{text}\n")
    if signature:
        first = found.pairs[0]
        sys.stderr.write(f"Signature: {comparison.signature}\n")
        sys.stderr.write(f"Tests: {first.bootstrap.signature}, {first.randomisation.signature}\n")


def _told_pairs(found: ComparedSystems) -> tuple[list[SystemPair], list[str]]:
    """Pairs that get a sentence (of many systems, each beside the next), and where the others are."""
    if len(found.pairs) <= MOST_TOLD:
        return list(found.pairs), []
    names = [found.systems[one] for one in found.order]
    neighbours = {frozenset(two) for two in itertools.pairwise(names)}
    told = [pair for pair in found.pairs if frozenset((pair.first, pair.second)) in neighbours]
    told.sort(key=lambda pair: min(names.index(pair.first), names.index(pair.second)))
    return told, [
        f"These are {len(told)} of {len(found.pairs)} pairs, each system beside the next: --format json has all of "
        "them, and `textmover rank` makes a table of many systems."
    ]


def too_sure(pair: SystemPair) -> str:
    """Why small p-values decide nothing: if all differing segments favour one system, so do 2 of 2ⁿ exchanges."""
    only = "1 segment differs" if pair.differing == 1 else f"{pair.differing} segments differ"
    return (
        f"Between {pair.first} and {pair.second} only {only}: the exact p is at least {pair.least:.2g}. Smaller "
        "p-values, as sacrebleu counts them, mean nothing."
    )


def system_table(found: ComparedSystems) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Systems from best to worst: mean score, its interval and rank."""
    headers: tuple[str, ...] = ("system", "rank", "mean", "95 % interval")
    rows: list[tuple[str, ...]] = [
        (
            found.systems[one],
            str(found.ranks[one]),
            f"{found.means[one]:.4f}",
            f"{found.low[one]:.4f} to {found.high[one]:.4f}",
        )
        for one in found.order
    ]
    return headers, rows


def pair_sentence(pair: SystemPair, found: ComparedSystems) -> str:
    r"""Describe the comparison of two systems in a sentence.

    Example:
        >>> from textmover.meta_evaluation import compare_systems
        >>> scores = {"A": [0.2, 0.4, 0.3] * 5, "B": [0.3, 0.5, 0.4] * 5}
        >>> found = compare_systems(scores, samples=99, trials=99)
        >>> print(pair_sentence(found.pairs[0], found).replace("; ", ";\n"))
        B against A: +0.1000 (+0.1000 to +0.1000), p = 0.010 (bootstrap) and = 0.010 (randomisation);
        better in 15, equal in 0, worse in 0 of 15 segments. B is better.
    """
    return (
        f"{pair.second} against {pair.first}: {pair.bootstrap.difference:+.4f} ({pair.bootstrap.low:+.4f} to "
        f"{pair.bootstrap.high:+.4f}), p {p_value(pair.bootstrap.p_value, pair.least)} (bootstrap) and "
        f"{p_value(pair.randomisation.p_value, pair.least)} (randomisation); "
        f"better in {pair.wins}, equal in {pair.ties}, worse in {pair.losses} of {found.scores.shape[1]} segments. "
        f"{verdict(pair, found)}"
    )


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Everything that is known, as JSON has it."""
    found = comparison.found
    return {
        "textmover": __version__,
        "signature": comparison.signature,
        "segments": found.scores.shape[1],
        "higher_is_better": found.higher_is_better,
        "significant": found.significant,
        "systems": [
            {
                "name": found.systems[one],
                "rank": found.ranks[one],
                "mean": float(found.means[one]),
                "low": float(found.low[one]),
                "high": float(found.high[one]),
                "scores": found.scores[one].tolist(),
            }
            for one in found.order
        ],
        "pairs": [
            {
                "baseline": pair.first,
                "system": pair.second,
                "difference": pair.bootstrap.difference,
                "low": pair.bootstrap.low,
                "high": pair.bootstrap.high,
                "wins": pair.wins,
                "ties": pair.ties,
                "losses": pair.losses,
                "differing": pair.differing,
                **{
                    name: {
                        "p_value": max(test.p_value, pair.least),
                        "sacrebleu_p_value": test.p_value,
                        "signature": test.signature,
                    }
                    for name, test in (("bootstrap", pair.bootstrap), ("randomisation", pair.randomisation))
                },
            }
            for pair in found.pairs
        ],
        "differing": [
            {
                "line": comparison.row(place).line,
                "references": list(comparison.row(place).references),
                "systems": {
                    name: {
                        "score": float(found.scores[one, place]),
                        "text": comparison.row(place).hypotheses[one] if comparison.rows else None,
                    }
                    for one, name in enumerate(found.systems)
                },
            }
            for place in found.differing(comparison.shown)
        ],
    }


def as_html(comparison: Comparison) -> str:
    """A page that needs nothing else."""
    return render_comparison(
        comparison.found,
        [ComparedSegment(row.line, row.hypotheses, row.references) for row in comparison.rows],
        shown=comparison.shown,
        signature=comparison.signature,
        lines=comparison.lines,
        versions=f"textmover {__version__}, numpy {np.__version__}, python {platform.python_version()}",
        command=comparison.command,
        remarks=comparison.remarks,
    )


def as_latex(comparison: Comparison) -> str:
    """The table of systems, and one of pairs, for the package ``booktabs``."""
    found = comparison.found
    headers, rows = system_table(found)
    first = found.pairs[0]
    tests = f"{first.bootstrap.signature}, {first.randomisation.signature}"
    best = [set(), set(), {0}, set()]
    caption = latex_text(
        f"Mean score of {len(found.systems)} systems on {found.scores.shape[1]} segments, with 95 % bootstrap "
        f"intervals; systems share a rank where randomisation does not tell them apart (p > {found.significant:g})."
    )
    parts = ["% Needs \\usepackage{booktabs}.\n"]
    parts.append(latex_table(headers, rows, best, caption=caption, notes=[comparison.signature, tests]))
    pair_headers = (
        "systems",
        "difference",
        "95 % interval",
        "bootstrap p",
        "randomisation p",
        "wins",
        "ties",
        "losses",
    )
    pair_rows = [
        (
            f"{pair.second} − {pair.first}",
            f"{pair.bootstrap.difference:+.4f}",
            f"{pair.bootstrap.low:+.4f} to {pair.bootstrap.high:+.4f}",
            *(
                f"{one.p_value:.4f}" if one.p_value >= pair.least else p_value(one.p_value, pair.least)
                for one in (pair.bootstrap, pair.randomisation)
            ),
            str(pair.wins),
            str(pair.ties),
            str(pair.losses),
        )
        for pair in found.pairs
    ]
    caption = latex_text("Differences of two systems' mean scores, and on how many segments the first is better.")
    parts.append(latex_table(pair_headers, pair_rows, [set()] * len(pair_headers), caption=caption, notes=[]))
    return "\n".join(parts)


def _short(text: str) -> str:
    """A text on one line, cut where it is very long."""
    flat = one_line(text) or "(empty)"
    return flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…"
