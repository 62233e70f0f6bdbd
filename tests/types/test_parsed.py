import pytest

from textmover.types import ParsedText


def parsed(*heads):
    words = tuple("abcdefgh"[: len(heads)])
    spans = tuple((2 * place, 2 * place + 1) for place in range(len(heads)))
    return ParsedText(words, words, ("X",) * len(heads), ("",) * len(heads), heads, ("dep",) * len(heads), spans)


@pytest.mark.parametrize(
    ("heads", "roots"),
    [((), ()), ((-1,), (0,)), ((1, -1, 1), (1,)), ((-1, 0, -1, 4, 2), (0, 2)), ((1, 2, 3, -1), (3,))],
)
def test_roots_are_the_words_without_a_head(heads, roots):
    assert parsed(*heads).roots == roots
    assert len(parsed(*heads)) == len(heads)


@pytest.mark.parametrize("heads", [(0,), (1, 0), (-1, 2, 3, 1), (5,), (-2,), (1, 3, -1)])
def test_heads_that_are_no_trees_are_refused(heads):
    with pytest.raises(ValueError, match=r"Expected `heads` to be trees of \d words, but got"):
        parsed(*heads)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="one lemma, tag, head … to each of 2 words, but got 1, 2, 2, 2, 2, 2"):
        ParsedText(("a", "b"), ("a",), ("X", "X"), ("", ""), (-1, 0), ("root", "dep"), ((0, 1), (2, 3)))
