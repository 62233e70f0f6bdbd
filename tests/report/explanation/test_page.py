"""The page of explanations: what it holds, that no text becomes markup, and its bounds."""

import json
import re
from html import unescape

import pytest

from textmover.report.explanation.explanations import ExplainedLine
from textmover.report.explanation.output import print_explanation
from textmover.report.explanation.page import MOST_LINES, line_view, render_explanations
from textmover.types import ErrorSpan, InputError, TextErrors

NASTY = '<script>alert("x")</script> & \'q\' <img src=x onerror=y> "b'


def words(page: str) -> list[str]:
    return [unescape(one) for one in re.findall(r'<span class="w [^>]*><b>(.*?)</b>', page)]


def test_a_page_needs_nothing_else(explained, check):
    found = explained("a small cat sat", "the cat sat there")
    check(found.to_html())
    assert words(found.to_html())[:6] == ["[start]", "a", "small", "cat", "sat", "[end]"]
    assert found.to_html() == found.to_html()


def test_links_are_the_strongest_partners(explained):
    found = explained("a small cat sat", "the cat sat there")
    view = line_view(ExplainedLine(found))
    word = view["sides"][0]["words"][3]
    assert word["text"] == "cat"
    place, share, cosine = word["links"].split(" ")[0].split(":")
    assert found.reference.words[int(place)] == "cat"
    assert float(cosine) == 1
    assert int(share) == round(100 * found.matches[1].plan[int(place), 3] / found.matches[1].plan[:, 3].sum())
    back = view["sides"][1]["words"][int(place)]
    assert back["links"].startswith("3:")
    assert view["sides"][0]["words"][-1]["links"] == ""  # takes no part
    assert view["sides"][0]["words"][-1]["level"] is None


def test_what_is_added_is_shown(explained):
    found = explained("a small cat sat", "the cat sat there")
    page = found.to_html()
    assert f"{found.score:.4f}" in page
    assert "taken off" in page
    assert "\N{MINUS SIGN}0.1000" in page
    (drawn,) = re.findall(r'data-map="([^"]*)"', page)
    drawn = json.loads(unescape(drawn))
    assert len(drawn["cosines"]) == len(found.reference)
    assert drawn["names"] == ["recall", "precision"]
    ends = [len(found.reference) - 1], [len(found.hypothesis) - 1]  # the end of a text, which this metric leaves out
    assert drawn["blank"] == [*ends]


@pytest.mark.parametrize("text", [NASTY, "\u202eabc", "a\x00b \x1b[31m", "\ud800 lone"])
def test_texts_stay_texts(explained, text, check):
    page = render_explanations([ExplainedLine(explained(text, text), 1), ExplainedLine(explained(text, "b"), 2)])
    assert not check(page).all("img")
    page.encode("utf-8")
    assert "\x1b" not in page
    assert "\x00" not in page


def test_errors_of_the_hypothesis_are_underlined_in_every_view(explained, capsys):
    errors = TextErrors("a small cat", (ErrorSpan(2, 7, "critical", 0.91), ErrorSpan(11, 11)))
    found = explained("a small cat", "a cat", errors=errors)
    assert '<mark class="critical" title="critical 0.91">small</mark> cat<mark class="major gap"' in found.to_html()
    assert [one["text"] for one in found.to_dict()["errors"]] == ["small", ""]
    print_explanation(found)
    shown = capsys.readouterr().out.splitlines()
    place = shown.index("errors      a small cat")
    assert shown[place + 1 : place + 3] == ["              ~~~~~    ^", "              critical 0.91"]
    for none in (None, TextErrors("a small cat", ())):
        found = explained("a small cat", "a cat", errors=none)
        assert "<mark" not in found.to_html()
        assert found.to_dict().get("errors") == (None if none is None else [])
        print_explanation(found)
        assert "errors" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "direction"), [("مرحبا cat", "rtl"), ("שלום", "rtl"), ("cat مرحبا", "ltr"), ("123", "ltr"), ("", "ltr")]
)
def test_texts_run_in_the_direction_of_their_first_letter(explained, text, direction):
    view = line_view(ExplainedLine(explained(text, "a")))
    assert view["sides"][0]["direction"] == direction


def test_several_lines_have_a_list(explained, check):
    lines = [ExplainedLine(explained(f"a cat {number}", "the cat", seed=number), number) for number in (3, 7, 9)]
    page = render_explanations(lines, remark="The first 3 of 9 lines.")
    assert [one["id"] for one in check(page).all("article")] == ["line-3", "line-7", "line-9"]
    assert re.findall(r'href="#(line-\d+)"', page) == ["line-3", "line-7", "line-9"]
    assert "The first 3 of 9 lines." in page


def test_long_texts_are_folded_and_pages_bounded(explained):
    text = " ".join(f"word{place}" for place in range(3000))
    view = line_view(ExplainedLine(explained(text, "word1")))
    side = view["sides"][0]
    assert len(side["words"]) == 2000
    assert side["more"] == "1,002 more words"
    assert side["rest"].startswith("word1999")
    assert view["map"] is None
    assert len(line_view(ExplainedLine(explained(text, "a")), of=200)["sides"][0]["words"]) == 150
    with pytest.raises(InputError, match=f"from 1 to {MOST_LINES} pairs for a page, but got 201"):
        render_explanations([ExplainedLine(explained("a", "b"))] * 201)


def test_empty_texts_and_flags(explained):
    page = explained("", "", flags=("empty", "something new"), matches=(), pairs=()).to_html()
    assert "A side has nothing to match." in page
    assert "Something new." in page


def test_notes_keep_their_capitals_and_isolate_words_read_from_right_to_left(explained):
    page = explained("Zü \u05d0", "a", flags=("language",), unknown_words=("Zü", "\u05d0", "\u05d1")).to_html()
    assert "A text does not look English (the metric was made for English)" in page
    known = "Unknown to the encoder, matched only with the same spelling"
    assert f"{known}: Zü, \u2068\u05d0\u2069, \u2068\u05d1\u2069." in page
