"""Words and gaps become spans by one rule; errors by exact word overlap."""

import itertools

import numpy as np
import pytest

from textmover.scoring.error_spans.spans import error_spans, lacks_words, word_overlap_errors
from textmover.types import ErrorSpan
from textmover.types.word_splitting import text_words

TEXT = "My cat is"
WORDS = [(0, 2), (3, 6), (7, 9)]
CASES = {
    "nothing": ([0, 0, 0], [0, 0, 0, 0], []),
    "one word": ([0, 0.7, 0], [0, 0, 0, 0], [(3, 6, "minor", 0.7)]),
    "neighbours join": ([0.8, 0.7, 0], [0, 0, 0, 0], [(0, 6, "major", 0.8)]),
    "a word between parts them": ([0.8, 0, 0.7], [0, 0, 0, 0], [(0, 2, "minor", 0.8), (7, 9, "minor", 0.7)]),
    "missing at the start": ([0, 0, 0], [0.9, 0, 0, 0], [(0, 0, "major", 0.9)]),
    "missing in the middle": ([0, 0, 0], [0, 0.9, 0, 0], [(2, 2, "major", 0.9)]),
    "missing at the end": ([0, 0, 0], [0, 0, 0, 0.9], [(9, 9, "major", 0.9)]),
    "a gap within a span is part of it": ([0.8, 0.7, 0], [0, 0.9, 0, 0], [(0, 6, "major", 0.9)]),
    "gaps beside a span are part of it": ([0, 0.8, 0], [0, 0.9, 0.7, 0], [(3, 6, "major", 0.9, (2, 6))]),
    "the threshold marks": ([0.5, 0.499, 0], [0, 0, 0, 0], [(0, 2, "minor", 0.5)]),
    "a gap at a span's first character is part of it": ([0.64, 0, 0], [0.54, 0, 0, 0], [(0, 2, "major", 0.64, (0,))]),
    "all": ([1, 1, 1], [0.9, 0.9, 0.9, 0], [(0, 9, "critical", 1.0, (0,))]),
}


@pytest.mark.parametrize(("wrong", "missing", "wanted"), CASES.values(), ids=CASES)
def test_words_become_spans(wrong, missing, wanted):
    found = error_spans(TEXT, WORDS, np.array(wrong, float), np.array(missing, float), (0.5, 0.5))
    assert found == tuple(ErrorSpan(*one) for one in wanted)


def test_a_text_without_words_lacks_them_at_its_start():
    found = error_spans("", [], np.zeros(0), np.array([0.9]), (0.5, 0.5), bare=True)
    assert found == (ErrorSpan(0, 0, "critical", 0.9),)
    assert error_spans("", [], np.zeros(0), np.array([0.1]), (0.5, 0.5)) == ()


def test_each_place_has_one_error():
    """ "$5%" has no space between its words."""
    words = [(0, 1), (1, 2), (2, 3)]
    for marked in itertools.product([0.0, 1.0], repeat=7):
        found = error_spans("$5%", words, np.array(marked[:3]), np.array(marked[3:]), (0.5, 0.5))
        assert len({one.start for one in found}) == len(found), marked
        covered = {place for one in found for place in range(one.start, one.end)}
        assert covered == {place for place in range(3) if marked[place]}, marked
        gaps = {place for place in range(4) if marked[3 + place]}
        inside = {place for place in gaps & covered if place - 1 in covered}
        assert {place for one in found for place in (*one.gaps, *[one.start] * one.missing)} == gaps - inside, marked
        assert all(one.missing == (not {one.start, one.start - 1} & covered) for one in found), marked


@pytest.mark.parametrize(("text", "count"), [("No. Yes", 1), ("No .) Yes", 1), ("No a Yes", 2), ("No 5 % Yes", 2)])
def test_gaps_around_punctuation_are_one_mark(text, count):
    words = text_words(text)
    missing = np.array([0, *np.linspace(0.6, 0.9, len(words) - 1), 0])
    found = error_spans(text, words, np.zeros(len(words)), missing, (0.5, 0.5))
    assert len(found) == count if count == 1 else len(found) > 1
    assert (found[-1].start, found[-1].confidence) == (words[-2][1], 0.9)
    assert sorted(place for one in found for place in (one.start, *one.gaps)) == [end for _, end in words[:-1]]


