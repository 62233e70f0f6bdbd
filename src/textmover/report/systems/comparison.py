"""Output of ``textmover compare``: text, JSON, LaTeX or HTML page."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover._version import __version__
from textmover.markdown_escaping import one_line
from textmover.meta_evaluation import ComparedSystems, SystemPair
from textmover.readers.row_streams import Row
from textmover.report.evaluation.disagreements import fold_limit, shown_text
from textmover.report.evaluation.wording import SIGNIFICANT
from textmover.report.figures.evaluation_plots import shortened
from textmover.report.figures.scales import Scale, padded
from textmover.report.table_formats import Section, Table, json_text, latex, pick, print_named_rows
from textmover.report.templating import interval_scale, picture, render_page
from textmover.types import fixed, isolated, plural

FEW = 30  # with fewer segments, tests are unreliable: there are few permutations and distinct bootstrap samples
MAX_SENTENCES = 15  # maximum pairs of systems that are all described: the pairs of six systems
LONGEST = 300  # maximum printed characters of a text


class Comparison(NamedTuple):
    """Compared systems with their texts and the metric's signature."""

    found: ComparedSystems  # results of the comparison
    rows: Sequence[Row]  # texts, one row for each segment; empty if only scores are available
    lines: Sequence[int]  # line or row number of each segment
    signature: str  # signature of the metric
    shown: int  # number of segments to show
    command: str = ""  # command line
    warnings: Sequence[str] = ()  # sentences about unusual texts, for the page

    def row(self, place: int) -> Row:
        """Return the texts of a segment, empty if only scores are available."""
        return self.rows[place] if self.rows else Row(self.lines[place], (), ())

    @property
    def tests(self) -> list[str]:
        """Signatures of both tests."""
        first = self.found.pairs[0]
        return [first.bootstrap.signature, first.randomisation.signature]

    @property
    def remarks(self) -> list[str]:
        """Warnings about the comparison."""
        count = self.found.scores.shape[1]
        only = f"Only {plural(count, 'segment')}: intervals and tests are unreliable with fewer than {FEW}."
        return [only] if count < FEW else []


def print_comparison(comparison: Comparison, *, signature: bool) -> None:
    """Print tables and the segments with the largest differences; the signature goes to standard error."""
    systems = comparison.found
    pairs, notes = _described_pairs(systems)
    notes += [] if systems.higher_is_better else ["Lower scores are better."]
    print_named_rows(_system_table(systems))
    sys.stdout.write("\n")
    for sentence in (*(pair_sentence(pair, systems) for pair in pairs), *notes, *comparison.remarks):
        sys.stdout.write(f"{one_line(sentence)}\n")
    segments = systems.differing(comparison.shown)
    if segments:
        sys.stdout.write("\nSegments on which they differ most:\n")
    for segment in segments:
        row = comparison.row(segment)
        sys.stdout.write(f"\nline {row.line}\n")
        for reference in row.references:
            sys.stdout.write(f"  reference: {shortened(one_line(reference) or '(empty)', LONGEST)}\n")
        for system in systems.best_first(segment):
            text = f": {shortened(one_line(row.hypotheses[system]) or '(empty)', LONGEST)}" if row.hypotheses else ""
            score = fixed(systems.scores[system, segment], 3)
            sys.stdout.write(f"  {one_line(systems.systems[system])} {score}{text}\n")
    if signature:
        sys.stderr.write(f"Signature: {comparison.signature}\nTests: {', '.join(comparison.tests)}\n")


# --- sentences and tables ---------------------------------------------------------------------------------------------


def _described_pairs(found: ComparedSystems) -> tuple[list[SystemPair], list[str]]:
    """Return the pairs to describe (with many systems, only neighbours in rank), and a note on the others."""
    if len(found.pairs) <= MAX_SENTENCES:
        return list(found.pairs), []
    names = [found.systems[one] for one in found.order]
    pairs = {frozenset((pair.first, pair.second)): pair for pair in found.pairs}
    listed = [pairs[frozenset(two)] for two in itertools.pairwise(names)]
    return listed, [
        f"Only {len(listed)} of {len(found.pairs)} pairs are listed, each system with the next: see all with "
        "--format json, or rank many systems with `textmover rank`."
    ]


