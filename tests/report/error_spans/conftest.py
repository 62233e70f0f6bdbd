"""Texts whose errors are written into them."""

import re
from collections.abc import Callable

import pytest

from textmover.types import SEVERITIES, ErrorSpan, TextErrors

MARK = re.compile(r"\[(.*?)(?:\|([imc])(\d\d))?\]", re.DOTALL)
LETTERS = dict(zip("imc", SEVERITIES, strict=True))


def read(text: str, flags: tuple[str, ...] = ()) -> TextErrors:
    """A text in which ``[words|c91]`` are a critical error of probability .91 and ``[]`` misses words."""
    plain, spans, place = "", [], 0
    for found in MARK.finditer(text):
        plain += text[place : found.start()]
        start = len(plain)
        plain += found[1]
        spans.append(ErrorSpan(start, len(plain), LETTERS[found[2] or "m"], int(found[3] or 80) / 100))
        place = found.end()
    return TextErrors(plain + text[place:], tuple(spans), flags=flags)


@pytest.fixture(scope="session")
def marked() -> Callable[..., TextErrors]:
    """A function that reads a text with its errors in square brackets."""
    return read
