"""Output of ``textmover rank``: text, JSON, CSV, LaTeX or a page."""

from __future__ import annotations

import io
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textmover._version import __version__
from textmover.csv_cells import CsvWriter
from textmover.markdown import one_line
from textmover.meta_evaluation import RankedSystems, mean_over_groups
from textmover.report.evaluation.latex import latex_table, latex_text
from textmover.report.systems.ranking_page import render_ranking
from textmover.terminal import print_table

AGREEMENT = {
    "pearson": "Pearson",
    "kendall": "Kendall",
    "accuracy": "pairwise accuracy",
    "soft-accuracy": "soft pairwise accuracy",
}
"""Statistics that compare the order of systems with people's."""

TESTS = {"randomisation": "paired approximate randomisation", "bootstrap": "paired bootstrap"}

FEW = 30
"""Shared segments below which a test says little."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Tables of systems, and their human ratings.

    Attributes:
        tables: One for each group.
        signature: What the scores depend on.
        tests: What the tests depend on.
        test: ``randomisation`` or ``bootstrap``.
        fewest: Shared segments below which two systems are not compared.
        people: The same tables by human scores; none where there are no human scores.
        agreement: Value of each statistic, by table; NaN where it has none.
        command: What was typed.
        lone: Groups that were left out.
    """

    tables: Sequence[RankedSystems]
    signature: str
    tests: str
    test: str
    fewest: int
    people: Sequence[RankedSystems] = ()
    agreement: Sequence[Mapping[str, float]] = ()
    command: str = ""
    lone: tuple[str, ...] = ()


def print_ranking(ranking: Ranking, *, signature: bool) -> None:
    """Print a table for each group, what could not be tested, and how people order the systems.

    Args:
        ranking: What to print.
        signature: Whether signatures are printed, on standard error.
    """
    for place, table in enumerate(ranking.tables):
        if place:
            sys.stdout.write("\n")
        if table.group:
            sys.stdout.write(f"{one_line(table.group)}\n")
        _print_table(*cells(ranking, place))
        for remark in remarks(ranking, place):
            sys.stdout.write(f"{one_line(remark)}\n")
    if len(ranking.tables) > 1:
        sys.stdout.write("\n")
        headers, rows = mean_cells(ranking)
        if rows:
            sys.stdout.write(f"mean over {len(ranking.tables)} groups\n")
            _print_table(headers, rows)
    for remark in mean_remarks(ranking):
        sys.stdout.write(f"{one_line(remark)}\n")
    if signature:
        sys.stderr.write(f"Signature: {ranking.signature}\nTests: {ranking.tests}\n")


def _print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose names can do nothing to a terminal."""
    print_table(headers, [tuple(map(one_line, row)) for row in rows], numbers=headers[1:], narrow=headers[1:])


def cells(ranking: Ranking, place: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headers and rows of a table, best first."""
    table = ranking.tables[place]
    headers: tuple[str, ...] = ("system", "rank", "mean", "95 % interval", "wins", "segments")
    rows: list[tuple[str, ...]] = [
        (
            table.systems[one],
            str(table.ranks[one]),
            f"{table.means[one]:.4f}",
            f"{table.low[one]:.4f} to {table.high[one]:.4f}",
            "-" if math.isnan(table.wins[one]) else f"{100 * table.wins[one]:.0f} %",
            str(table.segments[one]),
        )
        for one in table.order
    ]
    if not ranking.people:
        return headers, rows
    people = ranking.people[place]
    human = [(f"{people.means[one]:.3f}", str(people.ranks[one])) for one in table.order]
    return (*headers, "people", "people's rank"), [(*row, *two) for row, two in zip(rows, human, strict=True)]


def remarks(ranking: Ranking, place: int) -> list[str]:
    """Remarks about a table."""
    table = ranking.tables[place]
    found = []
    if not table.complete:
        shared = [int(table.shared[pair]) for pair in table.pairs]
        low, high = min(shared), max(shared)
        number = f"{low}" if low == high else f"{low} to {high}"
        found.append(
            f"Not all systems have the same segments: means are over those of each, tests over the {number} that two "
            "systems share."
        )
    if table.untested:
        first, second = table.untested[0]
        found.append(
            f"{len(table.untested)} of {len(table.pairs)} pairs of systems share fewer than {ranking.fewest} segments, "
            f"such as {first} and {second}: they were not compared."
        )
    tested = [int(table.shared[pair]) for pair in table.pairs if not np.isnan(table.p_values[pair])]
    if tested and min(tested) < FEW:
        found.append(f"Tests of fewer than {FEW} segments say little.")
    if ranking.agreement:
        few = " (of two systems alone there is no correlation)" if len(table.systems) < 3 else ""
        found.append(
            f"Agreement with people on {len(table.systems)} systems: {_listed(ranking.agreement[place])}{few}."
        )
    return found


