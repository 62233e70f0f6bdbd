"""Signatures, in which nothing forges an entry, and judgements, whose rows keep together whatever is selected."""

import numpy as np
import pytest

from textmover import Scorer
from textmover.scoring import save_checkpoint
from textmover.types import Judgements, Signature


@pytest.mark.parametrize("text", ["a|encoder:b", "a\nb", "a\rb", "a\u2028b", "a\x1b[31mb", "a\udc80b", "a\tb"])
def test_no_text_divides_a_signature(text):
    signature = Signature({"metric": text, text: "1", "refs": "best"})
    assert str(signature).count("|") == 2
    assert str(signature).isprintable()
    assert signature.entries["refs"] == "best"
    assert Signature(signature.entries) == signature


def test_a_colon_divides_key_and_value_once():
    assert str(Signature({"C:\\metric": "a:b"})) == "C%3A\\metric:a:b"


@pytest.mark.parametrize("preset", ["twmd", "rome"])
def test_names_of_folders_and_words_forge_no_entry(tiny_encoder, tmp_path, preset):
    folder = tmp_path / "tiny|score:best\nrefs:all"
    folder.symlink_to(tiny_encoder)
    rome = {"parser": "none", "features": ["semantic"], "scorer": "mean", "weights": "uniform"}
    fields = rome if preset == "rome" else {"stop_words": "a|refs:all the"}
    scorer = Scorer.from_pretrained(preset, encoder=str(folder), **fields)
    plain = Scorer.from_pretrained(preset, encoder=str(tiny_encoder), **fields)
    entries, expected = scorer.signature.entries, plain.signature.entries
    assert {**entries, "encoder": ""} == {**expected, "encoder": ""}
    assert len(str(scorer.signature).split("|")) == len(entries)
    saved = save_checkpoint(scorer.metric, tmp_path / "saved", card="")
    assert Scorer.from_pretrained(saved).signature.entries == entries


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
