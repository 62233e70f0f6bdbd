"""The same number, share or date in another notation: nothing of what is said changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from textmover.perturbations.phrases import UNITS, Edit, Phrase, Word, WordPool, listed, mixed

SMALL = dict(enumerate(UNITS, 2))
MONTHS = listed("January February March April May June July August September October November December")
_MONTH = "|".join(MONTHS)
_DAY = r"(?P<day>[12]?\d|3[01])"
_YEAR = r"(?P<year>[12]\d{3})"

Rewriting = Callable[[re.Match[str]], str]


def _day_last(date: re.Match[str]) -> str:
    year = date["year"]
    return f"{date['month']} {date['day']}" + (f", {year}" if year else "")


def _day_first(date: re.Match[str]) -> str:
    year = date["year"]
    return f"{date['day']} {date['month']}" + (f" {year}" if year else "")


NOTATIONS: tuple[tuple[re.Pattern[str], Rewriting], ...] = (
    (re.compile(rf"\b{_DAY} (?P<month>{_MONTH})\b(?: {_YEAR}\b)?"), _day_last),
    (re.compile(rf"\b(?P<month>{_MONTH}) {_DAY}\b(?:, {_YEAR}\b)?"), _day_first),
    (re.compile(r"(?<=\d) ?%"), lambda _: " percent"),
    (re.compile(r"(?<=\d) per ?cent\b"), lambda _: "%"),
    (re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])"), lambda found: found[0].replace(",", "")),
    (re.compile(r"(?<![\d.,])(?:\d{5,}|[3-9]\d{3})(?![\d,.:/-]|\d)"), lambda found: f"{int(found[0]):,}"),
    (re.compile(r"(?<![\d.,:/$£€-])(?:[2-9]|1[0-2])(?![\d.,:/%-]|th|st|nd|rd| ?%| per ?cent| ?[ap]\.?m\b)"),
     lambda found: SMALL[int(found[0])]),
    (re.compile(rf"(?<![-\w])(?:{'|'.join(UNITS)})(?![-\w])"),
     lambda found: str(UNITS.index(found[0]) + 2)),
)  # fmt: skip
"""Patterns and how to rewrite them; where two overlap, the first one counts."""


def notation(phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """``degree`` numbers, shares or dates in another notation."""
    text = phrase.text
    found: list[tuple[re.Match[str], Rewriting]] = []
    for pattern, rewriting in NOTATIONS:
        found += [
            (match, rewriting)
            for match in pattern.finditer(text)
            if all(match.end() <= other.start() or other.end() <= match.start() for other, _ in found)
        ]
    if len(found) < degree:
        return None
    for match, rewriting in sorted(mixed(found, rng)[:degree], key=lambda one: one[0].start(), reverse=True):
        text = text[: match.start()] + rewriting(match) + text[match.end() :]
    return Edit(text, tuple(Word("", "number", "") for _ in range(degree)))
