"""What ``textmover evaluate`` prints: one metric group by group, or several beside one another."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence

from textmover.cli.console import console, print_table
from textmover.meta_evaluation import Evaluation
from textmover.report import format_evaluations, print_evaluations, remarks

__all__ = ["print_one_metric", "print_several"]


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
        (group, f"{sizes[group]:,}", *(_number(one.by_group[group]) for one in agreements))
        for group in agreements[0].by_group
    ]
    if len(rows) > 1:
        rows.append(("mean", f"{first.n:,}", *(_number(one.value) for one in agreements)))
    print_table(headers, rows, numbers=headers[1:], narrow=headers[1:])
    best, name = agreements[0], next(iter(by_statistic)).capitalize()
    interval = f"{100 * first.level:g} % interval {_number(best.low, 3)} to {_number(best.high, 3)}"
    sys.stdout.write(f"\n{best.name}: mean {name} {_number(best.value, 3)}, {interval}.\n")
    for line in remarks(first, notes):
        sys.stdout.write(f"{line}\n")
    if signature:
        sys.stdout.write(f"Signature: {best.signature}\n")


def print_several(
    evaluations: Sequence[Evaluation], notes: Sequence[Sequence[str]], format: str, *, signatures: bool
) -> None:
    """A table for each set and dimension.

    Args:
        evaluations: What is printed.
        notes: For each, what is said under its table beside its remarks.
        format: ``table`` or one that :func:`~textmover.report.format_evaluations` knows.
        signatures: Whether a ``table`` has the signatures under it; the other formats always do.
    """
    if format == "table":
        print_evaluations(console(), evaluations, further=notes, signatures=signatures)
    else:
        sys.stdout.write(format_evaluations(evaluations, format, further=notes))


def _number(value: float, digits: int = 4) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"
