"""Tables and lines on standard output: aligned on a terminal, plain and unwrapped in a file or pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

UNWRAPPED = 100_000
"""Width of a file or pipe in characters: no line is ever broken or cut there."""

LEGIBLE = 12
"""Width below which a column of text is not folded further."""


def console(*, stderr: bool = False) -> Console:
    """A console that draws boxes on a terminal and writes plain, unwrapped lines into a file or pipe."""
    stream = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not stream.is_terminal:
        stream = Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=UNWRAPPED, color_system=None)
    return stream


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str] = (),
    narrow: Sequence[str] = (),
) -> None:
    """Print aligned columns on standard output: with a rule below the header on a terminal, without one in a pipe.

    Args:
        headers: Names of the columns.
        rows: Cells, as many as there are headers.
        numbers: Headers of the columns that are aligned on the right.
        narrow: Headers of the columns that never wrap, so that the others do where the terminal is narrow.
    """
    stream = console()
    table = Table(box=box.SIMPLE_HEAD if stream.is_terminal else None, pad_edge=False)
    for header in headers:
        justify: Literal["left", "right"] = "right" if header in numbers else "left"
        table.add_column(header, justify=justify, overflow="fold", no_wrap=header in narrow)
    rows = list(rows)
    for row in rows:
        table.add_row(*row)
    for column, header in zip(table.columns, headers, strict=True):
        longest = max(cell_len(line) for one in (header, *column.cells) for line in (str(one).splitlines() or [""]))
        column.min_width = longest if column.no_wrap else min(longest, LEGIBLE)
    anywhere = stream.options.update(max_width=UNWRAPPED)
    if stream.is_terminal and Measurement.get(stream, anywhere, table).minimum <= stream.width:
        stream.print(table)
        return
    # Too narrow for that: the terminal wraps whole lines, and no name or number is cut.
    table.box = None
    stream = Console(highlight=False, markup=False, emoji=False, width=UNWRAPPED, color_system=None)
    with stream.capture() as captured:
        stream.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
