"""Moses tokens and the OK and BAD tags of words and gaps, aligned to characters of the original text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from textmover.readers.segments import quoted_value
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
"""Quotation marks and dashes that Moses normalises; a double quotation mark counts as two."""


def place_words(text: str, words: Sequence[str], place: str = "`words`") -> Places:
    r"""Return the start and end characters of each Moses token in its text.

    White space is ignored. Characters that Moses escapes or normalises are compared by their Unicode decomposition.

    Example:
        >>> place_words("It’s <b>", ["It", "&apos;s", "&lt;", "b", "&gt;"])
        ((0, 2), (2, 4), (5, 6), (6, 7), (7, 8))
    """
    places = [place for place, character in enumerate(text) if not character.isspace()]
    targets, wanted = ["".join(word.split()) for word in words], "".join(text.split())
    if "".join(targets) != wanted:
        pieces = _plain(text)
        wanted, places = "".join(character for character, _ in pieces), [place for _, place in pieces]
        targets = ["".join(character for character, _ in _plain(_unescaped(word))) for word in words]
    spans, start = [(0, 0)], 0
    for number, word in enumerate(targets):
        positions = places[start : start + len(word)]
        if not word or not wanted.startswith(word, start) or min(positions) < spans[-1][1]:
            raise InputError(
                f"Expected {place} to be the Moses tokens of {quoted_value(text)}, but got {words[number]!r} as word "
                f"{number + 1}, which does not follow there: {WAY_OUT}."
            )
        spans.append((min(positions), max(positions) + 1))
        start += len(word)
    if start < len(wanted):
        raise InputError(
            f"Expected {place} to be the Moses tokens of {quoted_value(text)}, but got none from "
            f"{quoted_value(text[places[start] :])} on: {WAY_OUT}."
        )
    return tuple(spans[1:])


def _unescaped(word: str) -> str:
    for written, meant in ESCAPES.items():  # & is last because the other escapes begin with it
        word = word.replace(written, meant)
    return word[1] if re.fullmatch(r"@[^\w\s]@", word) else word


def _plain(text: str) -> list[tuple[str, int]]:
    """Return the decomposed characters with their indices in the text, combining marks in Unicode order."""
    decomposed = ((unicodedata.normalize("NFKD", one).translate(ALIKE), place) for place, one in enumerate(text))
    characters = [(one, place) for part, place in decomposed for one in part if not one.isspace()]
    start = 0
    for stop in range(len(characters) + 1):
        if stop == len(characters) or not unicodedata.combining(characters[stop][0]):
            characters[start:stop] = sorted(characters[start:stop], key=lambda mark: unicodedata.combining(mark[0]))
            start = stop + 1
    return characters


def errors_of_tags(words: Places, tags: Sequence[str], place: str = "`tags`") -> tuple[ErrorSpan, ...]:
    """Return the errors marked by tags of words and gaps.

    Adjacent wrong words form one span, unless words are missing between them. Missing words are empty spans after the
    word before them.

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
        raise InputError(f"Expected the tags OK and BAD in {place}, but got {quoted_value(unknown[0])}: {WAY_OUT}.")
    errors: list[ErrorSpan] = []
    for number, tag in enumerate(tags):
        if tag == "OK":
            continue
        word, of_gap = number // 2, number % 2 == 0
        if of_gap:
            start = words[word - 1][1] if word else words[0][0]
            errors.append(ErrorSpan(start, start))
        elif number > 1 and tags[number - 2] == "BAD" and tags[number - 1] == "OK":
            errors[-1] = ErrorSpan(errors[-1].start, words[word][1])
        else:
            errors.append(ErrorSpan(*words[word]))
    return tuple(errors)
