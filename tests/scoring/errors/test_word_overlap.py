"""Errors by exact word overlap: cases by hand, and laws."""

import pytest

from textmover.scoring.errors.spans import word_overlap_errors


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
