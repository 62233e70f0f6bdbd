"""The parser's training: the treebank is read as it is written, and agreement is counted as it should be."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

spacy = pytest.importorskip("spacy")
from textmover.rome.parsers.pipelines import parsed_doc  # noqa: E402  needs spaCy

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "ud_ewt"

WRITTEN = """\
# newdoc id = one
# text = We can't  go.
1\tWe\twe\tPRON\tPRP\tCase=Nom\t4\tnsubj\t_\t_
2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_
2\tca\tcan\tAUX\tMD\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tgo\tgo\tVERB\tVB\tVerbForm=Inf\t0\troot\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# text = Why?
1\tWhy\twhy\tADV\tWRB\t_\t0\troot\t_\tSpaceAfter=No
1.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_
2\t?\t?\tPUNCT\t.\t_\t1\tpunct\t_\t_

# newdoc id = two
# text = Rest.
1\tRest\trest\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
2\t.\t.\tPUNCT\t.\t_\t1\tpunct\t_\tSpaceAfter=No

"""


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "written.conllu"
    path.write_text(WRITTEN, encoding="utf-8")
    return path


def test_texts_and_trees_of_the_treebank(script, written):
    sentences = list(script.read_conllu(written))
    assert [one.text for one in sentences] == ["We can't go. ", "Why? ", "Rest."]
    doc = script.gold_doc(sentences, spacy.blank("en").vocab)
    gold, text = parsed_doc(doc), doc.text
    assert text == "We can't go. Why? Rest."
    assert len(list(doc.sents)) == 3
    assert tuple(text[start:end] for start, end in gold.spans) == gold.words
    assert gold.words == ("We", "ca", "n't", "go", ".", "Why", "?", "Rest", ".")
    assert gold.heads == (3, 3, 3, -1, 3, -1, 5, -1, 7)
    assert gold.features[:2] == ("Case=Nom", "")
    first = [[one.rows[0][1] for one in group] for group in script.grouped(sentences, (10,))]
    assert first == [["We", "Why"], ["Rest"]]
    assert [len(group) for group in script.grouped(sentences, (1, 2))] == [1, 1, 1]


def test_a_file_of_spacy_holds_the_same(script, written, tmp_path):
    script.convert(written, tmp_path / "written.spacy", (10,))
    vocab = spacy.blank("en").vocab
    docs = list(spacy.tokens.DocBin().from_disk(tmp_path / "written.spacy").get_docs(vocab))
    groups = script.grouped(list(script.read_conllu(written)), (10,))
    assert [parsed_doc(doc) for doc in docs] == [parsed_doc(script.gold_doc(group, vocab)) for group in groups]


def test_agreement_is_counted_over_words_with_the_same_span(script, written):
    gold = parsed_doc(script.gold_doc(list(script.read_conllu(written))[:1], spacy.blank("en").vocab))
    all_right = script.agreements(gold, gold)
    assert {all_right[name] for name in script.COLUMNS if "punctuation" not in name} == {5}
    assert {all_right[name] for name in script.COLUMNS if "punctuation" in name} == {4}
    kept = {name: getattr(gold, name)[:1] + getattr(gold, name)[2:] for name in ("words", "lemmas", "tags", "features")}
    relations, spans = ("nsubj:outer", "aux", "root", "dep"), ((0, 2), (3, 8), (9, 11), (11, 12))
    merged = replace(gold, **kept, relations=relations, heads=(2, 2, -1, 2), spans=spans)  # "can't" as one word
    counts = script.agreements(gold, merged)
    assert (counts["gold"], counts["found"], counts["words"]) == (5, 4, 3)
    assert counts["UAS"] == 3
    assert counts["LAS"] == 2  # a subtype is no other relation, `dep` for `punct` is
    assert counts["LAS with subtypes"] == 1
    assert (counts["UAS, no punctuation"], counts["gold, no punctuation"]) == (2, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Great!!! (Really?!)", "Great !!! ( Really ?! )"),
        ("a well-known, non-standard e-mail", "a well - known , non-standard e-mail"),
        ("this and/or that, his/her, 1/2", "this and / or that , his / her , 1/2"),
        ("Call 713-853-3989 at 7:30PM.", "Call 713-853-3989 at 7:30 PM ."),
        ("She can't, he's Lt. Smith etc. ====", "She ca n't , he 's Lt. Smith etc. ===="),
        ("See http://a.org/b/cd -- now...", "See http://a.org/b/cd -- now ..."),
    ],
)
def test_words_are_split_as_in_the_treebank(script, text, words, tmp_path):
    from ud_treebank import adapt_tokenizer

    nlp = adapt_tokenizer(spacy.blank("en"))
    assert " ".join(word.text for word in nlp(text)) == words
    nlp.to_disk(tmp_path)
    assert " ".join(word.text for word in spacy.load(tmp_path)(text)) == words


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the data folder ../shared beside the clone")
def test_all_of_the_treebank_is_read_as_it_says(script):
    path = DATA / "en_ewt-ud-dev.conllu"
    texts = re.findall(r"^# text = (.*)$", path.read_text("utf-8"), re.MULTILINE)
    sentences = list(script.read_conllu(path))
    assert len(sentences) == 2001
    assert [" ".join(one.text.split()) for one in sentences] == [" ".join(text.split()) for text in texts]
