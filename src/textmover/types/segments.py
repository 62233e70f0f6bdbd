"""Segments, their scores, score signatures, and human judgements."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import numpy as np

from textmover.types.display import MOST_ROWS, Shown, View, fixed, plural
from textmover.types.word_splitting import legible, visible


class InputError(ValueError):
    """Error in the user's input; the message names the input and how to correct it.

    The command line prints only the message and exits with 2. Any other exception is a bug and shows its traceback.
    """


class NoReferenceError(InputError):
    """Error for a segment without a required reference or source."""


@contextlib.contextmanager
def needs_extra(extra: str, needed: str, instead: str = "") -> Iterator[None]:
    """Context for imports of an extra's packages; an import error explains how to install the extra."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f'Expected {needed}, but it is not installed: pip install "textmover[{extra}]"{instead}.'
        ) from error


@contextlib.contextmanager
def reworded_errors(reword: Callable[[str], str]) -> Iterator[None]:
    """Context that rewords the message of an :class:`InputError`; an unchanged error is raised as it is."""
    try:
        yield
    except InputError as error:
        message = reword(str(error))
        if message == str(error):
            raise
        raise InputError(message) from error


Places = tuple[str | None, str | None]


class SourcedReferences(tuple[str, ...]):
    """References of a hypothesis, possibly none, together with its source.

    Example:
        >>> one = SourcedReferences(["a cat"], "eine Katze")
        >>> tuple(one), one.source, one.texts
        (('a cat',), 'eine Katze', ('a cat', 'eine Katze'))
    """

    source: str | None
    places: Places

    def __new__(
        cls, references: Sequence[str] = (), source: str | None = None, places: Places = ("", "")
    ) -> SourcedReferences:
        """Create it from references, a source (a blank one is ignored), and their locations in the input.

        A location is ``None`` in lists, which have no name for errors, and ``""`` if the input has no such side.
        """
        result = super().__new__(cls, references)
        result.places = places
        result.source = source if source is not None and legible(source) else None
        return result

    @property
    def texts(self) -> tuple[str, ...]:
        """References, followed by the source if there is one."""
        return (*self, *(() if self.source is None else (self.source,)))

    def judging(self, copied: bool) -> SourcedReferences:
        """Return the texts to judge a hypothesis by: no source if it is copied and there are references."""
        return SourcedReferences(self) if copied and self else self


def compared_texts(metric: Any, references: Sequence[Sequence[str]]) -> list[SourcedReferences]:
    """Return each segment's references and source that a metric reads; if missing, raise an error or use the other."""
    mode, fallback = getattr(metric, "mode", "reference"), getattr(metric, "fallback", False)
    wanted = ("reference", "source") if mode == "both" else (mode,)
    blank_counts = mode == "reference" and not fallback
    compared = []
    for number, given in enumerate(references, start=1):
        source = getattr(given, "source", None)
        texts = tuple(given) if blank_counts else tuple(filter(legible, given))
        present = [name for name, one in (("reference", texts), ("source", source)) if one]
        missing = [name for name in wanted if name not in present]
        if missing and not (fallback and present):
            what = "reference or a source" if fallback else missing[0]
            other = f", or set `fallback` to true to use the {present[0]} instead" if present else ""
            raise NoReferenceError(f"Expected a {what} {_lacking(given, number, missing[0], mode)}{other}.")
        used = present if missing else wanted
        sides = (texts if "reference" in used else (), source if "source" in used else None)
        compared.append(SourcedReferences(*sides, getattr(given, "places", ("", ""))))
    return compared


