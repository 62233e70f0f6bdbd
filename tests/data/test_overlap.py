"""Comparing pairs of texts across files that write them differently."""

from __future__ import annotations

import pytest
from data_files import write_table

from textmover.data import PairFile
from textmover.data.leakage import compared_text, segment_pairs, without_files
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


def test_a_pair_is_left_out_in_either_order_and_with_other_punctuation(tmp_path) -> None:
    rows = [
        Segment("The dog is walking.", ("A dog is running, through the grass.",)),
        Segment("The dog is walking.", ("A dog is running.",)),
    ]
    for place, pair in enumerate(
        ("A dog is running through the grass\tThe dog is walking", "A dog is running.\tThe dog is walking.")
    ):
        file = PairFile(write_table(tmp_path / f"{place}.tsv", "hypothesis\treference", [pair]))
        assert without_files([rows], [file], segment_pairs) == ([[rows[1 - place]]], 1)
