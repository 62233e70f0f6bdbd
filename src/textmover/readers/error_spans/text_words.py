"""Words of a text that nobody has split."""

from __future__ import annotations

import functools
import re
import unicodedata

UNSPACED = re.compile("CJK|HIRAGANA|KATAKANA|BOPOMOFO|THAI|LAO|KHMER|MYANMAR|TIBETAN")
"""Starts of the names of letters that are written without spaces between words."""

APOSTROPHES = ("'", "’")

CLASSES = re.compile(r"[wd](?:[wdmz]|j(?=[wd])|(?<=d)t(?=d))*|[cxjtmz](?:m|zx?)*")
"""A word, or another character with its marks and what a zero-width joiner ties to it, by the classes of characters."""


def text_words(text: str) -> tuple[tuple[int, int], ...]:
    """Return the first character of each word and that behind its last.

    A word is a run of letters, digits and their marks, with the hyphens, apostrophes, points and commas inside it, and
    with colons and slashes between digits. Any other character but white space is a word of its own, as is each letter
    of a script without spaces.

    Example:
        >>> text = "It's 1,000 € at 12:30. 我爱"
        >>> [text[start:stop] for start, stop in text_words(text)]
        ["It's", '1,000', '€', 'at', '12:30', '.', '我', '爱']
    """
    return tuple(found.span() for found in CLASSES.finditer("".join(map(_class, text))))


@functools.cache
def _class(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace():
        return " "
    if character in (*APOSTROPHES, *"-‐‑.,"):
        return "j"
    if character in ":/":
        return "t"
    if category == "Cf":
        return "z"
    if category.startswith("M"):
        return "m"
    if category == "Nd":
        return "d"
    if category[0] in "LN" or category == "Pc":
        return "c" if UNSPACED.match(unicodedata.name(character, "")) else "w"
    return "x"
