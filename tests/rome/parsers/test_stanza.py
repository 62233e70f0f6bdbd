"""Stanza as a parser, with a stand-in that has the documented interface: its models cannot be had without a network."""

import pickle
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from textmover.rome.parsers.pipelines import load_parser
from textmover.types import InputError, Parser

TREES = {
    "The dogs bark.": [
        [("The", "the", 2, "det"), ("dogs", "dog", 3, "nsubj"), ("bark", "bark", 0, "root"), (".", ".", 3, "punct")]
    ],
    "Go! Stop now": [
        [("Go", "go", 0, "root"), ("!", "!", 1, "punct")],
        [("Stop", "stop", 0, "root"), ("now", "now", 1, "advmod")],
    ],
}


def word(number, text, lemma, head, relation, start=None, **more):
    end = None if start is None else start + len(text)
    return SimpleNamespace(
        id=number, text=text, lemma=lemma, upos=more.get("upos", "NOUN"), xpos=None, feats=more.get("feats"),
        head=head, deprel=relation, start_char=start, end_char=end,
    )  # fmt: skip


def token(words, start, end):
    return SimpleNamespace(words=words, start_char=start, end_char=end)


def document(text):
    """Sentences of tokens of words, whose ids begin at 1 in each sentence and whose root has head 0."""
    sentences, place = [], 0
    for tree in TREES[text]:
        tokens = []
        for number, (form, lemma, head, relation) in enumerate(tree, 1):
            place = text.index(form, place)
            tokens.append(token([word(number, form, lemma, head, relation, place)], place, place + len(form)))
        sentences.append(SimpleNamespace(tokens=tokens, words=[one for each in tokens for one in each.words]))
    return SimpleNamespace(text=text, sentences=sentences)


def french(text):
    """``du`` as ``de`` and ``le``, which Stanza gives no characters."""
    words = [
        word(1, "Loin", None, 0, "root", 0, upos=None),
        word(2, "de", "de", 1, "case"),
        word(3, "le", "le", 1, None),
    ]
    tokens = [token(words[:1], 0, 4), token(words[1:], 5, 7)]
    return SimpleNamespace(text=text, sentences=[SimpleNamespace(tokens=tokens, words=words)])


@pytest.fixture
def stanza(monkeypatch, tmp_path):
    module = ModuleType("stanza")
    module.__version__ = "1.10.1"
    module.calls = []
    (tmp_path / "en.pt").write_bytes(b"model")

    class Pipeline:
        def __init__(self, lang, **options):
            if lang == "xx":
                raise ValueError("Unknown language requested: xx")
            if lang == "de":
                raise FileNotFoundError("Resources file not found at: resources.json  Try to download the model again.")
            module.calls.append((lang, options))
            self.lang = lang
            self.config = {"lang": lang, "depparse_model_path": str(tmp_path / "en.pt"), "pos_batch_size": 5000}

        def bulk_process(self, docs):
            module.calls.append(list(docs))
            return [french(text) if self.lang == "fr" else document(text) for text in docs]

    module.Pipeline = Pipeline
    monkeypatch.setitem(sys.modules, "stanza", module)
    return module


def test_sentences_become_trees_of_one_text(stanza):
    parser = load_parser("stanza:en")
    assert isinstance(parser, Parser)
    first, second, none = parser(["Go!\n Stop now", "The dogs bark.", " "])
    assert first.words == ("Go", "!", "Stop", "now")
    assert first.heads == (-1, 0, -1, 2)
    assert first.roots == (0, 2)
    assert first.spans == ((0, 2), (2, 3), (5, 9), (10, 13))
    assert second.lemmas == ("the", "dog", "bark", ".")
    assert second.heads == (1, 2, -1, 2)
    assert second.relations == ("det", "nsubj", "root", "punct")
    assert second.features == ("",) * 4
    assert len(none) == 0


def test_nothing_is_fetched_and_texts_go_together(stanza):
    load_parser("stanza:en")(["The dogs bark.", "Go! Stop now"])
    language, options = stanza.calls[0]
    assert language == "en"
    assert options["download_method"] is None
    assert {"tokenize", "pos", "lemma", "depparse"} <= set(options["processors"].split(","))
    assert stanza.calls[1:] == [["Go! Stop now", "The dogs bark."]]


def test_words_of_a_multiword_token_have_its_span(stanza):
    (parsed,) = load_parser("stanza:fr")([" Loin  du"])
    assert parsed.words == ("Loin", "de", "le")
    assert parsed.spans == ((1, 5), (7, 9), (7, 9))
    assert parsed.lemmas == ("loin", "de", "le")  # the word itself where there is none
    assert parsed.tags[0] == "X"
    assert parsed.relations == ("root", "case", "dep")


def test_identity_names_version_and_models(stanza, tmp_path):
    first = load_parser("stanza:en").identity
    assert re.fullmatch(r"stanza:en-1\.10\.1\+[0-9a-f]{8}", first)
    assert load_parser("stanza:en").identity == first
    (tmp_path / "en.pt").write_bytes(b"another")
    assert load_parser("stanza:en").identity != first


def test_goes_to_another_process(stanza):
    parser = load_parser("stanza:en", cached_words=7)
    copy = pickle.loads(pickle.dumps(parser))
    assert (copy.identity, copy.cached_words) == (parser.identity, 7)


@pytest.mark.parametrize(("language", "reason"), [("de", "Resources file not found"), ("xx", "Unknown language")])
def test_missing_models_name_the_command(stanza, language, reason):
    with pytest.raises(InputError, match=rf"{reason}.*stanza\.download\('{language}'\)"):
        load_parser(f"stanza:{language}")


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "stanza", None)
    with pytest.raises(InputError, match=r'pip install "textmover\[stanza\]"'):
        load_parser("stanza:en")
