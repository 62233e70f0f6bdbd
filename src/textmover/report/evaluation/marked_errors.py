"""Tables of agreement on marked errors: terminal, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from textmover.meta_evaluation import SpanAgreement, significance_clusters
from textmover.meta_evaluation.significance.bootstrap import few_to_draw
from textmover.report.evaluation.wording import SIGNIFICANT
from textmover.report.table_formats import (
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
from textmover.types import plural

# Column titles of the figures; all except F1-mult have an interval.
TITLES = {"mcc_words": "MCC words", "mcc_gaps": "MCC gaps", "f1_mult": "F1-mult", "span_f1": "span F1", "ece": "ECE"}
BY_GROUP = ("mcc_words", "mcc_gaps", "span_f1")  # figures in the table by group
VALUE = ("estimate", "low", "high")


@dataclass(frozen=True, eq=False)
class MarkedSet:
    """Agreement of metrics with human error marks on one data set."""

    name: str
    agreements: Mapping[str, SpanAgreement]  # by metric
    signatures: Mapping[str, str]  # by metric
    p_values: Mapping[str, np.ndarray]  # ``[K, K]`` by figure; empty without tests
    baseline: str | None  # metric that the others are compared with
    permutations: int
    left_out: int  # number of unusable rows
    main: str = "mcc_words"  # figure that ranks the metrics

    @property
    def ranks(self) -> dict[str, int | None]:
        """Significance cluster of each metric."""
        if self.main not in self.p_values:
            return dict.fromkeys(self.agreements)
        values = [one.figures[self.main].estimate for one in self.agreements.values()]
        return dict(zip(self.agreements, significance_clusters(values, self.p_values[self.main]), strict=True))

    def against(self, name: str, figure: str) -> tuple[float, float]:
        """Return a metric's gain over the baseline and the one-sided p-value of its direction; NaN if unknown."""
        if self.baseline in (None, name):
            return math.nan, math.nan
        values = {metric: agreement.figures[figure].estimate for metric, agreement in self.agreements.items()}
        gain, names = values[name] - values[str(self.baseline)], list(values)
        row, column = names.index(name), names.index(str(self.baseline))
        table = self.p_values.get(figure)
        return gain, math.nan if table is None else float(table[row, column] if gain > 0 else table[column, row])


def format_marked(sets: Sequence[MarkedSet], table_format: str) -> str:
    """Render agreement as Markdown, LaTeX, CSV or JSON. CSV and JSON contain all digits, JSON all results."""
    if table_format == "json":
        return json_text({"sets": list(map(_entry, sets))})
    if table_format == "csv":
        return csv_text([record for one in sets for record in _records(one)])
    sections = [section for one in sets for section in _sections(one)]
    return markdown(sections) if table_format == "markdown" else latex(sections)


def print_marked(console: Console, sets: Sequence[MarkedSet], *, signatures: bool = True) -> None:
    """Print the tables of each set."""
    print_sections(console, [section for one in sets for section in _sections(one)], signatures=signatures)


def _sections(one: MarkedSet) -> list[Section]:
    ranked = sorted(
        one.agreements, key=lambda name: -np.nan_to_num(one.agreements[name].figures[one.main].estimate, nan=-np.inf)
    )
    signatures = [(name, one.signatures[name]) for name in ranked if one.signatures.get(name)]
    sections = [Section(one.name, _summary(one, ranked), _remarks(one), signatures)]
    ordered = [one.agreements[name] for name in ranked]
    first = ordered[0]
    if len(first.groups) > 1:
        cells = {
            group: [[agreement.by_group[group][figure] for figure in BY_GROUP] for agreement in ordered]
            for group in first.groups
        }
        headers = ("metric", "group", *(TITLES[figure] for figure in BY_GROUP))
        sections.append(Section(f"{one.name} · by group", _long_table(headers, ranked, cells)))
    if first.by_kind:
        parts = {kind: [agreement.by_kind[kind] for agreement in ordered] for kind in first.by_kind}
        cells = {kind: [[part.recall.estimate, part.precision.estimate] for part in parts[kind]] for kind in parts}
        headers = ("metric", "kind", "recall", "precision")
        sections.append(Section(f"{one.name} · by kind", _long_table(headers, ranked, cells)))
    return sections


