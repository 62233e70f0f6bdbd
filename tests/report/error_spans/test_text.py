"""Marked errors as text: underlines stand below their words, whatever the script and the width."""

import random

import pytest
from rich.cells import cell_len
from rich.color import ColorType
from rich.style import Style

from textmover.markdown_escaping import one_line
from textmover.report.error_spans import NARROWEST, STYLES, marked_lines
from textmover.types import ErrorSpan, TextErrors

FAMILY, GERMANY = "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea"
MISSING = "major 0.80, missing"
CASES = {
    "words": (
        "A [cat|c91] sat [on it|i05].",
        "A cat sat on it.",
        "  ~~~     ~~~~~",
        "  critical 0.91",
        f"{'':10}minor 0.05",
    ),
    "missing": ("A cat[] sat[]", "A cat sat", "     ^   ^", f"{'':5}{MISSING}", f"{'':9}{MISSING}"),
    "before a word": ("A []cat", "A cat", " ^", f" {MISSING}"),
    "at the start": ("[]A cat", "A cat", "^", MISSING),
    "no error": ("A cat sat.", "A cat sat."),
    "gap and word at the start": (
        "[][A cat|c91] sat[]",
        "A cat sat",
        "~~~~~    ^",
        "^",
        "critical 0.91",
        MISSING,
        f"{'':9}{MISSING}",
    ),
    "no words": (" \n ", "(empty text)"),
    "all words missing": ("[]", "(empty text)", "^", MISSING),
    "Chinese": ("我喜欢[苹果]和。", "我喜欢苹果和。", "      ~~~~", "      major 0.80"),
    "gap in Chinese": ("我喜[]欢", "我喜欢", "    ^", f"    {MISSING}"),
    "gap and word": ("我[|i80][喜]欢", "我喜欢", "  ~~", "  ^", "  major 0.80", "  minor 0.80, missing"),
    "combining": ("Cafe\u0301 [noir]", "Cafe\u0301 noir", "     ~~~~", "     major 0.80"),
    "joined emoji": (f"{FAMILY} [x]", f"{FAMILY} x", "   ~", "   major 0.80"),
    "flag": (f"{GERMANY} [x]", f"{GERMANY} x", "   ~", "   major 0.80"),
    "skin tone": ("\U0001f44d\U0001f3fd [x]", "\U0001f44d\U0001f3fd x", "   ~", "   major 0.80"),
    "heart": ("\u2764\ufe0f[x]", "\u2764\ufe0fx", "  ~", "  major 0.80"),
    "white space": ("a \n\t [b]", "a b", "  ~", "  major 0.80"),
    "control": ("\x1b[b]", r"\x1bb", "    ~", "    major 0.80"),
    "turning": ("\u202e[b]", r"\u202eb", "      ~", "      major 0.80"),
    "no width": ("[\u0301] [a|i50]", "\u0301 a", " ~", "major 0.80", " minor 0.50"),
    "right to left": ("قطة [صغيرة] x[]", "قطة صغيرة x", "major 0.80: صغيرة", MISSING),
}
"""Text with its errors in brackets, and the lines that are printed; columns are counted by hand."""


def lines(found, width=1_000, encoding="utf-8"):
    return [one.plain for one in marked_lines(found, width, encoding)]


@pytest.mark.parametrize("name", CASES)
def test_errors_are_underlined(marked, name):
    text, *expected = CASES[name]
    assert lines(marked(text)) == expected


def test_characters_that_the_output_lacks_are_escaped_and_underlined_whole(marked):
    assert lines(marked("\u00e4 [\u00f6]"), encoding="ascii") == [r"\xe4 \xf6", "     ~~~~", "     major 0.80"]


def test_words_underlines_and_labels_have_the_colour_of_their_severity(marked):
    shown = list(marked_lines(marked("A [cat|c91] sat"), 80))
    coloured = [
        "".join(line.plain[one.start : one.end] for one in line.spans if one.style == STYLES["critical"])
        for line in shown
    ]
    assert coloured == ["cat", "~~~", "critical 0.91"]


def test_fixed_colours_can_be_read_on_white_and_on_black(contrast):
    """Those of the sixteen of a terminal are its own choice."""
    colours = [Style.parse(one).color for one in STYLES.values()]
    fixed = [one.get_truecolor().hex for one in colours if one.type is not ColorType.STANDARD]
    assert len(fixed) == 1
    assert all(contrast(one, paper) >= 3 for one in fixed for paper in ("#ffffff", "#000000"))


def made(seed: int) -> TextErrors:
    """Words of several scripts, of which some are wrong, with missing words between them."""
    rng = random.Random(seed)
    words = [
        "".join(rng.choices("ab\u00e9\u4e2d\u6587\u30a2\U0001f600", k=rng.randint(1, 9)))
        for _ in range(rng.randint(1, 40))
    ]
    words = [one + "\u0301" * rng.randint(0, 2) for one in words]
    text, spans = "", []
    for word in words:
        start = len(text)
        text += word
        if rng.random() < 0.3:
            spans.append(
                ErrorSpan(start, len(text), rng.choice(["minor", "major", "critical"]), round(rng.random(), 2))
            )
        text += " "
        if rng.random() < 0.2:
            spans.append(ErrorSpan(len(text) - 1, len(text) - 1))
    return TextErrors(text.rstrip(), tuple(spans))


@pytest.mark.parametrize("seed", range(20))
def test_underlines_stand_below_their_words(seed):
    found = made(seed)
    text, below = [*lines(found, 10_000), ""][:2]
    assert text == one_line(found.text)
    expected = {
        column
        for one in found.spans
        for column in range(cell_len(text[: one.start]), cell_len(text[: one.end]) + one.missing)
    }
    assert {column for column, mark in enumerate(below) if mark != " "} == expected


@pytest.mark.parametrize("width", [1, 24, 40, 80])
@pytest.mark.parametrize("seed", range(5))
def test_wrapped_lines_fit_and_lose_nothing(seed, width):
    found = made(seed)
    shown = lines(found, width)
    assert max(map(cell_len, shown)) <= max(width, NARROWEST)
    texts = [one for one in shown if set(one) - set("~^ ") and "0." not in one and "1.00" not in one]
    assert "".join(texts).replace(" ", "") == found.text.replace(" ", "")
    marks = "".join(one for one in shown if not set(one) - set("~^ "))
    assert marks.count("^") == sum(one.missing for one in found.spans)
    assert marks.count("~") == sum(cell_len(found.text[one.start : one.end]) for one in found.spans)
    labels = "".join(one for one in shown if one not in texts)
    for one in found.spans:
        assert one.label in labels


def test_a_long_text_takes_no_time():
    text = "word " * 20_000
    found = TextErrors(text, tuple(ErrorSpan(at, at + 4) for at in range(0, 100_000, 50)))
    assert len(lines(found, 80)) > 3_000
    assert len(lines(TextErrors("\u0301" * 50_000 + " " * 50_000 + "a", (ErrorSpan(0, 1),)), 80)) == 2
