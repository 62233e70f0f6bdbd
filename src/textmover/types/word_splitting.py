"""Word segmentation of plain text, Unicode ranges of scripts, and English function words."""

from __future__ import annotations

import functools
import re
import unicodedata

SCRIPTS = {
    "Latin": r"A-Za-zÀ-ÖØ-öø-ʯ\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff\uab30-\uab64\ufb00-\ufb06"
    r"\uff21-\uff3a\uff41-\uff5a",
    "Greek": r"\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": r"\u0400-\u052f\u1c80-\u1c88\ua640-\ua69f",
    "Hebrew": r"\u0590-\u05ff\ufb1d-\ufb4f",
    "Arabic": r"\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Devanagari": r"\u0900-\u097f\ua8e0-\ua8ff",
    "Armenian": r"\u0531-\u058f\ufb13-\ufb17",
    "Bengali": r"\u0980-\u09ff",
    "Gurmukhi": r"\u0a00-\u0a7f",
    "Gujarati": r"\u0a80-\u0aff",
    "Oriya": r"\u0b00-\u0b7f",
    "Tamil": r"\u0b80-\u0bff",
    "Telugu": r"\u0c00-\u0c7f",
    "Kannada": r"\u0c80-\u0cff",
    "Malayalam": r"\u0d00-\u0d7f",
    "Sinhala": r"\u0d80-\u0dff",
    "Thai": r"\u0e00-\u0e7f",
    "Lao": r"\u0e80-\u0eff",
    "Myanmar": r"\u1000-\u109f\ua9e0-\ua9fe\uaa60-\uaa7f",
    "Georgian": r"\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f",
    "Ethiopic": r"\u1200-\u139f\u2d80-\u2ddf\uab01-\uab2f",
    "Khmer": r"\u1780-\u17ff",
    "Hangul": r"\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "Kana": r"\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "Han": r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
}
"""Letters of each script, as ranges of a regular expression."""

INVISIBLE = ("Cc", "Cf", "Zl", "Zp", "Zs")  # categories of invisible characters
SURROGATE = re.compile("[\ud800-\udfff]")  # half of a surrogate pair, which UTF-8 cannot encode

UNSPACED = re.compile(f"[{''.join(SCRIPTS[one] for one in ('Han', 'Kana', 'Khmer', 'Lao', 'Myanmar', 'Thai'))}]")
"""Letter of a script without spaces between words."""

ENGLISH = frozenset(
    """
    a an the this that these those each every either neither both all any some no such same other another own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves one who whom whose which what whoever whatever
    am is are was were be been being do does did doing have has had having can could may might must shall should will
    would
    of in on at by for with from to into onto upon about above below under over between among through during before
    after against along across around behind beside besides beyond near off out up down within without toward towards
    until till since per via as than like
    and or but nor so yet if then else because though although while whereas unless whether when where why how
    not only just also too very much more most less least few many quite rather almost even still again ever never here
    there now once already
    s t d ll m re ve
    """.split()  # noqa: SIM905 - easier to read and extend as text
)
"""English function words in lower case, with the endings that tokenizers split off (it's, won't, they'll)."""

APOSTROPHES = ("'", "’")

ENDINGS = "\u0e33\u0eb3\uff9e\uff9f"
"""Letters that extend the previous grapheme like marks: am in Thai and Lao, half-width voicing marks."""

JAMO = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")
"""Hangul vowels and final consonants, which extend the previous grapheme."""

SKINS = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"  # skin tone modifiers of the previous emoji
JOINER = "\u200d"  # zero-width joiner of emoji
STACKERS = "\u1039\u17d2"  # marks of Myanmar and Khmer that stack the next letter below the previous one

CLASSES = re.compile(r"[wd](?:[wdmsz]|j(?=[wd])|(?<=d)t(?=d))*|(?:ff?|[cxjtmsz])(?:m|sc?|zx?)*")
"""Pattern over character classes: a word, or another character with its marks and characters joined to it."""


SEPARATORS = dict.fromkeys(map(ord, "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u200b\u2028\u2029"), " ")
"""Invisible characters between words, which some tokenizers drop."""


def legible(text: str) -> str:
    """Strip a text of white space, with spaces for separators; return an empty string if nothing in it is visible."""
    if not text.isprintable():
        text = text.translate(SEPARATORS)
    text = text.strip()
    return text if text[:1].isalnum() or any(unicodedata.category(one) not in INVISIBLE for one in text) else ""


def visible(text: str) -> str:
    """Return the visible characters of a text in Unicode NFKC, so that texts that look the same are equal."""
    return "".join(one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) not in INVISIBLE)


def folded(text: str) -> str:
    """Return a text in Unicode NFC with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8, i.e. contains no half of a surrogate pair."""
    return text.isascii() or SURROGATE.search(text) is None  # isascii is a constant-time check


BARE_WORDS = bytes(ord(chr(code).lower()) if chr(code).isalpha() and code < 128 else 32 for code in range(256))
"""Table from ASCII signs to small letters, and to spaces between words."""


def ascii_words(text: str) -> list[str]:
    """Return the runs of letters of an ASCII text, in small letters; far quicker than a pattern."""
    return text.encode().translate(BARE_WORDS).decode().split()


def text_words(text: str) -> tuple[tuple[int, int], ...]:
    """Return start and end of each word.

    A word is a run of letters, digits and their marks, including hyphens, apostrophes, points and commas inside it, and
    colons and slashes between digits. Every other character except white space is a separate word, as is each letter of
    a script without spaces with its marks; a flag of two regional indicators is one word.

    Example:
        >>> text = "It's 1,000 € at 12:30. 我爱น้ำ"
        >>> [text[start:stop] for start, stop in text_words(text)]
        ["It's", '1,000', '€', 'at', '12:30', '.', '我', '爱', 'น้ำ']
    """
    return tuple(found.span() for found in CLASSES.finditer("".join(map(_class, text))))


def goes_on(text: str, place: int) -> bool:
    """Return whether a character extends the previous one: a mark, a stacked letter, or part of an emoji."""
    one, last = _class(text[place]), _class(text[place - 1])
    tied = JOINER in text[place - 1 : place + 1] and (text[place] == JOINER or one == "x")
    return one in ("m", "s") or (one == "c" and last == "s") or one == last == "f" or tied


@functools.cache
def _class(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace():
        return " "
    if character in (*APOSTROPHES, *"-‐‑.,"):
        return "j"
    if character in ":/":
        return "t"
    if "\U0001f1e6" <= character <= "\U0001f1ff":
        return "f"
    if category.startswith("M") or character in ENDINGS or character in SKINS or JAMO.match(character):
        return "s" if character in STACKERS else "m"
    if category in ("Cf", "Nd"):
        return "z" if category == "Cf" else "d"
    if category[0] in "LN" or category == "Pc":
        return "c" if UNSPACED.match(character) else "w"
    return "x"
