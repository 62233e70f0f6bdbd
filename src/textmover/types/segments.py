"""Segments, their scores, and what a score depends on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from textmover.types.shown import MOST_ROWS, Shown, View, plural


class InputError(ValueError):
    """Something that the user gave cannot be used; the message names it and the way out.

    The command line prints the message alone and exits with 2; every other exception is a defect and keeps its
    traceback.
    """


class NoReferenceError(InputError):
    """A segment lacks its reference or its source."""


@contextlib.contextmanager
def needs_extra(extra: str, needed: str, instead: str = "") -> Iterator[None]:
    """Import within this what an extra brings: without it, the error says how to get it."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f'Expected {needed}, but it is not installed: pip install "textmover[{extra}]"{instead}.'
        ) from error


class SourcedReferences(tuple[str, ...]):
    """References of a hypothesis, possibly none, with its source beside them.

    Example:
        >>> one = SourcedReferences(["a cat"], "eine Katze")
        >>> tuple(one), one.source, one.texts
        (('a cat',), 'eine Katze', ('a cat', 'eine Katze'))
    """

    source: str | None
    places: tuple[str, str]

    def __new__(
        cls, references: Sequence[str] = (), source: str | None = None, places: tuple[str, str] = ("", "")
    ) -> SourcedReferences:
        """Make it of references, a source (a blank one is none), and where both stand in files, for errors."""
        found = super().__new__(cls, references)
        found.places = places
        found.source = source if source is not None and source.strip() else None
        return found

    @property
    def texts(self) -> tuple[str, ...]:
        """References and source, as far as they are there."""
        return (*self, *(() if self.source is None else (self.source,)))

    def judging(self, copied: bool) -> SourcedReferences:
        """Return those that judge a hypothesis: a source that it copies says nothing beside a reference."""
        return SourcedReferences(self) if copied and self else self


def compared_texts(metric: Any, references: Sequence[Sequence[str]]) -> list[SourcedReferences]:
    """References and source of each segment that a metric reads; missing ones are refused, unless it falls back."""
    mode, fallback = getattr(metric, "mode", "reference"), getattr(metric, "fallback", False)
    wanted = ("reference", "source") if mode == "both" else (mode,)
    found = []
    for number, given in enumerate(references, start=1):
        source = getattr(given, "source", None)
        several = (text for text in given if text.strip() or (mode == "reference" and not fallback))
        there = {name: texts for name, texts in (("reference", tuple(several)), ("source", source)) if texts}
        missing = [name for name in wanted if name not in there]
        if missing and not (fallback and there):
            what = "reference or a source" if fallback else missing[0]
            other = f", or set `fallback` to true to use the {next(iter(there))} instead" if there else ""
            raise NoReferenceError(f"Expected a {what} {_lacking(given, number, missing[0], mode)}{other}.")
        taken = there if missing else wanted
        found.append(
            SourcedReferences(there["reference"] if "reference" in taken else (), source if "source" in taken else None)
        )
    return found


def _lacking(given: Sequence[str], number: int, side: str, mode: str) -> str:
    """Rest of the sentence about a segment that lacks its reference or source: where that is, and the way out."""
    places, why = getattr(given, "places", ("", "")), f"since `mode` is {mode!r}, but"
    if place := places[side == "source"]:
        return f"in {place}, {why} got none: give one"
    if any(places):
        return f"for each hypothesis, {why} got none: name their file (--{side}s) or column (--{side}-column)"
    return f"for each hypothesis, {why} number {number} has none: give one"


class ComparedText:
    """Base of segments: a hypothesis beside what it is compared with."""

    __slots__ = ()

    hypothesis: str
    references: tuple[str, ...]
    source: str | None
    groups: Mapping[str, str]

    @property
    def compared(self) -> SourcedReferences:
        """References and source."""
        return SourcedReferences(self.references, self.source, getattr(self.references, "places", ("", "")))