def compared_sides(metric: Any, references: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return which sides the segments are compared with if the metric has a fallback; else an empty tuple.

    Example:
        >>> from types import SimpleNamespace
        >>> metric = SimpleNamespace(mode="both", fallback=True)
        >>> compared_sides(metric, [SourcedReferences(["a cat"], "eine Katze"), SourcedReferences((), "ein Hund")])
        ('reference+source', 'source')
    """
    if not getattr(metric, "fallback", False):
        return ()
    present = {(bool(one), one.source is not None) for one in compared_texts(metric, references)}
    names = ("reference", "reference+source", "source")
    return tuple(name for name in names if ("reference" in name, "source" in name) in present)


def _lacking(given: Sequence[str], number: int, side: str, mode: str) -> str:
    """Return the end of the error about a missing reference or source: its location and how to correct it."""
    places, why = getattr(given, "places", ("", "")), f"since `mode` is {mode!r}, but"
    if place := places[side == "source"]:
        return f"in {place}, {why} got none: give one"
    if any(places):
        return f"for each hypothesis, {why} got none: name their file (--{side}s), column (--{side}-column) or list"
    return f"for each hypothesis, {why} number {number} has none: give one"


class ComparedText:
    """Base of segments: a hypothesis with its references and source."""

    __slots__ = ()

    hypothesis: str
    references: tuple[str, ...]
    source: str | None
    groups: Mapping[str, str]

    @property
    def compared(self) -> SourcedReferences:
        """References and source."""
        return SourcedReferences(self.references, self.source, getattr(self.references, "places", ("", "")))


def copied_sources(hypotheses: Sequence[str], sources: Sequence[str | None]) -> np.ndarray:
    """Return which hypotheses look like their source, spaces and forms of letters apart, bool ``[n]``."""
    pairs = zip(hypotheses, sources, strict=True)
    return np.array([source is not None and visible(text) == visible(source) for text, source in pairs], dtype=bool)


def judged_texts(metric: Any, segments: Sequence[ComparedText]) -> list[SourcedReferences]:
    """Return the texts by which a metric judges segments: no source for its copies that have references."""
    compared = compared_texts(metric, [one.compared for one in segments])
    copied = copied_sources([one.hypothesis for one in segments], [one.source for one in compared])
    return [one.judging(mark) for one, mark in zip(compared, copied, strict=True)]


@dataclass(frozen=True, slots=True)
class Segment(ComparedText):
    """Hypothesis with its references, its source and its human score.

    Attributes:
        hypothesis: The text to judge.
        references: One or more reference texts.
        score: Human score in float64, higher is better; ``None`` if not rated.
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
    """Signature of a score: everything it depends on, as ordered key-value pairs as in sacrebleu.

    Characters in values that separate entries are percent-encoded (``%7C``), since file names and words may have them.

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
        """Show one entry per row."""
        return View("signature", ("entry", "value"), list(self.entries.items()))

    def compared(self, metric: Any, references: Sequence[Sequence[str]]) -> Signature:
        """Return the signature for a metric's scores against these references and sources."""
        return self.beside(compared_sides(metric, references))

    def beside(self, sides: Iterable[str]) -> Signature:
        """Return the signature with the sides that the segments were compared with (:func:`compared_sides`)."""
        joined = "/".join(sorted(set(sides)))
        return self.extended(compared=joined) if joined else self

    def extended(self, **entries: str) -> Signature:
        """Return the signature with further entries at its end; existing entries get the new values."""
        return Signature({**self.entries, **entries})


def _plain(text: str, dividing: str) -> str:
    """Percent-encode characters that separate entries or lines."""
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
        precision: float64 ``[n]``, or ``None`` if the metric has no precision.
        recall: float64 ``[n]`` or ``None``.
        f: float64 ``[n]`` or ``None``.
        components: Further named values, float64 ``[n]`` each.
        signature: Signature of the scores.
        counts: Number of flagged segments by flag: ``"empty"``, ``"truncated"``, ``"unknown"``, …
        flags: Flagged segments, bool ``[n]`` by flag.
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
        """Show number and mean of the scores, counts of flags, and the values of the first segments."""
        counts = "".join(f", {count:,} {name}" for name, count in self.counts.items() if count)
        values = self.values
        rows = list(zip(itertools.count(1), *(one[:MOST_ROWS].tolist() for one in values.values()), strict=False))
        return View(
            f"{plural(len(self), 'score')}, mean {fixed(self.mean, 4)}{counts}", ("segment", *values), rows, len(self)
        )

    @classmethod
    def from_values(
        cls, values: Mapping[str, np.ndarray], signature: Signature, flags: Mapping[str, np.ndarray]
    ) -> SegmentScores:
        """Build scores from flags and from all values by name, as in :attr:`values`."""
        rest = dict(values)
        scores = rest.pop("score")
        precision, recall, f = (rest.pop(name, None) for name in ("precision", "recall", "f"))
        counts = {name: int(marked.sum()) for name, marked in flags.items()}
        return cls(scores, precision, recall, f, signature, rest, counts, flags)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """All values by name: ``score``, ``precision``, ``recall`` and ``f`` if available, and components."""
        sides = ("precision", "recall", "f")
        available = {name: array for name in sides if (array := getattr(self, name)) is not None}
        return {"score": self.scores, **available, **self.components}

    @property
    def mean(self) -> float:
        """Mean score over all segments; NaN without segments."""
        return float(np.mean(self.scores)) if len(self.scores) else float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class Judgements(Shown):
    """Human judgements of texts; row ``i`` of every field belongs to text ``i``.

    Attributes:
        name: Name in tables.
        hypotheses: ``n`` judged texts.
        references: One or more reference texts for each.
        ratings: Ratings by dimension (``"score"`` if there is only one), float64 ``[n]`` each, higher is better; NaN if
            not rated.
        groups: Group of each text, such as its language pair: agreement is computed within groups and averaged.
        items: Input for which each text was produced, such as a document or source sentence, so that outputs of
            several systems for it can be compared; ``None`` if missing in the file.
        systems: System that produced each text; ``None`` if missing in the file.
        preferences: Pairs of rows of which people preferred the first, int64 ``[m, 2]``; ``None`` if there are only
            ratings.
        scores: Scores in the file by metric name, float64 ``[n]`` each; NaN if missing.
        sources: Text that was translated, summarised or described; ``None`` if missing in the file.
        left_out: Number of excluded rows of the file, by reason.
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
        """Show the number of judged texts, and the ratings."""
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
        """Return the given rows; drop preferences of which a row is missing."""
        chosen = np.asarray(rows, dtype=np.int64)
        selected: dict[str, Any] = {
            name: tuple(values[row] for row in chosen)
            for name in ("hypotheses", "references", "groups", "items", "systems", "sources")
            if (values := getattr(self, name)) is not None
        }
        for name in ("ratings", "scores"):
            selected[name] = {key: values[chosen] for key, values in getattr(self, name).items()}
        if self.preferences is not None:
            places = np.full(len(self), -1)
            places[chosen] = np.arange(len(chosen))
            preferences = places[self.preferences]
            selected["preferences"] = preferences[(preferences >= 0).all(axis=1)]
        return replace(self, **selected)
