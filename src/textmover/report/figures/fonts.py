"""Fonts of this computer that have the characters of a picture."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

FIRST = "DejaVu Sans"
"""Comes with matplotlib."""

SHAPED = (("\u0590", "\u08ff"), ("\u0900", "\u0dff"), ("\u0e00", "\u109f"), ("\u1780", "\u18af"), ("\ufb1d", "\ufefc"))
"""Scripts that run from right to left, or whose signs change beside each other."""


class Fonts(NamedTuple):
    """What texts are drawn with.

    Attributes:
        families: Names for matplotlib, in the order in which they are asked for a character.
        lacking: Characters that none of them has, or that this matplotlib cannot join.
    """

    families: tuple[str, ...]
    lacking: frozenset[str]


def fonts_for(texts: Iterable[str]) -> Fonts:
    """The fonts that have most of the characters, matplotlib's own first.

    Args:
        texts: What is to be drawn.

    Returns:
        Names of families, and the characters that remain without one.
    """
    return _chosen(frozenset(character for text in texts for character in text if not character.isspace()))


@functools.lru_cache(maxsize=64)
def _chosen(characters: frozenset[str]) -> Fonts:
    missing = {one for one in characters if ord(one) not in _installed()[FIRST]()}
    families = [FIRST]
    if missing:
        has = {name: {one for one in missing if ord(one) in known()} for name, known in _installed().items()}
        while has:
            best = max(sorted(has), key=lambda name: len(has[name] & missing))
            gained = has.pop(best) & missing
            if not gained:
                break
            families.append(best)
            missing -= gained
    if not _joins():
        missing |= {one for one in characters if any(low <= one <= high for low, high in SHAPED)}
    return Fonts(tuple(families), frozenset(missing))


def _joins() -> bool:
    """Whether this matplotlib (from 3.11) lays out scripts that run from right to left or join their letters."""
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


@functools.lru_cache(maxsize=1)
def _installed() -> dict[str, functools.partial[frozenset[int]]]:
    """Upright fonts of ordinary weight by name, with a function that says which characters they have."""
    from matplotlib.font_manager import findfont, fontManager

    found = {FIRST: functools.partial(_characters, findfont(FIRST))}
    for one in fontManager.ttflist:
        if one.style == "normal" and one.weight in (400, "normal", "regular") and "Last Resort" not in one.name:
            found.setdefault(one.name, functools.partial(_characters, one.fname))
    return found


@functools.lru_cache(maxsize=256)
def _characters(path: str) -> frozenset[int]:
    """Code points that a font file has; none where it cannot be read, as fonts of coloured pictures cannot."""
    from matplotlib.font_manager import get_font

    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