@dataclass(frozen=True, slots=True)
class Segment(ComparedText):
    """One hypothesis, what it is compared with, and what people thought of it.

    Attributes:
        hypothesis: The text to judge.
        references: One or more texts that say what was wanted.
        score: Human score in float64, higher is better; ``None`` where nobody rated it.
        source: The text that was translated or described, if known.
        groups: Named keys for grouping, such as ``{"lp": "de-en", "system": "online-A"}``.
    """

    hypothesis: str
    references: tuple[str, ...]
    score: float | None = None
    source: str | None = None
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Signature(Shown):
    """Everything that a number depends on, as ordered key-value pairs in the manner of sacrebleu.

    Names of files and words may hold any character: those that divide entries are written as in addresses (``%7C``).

    Example:
        >>> str(Signature({"metric": "twmd", "layer": "6"}))
        'metric:twmd|layer:6'
    """

    entries: Mapping[str, str]

    def __post_init__(self) -> None:
        plain = {_plain(key, "|:"): _plain(value, "|") for key, value in self.entries.items()}
        object.__setattr__(self, "entries", plain)

    def __str__(self) -> str:
        return "|".join(f"{key}:{value}" for key, value in self.entries.items())

    def __repr__(self) -> str:
        return f"Signature({self})"

    def view(self) -> View:
        """Show an entry a row."""
        return View("signature", ("entry", "value"), list(self.entries.items()))

    def extended(self, **entries: str) -> Signature:
        """The same signature with further entries at its end (or with new values in their old places)."""
        return Signature({**self.entries, **entries})


def _plain(text: str, dividing: str) -> str:
    """Text without the characters that divide entries or lines."""
    if text.isprintable() and not any(one in text for one in dividing):
        return text
    return "".join(
        quote(one, safe="", errors="surrogatepass") if one in dividing or not one.isprintable() else one for one in text
    )


@dataclass(frozen=True, repr=False)
class SegmentScores(Shown):
    """Scores of a list of segments, in input order.

    Attributes:
        scores: The metric's score of each segment, float64 ``[n]``.
        precision: float64 ``[n]``, or ``None`` where the metric has none.
        recall: float64 ``[n]`` or ``None``.
        f: float64 ``[n]`` or ``None``.
        components: Further named values, float64 ``[n]`` each.
        signature: What the numbers depend on.
        counts: Number of segments out of the ordinary, by kind: ``"empty"``, ``"truncated"``, ``"unknown"``, …
        flags: Those segments, bool ``[n]`` by kind.
    """

    scores: np.ndarray
    precision: np.ndarray | None
    recall: np.ndarray | None
    f: np.ndarray | None
    signature: Signature
    components: Mapping[str, np.ndarray] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    flags: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[float]:
        return iter(self.scores.tolist())

    def view(self) -> View:
        """Show number, mean and what was out of the ordinary, and the values of the first segments."""
        counts = "".join(f", {count:,} {name}" for name, count in self.counts.items() if count)
        values = self.values
        rows = list(zip(itertools.count(1), *(one[:MOST_ROWS].tolist() for one in values.values()), strict=False))
        return View(
            f"{plural(len(self), 'score')}, mean {self.mean:.4f}{counts}", ("segment", *values), rows, len(self)
        )

    @classmethod
    def from_values(
        cls, values: Mapping[str, np.ndarray], signature: Signature, flags: Mapping[str, np.ndarray]
    ) -> SegmentScores:
        """Scores from all values by name, as :attr:`values` gives them, and flags."""
        rest = dict(values)
        scores = rest.pop("score")
        precision, recall, f = (rest.pop(name, None) for name in ("precision", "recall", "f"))
        counts = {name: int(marked.sum()) for name, marked in flags.items()}
        return cls(scores, precision, recall, f, signature, rest, counts, flags)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """All values by name: ``score``, as far as there are any ``precision``, ``recall``, ``f``, and components."""
        sides = {"precision": self.precision, "recall": self.recall, "f": self.f}
        there = {name: array for name, array in sides.items() if array is not None}
        return {"score": self.scores, **there, **self.components}

    @property
    def mean(self) -> float:
        """Mean score over all segments; NaN where there are none."""
        return float(np.mean(self.scores)) if len(self.scores) else float("nan")