def pair_sentence(pair: SystemPair, found: ComparedSystems) -> str:
    r"""Describe the comparison of two systems in a sentence.

    Example:
        >>> from textmover.meta_evaluation import compare_systems
        >>> scores = {"A": [0.2, 0.4, 0.3] * 5, "B": [0.3, 0.5, 0.4] * 5}
        >>> found = compare_systems(scores, samples=99, trials=99)
        >>> print(pair_sentence(found.pairs[0], found).replace("; ", ";\n"))
        B against A: +0.1000 (+0.1000 to +0.1000), p = 0.010 (bootstrap), p = 0.010 (randomisation);
        better in 15, equal in 0, worse in 0 of 15 segments. B is better.
    """
    tests = "one segment allows no test"
    if found.scores.shape[1] > 1:
        shown = (p_value(one.p_value, pair.least) for one in (pair.bootstrap, pair.randomisation))
        tests = "p {} (bootstrap), p {} (randomisation)".format(*shown)
    difference, low, high = _gain(pair)
    return (
        f"{pair.second} against {pair.first}: {difference} ({low} to {high}), {tests}; better in {pair.wins}, equal in "
        f"{pair.ties}, worse in {pair.losses} of {plural(found.scores.shape[1], 'segment')}. {verdict(pair, found)}"
    )


def _gain(pair: SystemPair) -> list[str]:
    gain = pair.bootstrap
    return [fixed(one, 4, plus=True) for one in (gain.difference, gain.low, gain.high)]


def verdict(pair: SystemPair, found: ComparedSystems) -> str:
    """Return a sentence that names the better system if both tests agree and enough segments differ."""
    decision = found.decision(pair)
    if pair.differing and pair.least > found.significant:
        # Even if all n segments favour one system, 2 of 2ⁿ permutations are as extreme.
        only = "1 segment differs" if pair.differing == 1 else f"{pair.differing} segments differ"
        return f"Not significant: only {only}, so p cannot be below {pair.least:.2g}."
    if decision.winner is not None:
        return f"{decision.winner} is better."
    return "Neither test finds a significant difference." if decision.agreed else "The tests do not agree."


def p_value(value: float, least: float = 0.0) -> str:
    """Format a p-value with ``=``, ``<`` or ``≥``; values below the possible minimum ``least`` are replaced by it.

    Example:
        >>> p_value(0.0009), p_value(0.001), p_value(0.0004, least=0.5), p_value(0.0004, least=1)
        ('< 0.001', '= 0.001', '≥ 0.5', '= 1')
    """
    if value < least:
        return f"{'≥' if SIGNIFICANT < least < 1 else '='} {least:.2g}"
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _system_table(found: ComparedSystems) -> Table:
    view = found.view()
    return Table(view.headers, [list(map(str, row)) for row in view.rows], best={(0, 2)})


def _pair_table(found: ComparedSystems) -> Table:
    headers = ("systems", "difference", "95 % interval", "bootstrap p", "randomisation p", "wins", "ties", "losses")
    rows = []
    for pair in found.pairs:
        (difference, low, high), tests = _gain(pair), (pair.bootstrap.p_value, pair.randomisation.p_value)
        p_values = [f"{one:.4f}" if one >= pair.least else p_value(one, pair.least) for one in tests]
        counts = map(str, (pair.wins, pair.ties, pair.losses))
        rows.append((f"{pair.second} − {pair.first}", difference, f"{low} to {high}", *p_values, *counts))
    return Table(headers, rows)


# --- files ------------------------------------------------------------------------------------------------------------


def as_latex(comparison: Comparison) -> str:
    """Render the tables of systems and pairs as LaTeX for ``booktabs``."""
    found = comparison.found
    caption = (
        f"Mean score of {plural(len(found.systems), 'system')} on {plural(found.scores.shape[1], 'segment')}, with 95 "
        "% bootstrap intervals; systems share a rank where randomisation finds no significant difference (p > "
        f"{found.significant:g}).{'' if found.higher_is_better else ' Lower scores are better.'}"
    )
    signatures = [("", comparison.signature), ("", ", ".join(comparison.tests))]
    systems = Section("", _system_table(found), signatures=signatures, caption=caption)
    caption = "Differences of two systems' mean scores, and on how many segments the first is better."
    return latex([systems, Section("", _pair_table(found), caption=caption)])


def as_json(comparison: Comparison) -> str:
    """Return all results as JSON."""
    found = comparison.found
    columns = (found.systems, found.ranks, found.means, found.low, found.high, found.scores)
    names = ("name", "rank", "mean", "low", "high", "scores")
    systems = [dict(zip(names, (column[one] for column in columns), strict=True)) for one in found.order]
    return json_text(
        {
            "textmover": __version__,
            "signature": comparison.signature,
            "segments": found.scores.shape[1],
            **pick(found, "higher_is_better", "significant"),
            "systems": systems,
            "worse_than_first": found.worse,
            "pairs": [_pair_entry(pair, found) for pair in found.pairs],
            "differing": [_segment_entry(comparison, place) for place in found.differing(comparison.shown)],
        }
    )


