"""The released parser, through the door that all of RoMe takes."""

import copy
import pickle
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from textmover.rome.parsers.pipelines import DEFAULT_PARSER, SpacyParser, files_hash, load_parser
from textmover.types import InputError, Parser

pytest.importorskip("spacy")

ROOT = Path(__file__).resolve().parents[3]
TREEBANK = ROOT.parent / "shared" / "data" / "ud_ewt" / "en_ewt-ud-dev.conllu"
TEXTS = [
    "The cat sat on the mat.",
    "She didn't know that her brothers had been waiting for hours.",
    "prices of houses rose by 3.5 per cent",
    "Stop!",
    "Munich is the capital of Bavaria, and it was founded in 1158.",
    "I saw him. He was running.",
]


@pytest.fixture(scope="module")
def parser():
    return load_parser()


def test_is_the_released_one_and_small(parser):
    assert isinstance(parser, Parser)
    folder = ROOT / "checkpoints" / DEFAULT_PARSER
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 12e6
    assert parser.identity == f"en_textmover_parser-0.1.0+{files_hash(folder)}"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert parser.identity in card
    assert "CC BY-SA 4.0" in card
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"/tmp/" in path.read_bytes()], "paths of the machine that trained it"


def test_simple_sentences_come_out_as_the_treebank_would_have_them(parser):
    cat, *_ = parser(TEXTS)
    assert cat.words == ("The", "cat", "sat", "on", "the", "mat", ".")
    assert cat.lemmas == ("the", "cat", "sit", "on", "the", "mat", ".")
    assert cat.tags == ("DET", "NOUN", "VERB", "ADP", "DET", "NOUN", "PUNCT")
    assert cat.heads == (1, 2, -1, 5, 5, 2, 2)
    assert cat.relations == ("det", "nsubj", "root", "case", "det", "obl", "punct")
    assert "Number=Sing" in cat.features[1].split("|")
    assert "Tense=Past" in cat.features[2].split("|")


def test_passive_has_its_relations(parser):
    (parsed,) = parser(["The book was written by a teacher."])
    assert {"nsubj:pass", "aux:pass"} <= set(parsed.relations)


def test_several_sentences_have_several_roots(parser):
    parsed = parser(TEXTS)[-1]
    assert [parsed.words[root] for root in parsed.roots] == ["saw", "running"]


def test_spans_are_of_the_text(parser):
    texts = [*TEXTS, "  The\n\n cat\u00a0sat \t\ud83d there "]
    for text, parsed in zip(texts, parser(texts), strict=True):
        assert tuple(text[start:end] for start, end in parsed.spans) == parsed.words
        assert "".join(parsed.words) == "".join(text.split())
        assert not [word for word in parsed.words if not word.strip()]


@pytest.mark.parametrize(
    "text",
    [
        "😀",
        "👩‍👩‍👧 👍🏽",
        "12 000",
        "3.50",
        "...",
        "?!",
        "\ud800",
        "\udfff\ud800",
        "\x00",
        "\u200b",
        "a" * 5000,
        "茶",
        "(((" * 50,
    ],
)
def test_odd_texts_are_parsed(parser, text):
    (parsed,) = parser([text])
    assert "".join(parsed.words) == "".join(text.split())
    assert parsed.roots
    assert all(parsed.lemmas)
    assert all(parsed.tags)
    assert all(parsed.relations)


def test_ten_thousand_words_are_parsed(parser):
    (parsed,) = parser([" ".join(TEXTS[:2] * 600)])
    assert len(parsed) > 10_000
    assert 1_000 < len(parsed.roots) < 1_400


