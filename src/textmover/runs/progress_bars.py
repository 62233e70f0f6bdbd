"""Progress bars for work of several parts, each of a known length."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from textmover.terminal import console

__all__ = ["Advance", "progress_bars"]

Advance = Callable[[str, int, int], None]
"""Is told what is done, how much of it has been finished since the last call, and how much there is in all."""


@contextlib.contextmanager
def progress_bars(*, shown: bool) -> Iterator[Advance]:
    """Show a bar on standard error, if that is a terminal, for each thing that is done.

    Args:
        shown: Whether bars may be shown at all.

    Yields:
        What is to be told how far the work is.
    """
    stream = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stream, transient=True, disable=not (shown and stream.is_terminal)) as bar:
        tasks: dict[str, int] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], advance=done)  # type: ignore[arg-type]

        yield advance
