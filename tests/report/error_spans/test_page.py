"""The page of marked errors: what it holds, that no text becomes markup, and its bounds."""

import re
from html import unescape

import pytest

from textmover.report import error_spans
from textmover.report.error_spans import ErrorCount, MarkedLine, render_marked

NASTY = '<script>alert("x")</script> & [\'q\' <img src=x onerror=y>|c70] "b'


def rendered(*found, lines=True):
    count = ErrorCount()

    def counted():
        for place, one in enumerate(found, start=1):
            line = MarkedLine(one, place if lines else None, {}, "textmover:1|a:b")
            count.add(line)
            yield line

    return render_marked(counted(), count)


def marks(text):
    found = re.findall(r'<mark class="([^"]*)" title="([^"]*)">(.*?)</mark>', text)
    return [tuple(map(unescape, one)) for one in found]


def test_a_page_needs_nothing_else(marked, check):
    text = rendered(marked("A [cat|c91] sat[|i55]."), marked("Fine.", ("truncated",)), marked(""))
    found = check(text)
    assert marks(text) == [("critical", "critical 0.91", "cat"), ("minor gap", "minor 0.55, missing", "^")]
    assert [one.get("id") for one in found.all("li") if one.get("id")] == ["line-1", "line-2", "line-3"]
    for told in (
        "2 errors in 3 texts",
        "1 minor (0.33 per text)",
        "(empty text)",
        "errors behind the cut are not seen",
    ):
        assert told in found.text
    assert "only texts with errors" in found.text
    assert "only texts" not in rendered(marked("A [cat]."), lines=False)


def test_notes_are_about_marks(marked):
    text = rendered(marked("Katze", ("language", "empty")), marked("", ("empty",)))
    assert text.count('<p class="flag">') == 2
    assert "the marks mean little" in text
    assert "the score means" not in text
    assert "A text does not look English" in text


PROBE = """
  const shown = () => [...document.querySelectorAll(".texts > li")].filter((one) => one.offsetHeight > 0).length;
  found.all = shown();
  const [edge, box] = ["h1", "#only"].map((one) => document.querySelector(one).getBoundingClientRect().left);
  found.indent = box - edge;
  document.querySelector("#only").click();
  found.wrong = shown();
"""


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_sticks_out_and_texts_without_errors_can_be_hidden(probe, marked, narrow, dark):
    page = rendered(marked(f"A [{'x' * 300}|c91] sat[]."), marked("No error."), marked("[a] b"))
    found = probe(page, PROBE, narrow=narrow, dark=dark)
    assert (found["all"], found["wrong"]) == (3, 2)
    assert found["indent"] == 0 or not narrow, "it begins a line of its own on a phone"


@pytest.mark.parametrize("text", [NASTY, "[\u202eabc]", "[a\x00b \x1b[31m|m80]", "[\ud800] lone", "a[ \n]b"])
def test_texts_stay_texts(marked, text, check):
    shown = rendered(marked(text))
    found = check(shown)
    assert not found.all("img")
    assert not found.all("script")
    assert len(marks(shown)) == 1
    shown.encode("utf-8")
    assert not {"\x1b", "\x00", "\u202e"} & set(shown)


def test_white_space_between_words_stays(marked):
    assert "won <mark" in rendered(marked("She won [it]\nall.\t[x]"))
    assert "</mark> all. <mark" in rendered(marked("She won [it]\nall.\t[x]"))


def test_a_page_shows_so_many_texts_and_counts_all(marked, monkeypatch):
    monkeypatch.setattr(error_spans, "MOST_TEXTS", 2)
    text = rendered(*[marked("A [cat].")] * 5)
    assert "5 errors in 5 texts" in text
    assert "The first 2 of 5 texts are shown." in text
    assert len(marks(text)) == 2
