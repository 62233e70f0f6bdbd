"""Words of Moses, and the tags OK and BAD of words and gaps, as characters of the text that they were made from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from textmover.readers.segments import told
from textmover.types import InputError, plural
from textmover.types.error_spans import ErrorSpan

Places = tuple[tuple[int, int], ...]

WAY_OUT = "correct it or remove the row"

ESCAPES = {
    "&apos;": "'", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&#91;": "[", "&#93;": "]", "&#124;": "|", "&amp;": "&",
}  # fmt: skip
"""Characters that Moses escapes."""

ALIKE = str.maketrans(
    {**dict.fromkeys('"“”„‟«»″', "''"), **dict.fromkeys("`´‘’‚‛‹›′", "'"), **dict.fromkeys("‐‑‒–—―−", "-")}
)
"""Quotation marks and dashes that Moses writes in another way; a double mark counts as two."""


def place_words(text: str, words: Sequence[str], place: str = "`words`") -> Places:
    r"""Return the first character of each Moses token in its text, and that behind its last.

    White space does not count. Characters that Moses escapes or writes in another way are compared in their Unicode
    decomposition.

    Example:
        >>> place_words("It’s <b>", ["It", "&apos;s", "&lt;", "b", "&gt;"])
        ((0, 2), (2, 4), (5, 6), (6, 7), (7, 8))
    """
    places = [place for place, one in enumerate(text) if not one.isspace()]
    given, wanted = ["".join(word.split()) for word in words], "".join(text.split())
    if "".join(given) != wanted:
        pieces = _plain(text)
        wanted, places = "".join(one for one, _ in pieces), [place for _, place in pieces]
        given = ["".join(one for one, _ in _plain(_unescaped(word))) for word in words]
    found, start = [(0, 0)], 0
    for number, word in enumerate(given):
        own = places[start : start + len(word)]
        if not word or not wanted.startswith(word, start) or min(own) < found[-1][1]:
            raise InputError(
                f"Expected {place} to be the Moses tokens of {told(text)}, but got {words[number]!r} as word "
                f"{number + 1}, which does not follow there: {WAY_OUT}."
            )
        found.append((min(own), max(own) + 1))
        start += len(word)
    if start < len(wanted):
        raise InputError(
            f"Expected {place} to be the Moses tokens of {told(text)}, but got none from "
            f"{told(text[places[start] :])} on: {WAY_OUT}."
        )
    return tuple(found[1:])


def _unescaped(word: str) -> str:
    for written, meant in ESCAPES.items():  # & comes last: it begins the others
        word = word.replace(written, meant)
    return word[1] if re.fullmatch(r"@[^\w\s]@", word) else word


def _plain(text: str) -> list[tuple[str, int]]:
    """Characters of the decomposition with their places in a text, marks of a letter in the order of Unicode."""
    decomposed = ((unicodedata.normalize("NFKD", one).translate(ALIKE), place) for place, one in enumerate(text))
    found = [(one, place) for part, place in decomposed for one in part if not one.isspace()]
    start = 0
    for stop in range(len(found) + 1):
        if stop == len(found) or not unicodedata.combining(found[stop][0]):
            found[start:stop] = sorted(found[start:stop], key=lambda mark: unicodedata.combining(mark[0]))
            start = stop + 1
    return found


def errors_of_tags(words: Places, tags: Sequence[str], place: str = "`tags`") -> tuple[ErrorSpan, ...]:
    """Return the errors that tags of words and gaps mark.

    Neighbouring wrong words are one span, unless words are missing between them. Missing words stand behind the word
    before them.

    Example:
        >>> errors = errors_of_tags(((0, 1), (2, 5), (6, 9)), "OK BAD OK BAD OK OK BAD".split())
        >>> [(one.start, one.end) for one in errors]
        [(0, 5), (9, 9)]
    """
    if len(tags) != 2 * len(words) + 1:
        raise InputError(
            f"Expected {2 * len(words) + 1} tags (gap, word, gap, …, gap) for the {plural(len(words), 'word')} in "
            f"{place}, but got {len(tags)}: {WAY_OUT}."
        )
    if unknown := [one for one in tags if one not in ("OK", "BAD")]:
        raise InputError(f"Expected the tags OK and BAD in {place}, but got {told(unknown[0])}: {WAY_OUT}.")
    found: list[ErrorSpan] = []
    for number, tag in enumerate(tags):
        if tag == "OK":
            continue
        word, of_gap = number // 2, number % 2 == 0
        if of_gap:
            start = words[word - 1][1] if word else words[0][0]
            found.append(ErrorSpan(start, start))
        elif number > 1 and tags[number - 2] == "BAD" and tags[number - 1] == "OK":
            found[-1] = ErrorSpan(found[-1].start, words[word][1])
        else:
            found.append(ErrorSpan(*words[word]))
    return tuple(found)
