"""Signatures: what names and words hold forges no entry."""

import pytest

from textmover import Scorer
from textmover.scoring import save_checkpoint
from textmover.types import Signature


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
