"""Judgements: rows keep together whatever is selected."""

import numpy as np

from textmover.types import Judgements


def made() -> Judgements:
    return Judgements(
        "four",
        ("a", "b", "c", "d"),
        (("r",), ("r", "s"), ("t",), ("u",)),
        {"score": np.array([1.0, 2.0, np.nan, 4.0])},
        ("x", "x", "y", "y"),
        items=("1", "1", "2", "2"),
        preferences=np.array([[0, 1], [3, 2], [1, 3]]),
        scores={"chrf": np.arange(4.0)},
        left_out={"no text": 2},
    )


def test_rows_are_selected_in_every_field():
    chosen = made().select([3, 1, 0])
    assert len(chosen) == 3
    assert chosen.hypotheses == ("d", "b", "a")
    assert chosen.references == (("u",), ("r", "s"), ("r",))
    assert chosen.ratings["score"].tolist() == [4.0, 2.0, 1.0]
    assert chosen.groups == ("y", "x", "x")
    assert chosen.items == ("2", "1", "1")
    assert chosen.systems is chosen.sources is None
    assert chosen.scores["chrf"].tolist() == [3.0, 1.0, 0.0]
    assert chosen.left_out == {"no text": 2}


def test_preferences_find_their_rows_again():
    assert made().select([3, 1, 0]).preferences.tolist() == [[2, 1], [1, 0]]
    assert made().select([2]).preferences.shape == (0, 2)
