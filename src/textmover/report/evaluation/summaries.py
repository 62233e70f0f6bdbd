"""Evaluations as cells of plain text, which every format of table starts from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textmover.meta_evaluation import Evaluation, MetricAgreement
from textmover.report.evaluation.wording import best_rows, mark, number, overview_rows, set_title, shown_groups


def summary_table(evaluation: Evaluation) -> tuple[list[str], list[list[str]], list[set[int]]]:
    """Headers, cells, and the best rows of each column, metrics from the best to the worst.

    Args:
        evaluation: What is shown.

    Returns:
        Headers; rows of plain text; for each column the numbers of the rows with its best value.
    """
    ranked = evaluation.ranked()
    headers, columns, best = ["metric"], [[one.name for one in ranked]], [set[int]()]

    def add(header: str, cells: list[str], values: Sequence[float] = ()) -> None:
        headers.append(header)
        columns.append(cells)
        best.append(best_rows(values) if values else set())

    add(evaluation.protocol.statistic, [number(one.value) for one in ranked], [one.value for one in ranked])
    if any(not math.isnan(one.low) for one in ranked):
        add(f"{100 * evaluation.level:g} % interval", [_interval(one) for one in ranked])
    if any(one.rank is not None for one in ranked):
        add("rank", ["-" if one.rank is None else str(one.rank) for one in ranked])
    if evaluation.baseline is not None:
        add(f"vs. {evaluation.baseline}", [_against(one, evaluation) for one in ranked])
    for group in shown_groups(evaluation):
        values = [one.by_group.get(group, math.nan) for one in ranked]
        add(group, [number(value) for value in values], values)
    return headers, [list(row) for row in zip(*columns, strict=True)], best


def _interval(metric: MetricAgreement) -> str:
    return "-" if math.isnan(metric.low) else f"{number(metric.low)} to {number(metric.high)}"


def _against(metric: MetricAgreement, evaluation: Evaluation) -> str:
    """Gain over the baseline with its mark."""
    if metric.name == evaluation.baseline:
        return "baseline"
    if math.isnan(metric.gain):
        return "-"
    gain = number(metric.gain)
    plus = "" if gain.startswith("-") or not gain.strip("0.") else "+"
    return f"{plus}{gain} {mark(metric)}".rstrip()


def overview_table(evaluations: Sequence[Evaluation]) -> tuple[list[str], list[list[str]], list[set[int]]]:
    """The same for the table of all sets: metrics by sets.

    Args:
        evaluations: What is shown.
    """
    rows = overview_rows(evaluations)
    headers = ["metric", *(set_title(one, evaluations) for one in evaluations)]
    values = [[math.nan if one is None else one.value for one in found] for _, found in rows]
    cells = [[name, *map(number, line)] for (name, _), line in zip(rows, values, strict=True)]
    return headers, cells, [set(), *(best_rows(column) for column in zip(*values, strict=True))]
