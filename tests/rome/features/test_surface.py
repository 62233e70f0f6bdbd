import pytest
from sacrebleu.metrics import CHRF

from textmover.rome.features.pairs import SURFACE
from textmover.rome.features.text_features import ParsedWords


def read(text):
    return ParsedWords(text, tuple(text.split()), None)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "ratio"),
    [
        ("a b", "a b c d", 0.5),
        ("a b c d", "a b", 0.5),
        ("a !", "b", 1.0),
        ("", "", 1.0),
        ("", "a", 0.0),
        ("!", "?", 1.0),
    ],
)
def test_the_ratio_is_that_of_the_words(hypothesis, reference, ratio):
    assert SURFACE["length-ratio"](read(hypothesis), read(reference)) == ratio


@pytest.mark.parametrize(("hypothesis", "reference"), [("a cat sat", "the cat sat"), ("", "a"), ("same", "same")])
def test_chrf_is_sacrebleus(hypothesis, reference):
    expected = CHRF().sentence_score(hypothesis, [reference]).score / 100
    assert SURFACE["chrf"](read(hypothesis), read(reference)) == pytest.approx(expected)
