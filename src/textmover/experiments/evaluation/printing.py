"""What ``textmover evaluate`` prints: one metric group by group, or several beside one another."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from textmover.experiments.evaluation.agreement import Failure, Finding
from textmover.meta_evaluation import Evaluation
from textmover.report import format_evaluations, print_evaluations, remarks
from textmover.report.evaluation.wording import number
from textmover.terminal import console, print_table


def print_one_metric(by_statistic: Mapping[str, Evaluation], notes: Sequence[str], *, signature: bool) -> None:
    """The agreement of a single metric in each group, by several statistics, of which the first has an interval.

    Args:
        by_statistic: An evaluation of the metric by each statistic.
        notes: What is said under the table beside the remarks of the first evaluation.
        signature: Whether the signature is printed.
    """
    first = next(iter(by_statistic.values()))
    agreements = [one.metrics[0] for one in by_statistic.values()]
    headers = ("group", "n", *(name.capitalize() for name in by_statistic))
    sizes = {**{one.name: one.segments for one in first.excluded}, **first.groups}
    rows = [
        (group, f"{sizes[group]:,}", *(number(one.by_group[group], 4) for one in agreements))
        for group in agreements[0].by_group
    ]
    if len(rows) > 1:
        rows.append(("mean", f"{first.n:,}", *(number(one.value, 4) for one in agreements)))
    print_table(headers, rows, numbers=headers[1:], narrow=headers[1:])
    sys.stdout.write(f"\n{_conclusion(first, next(iter(by_statistic)).capitalize())}\n")
    for line in remarks(first, notes):
        sys.stdout.write(f"{line}\n")
    if signature:
        sys.stdout.write(f"Signature: {agreements[0].signature}\n")


def _conclusion(evaluation: Evaluation, statistic: str) -> str:
    """The value of the metric with its interval, or why it has none."""
    metric = evaluation.metrics[0]
    if (value := number(metric.value)) == "-":
        why = next((one.reason for one in evaluation.excluded if one.name == metric.name), "it has none in any group")
        return f"{metric.name}: no value of {statistic} ({why})."
    interval = "no interval"
    if (low := number(metric.low)) != "-":
        interval = f"{100 * evaluation.level:g} % interval {low} to {number(metric.high)}"
    return f"{metric.name}: mean {statistic} {value}, {interval}."


def print_several(
    results: Sequence[Finding | Failure], notes: Sequence[Sequence[str]], format: str, *, signatures: bool
) -> None:
    """A table for each set and dimension, and a line (an entry in JSON) for each that has none.

    Args:
        results: What is printed; at least one has a table.
        notes: For each table, what is said under it beside its remarks.
        format: ``table`` or one that :func:`~textmover.report.format_evaluations` knows.
        signatures: Whether a ``table`` has the signatures under it; the other formats always do.
    """
    evaluations = [one.shown for one in results if isinstance(one, Finding)]
    if format == "table":
        print_evaluations(console(), evaluations, further=notes, signatures=signatures)
        print_failures(results)
        return
    text = format_evaluations(evaluations, format, further=notes)
    sys.stdout.write(_json_with_failures(text, results) if format == "json" else text)


def print_failures(results: Sequence[Finding | Failure]) -> None:
    """A line for each set and dimension without agreement."""
    for one in results:
        if isinstance(one, Failure):
            sys.stdout.write(f"No agreement. {one}\n")


def _json_with_failures(text: str, results: Sequence[Finding | Failure]) -> str:
    """The entries of all results in their order; that of a failure says why."""
    if all(isinstance(one, Finding) for one in results):
        return text
    told = json.loads(text)
    entries = iter(told["sets"])
    told["sets"] = [next(entries) if isinstance(one, Finding) else _entry(one) for one in results]
    return json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(failure: Failure) -> dict[str, str | None]:
    return {"set": failure.name, "dimension": failure.dimension, "error": failure.reason}
