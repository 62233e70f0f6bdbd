"""Human judgements of texts: ratings, preferences, and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from textmover.types.shown import Shown, View, plural

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False, repr=False)
class Judgements(Shown):
    """Texts that people have judged; row ``i`` of every field is about text ``i``.

    Attributes:
        name: What tables call them.
        hypotheses: ``n`` texts that were judged.
        references: For each, one or more texts that say what was wanted.
        ratings: Ratings by dimension (``"score"`` where there is one alone), float64 ``[n]`` each, higher is better;
            NaN where a text was not rated.
        groups: Group of each, such as its language pair: agreement is computed within groups and averaged over them.
        items: What each text is an output for, such as a document or a source sentence: outputs of several systems
            for the same item can be compared. ``None`` where the file does not say.
        systems: What produced each; ``None`` where the file does not say.
        preferences: Pairs of rows of which people found the first one better, int64 ``[m, 2]``; ``None`` where they
            gave ratings alone.
        scores: Scores that the file brings along, by the name of the metric, float64 ``[n]`` each; NaN where missing.
        sources: What was translated, summarised or described; ``None`` where the file does not say.
        left_out: How many rows of the file are not among these, by the reason.
    """

    name: str
    hypotheses: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    ratings: Mapping[str, np.ndarray]
    groups: tuple[str, ...]
    items: tuple[str, ...] | None = None
    systems: tuple[str, ...] | None = None
    preferences: np.ndarray | None = None
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    sources: tuple[str, ...] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.hypotheses)

    def view(self) -> View:
        """Show how many texts were judged, and the ratings."""
        pairs = "" if self.preferences is None else f", {plural(len(self.preferences), 'preference')}"
        rated = {name: one[~np.isnan(one)] for name, one in self.ratings.items()}
        rows = [
            (name, len(one), float(one.min(initial=np.inf)), float(one.max(initial=-np.inf)))
            for name, one in rated.items()
        ]
        return View(
            f"{self.name}: {plural(len(self), 'text')}{pairs}", ("ratings", "number", "lowest", "highest"), rows
        )

    def select(self, rows: Sequence[int] | np.ndarray) -> Judgements:
        """The given rows; preferences that lose a side are left out."""
        chosen = np.asarray(rows, dtype=np.int64)

        def picked(values: tuple[Value, ...]) -> tuple[Value, ...]:
            return tuple(values[row] for row in chosen)

        return replace(
            self,
            hypotheses=picked(self.hypotheses),
            references=picked(self.references),
            ratings={name: values[chosen] for name, values in self.ratings.items()},
            groups=picked(self.groups),
            items=None if self.items is None else picked(self.items),
            systems=None if self.systems is None else picked(self.systems),
            preferences=None if self.preferences is None else _among(self.preferences, chosen, len(self)),
            scores={name: values[chosen] for name, values in self.scores.items()},
            sources=None if self.sources is None else picked(self.sources),
        )


def _among(preferences: np.ndarray, chosen: np.ndarray, size: int) -> np.ndarray:
    """Preferences whose sides are both among the chosen rows, by their new places."""
    places = np.full(size, -1)
    places[chosen] = np.arange(len(chosen))
    found = places[preferences]
    return found[(found >= 0).all(axis=1)]
