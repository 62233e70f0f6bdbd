"""Evaluations in the terminal: as wide as it is, and as plain lines in a file or a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from textmover.meta_evaluation import Evaluation
from textmover.report.evaluation.summaries import overview_table, summary_table
from textmover.report.evaluation.wording import remarks, set_title

BETWEEN, EDGES = 3, 2
"""Characters between two columns, and at both ends together, of a table with rules."""

LONGEST_NAME = 40
"""Of a metric in characters; a longer name is broken into lines."""


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
        console: Where to print; one that is no terminal gets plain lines, without trailing spaces.
        evaluations: What to print.
        further: For each evaluation, what the caller adds to its remarks.
        signatures: Whether the signatures are printed.
    """
    added = list(further) or [()] * len(evaluations)
    if len(evaluations) > 1:
        _print_table(console, "All sets", *overview_table(evaluations))
    for index, (one, notes) in enumerate(zip(evaluations, added, strict=True)):
        if index:
            _print(console, Text())
        _print_table(console, set_title(one, evaluations), *summary_table(one))
        for note in remarks(one, notes):
            _print(console, Text(note))
        if signatures:
            for metric in one.ranked():
                if metric.signature:
                    _print(console, Text(f"{metric.name}: {metric.signature}"))


def _print(console: Console, what: Table | Text) -> None:
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _print_table(
    console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[set[int]]
) -> None:
    _print(console, Text(title, style="bold"))
    for table in _tables(headers, rows, best, console.width, ruled=console.is_terminal):
        _print(console, table)
    _print(console, Text())


def _tables(
    headers: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[set[int]], width: int, *, ruled: bool
) -> list[Table]:
    """One table where it fits, else several with the same first column."""
    widths = [max(map(cell_len, [header, *(row[column] for row in rows)])) for column, header in enumerate(headers)]
    widths[0] = min(widths[0], LONGEST_NAME)
    found = []
    for columns in _split(widths, width):
        table = Table(box=box.SIMPLE_HEAD if ruled else None, pad_edge=False)
        for column in columns:
            name = column == 0
            table.add_column(
                headers[column],
                justify="left" if name else "right",
                overflow="fold",
                no_wrap=not name and ruled and len(columns) > 2,
                max_width=LONGEST_NAME if name and ruled else None,
            )
        for row, cells in enumerate(rows):
            table.add_row(*(Text(cells[one], style="bold" if row in best[one] else "") for one in columns))
        found.append(table)
    return found


def _split(widths: Sequence[int], width: int) -> list[list[int]]:
    """Columns of each table: the first one, and as many others as fit, at least one.

    Example:
        >>> _split([10, 5, 5, 5], 28), _split([10, 5, 5], 12)
        ([[0, 1, 2], [0, 3]], [[0, 1], [0, 2]])
    """
    found, used = [[0]], EDGES + widths[0]
    for column in range(1, len(widths)):
        if len(found[-1]) > 1 and used + BETWEEN + widths[column] > width:
            found.append([0])
            used = EDGES + widths[0]
        found[-1].append(column)
        used += BETWEEN + widths[column]
    return found
