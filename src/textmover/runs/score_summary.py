"""Summaries of scored rows: sums, counts and exclusions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from textmover.types import InputError, Signature, flagged, plural


@dataclass(frozen=True)
class Tally:
    """Summary of the rows of a shard; records of earlier versions lack what has a default."""

    rows: int
    skipped: int  # rows that were left out
    problem: str  # why the first of those was; empty if none was
    sums: tuple[float, ...]  # sum of the scores of each system
    counts: Mapping[str, int]  # segments that were out of the ordinary, by kind
    names: tuple[str, ...]  # the values that each row has, ``score`` first
    squares: tuple[float, ...] = ()  # sum of squared deviations from the mean of each system
    references: tuple[int, int] = (1, 1)  # fewest and most of a row
    by_system: Mapping[str, Sequence[int]] = field(default_factory=dict)  # counts of each system
    sides: tuple[str, ...] = ()  # that rows were compared with, of a metric that falls back


@dataclass(frozen=True)
class Summary(Tally):
    """Summary of all rows."""

    systems: tuple[str, ...] = ()
    signature: str = ""

    @property
    def means(self) -> tuple[float, ...]:
        """Mean score of each system, NaN where no row was scored."""
        scored = self.rows - self.skipped
        return tuple(total / scored if scored else math.nan for total in self.sums)

    @property
    def standard_errors(self) -> tuple[float, ...]:
        """Standard error of each mean, NaN for fewer than two rows."""
        scored = self.rows - self.skipped
        known = scored > 1 and self.squares
        return tuple(math.sqrt(one / (scored - 1) / scored) if known else math.nan for one in self.squares or self.sums)

    def _mean_lines(self) -> list[str]:
        scored = self.rows - self.skipped
        fewest, most = self.references
        each = f", {most if fewest == most else f'{fewest} to {most}'} references each" if most > 1 else ""
        each = each or ", from sources alone: another scale than with references" * (most == 0)
        segments, found = plural(scored, "segment") + each, []
        for system, mean, error in zip(self.systems, self.means, self.standard_errors, strict=True):
            of = f" of {system}" if len(self.systems) > 1 else ""
            error_told = "" if math.isnan(error) else f" ± {error:.4f} (standard error)"
            found.append(f"Mean{of}: {mean:.4f}{error_told}, {segments}")
        return found

    @property
    def told_counts(self) -> Mapping[str, int | Mapping[str, int]]:
        """Counts for a warning: of several systems by their names, where the records tell."""
        told = all(sum(self.by_system.get(kind, ())) == number for kind, number in self.counts.items())
        if len(self.systems) < 2 or not told:
            return self.counts
        named = {kind: zip(self.systems, numbers, strict=True) for kind, numbers in self.by_system.items()}
        return {kind: {system: number for system, number in found if number} for kind, found in named.items()}

    def said(self, *, signature: bool) -> list[str]:
        """Lines that close a run: how many segments are flagged; means and signature where they are asked for."""
        found = flagged(self.counts, plural((self.rows - self.skipped) * len(self.systems), "segment"))
        return [*found, *([*self._mean_lines(), f"Signature: {self.signature}"] if signature else [])]

    def entries(self) -> dict[str, Any]:
        """The summary for JSON: the mean of a single system, or the means of several by name."""

        def shown(values: Sequence[float]) -> Any:
            found = [None if math.isnan(value) else value for value in values]
            return dict(zip(self.systems, found, strict=True)) if len(self.systems) > 1 else found[0]

        return {
            "mean": shown(self.means),
            "standard_error": shown(self.standard_errors),
            "n": self.rows - self.skipped,
            **({"skipped": self.skipped} if self.skipped else {}),
            "counts": dict(self.counts),
            "signature": self.signature,
        }


def summarize(tallies: Sequence[Tally], systems: tuple[str, ...], signature: Signature) -> Summary:
    """Add up the tallies of all shards in input order; the sums do not depend on the order of scoring."""
    counts: Counter[str] = Counter()
    by_system: dict[str, list[int]] = {}
    for one in tallies:
        counts.update(one.counts)
        for kind, numbers in one.by_system.items():
            by_system[kind] = [a + b for a, b in zip(by_system.get(kind, [0] * len(systems)), numbers, strict=True)]
    fewest, most = ([one.references[side] for one in tallies] for side in (0, 1))
    sides = tuple({side for one in tallies for side in one.sides})
    sums = tuple(math.fsum(one.sums[place] for one in tallies) for place in range(len(systems)))
    return Summary(
        rows=sum(one.rows for one in tallies),
        skipped=sum(one.skipped for one in tallies),
        problem=next((one.problem for one in tallies if one.problem), ""),
        sums=sums,
        counts=counts,
        names=tallies[0].names if tallies else ("score",),
        squares=_squares(tallies, sums) if all(one.squares for one in tallies) else (),
        references=(min(fewest, default=1), max(most, default=1)),
        by_system=by_system,
        sides=sides,
        systems=systems,
        signature=str(signature.beside(sides)),
    )


def _squares(tallies: Sequence[Tally], sums: Sequence[float]) -> tuple[float, ...]:
    """Squared deviations from the mean of all rows, from those of each shard from its own mean."""
    counts = [one.rows - one.skipped for one in tallies]
    found = []
    for place, total in enumerate(sums):
        mean = total / max(1, sum(counts))
        between = (n * (one.sums[place] / n - mean) ** 2 for one, n in zip(tallies, counts, strict=True) if n)
        found.append(math.fsum([*(one.squares[place] for one in tallies), *between]))
    return tuple(found)


def check_any_left(rows: int, skipped: int, problem: str) -> None:
    """Refuse an input of which every row was left out: nobody wants a file of nothing but ``nan``."""
    if 0 < rows == skipped:
        raise InputError(
            f"Expected rows that can be scored, but got none: {f'all {rows} were' if rows > 1 else 'the only one was'} "
            f"left out. The first: {problem}"
        )
