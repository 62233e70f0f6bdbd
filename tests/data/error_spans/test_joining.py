"""Joined texts keep the places of their errors and mark rows that are lost or doubled; lost words leave a gap."""

from collections import Counter

import pytest

from textmover.data.error_spans.segment_augmentation import joined_segments, with_lost_words
from textmover.types import MarkedSegment
from textmover.types.error_spans import ErrorSpan
from textmover.types.word_splitting import text_words


def row(number):
    text = f"Row {number} is wrong."
    start = text.index("wrong")
    return MarkedSegment(
        text, (ErrorSpan(start, start + 5),), (f"Row {number} is right.",), None, text_words(text), True
    )


SEGMENTS = [row(number) for number in range(200)]
ROWS = Counter(one.hypothesis for one in SEGMENTS)


def rows(text):
    """The sentences of a joined text."""
    return [f"{one.strip()}." for one in text.split(".") if one.strip()]


def test_joined_texts_keep_errors_and_mark_lost_and_doubled_rows():
    kinds, place = Counter(), 0
    for one in joined_segments(SEGMENTS, 1.0, 3):
        count = len(rows(one.references[0]))
        group, place = SEGMENTS[place : place + count], place + count
        marked = [one.hypothesis[error.start : error.end] for error in one.errors]
        own = [first.hypothesis[error.start : error.end] for first in group for error in first.errors]
        extra = len(rows(one.hypothesis)) - count
        kinds[extra] += 1
        if extra == 0:
            assert marked == own
            assert [one.hypothesis[low:high] for low, high in one.words] == [
                first.hypothesis[low:high] for first in group for low, high in first.words
            ]
        elif extra == 1:  # the second copy is one error, the errors of the first stay
            (copy,) = [text for text in marked if text in ROWS]
            assert rows(one.hypothesis).count(copy) == 2
            assert Counter(marked) - Counter([copy]) == Counter(own)
        else:  # a gap at the end of the row before, or before the first one
            (gap,) = [error for error in one.errors if error.start == error.end]
            (lost,) = set(range(count)) - {
                number for number, first in enumerate(group) if first.hypothesis in one.hypothesis
            }
            assert gap.start == max(len(" ".join(first.hypothesis for first in group[:lost])), 0)
            assert gap.severity == "critical"
        assert list(one.words) == list(text_words(one.hypothesis))
        assert {one.references[0]} == {" ".join(first.references[0] for first in group)}
    assert min(kinds[-1], kinds[0], kinds[1]) >= 5
    assert joined_segments(SEGMENTS, 0.0, 3) == SEGMENTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He is not here.", {"is not here.": 0, "He not here.": 2, "He is here.": 5, "He is not.": 9}),
        ("他不在这里。", {"不在这里。": 0, "他在这里。": 1, "他不这里。": 2, "他不在里。": 3, "他不在这。": 4}),
        (
            "See (not here): yes",
            {"(not here): yes": 0, "See (here): yes": 5, "See (not): yes": 8, "See (not here):": 15},
        ),
        ("A的B", {"的B": 0, "A的": 2, "A的B": None}),  # without the letter in the middle two words would be one
    ],
)
def test_a_lost_word_leaves_a_gap_at_its_place(text, expected):
    one = MarkedSegment("Something else.", (), (text,))
    found = {}
    for seed in range(80):
        [lost] = with_lost_words([one], 1.0, seed)
        if lost is one:
            found[text] = None
            continue
        [error] = lost.errors
        assert (error.start, error.severity) == (error.end, "major")
        assert lost.words == text_words(lost.hypothesis)
        assert not lost.graded
        found[lost.hypothesis] = error.start
    assert found == expected


def test_negations_are_lost_more_often_than_other_words():
    one = MarkedSegment("x", (), ("They said that they would not come to see us on that day.",))
    lost = with_lost_words([one] * 400, 1.0, 0)
    assert sum(" not " not in row.hypothesis for row in lost) > 180
    kept = with_lost_words([one] * 400, 0.25, 0)
    assert 60 < sum(row is not one for row in kept) < 140
    bare = MarkedSegment("x", (), (), "a source")
    assert with_lost_words([bare], 1.0, 0) == [bare]
