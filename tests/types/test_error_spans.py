"""Marked errors show themselves: pieces of the text, and notebooks without markup of others."""

import re
from html import unescape

import pytest

from textmover.types import ErrorSpan, MarkedTexts, Signature, TextErrors

FAMILY = "\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize(
    ("spans", "pieces", "brackets"),
    [
        ((), ["A cat sat"], "A cat sat"),
        (((2, 5), (9, 9)), ["A ", "cat", " sat", "", ""], "A [cat] sat[]"),
        (((0, 9),), ["", "A cat sat", ""], "[A cat sat]"),
        (((0, 5), (2, 7)), ["", "A cat", "", " s", "at"], "[A cat][ s]at"),
    ],
)
def test_pieces_are_the_text_in_order(spans, pieces, brackets):
    found = TextErrors("A cat sat", tuple(ErrorSpan(*one) for one in spans))
    assert [part for part, _ in found.pieces()] == pieces
    assert [one for _, one in found.pieces() if one] == list(found.spans)
    assert "".join(part for part, _ in found.pieces()) == found.text
    assert found.marked() == brackets


@pytest.mark.parametrize("text", ['<b> & "q"', "\x1b[31m\u202eab", "\ud800cat", FAMILY])
def test_notebooks_show_the_text_and_no_markup_of_it(text):
    found = TextErrors(text, (ErrorSpan(0, 2, "critical", 0.9), ErrorSpan(len(text), len(text))))
    for shown in (found._repr_html_(), MarkedTexts((found,), Signature({"a": "<b>"}))._repr_html_()):
        assert re.findall(r'title="([^"]*)"', shown) == ["critical 0.90", "major 1.00, missing"]
        assert set(re.findall(r"</?(\w+)", shown)) == {"p", "span", "table", "tr", "th", "td"}
        shown.encode("utf-8")
        assert not {"\x1b", "\u202e"} & set(shown)
    plain = unescape(re.sub(r"<[^>]*>", "", found.html()))
    assert (plain == f"{text}^") == (text in ('<b> & "q"', FAMILY))


def test_notebooks_show_the_first_texts():
    shown = MarkedTexts((TextErrors("A cat", (ErrorSpan(2, 5),)),) * 30, Signature({}))._repr_html_()
    assert shown.count("<span") == 12
    assert "… 18 more" in shown
    assert "30 errors in 30 texts (30 major)" in shown
