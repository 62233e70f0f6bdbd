"""Segments, their scores, what a score depends on, and human judgements of texts."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import numpy as np

from textmover.types.display import MOST_ROWS, Shown, View, plural


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


@contextlib.contextmanager
def reworded_errors(reword: Callable[[str], str]) -> Iterator[None]:
    """Raise an :class:`InputError` with another message; one whose message stays is raised as it is."""
    try:
        yield
    except InputError as error:
        said = reword(str(error))
        if said == str(error):
            raise
        raise InputError(said) from error


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


def compared_sides(metric: Any, references: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Sides that segments are compared with, where ``fallback`` leaves it to the texts; else none.

    Example:
        >>> from types import SimpleNamespace
        >>> metric = SimpleNamespace(mode="both", fallback=True)
        >>> compared_sides(metric, [SourcedReferences(["a cat"], "eine Katze"), SourcedReferences((), "ein Hund")])
        ('reference+source', 'source')
    """
    if not getattr(metric, "fallback", False):
        return ()
    given = {(bool(one), one.source is not None) for one in compared_texts(metric, references)}
    names = ("reference", "reference+source", "source")
    return tuple(name for name in names if ("reference" in name, "source" in name) in given)


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

    def compared(self, metric: Any, references: Sequence[Sequence[str]]) -> Signature:
        """Return it for scores of a metric against these references and sources."""
        return self.beside(compared_sides(metric, references))

    def beside(self, sides: Iterable[str]) -> Signature:
        """The same signature with the sides that the segments were compared with, as :func:`compared_sides` names."""
        told = "/".join(sorted(set(sides)))
        return self.extended(compared=told) if told else self

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
        sides = ("precision", "recall", "f")
        there = {name: array for name in sides if (array := getattr(self, name)) is not None}
        return {"score": self.scores, **there, **self.components}

    @property
    def mean(self) -> float:
        """Mean score over all segments; NaN where there are none."""
        return float(np.mean(self.scores)) if len(self.scores) else float("nan")


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
        found: dict[str, Any] = {
            name: tuple(values[row] for row in chosen)
            for name in ("hypotheses", "references", "groups", "items", "systems", "sources")
            if (values := getattr(self, name)) is not None
        }
        for name in ("ratings", "scores"):
            found[name] = {key: values[chosen] for key, values in getattr(self, name).items()}
        if self.preferences is not None:
            places = np.full(len(self), -1)
            places[chosen] = np.arange(len(chosen))
            preferences = places[self.preferences]
            found["preferences"] = preferences[(preferences >= 0).all(axis=1)]
        return replace(self, **found)
