"""Comparing pairs of texts across files that write them differently."""

from __future__ import annotations

import pytest

from textmover.data.overlap import compared_text, normalised_pair, without_pairs
from textmover.types import Segment


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A man is singing.", "a man  is singing"),
        ("They don't.", "they do n't ."),
        ("“Yes,” he said", "'Yes', he said."),
        ("ﬁne – 5 €", "fine 5"),
    ],
)
def test_what_other_files_write_differently_is_the_same(one: str, other: str) -> None:
    assert compared_text(one) == compared_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("The cat", "The cats"), ("It is 5", "It is 6"), ("?", "!"), ("...", ""), ("की", "का")],
)
def test_what_differs_in_letters_marks_or_numbers_does_not_meet(one: str, other: str) -> None:
    assert compared_text(one) != compared_text(other)


def test_a_pair_is_left_out_in_either_order_and_with_other_punctuation() -> None:
    pair = normalised_pair("A dog is running through the grass", "The dog is walking")
    rows = [
        Segment("The dog is walking.", ("A dog is running, through the grass.",)),
        Segment("The dog is walking.", ("A dog is running.",)),
    ]
    assert without_pairs(rows, {pair}) == rows[1:]
    assert without_pairs(rows, {normalised_pair(rows[1].references[0], rows[1].hypothesis)}) == rows[:1]
