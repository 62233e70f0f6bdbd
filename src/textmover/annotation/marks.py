"""Errors that annotators mark in a text, and suggestions of a metric that they accept or reject."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textmover.readers.segments import told
from textmover.types import SEVERITIES, ErrorSpan, InputError
from textmover.types.text_words import text_words

AGAIN = "load the page again"


@dataclass(frozen=True)
class ErrorMark:
    """An error that an annotator marked.

    Attributes:
        span: Its place and severity.
        suggested: The suggestion that was accepted, as the metric made it; ``None`` for a mark of the annotator.
    """

    span: ErrorSpan
    suggested: ErrorSpan | None = None


@dataclass(frozen=True)
class Marks:
    """Marks of one annotator in one text.

    Attributes:
        errors: Errors by place.
        rejected: Suggestions that the annotator rejected.
        done: Whether all errors are marked; a text without errors is done with none.
        metric: Name of the metric that made the suggestions; empty where none did.
    """

    errors: tuple[ErrorMark, ...] = ()
    rejected: tuple[ErrorSpan, ...] = ()
    done: bool = False
    metric: str = ""

    @property
    def spans(self) -> tuple[ErrorSpan, ...]:
        """Errors by place, accepted suggestions among them."""
        return tuple(one.span for one in self.errors)

    def undecided(self, suggestions: Sequence[ErrorSpan]) -> int:
        """Return the number of suggestions that are neither accepted nor rejected."""
        accepted = [one.suggested for one in self.errors if one.suggested is not None]
        decided = {(one.start, one.end) for one in (*accepted, *self.rejected)}
        return sum((one.start, one.end) not in decided for one in suggestions)

    def check(self, text: str) -> Marks:
        """Return the marks by place; refuse those that overlap or lie outside of the text."""
        errors = tuple(sorted(self.errors, key=lambda one: (one.span.start, one.span.end)))
        for one in (*(mark.span for mark in errors), *self.rejected):
            if one.end > len(text):
                raise InputError(
                    f"Expected marks within the {len(text)} characters of the text, but got one up to {one.end}: "
                    f"{AGAIN}."
                )
        for before, after in itertools.pairwise(mark.span for mark in errors):
            if after.start < before.end or (after.start, after.end) == (before.start, before.end):
                both = [
                    repr(text[one.start : one.end][:40]) if one.end > one.start else "a gap" for one in (before, after)
                ]
                raise InputError(
                    f"Expected errors that do not overlap, but got {' and '.join(both)}: move or delete one."
                )
        return Marks(errors, self.rejected, self.done, self.metric)


def as_entry(marks: Marks) -> dict[str, Any]:
    """Return marks as :func:`parse_marks` reads them."""
    errors = [span_entry(one.span, suggested=one.suggested and span_entry(one.suggested)) for one in marks.errors]
    return {
        "errors": errors,
        "rejected": list(map(span_entry, marks.rejected)),
        "done": marks.done,
        "metric": marks.metric,
    }


def parse_marks(entry: Any, metric: str | None = None) -> Marks:
    """Read marks from JSON; the name of the metric is that of the JSON if ``None``.

    Raises:
        InputError: If it is something else, a span is reversed or begins before the text, or a severity is unknown.

    Example:
        >>> parse_marks({"errors": [{"start": 2, "end": 5, "severity": "minor"}], "done": True}).spans
        (ErrorSpan(start=2, end=5, severity='minor', confidence=1.0),)
    """
    try:
        marked, rejected, done = entry.get("errors", []), entry.get("rejected", []), entry.get("done", False)
        if not (isinstance(marked, list) and isinstance(rejected, list) and isinstance(done, bool)):
            raise TypeError("no marks")
        errors = [ErrorMark(_span(one), _span(one["suggested"]) if one.get("suggested") else None) for one in marked]
        refused = tuple(map(_span, rejected))
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"Expected marks with `start`, `end` and a `severity` among {', '.join(SEVERITIES)}, but got "
            f"{told(entry)}: {AGAIN}."
        ) from error
    return Marks(tuple(errors), refused, done, str(entry.get("metric", "")) if metric is None else metric)


def words_and_gaps(text: str) -> list[tuple[int, int]]:
    """Return the places of gaps and words in turn, gap first and last, which together are the text.

    Example:
        >>> words_and_gaps("A cat.")
        [(0, 0), (0, 1), (1, 2), (2, 5), (5, 5), (5, 6), (6, 6)]
    """
    ends = [0, *itertools.chain.from_iterable(text_words(text)), len(text)]
    return list(itertools.pairwise(ends))


def span_entry(span: ErrorSpan, **others: object) -> dict[str, Any]:
    """Return a span as JSON has it, with others that are not empty."""
    kept = {name: one for name, one in others.items() if one}
    return {"start": span.start, "end": span.end, "severity": span.severity, **kept}


def _span(entry: Any) -> ErrorSpan:
    start, end, severity = entry["start"], entry["end"], entry["severity"]
    if type(start) is not int or type(end) is not int or severity not in SEVERITIES:
        raise TypeError("no span")
    return ErrorSpan(start, end, severity)