def _summary(one: MarkedSet, ranked: Sequence[str]) -> Table:
    columns, best = [("metric", list(ranked))], set[tuple[int, int]]()
    level = next(iter(one.agreements.values())).level
    for figure, title in TITLES.items():
        results = [one.agreements[name].figures[figure] for name in ranked]
        values = [-value.estimate if figure == "ece" else value.estimate for value in results]
        best.update((row, len(columns)) for row in best_rows(values))
        columns.append((title, [number(value.estimate) for value in results]))
        if figure != "f1_mult" and any(not math.isnan(value.low) for value in results):
            columns.append((f"{100 * level:g} % interval", [interval(value.low, value.high) for value in results]))
        if figure == one.main and one.p_values:
            columns.append(("rank", ["-" if one.ranks[name] is None else str(one.ranks[name]) for name in ranked]))
        if figure == one.main and one.baseline is not None:
            columns.append((f"vs. {one.baseline}", [_gain(one, name, figure) for name in ranked]))
    headers, cells = zip(*columns, strict=True)
    return Table(headers, list(zip(*cells, strict=True)), best)


def _gain(one: MarkedSet, name: str, figure: str) -> str:
    if name == one.baseline:
        return "baseline"
    gain, p_value = one.against(name, figure)
    mark = (" ↑" if gain > 0 else " ↓") if p_value <= SIGNIFICANT else ""
    return f"{'+' if gain > 0 else ''}{number(gain)}{mark}"


def _long_table(headers: Sequence[str], names: Sequence[str], cells: Mapping[str, Sequence[Sequence[float]]]) -> Table:
    """Build a table with a row for each part (group or kind) and metric, the best value of each part in bold."""
    rows: list[tuple[str, ...]] = []
    best: set[tuple[int, int]] = set()
    for part, table in cells.items():
        for column, values in enumerate(zip(*table, strict=True), start=2):
            best |= {(len(rows) + row, column) for row in best_rows(values)}
        rows += [(name, part, *map(number, values)) for name, values in zip(names, table, strict=True)]
    return Table(headers, rows, best, texts=2)


def _remarks(one: MarkedSet) -> list[str]:
    first = next(iter(one.agreements.values()))
    size = plural(len(first.labels), "segment")
    lines = [f"{size}, mean over {plural(len(first.groups), 'group')}." if len(first.groups) > 1 else f"{size}."]
    if one.left_out:
        lines.append(f"Left out: {plural(one.left_out, 'row')} that cannot be used.")
    if one.p_values:
        lines.append(
            f"Rank: by {TITLES[one.main]}; a metric of a lower rank is significantly worse (p ≤ {SIGNIFICANT}, "
            f"{plural(one.permutations, 'permutation')})."
        )
    excluded: dict[str, list[str]] = {}  # undefined figures by their groups
    for figure, title in TITLES.items():
        if groups := first.figures[figure].excluded:
            excluded.setdefault(", ".join(groups), []).append(title)
    lines += [f"Not defined in {groups}: {', '.join(titles)}." for groups, titles in excluded.items()]
    if first.samples and (note := few_to_draw(first.groups, "segment")):
        lines.append(note)
    return lines


def _records(one: MarkedSet) -> list[dict[str, Any]]:
    records = []
    for name, agreement in one.agreements.items():
        record: dict[str, Any] = {"set": one.name, "metric": name, "segments": len(agreement.labels)}
        for figure, value in agreement.figures.items():
            record |= {figure: value.estimate, f"{figure}_low": value.low, f"{figure}_high": value.high}
        record |= {"rank": one.ranks[name], "signature": one.signatures.get(name, "")}
        records.append(record)
    return records


def _entry(one: MarkedSet) -> dict[str, Any]:
    first = next(iter(one.agreements.values()))
    return {
        "set": one.name,
        "segments": len(first.labels),
        "groups": first.groups,
        "left_out": one.left_out,
        "baseline": one.baseline,
        "significant": SIGNIFICANT,
        "bootstrap": pick(first, "samples", "seed", "level"),
        "permutations": one.permutations,
        "ranked_by": one.main,
        "metrics": [
            {
                "name": name,
                "rank": one.ranks[name],
                "figures": {
                    figure: pick(value, "estimate", "low", "high", "excluded")
                    for figure, value in agreement.figures.items()
                },
                "against_baseline": {
                    figure: dict(zip(("gain", "p_value"), one.against(name, figure), strict=True))
                    for figure in one.p_values
                    if one.baseline not in (None, name)
                },
                "groups": agreement.by_group,
                "kinds": {
                    kind: {
                        "errors": part.errors,
                        "recall": pick(part.recall, *VALUE),
                        "precision": pick(part.precision, *VALUE),
                    }
                    for kind, part in agreement.by_kind.items()
                },
                "calibration": agreement.calibration,
                "signature": one.signatures.get(name, ""),
            }
            for name, agreement in one.agreements.items()
        ],
        "p_values": one.p_values,
    }
