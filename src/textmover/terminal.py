"""Tables and lines on standard output: aligned on a terminal, plain and unwrapped in a file or pipe; progress bars."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

UNWRAPPED = 100_000  # width of a file or pipe in characters: no line is ever broken or cut there
LEGIBLE = 12  # width below which a column of text is not folded further


def console(*, stderr: bool = False) -> Console:
    """A console that draws boxes on a terminal and writes plain, unwrapped lines into a file or pipe."""
    stream = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not stream.is_terminal:
        stream = Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=UNWRAPPED, color_system=None)
    return stream


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    numbers: Collection[str | int] = (),
    narrow: Collection[str | int] = (),
    longest: int | None = None,
    stream: Console | None = None,
    fold: bool = False,
) -> None:
    """Print aligned columns: with a rule below the header on a terminal, without one in a pipe.

    Args:
        headers: Names of the columns.
        rows: Cells, as many as there are headers.
        numbers: Names or positions of the columns that are aligned on the right.
        narrow: Names or positions of the columns that never wrap, so that the others do where the terminal is narrow.
        longest: Width of the first column on a terminal, at most; then cells fold rather than lines wrap.
        stream: Where to print; standard output if ``None``.
        fold: Whether cells fold in a pipe too, where ``COLUMNS`` gives its width.
    """
    stream = stream or console()
    if fold and not stream.is_terminal and os.environ.get("COLUMNS", "").isdecimal():
        stream.width = int(os.environ["COLUMNS"])
    table = Table(box=box.SIMPLE_HEAD if stream.is_terminal else None, pad_edge=False)
    for place, header in enumerate(headers):
        justify: Literal["left", "right"] = "right" if {header, place} & set(numbers) else "left"
        table.add_column(header, justify=justify, overflow="fold", no_wrap=bool({header, place} & set(narrow)))
    for row in rows:
        table.add_row(*row)
    table.columns[0].max_width = longest if stream.is_terminal else None
    for column in table.columns if longest is None else ():
        texts = (str(one) for one in (column.header, *column.cells))
        widest = max(cell_len(line) for one in texts for line in one.splitlines() or [""])
        column.min_width = widest if column.no_wrap else min(widest, LEGIBLE)
    fits = longest or Measurement.get(stream, stream.options.update(max_width=UNWRAPPED), table).minimum <= stream.width
    if stream.is_terminal and fits:
        stream.print(table)
        return
    width = stream.width if fits else UNWRAPPED
    # Too narrow for that: the terminal wraps whole lines, and no name or number is cut.
    table.box = None
    whole = Console(highlight=False, markup=False, emoji=False, width=width, color_system=None)
    with whole.capture() as captured:
        whole.print(table)
    stream.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def print_line(stream: Console, line: str | Text) -> None:
    """Print a line, without trailing spaces into a file or pipe."""
    if stream.is_terminal:
        stream.print(line)
        return
    with stream.capture() as captured:
        stream.print(line)
    stream.file.write("".join(f"{one.rstrip()}\n" for one in captured.get().splitlines()))


AdvancePart = Callable[[str, int, "int | None"], None]
"""Called with the name of a part of the work, how much of it was finished since the last call, and its length."""


@contextlib.contextmanager
def progress_bars(*, shown: bool) -> Iterator[AdvancePart]:
    """Show a bar for each part of the work on standard error, if that is a terminal, and if they may be ``shown``."""
    stream = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stream, transient=True, disable=not (shown and stream.is_terminal)) as bar:
        tasks: dict[str, TaskID] = {}

        def advance(part: str, done: int, total: int | None) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(part, total=total)
            bar.update(tasks[part], advance=done)

        yield advance
