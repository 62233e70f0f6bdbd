"""Output of ``textmover rank``: text, JSON, CSV, LaTeX or HTML page."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textmover._version import __version__
from textmover.markdown_escaping import one_line
from textmover.meta_evaluation import RankedSystems, mean_over_groups
from textmover.report.evaluation.tables import p_values_between
from textmover.report.table_formats import Section, Table, csv_text, json_text, latex, number, pick, print_named_rows
from textmover.report.templating import interval_scale, render_page
from textmover.types import fixed, plural

AGREEMENT = {
    "pearson": "Pearson",
    "kendall": "Kendall",
    "accuracy": "pairwise accuracy",
    "soft-accuracy": "soft pairwise accuracy",
}
"""Statistics of agreement between system rankings and human rankings."""

TESTS = {"randomisation": "paired approximate randomisation", "bootstrap": "paired bootstrap"}

FEW = 30  # with fewer shared segments, tests are unreliable
MOST_IN_MATRIX = 30  # maximum systems in a matrix of p-values


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranked systems with their human scores."""

    tables: Sequence[RankedSystems]  # one for each group
    signature: str  # signature of the metric
    tests: str  # signature of the tests
    test: str  # ``randomisation`` or ``bootstrap``
    fewest: int  # minimum shared segments to compare two systems
    people: Sequence[RankedSystems] = ()  # the same tables by human scores; empty without human scores
    agreement: Sequence[Mapping[str, float]] = ()  # value of each statistic by table; NaN if undefined
    command: str = ""  # command line
    warnings: Sequence[str] = ()  # sentences about unusual texts, for the page
    lone: tuple[str, ...] = ()  # groups excluded because they have only one system

    @property
    def names(self) -> list[str]:
        """Names of all systems, and of the groups that the remarks name."""
        return [*self.lone, *(name for table in self.tables for name in table.systems)]

    @property
    def shared_ranks(self) -> str:
        """Rule by which systems share a rank."""
        return f"systems share a rank where {TESTS[self.test]} finds no significant difference (two-sided p > 0.05)"

    def rows(self, place: int) -> list[dict[str, Any]]:
        """Return the values of each system of a group, best first."""
        table = self.tables[place]
        return [
            {
                "name": table.systems[one],
                **_numbers(table, one),
                "wins": float(table.wins[one]),
                "segments": int(table.segments[one]),
                **({"people": _numbers(self.people[place], one)} if self.people else {}),
            }
            for one in table.order
        ]


def _numbers(table: RankedSystems, one: int) -> dict[str, Any]:
    values = {"mean": table.means, "low": table.low, "high": table.high}
    rank = None if table.systems[one] not in _tested(table) else table.ranks[one]
    return {"rank": rank, **{name: float(column[one]) for name, column in values.items()}}


def print_ranking(ranking: Ranking, *, signature: bool) -> None:
    """Print a table and remarks for each group, and the means over groups."""
    for place, group in enumerate(ranking.tables):
        sys.stdout.write("\n" if place else "")
        _print_part(group.group, _table(ranking, place), _remarks(ranking, place))
    sys.stdout.write("\n" if len(ranking.tables) > 1 else "")
    _print_part(f"mean over {len(ranking.tables)} groups", _mean_table(ranking), _mean_remarks(ranking))
    if signature:
        sys.stderr.write(f"Signature: {ranking.signature}\nTests: {ranking.tests}\n")


def _print_part(title: str, table: Table | None, remarks: Sequence[str]) -> None:
    if table is not None:
        sys.stdout.write(f"{one_line(title)}\n" if title else "")
        print_named_rows(table)
    for remark in remarks:
        sys.stdout.write(f"{one_line(remark)}\n")


# --- tables and remarks -----------------------------------------------------------------------------------------------


def _table(ranking: Ranking, place: int) -> Table:
    headers = ["system", "rank", "mean", "95 % interval", "wins", "segments"]
    rows = []
    for one in ranking.rows(place):
        wins = "-" if math.isnan(one["wins"]) else f"{100 * one['wins']:.0f} %"
        bounds = f"{fixed(one['low'], 4)} to {fixed(one['high'], 4)}"
        people = [fixed(one["people"]["mean"], 3), one["people"]["rank"] or "-"] if ranking.people else []
        row = [one["name"], one["rank"] or "-", fixed(one["mean"], 4), bounds, wins, one["segments"], *people]
        rows.append(list(map(str, row)))
    return Table([*headers, *(("human mean", "human rank") if ranking.people else ())], rows, best={(0, 2)})


def _tested(table: RankedSystems) -> set[str]:
    """Return the systems that were compared with at least one other."""
    return {table.systems[one] for one in np.argwhere(~np.isnan(table.p_values)).ravel().tolist()}


def _mean_table(ranking: Ranking) -> Table | None:
    if len(ranking.tables) < 2:
        return None
    tested = set.intersection(*map(_tested, ranking.tables))
    compared = set.intersection(*map(_tested, ranking.people)) if ranking.people else set()
    people = {one.system: one for one in mean_over_groups(ranking.people)} if ranking.people else {}
    rows = []
    for one in mean_over_groups(ranking.tables):
        human = people.get(one.system)
        order = f"{human.rank:.2f}" if human is not None and one.system in compared else "-"
        further = () if human is None else (fixed(human.mean, 3), order)
        rows.append((one.system, f"{one.rank:.2f}" if one.system in tested else "-", fixed(one.mean, 4), *further))
    headers = ("system", "mean rank", "mean", *(("human mean", "human rank") if people else ()))
    return Table(headers, rows) if rows else None