def mean_cells(ranking: Ranking) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headers and rows of the table of all groups, best first."""
    people = {one.system: one for one in mean_over_groups(ranking.people)} if ranking.people else {}
    headers: tuple[str, ...] = ("system", "mean rank", "mean", *(("people", "people's rank") if people else ()))
    rows: list[tuple[str, ...]] = []
    for one in mean_over_groups(ranking.tables):
        human = people.get(one.system)
        further = () if human is None else (f"{human.mean:.3f}", f"{human.rank:.2f}")
        rows.append((one.system, f"{one.rank:.2f}", f"{one.mean:.4f}", *further))
    return headers, rows


def mean_remarks(ranking: Ranking) -> list[str]:
    """Remarks about all groups."""
    count = len(ranking.tables)
    if count < 2:
        return _lone(ranking)
    systems = len({name for table in ranking.tables for name in table.systems})
    common = len(mean_over_groups(ranking.tables))
    if not common:
        found = [f"No system is in all {count} groups, so there are no means over them."]
    else:
        of = f"all {systems} systems" if common == systems else f"the {common} of {systems} systems that are in all"
        found = [f"Means are over {count} groups, of {of}."]
    if ranking.agreement:
        found.append(f"Mean agreement with people over {count} groups: {_listed(mean_agreement(ranking))}.")
    return [*found, *_lone(ranking)]


def _lone(ranking: Ranking) -> list[str]:
    """Groups that have no table."""
    return [f"Left out, since they hold one system alone: {', '.join(ranking.lone)}."] if ranking.lone else []


def mean_agreement(ranking: Ranking) -> dict[str, float]:
    """Mean of each statistic over the groups that have it."""
    found = {}
    for name in AGREEMENT:
        known = [one[name] for one in ranking.agreement if not math.isnan(one[name])]
        found[name] = float(np.mean(known)) if known else math.nan
    return found


def as_json(ranking: Ranking) -> dict[str, Any]:
    """Everything that is known, as JSON has it."""
    found: dict[str, Any] = {
        "textmover": __version__,
        "signature": ranking.signature,
        "tests": ranking.tests,
        "groups": [_group(ranking, place) for place in range(len(ranking.tables))],
        "left_out": list(ranking.lone),
    }
    if len(ranking.tables) > 1:
        found["mean"] = {"systems": [one._asdict() for one in mean_over_groups(ranking.tables)]}
        if ranking.agreement:
            found["mean"]["agreement"] = _plain(mean_agreement(ranking))
    return found


def _group(ranking: Ranking, place: int) -> dict[str, Any]:
    table = ranking.tables[place]
    systems = []
    for one in table.order:
        entry = {
            "name": table.systems[one],
            "rank": table.ranks[one],
            "mean": float(table.means[one]),
            "low": float(table.low[one]),
            "high": float(table.high[one]),
            "wins": _finite(table.wins[one]),
            "segments": int(table.segments[one]),
        }
        if ranking.people:
            people = ranking.people[place]
            entry["people"] = {
                "rank": people.ranks[one],
                "mean": float(people.means[one]),
                "low": float(people.low[one]),
                "high": float(people.high[one]),
            }
        systems.append(entry)
    pairs = [
        {
            "systems": [table.systems[one], table.systems[other]],
            "shared": int(table.shared[one, other]),
            "p_value": _finite(table.p_values[one, other]),
        }
        for one, other in table.pairs
    ]
    found = {"group": table.group, "higher_is_better": table.higher_is_better, "systems": systems, "pairs": pairs}
    return {**found, "agreement": _plain(ranking.agreement[place])} if ranking.agreement else found


def as_csv(ranking: Ranking) -> str:
    """One row for each system of each group."""
    stream = io.StringIO()
    writer = CsvWriter(stream)
    people = ["people", "people_rank"] if ranking.people else []
    writer.writerow(["group", "system", "rank", "mean", "low", "high", "wins", "segments", *people])
    for place, table in enumerate(ranking.tables):
        for one in table.order:
            values = [repr(float(value)) for value in (table.means[one], table.low[one], table.high[one])]
            wins = "" if math.isnan(table.wins[one]) else repr(float(table.wins[one]))
            row = [table.group, table.systems[one], table.ranks[one], *values, wins, int(table.segments[one])]
            if ranking.people:
                human = ranking.people[place]
                row += [repr(float(human.means[one])), human.ranks[one]]
            writer.writerow(row)
    return stream.getvalue()


def as_latex(ranking: Ranking) -> str:
    """A table for each group, and one of all, for the package ``booktabs``."""
    parts = ["% Needs \\usepackage{booktabs}.\n"]
    notes = [ranking.signature, ranking.tests]
    for place, table in enumerate(ranking.tables):
        headers, rows = cells(ranking, place)
        where = f" ({table.group})" if table.group else ""
        caption = f"Systems{where} by mean score, with 95 % bootstrap intervals; {_shared_ranks(ranking)}."
        caption = latex_text(" ".join([caption, *remarks(ranking, place)]))
        best: list[set[int]] = [set(), set(), {0}, *(set() for _ in headers[3:])]
        parts.append(latex_table(headers, rows, best, caption=caption, notes=notes))
    headers, rows = mean_cells(ranking) if len(ranking.tables) > 1 else ((), [])
    if rows:
        caption = latex_text(" ".join(mean_remarks(ranking)))
        parts.append(latex_table(headers, rows, [set() for _ in headers], caption=caption, notes=notes))
    return "\n".join(parts)


def as_html(ranking: Ranking) -> str:
    """A page that needs nothing else."""
    several = len(ranking.tables) > 1
    return render_ranking(
        ranking.tables,
        ranking.people,
        about=f"Means with 95 % bootstrap intervals; {_shared_ranks(ranking)}.",
        remarks=[remarks(ranking, place) for place in range(len(ranking.tables))],
        means=mean_cells(ranking) if several else ((), []),
        mean_remarks=mean_remarks(ranking),
        signatures={
            "scores": ranking.signature,
            "test": ranking.tests,
            "command": ranking.command,
            "made with": f"textmover {__version__}, numpy {np.__version__}, python {platform.python_version()}",
        },
    )


def _shared_ranks(ranking: Ranking) -> str:
    return f"systems share a rank where {TESTS[ranking.test]} does not tell them apart (two-sided p > 0.05)"


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{AGREEMENT[name]} {_number(value)}" for name, value in values.items())


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in values.items()}


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
