"""Tags of words and gaps, and probabilities on other words: against loops over characters, and by their laws."""

import numpy as np
import pytest

from textmover.meta_evaluation import word_errors
from textmover.meta_evaluation.error_spans.span_statistics import judged_words, overlaps, word_tags
from textmover.types.error_spans import ErrorSpan, MarkedSegment, TextErrors

TEXTS = ["a cat sat on the mat .", "don't go", "我们 去 那里", "über   zwei", "x"]


def cut(text: str, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Words of a text: white space is between words, and any other place may be."""
    words, start = [], None
    for place, one in enumerate(f"{text} "):
        if start is not None and (one.isspace() or rng.random() < 0.3):
            words.append((start, place))
            start = None
        if start is None and not one.isspace():
            start = place
    return words


def marked(text: str, rng: np.random.Generator) -> TextErrors:
    words = cut(text, rng)
    return TextErrors(text, (), tuple(words), rng.random(len(words)), rng.random(len(words) + 1))


def gaps_of(words):
    """Places of each gap: all those from the end of a word to the start of the next."""
    ends, starts = [0, *(end for _, end in words)], [*(start for start, _ in words), 99]
    return [set(range(end, start + 1)) for end, start in zip(ends, starts, strict=True)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("text", TEXTS)
def test_projection_is_that_of_a_loop_over_characters(text, seed):
    rng = np.random.default_rng(seed)
    errors, words = marked(text, rng), cut(text, rng)
    found, gaps = word_errors(errors, words)
    by_character = {
        place: value
        for (start, end), value in zip(errors.words, errors.word_probabilities, strict=True)
        for place in range(start, end)
    }
    assert found.tolist() == [max(by_character[place] for place in range(*word)) for word in words]
    own = list(zip(gaps_of(errors.words), errors.gap_probabilities, strict=True))
    expected = [max((value for there, value in own if there & here), default=0.0) for here in gaps_of(words)]
    assert gaps.tolist() == expected


def test_words_that_nothing_was_said_of_are_right():
    errors = TextErrors("a b", (), ((0, 1),), np.array([0.9]), np.array([0.1, 0.2]))
    assert [one.tolist() for one in word_errors(errors, [(0, 1), (2, 3)])] == [[0.9, 0.0], [0.1, 0.2, 0.2]]
    assert [one.tolist() for one in word_errors(TextErrors("", ()), [])] == [[], [0.0]]


@pytest.mark.parametrize(
    ("spans", "wrong", "missing"),
    [
        ([], [], []),
        ([(0, 1)], [0], []),
        ([(1, 2)], [], []),  # white space alone
        ([(1, 3)], [1], []),
        ([(0, 11)], [0, 1, 2, 3], []),
        ([(0, 0)], [], [0]),
        ([(1, 1)], [], [1]),
        ([(2, 2)], [], [1]),
        ([(3, 3)], [], []),  # within a word
        ([(9, 9)], [], [3]),  # two words without white space
        ([(11, 11)], [], [4]),
        ([(2, 7), (7, 7), (9, 10)], [1, 2, 3], []),
    ],
)
def test_tags_of_spans(spans, wrong, missing):
    words = [(0, 1), (2, 5), (6, 9), (9, 11)]
    tags, gaps = word_tags([ErrorSpan(*one) for one in spans], words)
    assert np.flatnonzero(tags).tolist() == wrong
    assert np.flatnonzero(gaps).tolist() == missing


@pytest.mark.parametrize(
    ("gold", "found", "meets"),
    [
        ((2, 5), (4, 7), True),
        ((2, 5), (5, 7), False),
        ((2, 5), (5, 5), True),  # words missing right behind
        ((2, 5), (6, 6), False),
        ((5, 5), (2, 3), True),  # in the word before
        ((5, 5), (6, 9), True),
        ((5, 5), (0, 1), False),  # two words away
        ((5, 5), (10, 12), False),
        ((5, 5), (9, 9), True),
        ((12, 12), (10, 12), True),
        ((0, 0), (0, 1), True),
        ((0, 0), (2, 5), False),
    ],
)
def test_an_error_is_found_where_a_span_meets_it(gold, found, meets):
    words = [(0, 1), (2, 5), (6, 9), (10, 12)]
    assert overlaps([ErrorSpan(*gold)], [ErrorSpan(*found)], words).tolist() == [[meets]]


def test_words_that_are_judged():
    gold, found = MarkedSegment("a b", (), words=((0, 3),)), TextErrors("a b", (), ((2, 3),))
    assert judged_words(gold, found) == ((0, 3),)
    assert judged_words(MarkedSegment("a b", ()), found) == ((2, 3),)
    assert judged_words(MarkedSegment("a b", ()), TextErrors("a b", ())) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(("gaps", "tagged"), [((), ()), ((2,), (1,)), ((1, 5), (1, 2)), ((5, 9), (2, 3))])
def test_a_span_tags_its_gaps(gaps, tagged):
    wrong, missing = word_tags([ErrorSpan(2, 5, gaps=gaps)], [(0, 1), (2, 5), (6, 9)])
    assert wrong.tolist() == [False, True, False]
    assert tuple(np.flatnonzero(missing)) == tagged
