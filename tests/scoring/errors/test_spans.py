"""Words and gaps become spans by one rule."""

import numpy as np
import pytest

from textmover.scoring.errors.spans import error_spans
from textmover.types import ErrorSpan

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
    "a gap beside a span is another": ([0.8, 0, 0], [0, 0.9, 0, 0], [(0, 2, "minor", 0.8), (2, 2, "major", 0.9)]),
    "the threshold marks": ([0.5, 0.499, 0], [0, 0, 0, 0], [(0, 2, "minor", 0.5)]),
    "all": ([1, 1, 1], [0.9, 0.9, 0.9, 0], [(0, 0, "major", 0.9), (0, 9, "critical", 1.0)]),
}


@pytest.mark.parametrize(("wrong", "missing", "wanted"), CASES.values(), ids=CASES)
def test_words_become_spans(wrong, missing, wanted):
    found = error_spans(WORDS, np.array(wrong, float), np.array(missing, float), (0.5, 0.5))
    assert found == tuple(ErrorSpan(*one) for one in wanted)


def test_a_text_without_words_lacks_them_at_its_start():
    assert error_spans([], np.zeros(0), np.array([0.9]), (0.5, 0.5)) == (ErrorSpan(0, 0, "major", 0.9),)
    assert error_spans([], np.zeros(0), np.array([0.1]), (0.5, 0.5)) == ()


def test_learned_severities_weigh_words_by_their_probability():
    severities = np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8], [0.3, 0.3, 0.4]])
    (found,) = error_spans(WORDS, np.array([0.6, 0.9, 0.0]), np.zeros(4), (0.5, 0.5), severities)
    assert found.severity == "critical"
