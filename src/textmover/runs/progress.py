"""Progress of work whose length may be unknown: finished pairs, speed and remaining time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from rich.progress import BarColumn, Progress, TextColumn

from textmover.terminal import console

Advance = Callable[[int, "float | None", bool], None]
"""Called with newly finished pairs, the finished share of the input, and whether this run scored the pairs."""

POLL_INTERVAL = 0.5  # seconds between two reads of the counts of other processes


class ScoringSpeed:
    """Speed of scoring, without shards kept from an earlier run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, unit: str = "pairs") -> None:
        self.share: float | None = None
        self._clock, self._unit = clock, unit
        self._pairs = self._scored = 0
        self._kept_share = 0.0
        self._start = clock()
        self._seconds = 0.0

    def advance(self, pairs: int, share: float | None, scored: bool) -> None:
        """Count newly finished pairs."""
        self._pairs += pairs
        before, self.share = self.share or 0.0, share
        if scored:
            self._scored += pairs
        elif not self._scored:  # scoring starts after the kept shards
            self._start, self._kept_share = self._clock(), share or 0.0
            return
        else:
            self._kept_share += (share or 0.0) - before
        self._seconds = self._clock() - self._start

    def text(self) -> str:
        """Return the number of pairs, their rate, and the remaining time if the length of the input is known."""
        texts = [f"{self._pairs:,} {self._unit}"]
        if self._scored and self._seconds > 0:
            texts.append(f"{self._scored / self._seconds:,.0f} a second")
            if self.share is not None and self.share > self._kept_share:
                left = self._seconds * (1 - self.share) / (self.share - self._kept_share)
                texts.append(f"{timedelta(seconds=round(left))} left")
        return ", ".join(texts)


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
        self._pairs = self._within = 0
        self._total: float | None = None
        self._heard = (0, 0)
        self._next = clock()

    def read(self, rows: int, share: float | None) -> None:
        """Estimate the length of the input from the number of rows read so far and their share of the input."""
        self._total = rows * self._systems / share if share else None

    def within(self, pairs: int) -> None:
        """Count newly scored pairs of the current shard."""
        self._within += pairs
        self._step(pairs, True)
        self.look()

    def finished(self, rows: int, *, scored: bool) -> None:
        """Count the remaining pairs of a shard of ``rows`` rows."""
        self._step(rows * self._systems - self._within, scored)
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
            self._step(skipped, False)
        if scored:
            self._step(scored, True)

    def _step(self, pairs: int, scored: bool) -> None:
        self._pairs += pairs
        share = None if self._total is None else min(1.0, self._pairs / self._total)
        self._advance(pairs, share, scored)


@contextlib.contextmanager
def progress_bar(name: str, *, shown: bool, unit: str = "pairs") -> Iterator[Advance]:
    """Show a progress bar on standard error if that is a terminal and ``shown`` is true; yield its update function."""
    stream = console(stderr=True)
    columns = TextColumn(name), BarColumn(), TextColumn("{task.fields[said]}")
    pace = ScoringSpeed(unit=unit)
    with Progress(*columns, console=stream, transient=True, disable=not (shown and stream.is_terminal)) as bar:
        task = bar.add_task(name, total=None, said="")

        def advance(pairs: int, share: float | None, scored: bool) -> None:
            pace.advance(pairs, share, scored)
            bar.update(task, said=pace.text(), total=None if share is None else 1.0, completed=share or 0.0)

        yield advance
