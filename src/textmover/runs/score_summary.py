"""Summaries of scored rows: sums, counts and exclusions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textmover.types import InputError


@dataclass(frozen=True)
class Tally:
    """Summary of the rows of a shard."""

    rows: int
    skipped: int
    """Rows that were left out."""
    problem: str
    """Why the first of those was; empty if none was."""
    sums: tuple[float, ...]
    """Sum of the scores of each system."""
    counts: Mapping[str, int]
    """Segments that were out of the ordinary, by kind."""
    names: tuple[str, ...]
    """The values that each row has, ``score`` first."""


@dataclass(frozen=True)
class Summary(Tally):
    """Summary of all rows."""

    systems: tuple[str, ...]
    signature: str

    @property
    def means(self) -> tuple[float, ...]:
        """Mean score of each system, NaN where no row was scored."""
        scored = self.rows - self.skipped
        return tuple(total / scored if scored else math.nan for total in self.sums)

    def said(self, *, signature: bool) -> list[str]:
        """Lines that close a run: how many segments are flagged, and the signature where it is asked for."""
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in self.counts.items())
        found = [f"Flagged: {kinds} (of {(self.rows - self.skipped) * len(self.systems):,} segments)"] if kinds else []
        return [*found, *([f"Signature: {self.signature}"] if signature else [])]

    def entries(self) -> dict[str, Any]:
        """The summary for JSON: the mean of a single system, or the means of several by name."""
        means = [None if math.isnan(mean) else mean for mean in self.means]
        several = len(self.systems) > 1
        return {
            "mean": dict(zip(self.systems, means, strict=True)) if several else means[0],
            "n": self.rows - self.skipped,
            **({"skipped": self.skipped} if self.skipped else {}),
            "counts": dict(self.counts),
            "signature": self.signature,
        }


def summarize(tallies: Sequence[Tally], systems: tuple[str, ...], signature: str) -> Summary:
    """Add up the tallies of all shards in input order; the sums do not depend on the order of scoring."""
    counts: Counter[str] = Counter()
    for one in tallies:
        counts.update(one.counts)
    return Summary(
        rows=sum(one.rows for one in tallies),
        skipped=sum(one.skipped for one in tallies),
        problem=next((one.problem for one in tallies if one.problem), ""),
        sums=tuple(math.fsum(one.sums[place] for one in tallies) for place in range(len(systems))),
        counts=counts,
        names=tallies[0].names if tallies else ("score",),
        systems=systems,
        signature=signature,
    )


def check_any_left(rows: int, skipped: int, problem: str) -> None:
    """Refuse an input of which every row was left out: nobody wants a file of nothing but ``nan``."""
    if 0 < rows == skipped:
        raise InputError(
            f"Expected rows that can be scored, but got none: {f'all {rows} were' if rows > 1 else 'the only one was'} "
            f"left out. The first: {problem}"
        )
