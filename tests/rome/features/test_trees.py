"""From parses to the trees that are compared: order, marks, several sentences, stretches."""

import pytest
from tests.rome.shared import parsed

from textmover.rome.features.syntactic import dependency_trees, tree_words
from textmover.types import InputError


def plain(trees):
    return [(tree.heads.tolist(), tree.words.tolist()) for tree in trees]


def test_words_hang_as_in_the_parse_under_an_imaginary_root():
    assert plain(dependency_trees(parsed("abcd", [1, 3, 1, -1]))) == [([-1, 2, 4, 2, 0], [-1, 0, 1, 2, 3])]


def test_several_sentences_are_joined_under_one_root():
    found = dependency_trees(parsed("abcde", [-1, 0, 4, 2, -1]))
    assert plain(found) == [([-1, 0, 1, 5, 3, 0], [-1, 0, 1, 2, 3, 4])]


def test_marks_are_left_out_unless_asked_for():
    text = parsed("a,b.", [2, 0, -1, 2])
    assert tree_words(text) == [0, 2]
    assert plain(dependency_trees(text)) == [([-1, 2, 0], [-1, 0, 2])]
    assert plain(dependency_trees(text, punctuation=True)) == [([-1, 3, 1, 0, 3], [-1, 0, 1, 2, 3])]


def test_what_hangs_on_a_mark_hangs_on_what_is_above_it():
    text = parsed("a,.bc", [1, 2, 4, 1, -1])
    assert plain(dependency_trees(text)) == [([-1, 3, 3, 0], [-1, 0, 3, 4])]
    assert plain(dependency_trees(parsed(".b", [-1, 0]))) == [([-1, 0], [-1, 1])]


@pytest.mark.parametrize(
    ("word", "tag", "node"),
    [
        (".", "PUNCT", False),
        ("``", "PUNCT", False),
        ("…", "PUNCT", False),
        ("&", "CCONJ", True),
        ("%", "SYM", True),
        ("😀", "PUNCT", True),
        ("👍🏽", "PUNCT", True),
        ("7", "PUNCT", True),
        ("x", "PUNCT", True),
    ],
)
def test_what_a_mark_is(word, tag, node):
    assert tree_words(parsed([word], [-1], tags=[tag])) == ([0] if node else [])


@pytest.mark.parametrize("punctuation", [True, False])
def test_a_text_without_words_is_the_root_alone(punctuation):
    assert plain(dependency_trees(parsed("", []), punctuation=punctuation)) == [([-1], [-1])]


def test_stretches_hold_all_words_once_and_differ_by_one_at_most():
    text = parsed("abcdefghijk", [-1, *range(10)])
    for number in range(1, 15):
        trees = dependency_trees(text, stretches=number)
        assert len(trees) == number
        assert [word for tree in trees for word in tree.words[1:]] == list(range(11))
        sizes = [len(tree.words) for tree in trees]
        assert max(sizes) - min(sizes) <= 1
        assert all((tree.heads[0], tree.words[0]) == (-1, -1) for tree in trees)


def test_a_sentence_that_is_cut_keeps_the_structure_of_its_parts():
    #           0 <- 1, 1 <- 2 | 3 hangs on 0 and 4 on 3; 5 on 2, whose head in the second half is none
    text = parsed("abcdef", [-1, 0, 1, 0, 3, 2])
    assert plain(dependency_trees(text, stretches=2)) == [
        ([-1, 0, 1, 2], [-1, 0, 1, 2]),
        ([-1, 0, 1, 0], [-1, 3, 4, 5]),
    ]
    # A word between that is in another stretch does not separate: c hangs on e, which hangs on d.
    between = parsed("abcdef", [3, 3, 4, -1, 5, 0])
    assert plain(dependency_trees(between, stretches=2))[0] == ([-1, 0, 0, 1], [-1, 0, 1, 2])


def test_no_stretch_is_refused():
    with pytest.raises(InputError, match="Expected `stretches` to be at least 1, but got 0"):
        dependency_trees(parsed("a", [-1]), stretches=0)