def test_a_parse_depends_on_its_text_alone():
    texts = [*TEXTS, *(f"{text} {other}" for text in TEXTS for other in TEXTS)]
    forgetful = load_parser(cached_words=0)
    expected = [forgetful([text])[0] for text in texts]
    assert forgetful(texts) == expected
    order = random.Random(0).sample(range(len(texts)), len(texts) // 2)
    assert forgetful([texts[place] for place in order]) == [expected[place] for place in order]


@pytest.mark.slow
def test_threads_and_copies_agree(parser):
    expected = parser(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(load_parser(cached_words=0), [TEXTS] * 4)) == [expected] * 4
    for same in (pickle.loads(pickle.dumps(parser)), copy.deepcopy(parser)):
        assert same.identity == parser.identity
        assert same(TEXTS) == expected


def test_new_words_do_not_stay_in_the_vocabulary(parser):
    parser(["Warm up."])
    before = len(parser._pipeline.vocab.strings)
    parser([f"The zorb{number}x frumbled." for number in range(50)])
    assert len(parser._pipeline.vocab.strings) == before


@pytest.mark.skipif(not TREEBANK.is_file(), reason="needs the data folder ../shared beside the clone")
def test_agrees_with_the_treebank(parser, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from train_parser import evaluate

    head = TREEBANK.read_text(encoding="utf-8").split("\n\n")[:60]
    (tmp_path / "head.conllu").write_text("\n\n".join([*head, ""]), encoding="utf-8")
    results = evaluate(ROOT / "checkpoints" / DEFAULT_PARSER, tmp_path / "head.conllu")
    gold, text = results["gold words, one sentence at a time"], results["text of one sentence"]
    assert gold["words"] == pytest.approx(100)
    assert gold["UAS"] > gold["LAS"] >= gold["LAS with subtypes"]
    assert text["words"] > 97
    assert min(text["UPOS"], text["lemmas"]) > 90
    assert text["LAS"] > 75


def test_folder_and_name_are_the_same(parser):
    folder = ROOT / "checkpoints" / DEFAULT_PARSER
    assert load_parser(folder).identity == load_parser(str(folder)).identity == parser.identity


def test_hash_is_of_names_and_contents_but_not_of_the_card(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    first = files_hash(tmp_path)
    (tmp_path / "README.md").write_text("card")
    assert files_hash(tmp_path) == first
    (tmp_path / "a").rename(tmp_path / "b")
    assert files_hash(tmp_path) != first


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("en_core_web_none", "python -m spacy download en_core_web_none"),
        ("no-such-parser", r"released: textmover-parser.*stanza:en"),
        ("some/folder", r"got 'some/folder'.*the folder of a spaCy pipeline"),
        (Path("os"), "the folder of a spaCy pipeline"),
    ],
)
def test_missing_one_says_how_to_get_it(name, way):
    with pytest.raises(InputError, match=way):
        load_parser(name)


def test_missing_released_one_says_how_to_train_it(monkeypatch):
    monkeypatch.setattr("textmover.rome.parsers.pipelines.released_folders", lambda marker: {})
    with pytest.raises(InputError, match=r"released: none.*python benchmarks/train_parser\.py"):
        load_parser()


def test_package_that_is_no_pipeline_is_refused():
    with pytest.raises(InputError, match=r"Expected json to be a pipeline that spaCy 3\.\d+\.\d+ can load"):
        load_parser("json")


def test_installed_package_is_taken_by_its_name(monkeypatch, tmp_path):
    package = tmp_path / "xx_little_parser"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from pathlib import Path\nimport spacy\n"
        "def load(**options):\n"
        f"    return spacy.load(Path({str(ROOT / 'checkpoints' / DEFAULT_PARSER)!r}), **options)\n"
    )
    information = tmp_path / "xx_little_parser-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: xx-little-parser\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(load_parser("xx_little_parser"), SpacyParser)
    sys.modules.pop("xx_little_parser")


def test_pipeline_without_a_parser_is_refused(tmp_path):
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path)
    with pytest.raises(InputError, match=r"to find heads of words, but its components are sentencizer"):
        load_parser(tmp_path)


def test_broken_folder_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "config.cfg").write_text("[nlp]\nlang = 'en'\n")
    with pytest.raises(InputError, match="to be a pipeline that spaCy") as caught:
        load_parser(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match=re.escape('pip install "textmover[rome]"')):
        load_parser()
