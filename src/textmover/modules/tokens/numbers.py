"""Numbers, months and days of the week by their value: these tokens match equal ones best, however written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import torch

from textmover.modules.tokens.unknown_tokens import surface_number
from textmover.types import TokenBatch
from textmover.types.word_splitting import ascii_words

UNITS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SCALES |= {"millions": 10**6, "mln": 10**6, "mn": 10**6, "billions": 10**9, "bln": 10**9, "bn": 10**9, "tn": 10**12}
SCALES |= {"k": 10**3, "m": 10**6}  # of money alone: $5m, but a race of 100m
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = {
    "february": 2, "feb": 2, "april": 4, "apr": 4, "june": 6, "jun": 6, "july": 7, "jul": 7,
    "august": 8, "aug": 8, "september": 9, "sept": 9, "sep": 9, "october": 10, "oct": 10, "november": 11, "nov": 11,
    "december": 12, "dec": 12,
}  # fmt: skip
"""Numbers of months, as in 2024-02-28, but of "march" and "may", which are other words, too, and of the first."""

DIGIT, WORDS = re.compile(r"\d"), frozenset([*UNITS, *SCALES, *DAYS, *MONTHS]) - {"k", "m"}

RUN = r"\d+(?!\d|['’]?s\b)"  # all digits in a row at once: long ones take no more than linear time
PIECE = re.compile(
    r"(?<!\d)\d{1,3}(?: \d{3})+(?:[.,]\d{1,2})?(?!\d)"
    rf"|(?<!\d)(?:(?<![\w.])\.)?{RUN}(?:[.,]{RUN}|: ?(?=\d\d(?!\d)){RUN})*"
    rf"|(?<![^\W\d_])(?:{'|'.join(sorted(WORDS, reverse=True))})\b|(?<=\d)[km]\b"
)
"""Digits, also next to letters but not of decades (1970s), or a word of a number or date."""

TIME = re.compile(r" ?(?:([ap])\.? ?m\b|o['’]clock\b|in the (?:(morning)|afternoon\b|evening\b))")
"""A part of the day behind an hour."""

HUNDRED = re.compile(r"[ -]hundred\b")
THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}|[1-9]\d{0,2}\.\d\d0")  # with points, as in other languages
CLOCK = re.compile(r"(\d{1,2})(?:([.:]) ?(\d\d))?")
SIGNS = str.maketrans("\u00a0\u202f\u2009\u2010\u2011\u066b\u066c\u0130", "   --.,I")  # İ has a longer small letter


def mark_numbers(batch: TokenBatch, tokenizer: Any) -> TokenBatch:
    """Add the keys of the tokens of numbers and dates to a batch: equal values have the same key."""
    found = {row: spans for row, text in enumerate(batch.texts) if (spans := list(text_numbers(text)))}
    if not found:
        return batch
    keys = torch.zeros_like(batch.input_ids)
    ranges = tokenizer.token_ranges(batch, {row: [one[:2] for one in spans] for row, spans in found.items()})
    for row, spans in found.items():
        for (*_, value), tokens in zip(spans, ranges[row], strict=True):
            keys[row, tokens] = surface_number(value)
    return replace(batch, numbers=keys)


def text_numbers(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and value of each number, month and day of the week; a number may have several words.

    Numbers are read as in English: with commas between thousands, and a decimal point. "One" alone does not count.

    Example:
        >>> list(text_numbers("On Monday, 1,500 of two thousand left."))
        [(3, 9, 'monday'), (11, 16, '1500'), (20, 32, '2000')]
    """
    if text.isascii() and WORDS.isdisjoint(ascii_words(text)) and DIGIT.search(text) is None:
        return  # far quicker than the pattern
    numbers: list[_Number] = []
    text = (text if text.isascii() else text.translate(SIGNS)).lower()
    for piece in PIECE.finditer(text):
        word, (start, end) = piece[0], piece.span()
        value = SCALES.get(word) or (UNITS.get(word) if word in WORDS else _digits(word))
        last = numbers[-1] if numbers and text[numbers[-1].end : start] in ("", " ", "-", " and ") else None
        if value is None:
            yield start, end, str(MONTHS.get(word, _time(word, word, text, end)))
        elif last is not None and last.goes_on(text, word, (start, end), value):
            last.read(word, end, value)
        elif word not in SCALES or (text.endswith("a ", 0, start) and word.isalpha()):  # "several million" is vague
            numbers.append(_Number(start))
            numbers[-1].read(word, end, value)
    for one in numbers:
        amount = f"{(one.thousands + one.rest).normalize():f}"
        key = _time(amount, text[one.start : one.end], text, one.end)
        if key != "1":  # "one" is often an article or a pronoun
            yield one.start, one.end, key


@dataclass
class _Number:
    """Number that is being read; ``rest`` is what follows its last thousand, million, billion or trillion."""

    start: int
    end: int = 0
    rest: Decimal = Decimal(0)
    thousands: Decimal = Decimal(0)

    def read(self, word: str, end: int, value: Decimal | int) -> None:
        """Read a number's first or next word."""
        self.end, self.rest = end, (self.rest or Decimal(1)) * value if word in SCALES else self.rest + value
        if word in SCALES and value > 100:
            self.thousands, self.rest = self.thousands + self.rest, Decimal(0)

    def goes_on(self, text: str, word: str, span: tuple[int, int], value: Decimal | int) -> bool:
        """Return whether a word goes on with this number: a hundred by fifty, fifty by three, a thousand by either."""
        joined = text[self.end : span[0]]
        if word in SCALES:
            of_money = text.endswith(("$", "€", "£"), 0, self.start)
            return joined != " and " and (len(word) > 1 or of_money) and (value > 100 or self.rest % 100 > 0)
        if not text[self.end - 1].isalpha() or (
            joined == " and " and (self.rest % 100 or HUNDRED.match(text, span[1]))
        ):
            return False
        if not self.rest:
            return bool(self.thousands)
        return (self.rest % 100 == 0 and value < 100) or (self.rest % 10 == 0 and self.rest % 100 >= 20 and value < 10)


def _digits(word: str) -> Decimal | None:
    """Return the value of digits; ``None`` for words, times, versions (1.2.3), and more digits than a Decimal has."""
    if len(word) > 28:
        return None
    plain = word.replace(".", "") if THOUSANDS.fullmatch(word) else word
    plain = re.sub(r"[, ](?=(?:\d\d,)*\d{3}(?!\d))", "", plain).replace(",", ".")  # 1,00,000 as in India, too
    return Decimal(plain) if re.fullmatch(r"\d*\.?\d+", plain) else None


def _time(value: str, written: str, text: str, end: int) -> str:
    """Return an hour as on a clock of 24 hours if minutes or a part of the day follow it; else the value as it is."""
    found, clock = TIME.match(text, end), CLOCK.fullmatch(written) or CLOCK.fullmatch(value)
    if clock is None or (found is None and clock[2] != ":"):
        return value
    hour = int(clock[1])
    if found is not None and "clock" not in found[0] and hour <= 12:
        hour = hour % 12 + 12 * (found[1] == "p" or (found[1] is None and found[2] is None))
    return f"{hour}:{int(clock[3] or 0):02}"