@pytest.mark.parametrize(
    ("text", "part", "alone"),
    [
        *((f"Yes {one}", one, True) for one in ("?!", "…", "。", "،", "”", "—", "`", ") .")),
        *((f"Yes {one}", one, False) for one in ("no", "5", "%", "€", "+", "−", "👍", "👍🏽", "&", "?!5", "!️")),
        ("-5 degrees", "-", False),
        (".5 degrees", ".", False),
        ("(5) degrees", "(", True),
        ("A - b", "-", True),
        ("He left - 5 of them", "-", True),
    ],
)
@pytest.mark.parametrize("severities", [None, np.array([[0.0, 0.0, 1.0]])])
def test_punctuation_alone_is_minor(text, part, alone, severities):
    start = text.index(part)
    words = [(start, start + len(part))]
    (found,) = error_spans(text, words, np.ones(1) * 0.9, np.array([0.9, 0]), (0.5, 0.5), severities)
    assert (found.severity == "minor") is alone


@pytest.mark.parametrize(
    ("text", "other", "critical"),
    [
        ("...", "Hello.", True),
        ("。。", "你好", True),
        ("", "A b", True),
        ("...", "?!", False),
        ("", " ", False),
        ("A b", "A c", False),
        ("5 ?", "6 ?", False),
    ],
)
def test_punctuation_in_place_of_all_words_is_critical(text, other, critical):
    words = text_words(text)
    assert lacks_words(text, ["", other]) is critical
    for missing in (0.9, 0.0):
        chances = np.full(len(words), 0.4), np.array([missing, *[0.0] * len(words)])
        found = error_spans(text, words, *chances, (0.3, 0.5), bare=critical)
        assert any(one.severity == "critical" for one in found) is (critical and bool(words or missing))


def test_learned_severities_weigh_words_by_their_probability():
    severities = np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8], [0.3, 0.3, 0.4]])
    (found,) = error_spans(TEXT, WORDS, np.array([0.6, 0.9, 0.0]), np.zeros(4), (0.5, 0.5), severities)
    assert found.severity == "critical"


# --- exact word overlap -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hypothesis", "references", "marked"),
    [
        ("A cat sat.", ["A cat sat."], "A cat sat."),
        ("A cat sat.", ["A dog sat."], "A [cat] sat."),
        ("A big cat sat.", ["A cat sat."], "A [big] cat sat."),
        ("A cat.", ["A cat sat."], "A cat[]."),
        ("cat.", ["A cat."], "[]cat."),
        ("A cat", ["A cat sat"], "A cat[]"),
        ("A cat sat", ["A very big cat sat"], "A[] cat sat"),
        ("A cat sat", ["A big dog sat"], "A [cat] sat"),  # one word for two: one is missing before it
        ("我去那里。", ["我们去这里。"], "我[]去[那]里。"),  # each character is a word
        ("A cat sat.", ["An owl flew!", "A cat sits."], "A cat [sat]."),  # the closest reference counts
        ("a 😀 cat", ["a dog"], "a [😀 cat]"),
        ("", ["A cat."], "[]"),
        ("A cat", [], "A cat"),  # nothing to compare with
        ("A cat", [""], "[A cat]"),
    ],
)
def test_marks_by_hand(hypothesis, references, marked):
    (found,) = word_overlap_errors([hypothesis], [references])
    assert found.marked() == marked


def test_words_have_offsets_of_the_text_as_given():
    text = "  Zwölf  Boxer, 3.5 — 我们 "
    (found,) = word_overlap_errors([text], [["anders"]])
    assert [text[start:end] for start, end in found.words] == ["Zwölf", "Boxer", ",", "3.5", "—", "我", "们"]
    assert found.word_probabilities.tolist() == [1.0] * 7
    assert len(found.gap_probabilities) == 8
    assert str(word_overlap_errors([], []).signature) == "metric:word-overlap"
