"""Summaries of scored rows: sums, counts and exclusions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from textmover.types import InputError


@dataclass(frozen=True)
class Tally:
    """Summary of the rows of a shard.

    Attributes:
        rows: How many there are.
        skipped: How many of them were left out.
        problem: Why the first of those was; empty if none was.
        sums: Sum of the scores of each system.
        counts: How many segments were out of the ordinary.
        names: The values that each row has, ``score`` first.
    """

    rows: int
    skipped: int
    problem: str
    sums: tuple[float, ...]
    counts: Mapping[str, int]
    names: tuple[str, ...]

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Tally:
        """The tally that ``dataclasses.asdict`` took apart and JSON kept."""
        return cls(**{**entries, "sums": tuple(entries["sums"]), "names": tuple(entries["names"])})


@dataclass(frozen=True)
class Summary:
    """Summary of all rows.

    Attributes:
        systems: What the systems are called.
        means: Mean score of each, NaN where no row was scored.
        rows: Rows of the input.
        skipped: How many of them were left out.
        problem: Why the first of those was.
        counts: How many segments were out of the ordinary.
        names: The values that each row has, ``score`` first.
        signature: What the scores depend on.
    """

    systems: tuple[str, ...]
    means: tuple[float, ...]
    rows: int
    skipped: int
    problem: str
    counts: Mapping[str, int]
    names: tuple[str, ...]
    signature: str

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


def summarize(tallies: Iterable[Tally], systems: tuple[str, ...], signature: str) -> Summary:
    """Add up the tallies of all shards, to the same result in whatever order they were scored.

    Args:
        tallies: One per shard, in input order.
        systems: What the systems are called.
        signature: What the scores depend on.

    Example:
        >>> shards = [Tally(2, 0, "", (0.5,), {}, ("score",)), Tally(2, 1, "line 4", (0.25,), {"empty": 1}, ("score",))]
        >>> summarize(shards, ("h.txt",), "metric:twmd").entries()
        {'mean': 0.25, 'n': 3, 'skipped': 1, 'counts': {'empty': 1}, 'signature': 'metric:twmd'}
    """
    found = list(tallies)
    rows, skipped = sum(one.rows for one in found), sum(one.skipped for one in found)
    counts: Counter[str] = Counter()
    for one in found:
        counts.update(one.counts)
    totals = [math.fsum(one.sums[place] for one in found) for place in range(len(systems))]
    return Summary(
        systems=systems,
        means=tuple(total / (rows - skipped) if rows > skipped else math.nan for total in totals),
        rows=rows,
        skipped=skipped,
        problem=next((one.problem for one in found if one.problem), ""),
        counts=counts,
        names=found[0].names if found else ("score",),
        signature=signature,
    )


def check_any_left(rows: int, skipped: int, problem: str) -> None:
    """Refuse an input of which every row was left out: nobody wants a file of nothing but ``nan``.

    Args:
        rows: How many there are.
        skipped: How many were left out.
        problem: Why the first of them was.
    """
    if 0 < rows == skipped:
        raise InputError(
            f"Expected rows that can be scored, but got none: {f'all {rows} were' if rows > 1 else 'the only one was'} "
            f"left out. The first: {problem}"
        )
