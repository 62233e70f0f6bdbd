"""Tables, lines and progress bars: aligned on a terminal, plain and unwrapped in a file or pipe."""

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

UNWRAPPED = 100_000  # width in characters of a file or pipe, so that lines are never wrapped or cut
LEGIBLE = 12  # minimum width of a text column


class _Console(Console):
    """Console that leaves a closed pipe to the caller; rich would end the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console that draws boxes on a terminal, and writes plain, unwrapped lines to a file or pipe."""
    stream = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not stream.is_terminal:
        stream = _Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=UNWRAPPED, color_system=None)
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
    """Print aligned columns, with a rule below the header on a terminal only.

    Args:
        headers: Column names.
        rows: Cells, one per header.
        numbers: Names or indices of columns to align right.
        narrow: Names or indices of columns that never wrap; on a narrow terminal the others wrap.
        longest: Maximum width of the first column on a terminal; cells are then folded instead of wrapping whole lines.
        stream: Console to print to; ``None`` is standard output.
        fold: Whether to fold cells in a pipe too, if ``COLUMNS`` gives its width.
    """
    stream = stream or console()
    if fold and not stream.is_terminal and os.environ.get("COLUMNS", "").isdecimal():
        stream.width = int(os.environ["COLUMNS"])
    table = Table(box=box.SIMPLE_HEAD if stream.is_terminal else None, pad_edge=False)
    for index, header in enumerate(headers):
        justify: Literal["left", "right"] = "right" if {header, index} & set(numbers) else "left"
        table.add_column(header, justify=justify, overflow="fold", no_wrap=bool({header, index} & set(narrow)))
    for row in rows:
        table.add_row(*row)
    table.columns[0].max_width = longest if stream.is_terminal else None
    for column in table.columns if longest is None else ():
        texts = (str(cell_text) for cell_text in (column.header, *column.cells))
        widest = max(cell_len(line) for cell_text in texts for line in cell_text.splitlines() or [""])
        column.min_width = widest if column.no_wrap else min(widest, LEGIBLE)
    fits = longest or Measurement.get(stream, stream.options.update(max_width=UNWRAPPED), table).minimum <= stream.width
    if stream.is_terminal and fits:
        stream.print(table)
        return
    width = stream.width if fits else UNWRAPPED
    # Too narrow for the table: print plain lines that the terminal wraps, so that no name or number is cut.
    table.box = None
    unboxed = _Console(highlight=False, markup=False, emoji=False, width=width, color_system=None)
    with unboxed.capture() as captured:
        unboxed.print(table)
    stream.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def print_line(stream: Console, line: str | Text) -> None:
    """Print a line, without trailing spaces in a file or pipe."""
    if stream.is_terminal:
        stream.print(line)
        return
    with stream.capture() as captured:
        stream.print(line)
    stream.file.write("".join(f"{text_line.rstrip()}\n" for text_line in captured.get().splitlines()))


AdvancePart = Callable[[str, int, "int | None"], None]
"""Function to report progress: name of a part, number of items finished since the last call, and total."""


@contextlib.contextmanager
def progress_bars(*, shown: bool) -> Iterator[AdvancePart]:
    """Show a progress bar per part of the work on standard error, if ``shown`` and it is a terminal."""
    stream = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stream, transient=True, disable=not (shown and stream.is_terminal)) as bar:
        tasks: dict[str, TaskID] = {}

        def advance(part: str, done: int, total: int | None) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(part, total=total)
            bar.update(tasks[part], advance=done)

        yield advance
