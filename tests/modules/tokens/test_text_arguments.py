"""Texts of callers as lists of hypotheses, references and sources."""

from textmover.modules.tokens.text_arguments import paired_texts


def test_pairs_and_triples_become_lists():
    hypotheses, compared = paired_texts([("a", "b"), ("c", None, "e")])
    assert hypotheses == ["a", "c"]
    assert [(tuple(one), one.source) for one in compared] == [(("b",), None), ((), "e")]


def test_no_pairs_are_no_texts():
    assert paired_texts([]) == ([], [])
