"""A progress bar for work whose length may not be known: how much is done, how fast, and how long it will take.

Progress bars for work of several parts, each of a known length.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from textmover.terminal import console

if TYPE_CHECKING:
    from textmover.runs.shards.shards import Shard
    from textmover.runs.shards.streaming import Done

Advance = Callable[[int, "float | None", bool], None]
"""Called with pairs that are finished, the share of the input behind them, and whether they were scored just now."""


class Pace:
    """Speed of scoring.

    Args:
        clock: Seconds that pass.
        unit: What is counted.

    Example:
        >>> seconds = iter([0.0, 10.0, 20.0])
        >>> pace = Pace(clock=lambda: next(seconds))
        >>> pace.advance(1000, 0.5, scored=False)  # kept from an earlier run
        >>> pace.advance(400, 0.7, scored=True)
        >>> pace.text(), pace.share
        ('1,400 pairs, 40 a second, 0:00:15 left', 0.7)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, unit: str = "pairs") -> None:
        self.share: float | None = None
        self._clock, self._unit = clock, unit
        self._pairs = self._scored = 0
        self._kept_share = 0.0
        self._start = clock()
        self._seconds = 0.0

    def advance(self, pairs: int, share: float | None, scored: bool) -> None:
        """Count pairs that are finished."""
        self._pairs += pairs
        before, self.share = self.share or 0.0, share
        if scored:
            self._scored += pairs
        elif not self._scored:  # scoring begins behind what was kept
            self._start, self._kept_share = self._clock(), share or 0.0
            return
        else:
            self._kept_share += (share or 0.0) - before
        self._seconds = self._clock() - self._start

    def text(self) -> str:
        """Pairs, and once some were scored their rate and, where the length is known, the time left."""
        said = [f"{self._pairs:,} {self._unit}"]
        if self._scored and self._seconds > 0:
            said.append(f"{self._scored / self._seconds:,.0f} a second")
            if self.share is not None and self.share > self._kept_share:
                left = self._seconds * (1 - self.share) / (self.share - self._kept_share)
                said.append(f"{timedelta(seconds=round(left))} left")
        return ", ".join(said)


class ShardProgress:
    """Progress of :func:`progress_bar` by shards, within them and at their end.

    Args:
        advance: From :func:`progress_bar`.
        systems: Pairs to a row.
    """

    def __init__(self, advance: Advance, systems: int) -> None:
        self._advance, self._systems = advance, systems
        self._told = 0
        self._share = 0.0

    def within(self, shard: Shard, pairs: int) -> None:
        """So many further pairs of a shard are finished."""
        self._told += pairs
        share = shard.share
        if share is not None:
            share = self._share + (share - self._share) * self._told / (len(shard.rows) * self._systems)
        self._advance(pairs, share, True)

    def finished(self, done: Done) -> None:
        """A shard is finished, or was before."""
        self._advance(done.tally.rows * self._systems - self._told, done.shard.share, done.scores is not None)
        self._told, self._share = 0, done.shard.share or 0.0


@contextlib.contextmanager
def progress_bar(name: str, *, shown: bool, unit: str = "pairs") -> Iterator[Advance]:
    """Show a bar on standard error, if that is a terminal.

    Args:
        name: What is done.
        shown: Whether it may be shown at all.
        unit: What is counted.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn(name),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )
    pace = Pace(unit=unit)
    with bar:
        task = bar.add_task(name, total=None, said="")

        def advance(pairs: int, share: float | None, scored: bool) -> None:
            pace.advance(pairs, share, scored)
            bar.update(task, said=pace.text(), total=None if share is None else 1.0, completed=share or 0.0)

        yield advance


AdvancePart = Callable[[str, int, int], None]
"""Is told what is done, how much of it has been finished since the last call, and how much there is in all."""


@contextlib.contextmanager
def progress_bars(*, shown: bool) -> Iterator[AdvancePart]:
    """Show a bar on standard error, if that is a terminal, for each thing that is done.

    Args:
        shown: Whether bars may be shown at all.
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