def _remarks(ranking: Ranking, place: int) -> list[str]:
    table = ranking.tables[place]
    remarks = [] if table.higher_is_better else ["Lower scores are better."]
    if not table.complete:
        shared = [int(table.shared[pair]) for pair in table.pairs]
        low, high = min(shared), max(shared)
        count = f"{low}" if low == high else f"{low} to {high}"
        tests = f", tests over the {count} that two systems share" * bool(high)
        remarks.append(f"Not all systems have the same segments: means are over those of each{tests}.")
    if table.untested:
        first, second = table.untested[0]
        such_as = "such as " if len(table.untested) > 1 else ""
        remarks.append(
            f"Not compared, since a test needs {plural(ranking.fewest, 'segment')} with outputs of both systems: "
            f"{plural(len(table.untested), 'pair')} of systems, {such_as}{first} and {second}. Give more such segments."
        )
    tested = [int(table.shared[pair]) for pair in table.pairs if not np.isnan(table.p_values[pair])]
    if tested and min(tested) < FEW:
        remarks.append(f"Tests of fewer than {FEW} segments say little.")
    if ranking.agreement:
        values, why = ranking.agreement[place], ""
        if math.isnan(values["accuracy"]):
            why = " (the human scores of all systems are equal)"
        elif math.isnan(values["pearson"]):
            few = len(table.systems) < 3
            why = " (a correlation needs three systems)" if few else " (the scores of all systems are equal)"
        remarks.append(
            f"Agreement with human scores on {plural(len(table.systems), 'system')}: {_listed(values)}{why}."
        )
    return remarks


def _mean_remarks(ranking: Ranking) -> list[str]:
    count, notes = len(ranking.tables), []
    if count > 1:
        systems = len({name for table in ranking.tables for name in table.systems})
        common = len(mean_over_groups(ranking.tables))
        if not common:
            notes = [f"No system is in all {count} groups, so there are no means over them."]
        else:
            of = f"all {systems} systems" if common == systems else f"the {common} of {systems} systems that are in all"
            notes = [f"Means are over {count} groups, of {of}."]
        if ranking.agreement:
            notes.append(f"Mean agreement with human scores over {count} groups: {_listed(_mean_agreement(ranking))}.")
    if ranking.lone:
        notes.append(f"Left out, since they hold one system alone: {', '.join(ranking.lone)}.")
    return notes


def _mean_agreement(ranking: Ranking) -> dict[str, float]:
    means = {}
    for name in AGREEMENT:
        values = [one[name] for one in ranking.agreement if not math.isnan(one[name])]
        means[name] = float(np.mean(values)) if values else math.nan
    return means


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{AGREEMENT[name]} {number(v)}" for name, v in values.items())


# --- files ------------------------------------------------------------------------------------------------------------


def as_json(ranking: Ranking) -> str:
    """Return all results as JSON."""
    result: dict[str, Any] = {
        "textmover": __version__,
        **pick(ranking, "signature", "tests"),
        "groups": [_group_entry(ranking, place) for place in range(len(ranking.tables))],
        "left_out": ranking.lone,
    }
    if len(ranking.tables) > 1:
        result["mean"] = {"systems": mean_over_groups(ranking.tables)}
        if ranking.agreement:
            result["mean"]["agreement"] = _mean_agreement(ranking)
    return json_text(result)


def _group_entry(ranking: Ranking, place: int) -> dict[str, Any]:
    table = ranking.tables[place]
    pairs = [
        {
            "systems": [table.systems[one], table.systems[other]],
            "shared": table.shared[one, other],
            "p_value": table.p_values[one, other],
        }
        for one, other in table.pairs
    ]
    entry = {**pick(table, "group", "higher_is_better"), "systems": ranking.rows(place), "pairs": pairs}
    return {**entry, "agreement": ranking.agreement[place]} if ranking.agreement else entry


def as_csv(ranking: Ranking) -> str:
    """Return CSV with one row for each system of each group."""
    records = []
    for place, table in enumerate(ranking.tables):
        for row in ranking.rows(place):
            record = {"group": table.group, "system": row.pop("name"), **row}
            if people := row.get("people"):
                record |= {"people": people["mean"], "people_rank": people["rank"]}
            records.append(record)
    return csv_text(records)


def as_latex(ranking: Ranking) -> str:
    """Render a table for each group, and one of means over groups, as LaTeX for ``booktabs``."""
    signatures = [("", ranking.signature), ("", ranking.tests)]
    sections = []
    for place, table in enumerate(ranking.tables):
        where = f" ({table.group})" if table.group else ""
        caption = f"Systems{where} by mean score, with 95 % bootstrap intervals; {ranking.shared_ranks}."
        sections.append(Section("", _table(ranking, place), _remarks(ranking, place), signatures, caption=caption))
    if means := _mean_table(ranking):
        caption = " ".join(_mean_remarks(ranking))
        sections.append(Section("", means, signatures=signatures, caption=caption))
    return latex(sections)


def as_html(ranking: Ranking) -> str:
    """Render a self-contained HTML page."""
    systems = {name for table in ranking.tables for name in table.systems}
    return render_page(
        "ranking.html.j2",
        metrics=1,
        styles=("comparison.css",),
        script="script.js",
        title=f"{plural(len(systems), 'system')}, ranked",
        about=f"Means with 95 % bootstrap intervals; {ranking.shared_ranks}.",
        groups=[
            {
                "name": table.group,
                "rows": ranking.rows(place),
                "scale": interval_scale(table),
                "remarks": _remarks(ranking, place),
                "matrix": p_values_between(
                    [(table.systems[one], table.ranks[one]) for one in table.order], table.p_values, table.order
                )
                if 2 < len(table.systems) <= MOST_IN_MATRIX
                else None,
            }
            for place, table in enumerate(ranking.tables)
        ],
        ranking=ranking,
        means=_mean_table(ranking),
        mean_remarks=_mean_remarks(ranking),
    )