def _pair_entry(pair: SystemPair, found: ComparedSystems) -> dict[str, Any]:
    return {
        "baseline": pair.first,
        "system": pair.second,
        "winner": found.decision(pair).winner,
        "verdict": verdict(pair, found),
        **pick(pair.bootstrap, "difference", "low", "high"),
        **pick(pair, "wins", "ties", "losses", "differing"),
        **{
            name: {
                "p_value": max(test.p_value, pair.least),
                "sacrebleu_p_value": test.p_value,
                "signature": test.signature,
            }
            for name, test in (("bootstrap", pair.bootstrap), ("randomisation", pair.randomisation))
        },
    }


def _segment_entry(comparison: Comparison, place: int) -> dict[str, Any]:
    row, found = comparison.row(place), comparison.found
    entries = zip(found.systems, found.scores[:, place], row.hypotheses or [None] * len(found.systems), strict=True)
    systems = {name: {"score": score, "text": text} for name, score, text in entries}
    return {"line": row.line, "references": row.references, "systems": systems}


LEFT, RIGHT, TOP, BOTTOM = 44.0, 412.0, 8.0, 130.0  # edges of the plot within the SVG
MOST_BARS = 140  # maximum bars of a plot; with more segments, a bar is the mean of neighbours
MOST_OPEN = 6  # with more pairs of systems, their plots are folded
MOST_ALONE = 3  # with more pairs of systems, the page has a table of all pairs


def as_html(comparison: Comparison) -> str:
    """Render the HTML page."""
    found, segments = comparison.found, comparison.found.differing(comparison.shown)
    rows = [comparison.row(place) for place in segments]
    fold = fold_limit([len(text) for row in rows for text in (*row.hypotheses, *row.references)])
    scores = dict(zip(found.systems, found.scores if found.higher_is_better else -found.scores, strict=True))
    gaps = [scores[pair.second] - scores[pair.first] for pair in found.pairs]
    bars = np.concatenate(list(map(bars_of, gaps)))
    both = isolated(" and ".join(found.systems), found.systems)
    return render_page(
        "comparison.html.j2",
        metrics=len(found.systems),
        styles=("comparison.css",),
        script="script.js",
        title=both if len(found.systems) == 2 else f"{len(found.systems)} systems",
        comparison=comparison,
        found=found,
        segments=found.scores.shape[1],
        headlines=_headlines(found),
        scale=interval_scale(found),
        pictures=[
            difference_plot(one, pair.first, pair.second, (bars.min(), bars.max()))
            for pair, one in zip(found.pairs, gaps, strict=True)
        ],
        listed=len(found.pairs) > MOST_ALONE,
        folded=len(found.pairs) > MOST_OPEN,
        differing=list(zip(segments, rows, strict=True)),
        cut=partial(shown_text, limit=fold),
        verdict=partial(verdict, found=found),
        p_value=p_value,
    )


def _headlines(found: ComparedSystems) -> list[str]:
    if len(found.pairs) == 1:
        return [verdict(found.pairs[0], found)]
    best = found.systems[found.order[0]]
    alike = [found.systems[one] for one in found.order[1:] if found.ranks[one] == 1]
    return [f"Best: {best}.", *([f"Not significantly better than: {', '.join(alike)}."] if alike else [])]


def bars_of(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sort differences in descending order; if there are many, average neighbours."""
    ordered = np.sort(gaps)[::-1]
    return np.array([part.mean() for part in np.array_split(ordered, min(len(ordered), MOST_BARS))])


def difference_plot(gaps: NDArray[np.float64], first: str, second: str, range_: tuple[float, float]) -> str:
    """Draw the differences of all segments in descending order; above 0, the second system is better.

    ``range_`` is the smallest and largest bar of all plots, so that they share a scale.
    """
    bars = bars_of(gaps)
    along = Scale(0, len(bars), LEFT, RIGHT)
    up = Scale(*padded([min(0.0, range_[0]), max(0.0, range_[1])], 0.06), BOTTOM, TOP)
    step = along.at(1) - along.at(0)
    width = max(0.6, step - (1.0 if step > 4 else 0.0))
    placed = [(along.at(place), bar) for place, bar in enumerate(bars.tolist())]
    return picture("gaps.svg.j2", first=first, second=second, gaps=gaps, up=up, bars=placed, thick=width)
