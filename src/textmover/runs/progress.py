"""Progress of work whose length may be unknown: finished pairs, speed and remaining time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from textmover.terminal import console

Advance = Callable[[int, "float | None", bool], None]
"""Called with newly finished pairs, the estimated number of all pairs if known, and whether this run scored them."""

POLL_INTERVAL = 0.5  # seconds between two reads of the counts of other processes


class PairCount:
    """Finished pairs of this process and of the other processes, whose counts are read at intervals."""

    def __init__(
        self,
        systems: int,
        advance: Advance,
        others: Callable[[], tuple[int, int]] = lambda: (0, 0),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._systems, self._advance, self._others, self._clock = systems, advance, others, clock
        self._within = 0
        self._total: float | None = None
        self._heard = (0, 0)
        self._next = clock()

    def read(self, rows: int, share: float | None) -> None:
        """Estimate the length of the input from the number of rows read so far and their share of the input."""
        self._total = rows * self._systems / share if share else None

    def within(self, pairs: int) -> None:
        """Count newly scored pairs of the current shard."""
        self._within += pairs
        self._advance(pairs, self._total, True)
        self.look()

    def finished(self, rows: int, *, scored: bool) -> None:
        """Count the remaining pairs of a shard of ``rows`` rows."""
        self._advance(rows * self._systems - self._within, self._total, scored)
        self._within = 0
        self.look()

    def look(self, *, at_once: bool = False) -> None:
        """Add the pairs that other processes have finished since the last call; skip calls in quick succession."""
        if self._clock() < self._next and not at_once:
            return
        self._next = self._clock() + POLL_INTERVAL
        previous, self._heard = self._heard, self._others()
        scored, skipped = (now - then for now, then in zip(self._heard, previous, strict=True))
        if skipped:
            self._advance(skipped, self._total, False)
        if scored:
            self._advance(scored, self._total, True)


class _Speed(ProgressColumn):
    """Finished pairs, their rate, and the remaining time if the length of the input is known."""

    def render(self, task: Task) -> Text:
        texts = [f"{task.completed:,.0f} {task.fields['unit']}"]
        if task.speed:
            texts.append(f"{task.speed:,.0f} a second")
            if task.remaining is not None:
                texts.append(f"{timedelta(seconds=max(0, round(task.remaining / task.speed)))} left")
        return Text(", ".join(texts))


@contextlib.contextmanager
def progress_bar(name: str, *, shown: bool, unit: str = "pairs") -> Iterator[Advance]:
    """Show a progress bar on standard error if that is a terminal and ``shown`` is true; yield its update function."""
    stream = console(stderr=True)
    columns = TextColumn(name), BarColumn(), _Speed(Column(no_wrap=True))
    with Progress(*columns, console=stream, transient=True, disable=not (shown and stream.is_terminal)) as bar:
        bar.add_task(name, total=None, unit=unit)

        def advance(pairs: int, total: float | None, scored: bool) -> None:
            (task,) = bar.tasks
            task.total = total
            if scored:
                bar.update(task.id, advance=pairs)
            else:  # the speed is that of this run alone
                bar.reset(task.id, completed=int(task.completed) + pairs)

        yield advance
