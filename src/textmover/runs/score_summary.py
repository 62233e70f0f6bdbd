"""Summaries of scored rows: sums, counts and excluded rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from textmover.types import InputError, Signature, fixed, flagged, plural


@dataclass(frozen=True)
class ShardSummary:
    """Summary of the rows of a shard. Fields with a default are missing in records of earlier versions."""

    rows: int
    skipped: int  # excluded rows
    problem: str  # why the first of them was excluded; empty if none was
    sums: tuple[float, ...]  # sum of the scores of each system
    counts: Mapping[str, int]  # number of flagged segments by flag
    names: tuple[str, ...] = ("score",)  # names of the values of each row
    squares: tuple[float, ...] = ()  # sum of squared deviations from the mean of each system
    references: tuple[int, int] = (1, 1)  # smallest and largest number of references of a row
    by_system: Mapping[str, Sequence[int]] = field(default_factory=dict)  # ``counts`` of each system
    sides: tuple[str, ...] = ()  # references or sources that texts were compared with, if the metric has a fallback
    extras: Mapping[str, Any] = field(default_factory=dict)  # what a command counts that writes no scores


@dataclass(frozen=True)
class Summary(ShardSummary):
    """Summary of all rows."""

    systems: tuple[str, ...] = ()
    signature: str = ""

    @property
    def means(self) -> tuple[float, ...]:
        """Mean score of each system; NaN if no row was scored."""
        scored = self.rows - self.skipped
        return tuple(total / scored if scored else math.nan for total in self.sums)

    @property
    def standard_errors(self) -> tuple[float, ...]:
        """Standard error of each mean; NaN for fewer than two rows."""
        scored = self.rows - self.skipped
        valid = scored > 1 and self.squares
        return tuple(math.sqrt(one / (scored - 1) / scored) if valid else math.nan for one in self.squares or self.sums)

    def _mean_lines(self) -> list[str]:
        scored = self.rows - self.skipped
        fewest, most = self.references
        each = f", {most if fewest == most else f'{fewest} to {most}'} references each" if most > 1 else ""
        each = each or ", from sources alone: another scale than with references" * (most == 0)
        segments, lines = plural(scored, "segment") + each, []
        for system, mean, error in zip(self.systems, self.means, self.standard_errors, strict=True):
            of = f" of {system}" if len(self.systems) > 1 else ""
            error_text = "" if math.isnan(error) else f" ± {error:.4f} (standard error)"
            lines.append(f"Mean{of}: {fixed(mean, 4)}{error_text}, {segments}")
        return lines

    @property
    def warning_counts(self) -> Mapping[str, int | Mapping[str, int]]:
        """Flag counts for warnings: by system for several systems, unless older records lack them."""
        complete = all(sum(self.by_system.get(kind, ())) == number for kind, number in self.counts.items())
        if len(self.systems) < 2 or not complete:
            return self.counts
        by_name = {kind: zip(self.systems, numbers, strict=True) for kind, numbers in self.by_system.items()}
        return {kind: {system: number for system, number in pairs if number} for kind, pairs in by_name.items()}

    def said(self, *, signature: bool) -> list[str]:
        """Return the last lines of a run: numbers of flagged segments, with ``signature`` also means and signature."""
        lines = flagged(self.counts, plural((self.rows - self.skipped) * len(self.systems), "segment"))
        return [*lines, *([*self._mean_lines(), f"Signature: {self.signature}"] if signature else [])]

    def entries(self) -> dict[str, Any]:
        """Return the summary for JSON; several systems have a mapping of name to mean, a single one has the mean."""

        def shown(values: Sequence[float]) -> Any:
            cleaned = [None if math.isnan(value) else value for value in values]
            return dict(zip(self.systems, cleaned, strict=True)) if len(self.systems) > 1 else cleaned[0]

        return {
            "mean": shown(self.means),
            "standard_error": shown(self.standard_errors),
            "n": self.rows - self.skipped,
            **({"skipped": self.skipped} if self.skipped else {}),
            "counts": dict(self.counts),
            "signature": self.signature,
        }


def summarize(tallies: Sequence[ShardSummary], systems: tuple[str, ...], signature: Signature) -> Summary:
    """Add up the tallies of all shards in input order, which keeps the sums independent of the order of scoring."""
    counts: Counter[str] = Counter()
    by_system: dict[str, list[int]] = {}
    for tally in tallies:
        counts.update(tally.counts)
        for kind, numbers in tally.by_system.items():
            by_system[kind] = [a + b for a, b in zip(by_system.get(kind, [0] * len(systems)), numbers, strict=True)]
    fewest, most = ([tally.references[side] for tally in tallies] for side in (0, 1))
    sides = tuple({side for tally in tallies for side in tally.sides})
    sums = tuple(math.fsum(tally.sums[place] for tally in tallies) for place in range(len(systems)))
    return Summary(
        rows=sum(tally.rows for tally in tallies),
        skipped=sum(tally.skipped for tally in tallies),
        problem=next((tally.problem for tally in tallies if tally.problem), ""),
        sums=sums,
        counts=counts,
        names=tallies[0].names if tallies else ("score",),
        squares=_squares(tallies, sums) if all(tally.squares for tally in tallies) else (),
        references=(min(fewest, default=1), max(most, default=1)),
        by_system=by_system,
        sides=sides,
        systems=systems,
        signature=str(signature.beside(sides)),
    )


def _squares(tallies: Sequence[ShardSummary], sums: Sequence[float]) -> tuple[float, ...]:
    """Combine the squared deviations from the means of the shards into those from the overall means."""
    counts = [tally.rows - tally.skipped for tally in tallies]
    squares = []
    for place, total in enumerate(sums):
        mean = total / max(1, sum(counts))
        between = (n * (tally.sums[place] / n - mean) ** 2 for tally, n in zip(tallies, counts, strict=True) if n)
        squares.append(math.fsum([*(tally.squares[place] for tally in tallies), *between]))
    return tuple(squares)


def check_any_left(rows: int, skipped: int, problem: str) -> None:
    """Raise :class:`InputError` if every row was excluded, since all scores would be NaN."""
    if 0 < rows == skipped:
        raise InputError(
            f"Expected rows that can be scored, but got none: {f'all {rows} were' if rows > 1 else 'the only one was'} "
            f"left out. The first: {problem}"
        )
