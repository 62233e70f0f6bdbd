"""Which sentences are taken hangs on the seed and each text alone."""

import pytest

from textmover.data.generated.datamodule import check_damage, read_sentences, taken_sentences
from textmover.types import InputError

TEXTS = [f"Sentence {number} has " + "very " * (number % 5) + "many words." for number in range(40)]


def test_files_are_read_once_for_each_text_and_without_space_around(tmp_path):
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text(" One. \nTwo.\n")
    second.write_text("Two.\nThree.\n")
    assert read_sentences([str(first), str(second)], None, "train") == ["One.", "Two.", "Three."]


def test_only_texts_of_the_wanted_length_are_taken():
    assert {len(text.split()) for text in taken_sentences(TEXTS, (6, 7), None, 0)} == {6, 7}


def test_the_order_does_not_hang_on_that_of_the_files_nor_on_other_texts():
    taken = taken_sentences(TEXTS, (1, 99), None, 3)
    assert taken_sentences(TEXTS[::-1], (1, 99), None, 3) == taken
    assert taken_sentences(TEXTS[::2], (1, 99), None, 3) == [text for text in taken if text in TEXTS[::2]]
    assert taken_sentences(TEXTS, (1, 99), 7, 3) == taken[:7]
    assert taken_sentences(TEXTS, (1, 99), None, 4) != taken


def test_weights_are_as_given_or_the_same_for_all():
    assert check_damage("kinds", None, ["drop", "swap"], ["drop", "swap", "entity"]) == {"drop": 1.0, "swap": 1.0}
    assert check_damage("kinds", {"entity": 2}, ["drop"], ["drop", "entity"]) == {"entity": 2}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"swab": 1.0}, "swab: 1.0"),
        ({"drop": -1.0}, "drop: -1.0"),
        ({"drop": float("inf")}, "drop: inf"),
        ({"drop": float("nan")}, "drop: nan"),
        ({"drop": 0.0}, "some kind of damage"),
        ({}, "some kind of damage"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, message):
    with pytest.raises(InputError, match=f"`kinds`.*{message}"):
        check_damage("kinds", weights, ["drop"], ["drop"])
