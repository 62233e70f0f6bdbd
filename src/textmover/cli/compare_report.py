"""What ``textmover compare`` says: as text, JSON or LaTeX."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from textmover import __version__
from textmover.cli.console import print_table
from textmover.data.streams import Row
from textmover.meta_evaluation import ComparedSystems, SystemPair
from textmover.report.latex import latex_table, latex_text

__all__ = ["Comparison", "as_json", "as_latex", "print_comparison"]

FEW = 30
"""Segments below which tests say little: randomisation has few ways to exchange scores, and samples repeat."""

LONGEST = 300
"""Characters of a text that are shown."""


class Comparison(NamedTuple):
    """Systems, their texts, and what the scores depend on.

    Attributes:
        found: What is known of them.
        rows: Their texts, one row a segment.
        signature: Of the metric.
        shown: How many segments to show.
    """

    found: ComparedSystems
    rows: Sequence[Row]
    signature: str
    shown: int


def print_comparison(comparison: Comparison, *, signature: bool) -> None:
    """Print tables and the segments on which the systems differ most.

    Args:
        comparison: What to print.
        signature: Whether the signature of the metric is printed, on standard error.
    """
    found = comparison.found
    headers, rows = system_table(found)
    print_table(headers, rows, numbers=headers[1:], narrow=headers[1:])
    sys.stdout.write("\n")
    for pair in found.pairs:
        sys.stdout.write(f"{pair_sentence(pair, found)}\n")
    count = found.scores.shape[1]
    if count < FEW:
        sys.stdout.write(f"These are {count} segments: intervals and tests say little of fewer than {FEW}.\n")
    places = found.differing(comparison.shown)
    if places:
        sys.stdout.write("\nSegments on which they differ most:\n")
    for place in places:
        row = comparison.rows[place]
        sys.stdout.write(f"\nline {row.line}\n")
        for reference in row.references:
            sys.stdout.write(f"  reference: {_short(reference)}\n")
        for number in sorted(range(len(found.systems)), key=lambda one: -found.scores[one, place]):
            score = found.scores[number, place]
            sys.stdout.write(f"  {found.systems[number]} {score:.3f}: {_short(row.hypotheses[number])}\n")
    if signature:
        first = found.pairs[0]
        sys.stderr.write(f"Signature: {comparison.signature}\n")
        sys.stderr.write(f"Tests: {first.bootstrap.signature}, {first.randomisation.signature}\n")


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
    r"""What is known of two systems, in a sentence.

    Example:
        >>> from textmover.meta_evaluation import compare_systems
        >>> found = compare_systems({"A": [0.2, 0.4, 0.3], "B": [0.3, 0.5, 0.4]}, samples=99, trials=99)
        >>> print(pair_sentence(found.pairs[0], found).replace("; ", ";\n"))
        B against A: +0.1000 (+0.1000 to +0.1000), p = 0.010 (bootstrap) and = 0.010 (randomisation);
        better in 3, equal in 0, worse in 0 of 3 segments. B is better.
    """
    tests = [pair.bootstrap.p_value, pair.randomisation.p_value]
    significant = [one <= found.significant for one in tests]
    verdict = "The tests do not agree."
    if all(significant):
        better = (pair.bootstrap.difference > 0) == found.higher_is_better
        verdict = f"{pair.second if better else pair.first} is better."
    elif not any(significant):
        verdict = "No test tells them apart."
    return (
        f"{pair.second} against {pair.first}: {pair.bootstrap.difference:+.4f} ({pair.bootstrap.low:+.4f} to "
        f"{pair.bootstrap.high:+.4f}), p {_p_value(tests[0])} (bootstrap) and {_p_value(tests[1])} (randomisation); "
        f"better in {pair.wins}, equal in {pair.ties}, worse in {pair.losses} of {found.scores.shape[1]} segments. "
        f"{verdict}"
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
                "bootstrap": {"p_value": pair.bootstrap.p_value, "signature": pair.bootstrap.signature},
                "randomisation": {"p_value": pair.randomisation.p_value, "signature": pair.randomisation.signature},
            }
            for pair in found.pairs
        ],
        "differing": [
            {
                "line": comparison.rows[place].line,
                "references": list(comparison.rows[place].references),
                "systems": {
                    name: {"score": float(found.scores[one, place]), "text": comparison.rows[place].hypotheses[one]}
                    for one, name in enumerate(found.systems)
                },
            }
            for place in found.differing(comparison.shown)
        ],
    }


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
            f"{pair.bootstrap.p_value:.4f}",
            f"{pair.randomisation.p_value:.4f}",
            str(pair.wins),
            str(pair.ties),
            str(pair.losses),
        )
        for pair in found.pairs
    ]
    caption = latex_text("Differences of two systems' mean scores, and on how many segments the first is better.")
    parts.append(latex_table(pair_headers, pair_rows, [set()] * len(pair_headers), caption=caption, notes=[]))
    return "\n".join(parts)


def _p_value(value: float) -> str:
    """A p-value with the sign before it."""
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _short(text: str) -> str:
    """A text on one line, cut where it is very long."""
    flat = " ".join(text.split()) or "(empty)"
    return flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…"
