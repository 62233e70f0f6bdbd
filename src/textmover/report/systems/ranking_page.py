"""Tables of ranked systems as a page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from textmover.meta_evaluation import RankedSystems
from textmover.report.evaluation.heat_maps import P_STEPS, Cell, Matrix, MatrixRow, p_value_text
from textmover.report.figures.svg import padded, signed
from textmover.report.systems.comparison_page import interval_plot
from textmover.report.templating import check_jinja, colour_rules, fill, template_text

MOST_IN_MATRIX = 30
"""Systems of which p-values are shown two by two."""


def render_ranking(
    tables: Sequence[RankedSystems],
    people: Sequence[RankedSystems] = (),
    *,
    about: str,
    remarks: Sequence[Sequence[str]],
    means: tuple[Sequence[str], Sequence[Sequence[str]]] = ((), ()),
    mean_remarks: Sequence[str] = (),
    signatures: Mapping[str, str],
) -> str:
    """The page as text.

    Args:
        tables: One for each group, at least one.
        people: The same by human scores; none where there are none.
        about: What the tables show.
        remarks: What a reader has to know of each table.
        means: Headers and cells of the table of all groups; without rows there is none.
        mean_remarks: What a reader has to know of all groups.
        signatures: What the numbers depend on, by what it is.

    Returns:
        HTML with its style, its script and its pictures; the same input gives the same text.
    """
    check_jinja()
    systems = {name for table in tables for name in table.systems}
    text = fill(
        "ranking.html.j2",
        title=f"{len(systems)} systems, ranked",
        about=about,
        groups=[
            _group(table, people[place] if people else None, f"group-{place + 1}", remarks[place])
            for place, table in enumerate(tables)
        ],
        mean_headers=means[0],
        mean_rows=means[1],
        mean_remarks=mean_remarks,
        signatures=signatures,
        colours=colour_rules(1),
        style=template_text("style.css", "comparison.css"),
        script=template_text("script.js"),
    )
    return text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is not a character of UTF-8


def _group(table: RankedSystems, people: RankedSystems | None, key: str, remarks: Sequence[str]) -> dict[str, Any]:
    """The rows of a table, best first."""
    range_ = padded(np.concatenate([table.low, table.high]), 0.04)
    rows = []
    for place, one in enumerate(table.order):
        name, mean, low, high = table.systems[one], table.means[one], table.low[one], table.high[one]
        wins = float(table.wins[one])
        rows.append(
            {
                "name": name,
                "rank": table.ranks[one],
                "opens": place > 0 and table.ranks[one] != table.ranks[table.order[place - 1]],
                "mean": signed(mean, 4),
                "value": float(mean),
                "interval": f"{signed(low, 4)} to {signed(high, 4)}",
                "low": float(low),
                "picture": interval_plot(mean, low, high, range_, name),
                "wins": "–" if math.isnan(wins) else f"{100 * wins:.0f} %",
                "wins_value": "" if math.isnan(wins) else wins,
                "segments": int(table.segments[one]),
                "people": None if people is None else signed(people.means[one], 3),
                "people_value": None if people is None else float(people.means[one]),
                "people_rank": None if people is None else people.ranks[one],
            }
        )
    matrix = _matrix(table) if 2 < len(table.systems) <= MOST_IN_MATRIX else None
    return {"key": key, "name": table.group, "rows": rows, "remarks": remarks, "people": people, "matrix": matrix}


def _matrix(table: RankedSystems) -> Matrix:
    """p-values of each two systems, best first; ranks are set apart, and untested pairs have a dash."""
    rows = []
    for place, one in enumerate(table.order):
        cells = []
        for other in table.order:
            p = float(table.p_values[one, other])
            shade = next((f"h{step}" for limit, step in P_STEPS if p <= limit), "")
            cells.append(Cell("", "self") if one == other else Cell(p_value_text(p), shade))
        opens = place > 0 and table.ranks[one] != table.ranks[table.order[place - 1]]
        rows.append(MatrixRow(table.systems[one], tuple(cells), opens, str(table.ranks[one])))
    return Matrix(tuple(table.systems[one] for one in table.order), tuple(rows))
