"""Evaluations as tables: terminal, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from textmover.meta_evaluation import Evaluation, MetricAgreement
from textmover.report.document import (
    Section,
    Table,
    best_rows,
    csv_text,
    interval,
    json_text,
    latex,
    markdown,
    number,
    pick,
    print_sections,
)
from textmover.report.evaluation.wording import SIGNIFICANT, mark, overview_rows, remarks, set_title, shown_groups
from textmover.types import InputError

TABLE_FORMATS = ("markdown", "csv", "json", "latex")
"""Formats of :func:`format_evaluations`."""
STATISTIC_SYMBOLS = {"tau23": "τ23", "kendall": "τ-b", "kendall-c": "τ-c", "spearman": "ρ"}
"""Statistics whose column is headed with their symbol in LaTeX."""


def format_evaluations(
    evaluations: Sequence[Evaluation], table_format: str, *, further: Sequence[Sequence[str]] = ()
) -> str:
    """Evaluations as text.

    Markdown and LaTeX show three digits, the best value of a column in bold, and remarks with signatures under each
    table; before several tables stands one of all sets. CSV and JSON hold all digits; JSON holds everything there is.

    Args:
        evaluations: One for each set and dimension.
        table_format: One of :data:`TABLE_FORMATS`.
        further: For each evaluation, what the caller adds to its remarks.

    Returns:
        Text that ends in a line break.

    Raises:
        InputError: If there is no evaluation, or the format is unknown.
    """
    if table_format not in TABLE_FORMATS:
        raise InputError(f"Expected a format of {', '.join(TABLE_FORMATS)}, but got {table_format!r}: choose one.")
    if not evaluations:
        raise InputError("Expected at least one evaluation, but got none: name a judgement set.")
    added = list(further) or [()] * len(evaluations)
    if len(added) != len(evaluations):
        raise ValueError(f"Expected remarks for {len(evaluations)} evaluations, but got {len(added)}.")
    if table_format == "csv":
        return _csv(evaluations)
    if table_format == "json":
        return json_text({"sets": list(map(evaluation_entry, evaluations, added))})
    sections = _sections(evaluations, added)
    return markdown(sections) if table_format == "markdown" else latex(list(map(_with_symbol, sections)))


def print_evaluations(
    console: Console,
    evaluations: Sequence[Evaluation],
    *,
    further: Sequence[Sequence[str]] = (),
    signatures: bool = True,
) -> None:
    """Print a table for each evaluation, remarks and signatures under it; before several, one of all sets.

    On a terminal that is too narrow for all columns, the groups go on in further tables with the metrics' names.

    Args:
        console: Where to print; one that is not a terminal gets plain lines, without trailing spaces.
        evaluations: What to print.
        further: For each evaluation, what the caller adds to its remarks.
        signatures: Whether the signatures are printed.
    """
    sections = _sections(evaluations, list(further) or [()] * len(evaluations))
    print_sections(console, sections if signatures else [replace(one, signatures=()) for one in sections])


# --- tables for reading -----------------------------------------------------------------------------------------------


def _sections(evaluations: Sequence[Evaluation], further: Sequence[Sequence[str]]) -> list[Section]:
    sections = []
    if len(evaluations) > 1:
        caption = "Agreement with people on all sets."
        sections.append(Section("All sets", _overview_table(evaluations), caption=caption))
    for one, added in zip(evaluations, further, strict=True):
        signatures = [(metric.name, metric.signature) for metric in one.ranked() if metric.signature]
        sections.append(Section(set_title(one, evaluations), _summary_table(one), remarks(one, added), signatures))
    return sections


def _with_symbol(section: Section) -> Section:
    first, statistic, *others = section.table.headers
    if not section.remarks:  # the table of all sets, whose columns are these
        return section
    return replace(
        section, table=replace(section.table, headers=[first, STATISTIC_SYMBOLS.get(statistic, statistic), *others])
    )


def _summary_table(evaluation: Evaluation) -> Table:
    ranked = evaluation.ranked()
    headers, columns = ["metric"], [[one.name for one in ranked]]
    best: set[tuple[int, int]] = set()

    def add(header: str, cells: list[str], values: Sequence[float] = ()) -> None:
        best.update((row, len(headers)) for row in best_rows(values))
        headers.append(header)
        columns.append(cells)

    add(evaluation.protocol.statistic, [number(one.value) for one in ranked], [one.value for one in ranked])
    if any(not math.isnan(one.low) for one in ranked):
        add(f"{100 * evaluation.level:g} % interval", [interval(one.low, one.high) for one in ranked])
    if any(one.rank is not None for one in ranked):
        add("rank", ["-" if one.rank is None else str(one.rank) for one in ranked])
    if evaluation.baseline is not None:
        add(f"vs. {evaluation.baseline}", [_against(one, evaluation) for one in ranked])
    for group in shown_groups(evaluation):
        values = [one.by_group.get(group, math.nan) for one in ranked]
        add(group, list(map(number, values)), values)
    return Table(headers, list(zip(*columns, strict=True)), best)


def _against(metric: MetricAgreement, evaluation: Evaluation) -> str:
    if metric.name == evaluation.baseline:
        return "baseline"
    gain = number(metric.gain)
    plus = "" if gain.startswith("-") or not gain.strip("0.") else "+"
    return f"{plus}{gain} {mark(metric)}".rstrip()


def _overview_table(evaluations: Sequence[Evaluation]) -> Table:
    rows = overview_rows(evaluations)
    cells = [(name, *map(number, values)) for name, values in rows]
    columns = zip(*(values for _, values in rows), strict=True)
    best = {(row, place) for place, column in enumerate(columns, start=1) for row in best_rows(column)}
    return Table(["metric", *(set_title(one, evaluations) for one in evaluations)], cells, best)


# --- all digits -------------------------------------------------------------------------------------------------------

BETTER = {"↑": "better", "↓": "worse"}


def _csv(evaluations: Sequence[Evaluation]) -> str:
    groups = list(dict.fromkeys(group for one in evaluations for group in one.groups))
    records = []
    for one in evaluations:
        for metric in one.ranked():
            record = {
                "set": one.name,
                "dimension": one.dimension,
                "protocol": str(one.protocol),
                "metric": metric.name,
                "segments": one.n,
                **pick(metric, "units", "undefined_segments", "value", "low", "high", "rank"),
                "baseline": one.baseline,
                **pick(metric, "gain", "p_value"),
                "against_baseline": BETTER.get(mark(metric)),
                "signature": metric.signature,
            }
            values = {group: metric.by_group.get(group) if group in one.groups else None for group in groups}
            records.append(record | {f"group_{group}" if group in record else group: values[group] for group in groups})
    return csv_text(records)


def evaluation_entry(one: Evaluation, added: Sequence[str]) -> dict[str, Any]:
    """An evaluation as JSON holds it, with what the caller adds to its remarks."""
    return {
        "set": one.name,
        "dimension": one.dimension,
        "protocol": pick(one.protocol, "statistic", "level", "pair_rate"),
        "segments": one.n,
        **pick(one, "groups", "baseline"),
        "significant": SIGNIFICANT,
        "bootstrap": {**pick(one, "samples", "seed", "level"), "undefined": one.undefined_samples},
        "test": {"name": "PERM-BOTH", **pick(one, "permutations", "seed")},
        "metrics": [
            {
                **pick(metric, "name", "value", "low", "high", "rank", "gain", "p_value"),
                "against_baseline": BETTER.get(mark(metric)),
                "groups": metric.by_group,
                **pick(metric, "units", "undefined", "undefined_segments", "epsilons", "signature"),
            }
            for metric in one.metrics
        ],
        "p_values": one.p_values,
        "left_out": {
            "rows": one.left_out,
            "missing": one.missing,
            "preferences": one.lost_preferences,
            "excluded": one.excluded,
        },
        **pick(one, "notes"),
        "remarks": remarks(one, added),
    }
