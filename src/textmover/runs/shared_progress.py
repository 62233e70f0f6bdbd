"""Progress of several processes: each counts its own pairs, and the first one tells of all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textmover.runs.shards.shards import Shard
    from textmover.runs.shards.streaming import Done

EVERY = 0.5
"""Seconds between two looks at what the others have counted."""


class ShardCount:
    """Counts the pairs of the shards of one process, within them and at their end.

    Args:
        systems: Pairs to a row.
        tell: Called with the pairs that were finished since the last call, and whether they were scored just now.
    """

    def __init__(self, systems: int, tell: Callable[[int, bool], None]) -> None:
        self._systems, self._tell = systems, tell
        self._told = 0

    def within(self, _: Shard, pairs: int) -> None:
        """So many further pairs of a shard are finished."""
        self._told += pairs
        self._tell(pairs, True)

    def finished(self, done: Done) -> None:
        """A shard is finished, or was before."""
        self._tell(done.tally.rows * self._systems - self._told, done.scores is not None)
        self._told = 0


class AllPairs:
    """Tells of the pairs that all processes have finished, in the first one.

    Nothing waits for the others: what they have counted is looked up now and then.

    Args:
        systems: Pairs to a row.
        counted: Gives the pairs that the others have scored so far, and those that they found scored.
        advance: Is told of pairs that are finished, the share of the input that all are behind with (``None`` where
            its length is unknown), and whether they were scored just now.
        clock: Seconds that pass.
    """

    def __init__(
        self,
        systems: int,
        counted: Callable[[], tuple[int, int]],
        advance: Callable[[int, float | None, bool], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._systems, self._counted, self._advance, self._clock = systems, counted, advance, clock
        self._pairs = 0
        self._heard = (0, 0)
        self._total: float | None = None
        self._next = clock()

    def read(self, shard: Shard) -> None:
        """The input has been read up to the end of a shard, of whichever process: how long is all of it?"""
        pairs = (shard.first - 1 + len(shard.rows)) * self._systems
        self._total = pairs / shard.share if shard.share else None

    def own(self, pairs: int, scored: bool) -> None:
        """So many further pairs are finished in this process."""
        self._tell(pairs, scored)
        self.look()

    def look(self, *, at_once: bool = False) -> None:
        """Tell of what the others have finished since the last look, unless that was a moment ago."""
        if self._clock() < self._next and not at_once:
            return
        self._next = self._clock() + EVERY
        before, self._heard = self._heard, self._counted()
        scored, kept = (now - then for now, then in zip(self._heard, before, strict=True))
        if kept:
            self._tell(kept, False)
        if scored:
            self._tell(scored, True)

    def _tell(self, pairs: int, scored: bool) -> None:
        self._pairs += pairs
        share = None if self._total is None else min(1.0, self._pairs / self._total)
        self._advance(pairs, share, scored)
