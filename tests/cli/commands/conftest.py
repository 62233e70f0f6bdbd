"""A small metric, a parser of one sentence, and neighbours of words."""

import sys
import types
from pathlib import Path

import pytest

from textmover.types import ParsedText

TREE = ParsedText(
    ("The", "dog", "chased", "the", "cat", "."),
    ("the", "dog", "chase", "the", "cat", "."),
    ("DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT"),
    ("", "Number=Sing", "Tense=Past|VerbForm=Fin", "", "Number=Sing", ""),
    (1, 2, -1, 4, 2, 2),
    ("det", "nsubj", "root", "det", "obj", "punct"),
    ((0, 3), (4, 7), (8, 14), (15, 18), (19, 22), (22, 23)),
)


@pytest.fixture
def metric(tiny_encoder: Path) -> list[object]:
    """Options of a small metric."""
    return ["--model", "twmd", "--encoder", tiny_encoder, "--backend", "torch"]


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Takes the place of the parsers and knows one sentence; returns the names that were asked for."""
    asked, nothing = [], ParsedText((), (), (), (), (), (), ())

    def load_parser(name: str):
        asked.append(name)
        return lambda texts: [TREE if text == "The dog chased the cat." else nothing for text in texts]

    monkeypatch.setitem(sys.modules, "textmover.rome.parsers.pipelines", types.SimpleNamespace(load_parser=load_parser))
    return asked


@pytest.fixture
def any_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word is near enough to take the place of another."""
    least = {"least": -1.0, "most": 12, "sentences": None, "least_sentence": -1.0}
    monkeypatch.setattr("textmover.modules.word_neighbours.WordNeighbours.__init__.__kwdefaults__", least)
