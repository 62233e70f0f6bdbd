"""Errors that annotators mark in a text, and suggestions of a metric that they accept or reject."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textmover.readers.error_spans.text_words import text_words
from textmover.readers.segments import told
from textmover.types import SEVERITIES, ErrorSpan, InputError

MOST_MARKS = 500
"""Marks of a text."""

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

    def open(self, suggestions: Sequence[ErrorSpan]) -> tuple[ErrorSpan, ...]:
        """Return the suggestions that are neither accepted nor rejected.

        Example:
            >>> Marks(rejected=(ErrorSpan(0, 2),)).open([ErrorSpan(0, 2), ErrorSpan(4, 4)])
            (ErrorSpan(start=4, end=4, severity='major', confidence=1.0),)
        """
        accepted = [one.suggested for one in self.errors if one.suggested is not None]
        decided = {(one.start, one.end) for one in (*accepted, *self.rejected)}
        return tuple(one for one in suggestions if (one.start, one.end) not in decided)

    def check(self, text: str) -> Marks:
        """Return the marks by place.

        Raises:
            InputError: If one lies outside of the text, two overlap or stand at one place, or there are too many.

        Example:
            >>> Marks((ErrorMark(ErrorSpan(4, 7)), ErrorMark(ErrorSpan(0, 2)))).check("It was.").spans[0].end
            2
        """
        errors = tuple(sorted(self.errors, key=lambda one: (one.span.start, one.span.end)))
        if len(errors) + len(self.rejected) > MOST_MARKS:
            raise InputError(f"Expected at most {MOST_MARKS} marks in a text, but got more: {AGAIN}.")
        for one in (*(mark.span for mark in errors), *self.rejected):
            if one.end > len(text):
                raise InputError(
                    f"Expected marks within the {len(text)} characters of the text, but got one up to {one.end}: "
                    f"{AGAIN}."
                )
        for before, after in itertools.pairwise(mark.span for mark in errors):
            if after.start < before.end or (after.start, after.end) == (before.start, before.end):
                raise InputError(
                    f"Expected errors that do not overlap, but got {_words(text, before)} and {_words(text, after)}: "
                    "move or delete one."
                )
        return Marks(errors, self.rejected, self.done, self.metric)


def as_entry(marks: Marks) -> dict[str, Any]:
    """Return marks as JSON has them."""
    errors = [
        {**_entry(one.span), **({} if one.suggested is None else {"suggested": _entry(one.suggested)})}
        for one in marks.errors
    ]
    return {"errors": errors, "rejected": list(map(_entry, marks.rejected)), "done": marks.done, "metric": marks.metric}


def parse_marks(entry: object, metric: str | None = None) -> Marks:
    """Read marks from JSON.

    Args:
        entry: The JSON, see :func:`as_entry`.
        metric: Name of the metric; that of the JSON if ``None``.

    Raises:
        InputError: If it is something else, a span is reversed or begins before the text, or a severity is unknown.

    Example:
        >>> parse_marks({"errors": [{"start": 2, "end": 5, "severity": "minor"}], "done": True}).spans
        (ErrorSpan(start=2, end=5, severity='minor', confidence=1.0),)
    """
    if not isinstance(entry, Mapping) or type(entry.get("done", False)) is not bool:
        raise _not_marks(entry)
    errors = [
        ErrorMark(_span(one), None if one.get("suggested") is None else _span(one["suggested"]))
        for one in _objects(entry.get("errors", []))
    ]
    rejected = tuple(map(_span, _objects(entry.get("rejected", []))))
    name = str(entry.get("metric", "")) if metric is None else metric
    return Marks(tuple(errors), rejected, entry.get("done", False), name)


def words_and_gaps(text: str) -> list[tuple[int, int]]:
    """Return the places of gaps and words in turn, gap first and last, which together are the text.

    Example:
        >>> words_and_gaps("A cat.")
        [(0, 0), (0, 1), (1, 2), (2, 5), (5, 5), (5, 6), (6, 6)]
    """
    places, before = [], 0
    for start, end in text_words(text):
        places += [(before, start), (start, end)]
        before = end
    return [*places, (before, len(text))]


def _entry(span: ErrorSpan) -> dict[str, Any]:
    return {"start": span.start, "end": span.end, "severity": span.severity}


def _objects(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise _not_marks(value)
    return value


def _span(entry: Any) -> ErrorSpan:
    try:
        start, end, severity = entry["start"], entry["end"], entry["severity"]
    except (KeyError, TypeError) as error:
        raise _not_marks(entry) from error
    if type(start) is not int or type(end) is not int or severity not in SEVERITIES:
        raise _not_marks(entry)
    return ErrorSpan(start, end, severity)


def _not_marks(value: object) -> InputError:
    return InputError(
        f"Expected marks with `start`, `end` and a `severity` among {', '.join(SEVERITIES)}, but got {told(value)}: "
        f"{AGAIN}."
    )


def _words(text: str, span: ErrorSpan) -> str:
    return repr(text[span.start : span.end][:40]) if not span.missing else "missing words"
