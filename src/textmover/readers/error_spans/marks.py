"""Spans that people marked: lists of places, and marks in the text as Google publishes MQM."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from textmover.readers.error_spans.tagged_words import WAY_OUT
from textmover.readers.segments import told
from textmover.reading import NotJsonError, load_json
from textmover.types import InputError
from textmover.types.error_spans import SEVERITIES, ErrorSpan, Severity

NO_ERROR = frozenset(("no-error", "no_error", "neutral"))
"""Severities of what is not counted as an error: neutral ones are matters of taste (Freitag et al. 2021)."""

ATTENTION_TEST = "hotw-test"
"""Severity of rows about sentences that were changed to test the rater."""

MARK = re.compile("</?v>")

NESTED, NOT_BEGUN, NOT_CLOSED = "one inside another", "the end of one that was not begun", "one that is not closed"


def as_severity(value: object, place: str) -> Severity | None:
    """Return a severity as people write it; ``None`` where there is no error.

    Example:
        >>> as_severity("Major", "line 2"), as_severity("No-error", "line 2")
        ('major', None)
    """
    name = value.strip().lower() if isinstance(value, str) else ""
    found: Severity | None = next((one for one in SEVERITIES if one == name), None)
    if found is None and name not in NO_ERROR:
        raise InputError(
            f"Expected one of the severities {', '.join(SEVERITIES)}, neutral and no-error in {place}, but got "
            f"{told(value)}: {WAY_OUT}."
        )
    return found


def split_marks(text: str, place: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text without its marks, and the characters of it that they hold.

    Example:
        >>> split_marks("A <v>cat</v> sat<v></v>.", "line 2")
        ('A cat sat.', [(2, 5), (9, 9)])
    """
    plain, spans, start, done = "", [], None, 0
    for mark in MARK.finditer(text):
        plain += text[done : mark.start()]
        done = mark.end()
        opens = mark[0] == "<v>"
        if opens == (start is not None):
            raise _unmatched(place, NESTED if opens else NOT_BEGUN)
        if start is not None:
            spans.append((start, len(plain)))
        start = len(plain) if opens else None
    if start is not None:
        raise _unmatched(place, NOT_CLOSED)
    return plain + text[done:], spans


def _unmatched(place: str, what: str) -> InputError:
    return InputError(f"Expected marks <v>…</v> one after the other in {place}, but got {what}: {WAY_OUT}.")


def joined(spans: Sequence[ErrorSpan]) -> tuple[ErrorSpan, ...]:
    """Return spans by place; overlapping ones become one of the worst severity.

    Example:
        >>> [(one.start, one.end) for one in joined([ErrorSpan(3, 9), ErrorSpan(0, 4), ErrorSpan(9, 9)])]
        [(0, 9), (9, 9)]
    """
    found: list[ErrorSpan] = []
    for one in sorted(spans, key=lambda span: (span.start, span.end)):
        last = found[-1] if found else None
        if last is not None and (one.start < last.end or (one.start, one.end) == (last.start, last.end)):
            worst = max(last.severity, one.severity, key=SEVERITIES.index)
            found[-1] = ErrorSpan(last.start, max(last.end, one.end), worst)
        else:
            found.append(one)
    return tuple(found)


def errors_of_list(value: object, text: str, place: str) -> tuple[tuple[ErrorSpan, ...], bool]:
    """Return the errors of a list of spans by place, and whether each has a severity.

    Args:
        value: A list of objects with ``start``, ``end``, and if known ``severity``, or that list as JSON.
        text: The text that they are in.
        place: Name of the list in errors.

    Raises:
        InputError: If it is something else, or a span is reversed, outside the text or in another one.

    Example:
        >>> errors_of_list('[{"start": 2, "end": 5, "severity": "minor"}]', "A cat", "line 2")
        ((ErrorSpan(start=2, end=5, severity='minor', confidence=1.0),), True)
    """
    if isinstance(value, str):
        try:
            value = load_json(value, place)
        except NotJsonError as error:
            raise _not_a_list(place, value) from error
    if not isinstance(value, list):
        raise _not_a_list(place, value)
    found, graded = [], True
    for one in value:
        start, end = _ends(one, text, place)
        severity = as_severity(one["severity"], place) if one.get("severity") is not None else "major"
        graded &= one.get("severity") is not None
        if severity is not None:
            found.append(ErrorSpan(start, end, severity))
    found.sort(key=lambda span: (span.start, span.end))
    for first, second in itertools.pairwise(found):
        if second.start < first.end or (second.start, second.end) == (first.start, first.end):
            raise InputError(
                f"Expected spans that do not overlap in {place}, but got {first.start} to {first.end} and "
                f"{second.start} to {second.end}: {WAY_OUT}."
            )
    return tuple(found), graded


def _ends(one: Any, text: str, place: str) -> tuple[int, int]:
    start, end = (one.get("start"), one.get("end")) if isinstance(one, dict) else (None, None)
    if type(start) is not int or type(end) is not int:  # a bool is an int, too
        raise _not_a_list(place, one)
    if not 0 <= start <= end <= len(text):
        raise InputError(
            f"Expected spans from their first character to the one behind their last, within the {len(text)} of the "
            f"text, in {place}, but got {start} to {end}: {WAY_OUT}."
        )
    return start, end


def _not_a_list(place: str, value: object) -> InputError:
    return InputError(
        f'Expected a JSON list of spans such as [{{"start": 4, "end": 7, "severity": "major"}}] in {place}, but got '
        f"{told(value)}: {WAY_OUT}."
    )
