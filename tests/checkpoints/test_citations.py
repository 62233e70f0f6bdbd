"""What is cited: entries that are whole, and the right ones for every metric that there is."""

import re

import pytest

from textmover import __version__
from textmover.checkpoints import citations
from textmover.checkpoints.citations import bibliography, bibtex, cite, cited
from textmover.checkpoints.hub import released_metrics
from textmover.modules.matching.matchings import MATCHINGS
from textmover.presets import PRESETS
from textmover.types import InputError

NEEDED = {
    "inproceedings": {"title", "author", "booktitle", "year", "url"},
    "article": {"title", "author", "journal", "year", "url"},
    "software": {"title", "author"},
}


def parsed(text):
    """Entries of BibTeX as (kind, key, fields): braces are counted, and nothing else may stand there but comments."""
    found, rest = [], re.sub(r"^%.*$", "", text, flags=re.MULTILINE).strip()
    while rest:
        head = re.match(r"@(\w+)\{([\w-]+),\s*", rest)
        assert head, rest[:80]
        kind, key = head.groups()
        rest, fields = rest[head.end() :], {}
        while not rest.startswith("}"):
            name = re.match(r"(\w+) = \{", rest)
            assert name, rest[:80]
            depth, end = 1, name.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(rest[end], 0)
                end += 1
            assert name[1] not in fields
            fields[name[1]] = rest[name.end() : end - 1]
            rest = re.sub(r"^,?\s*", "", rest[end:], count=1)
        found.append((kind, key, fields))
        rest = rest[1:].strip()
    return found


def test_every_entry_is_whole():
    entries = parsed("\n".join(bibliography().values()))
    keys = [key for _, key, _ in entries]
    assert keys == list(bibliography())
    source = (citations.Path(citations.__file__).with_name("citations.bib")).read_text(encoding="utf-8")
    assert len(keys) == len(set(keys)) == source.count("\n@")  # none is overlooked or taken twice
    for kind, key, fields in entries:
        assert NEEDED[kind] <= fields.keys(), key
        assert all(value.strip() == value != "" for value in fields.values()), key
        assert all(value.isascii() for value in fields.values()), key
        assert re.fullmatch(r"\d{4}", fields.get("year", "2000")), key
        assert re.fullmatch(r"\d+--\d+", fields.get("pages", "1--2")), key
        first, last = map(int, fields.get("pages", "1--2").split("--"))
        assert first < last, key
        assert re.fullmatch(r"10\.\d{4,5}/\S+", fields.get("doi", "10.1234/a")), key
        assert re.fullmatch(r"\d{4}\.\d{4,5}", fields.get("eprint", "1234.12345")), key
        assert fields.get("url", "https://").startswith(("https://", "http://www.lrec-conf.org/")), key
        anthology = re.fullmatch(r"https://aclanthology.org/([\w.-]+)/", fields.get("url", ""))
        if anthology and fields.get("doi", "").startswith("10.18653/v1/"):
            assert fields["doi"] == f"10.18653/v1/{anthology[1]}"
        for names in fields["author"].split(" and "):
            assert names.startswith("{") or names.count(",") == 1, (key, names)


def test_every_key_that_is_named_has_an_entry():
    tables = (citations.SOURCES, citations.MATCHINGS, citations.SOLVERS, citations.ENCODERS, citations.TRAINED_ON)
    named = {key for table in tables for keys in table.values() for key in keys}
    assert named <= bibliography().keys()
    assert citations.MATCHINGS.keys() == MATCHINGS.keys()
    assert citations.SOLVERS.keys() <= MATCHINGS.keys()


def test_every_entry_is_needed_by_something():
    released = list(released_metrics())
    found = [cited(name) for name in (*PRESETS, *released)]
    found += [
        cited("wmd", order_penalty=0.2, aggregation="routing"),
        cited("rome", parser="stanza:de", features=("semantic", "syntactic", "chrf")),
        cited("twmd", encoder="bert-base-uncased"),
        cited("twmd", encoder="roberta-large"),
    ]
    used = {key for one in found for keys in one.keys.values() for key in keys}
    used |= {"eikema-aziz-2022-sampling", "koehn-2004-statistical", "riezler-maxwell-2005-pitfalls"}  # of commands
    assert used == bibliography().keys()


@pytest.mark.parametrize("name", [*PRESETS, *released_metrics()])
def test_every_metric_has_entries(name):
    found = cited(name)
    assert found.keys["the metric"]
    assert found.keys["the software"] == ("textmover",)
    assert found.lacking == ()
    keys = [key for keys in found.keys.values() for key in keys]
    assert len(keys) == len(set(keys))
    minilm = {"reimers-gurevych-2019-sentence", "wang-etal-2020-minilm"}
    encoders = {"textmover-multilingual": {"wang-etal-2024-multilingual"}, "textmover-base": {"song-etal-2020-mpnet"}}
    assert encoders.get(name, minilm) <= set(keys)
    assert ("data" in " ".join(found.keys)) == name.startswith(("textmover-", "rome"))
    text = cite(name)
    assert [key for _, key, _ in parsed(text)] == keys
    assert f"version = {{{__version__}}}" in text


@pytest.mark.parametrize(
    ("name", "fields", "there", "missing"),
    [
        ("twmd", {}, {"chen-etal-2020-improving", "cuturi-2013-sinkhorn"}, {"flamary-etal-2021-pot"}),
        ("trwmd", {}, {"chen-etal-2020-improving"}, {"cuturi-2013-sinkhorn"}),
        ("wmd", {}, {"kusner-etal-2015-word", "flamary-etal-2021-pot"}, {"chow-etal-2019-wmdo"}),
        ("wmd", {"order_penalty": 0.2}, {"chow-etal-2019-wmdo"}, set()),
        ("rwmd", {}, {"kusner-etal-2015-word"}, {"zhang-etal-2020-bertscore"}),
        ("bertscore-f1", {"centering": "corpus"}, {"zhang-etal-2020-bertscore", "chen-etal-2020-improving"}, set()),
        ("moverscore-wmd1", {}, {"rueckle-etal-2018-concatenated", "zhao-etal-2019-moverscore"}, set()),
        ("lazy-emd-en", {}, {"chen-etal-2020-lazy-emd", "chizat-etal-2018-scaling"}, set()),
        ("twmd", {"matching": "trwmd"}, {"chen-etal-2020-improving"}, {"cuturi-2013-sinkhorn"}),
        ("bertscore-f1", {"encoder": "x/roberta-base"}, {"liu-etal-2019-roberta"}, {"wang-etal-2020-minilm"}),
        ("rome", {}, {"warstadt-etal-2019-neural", "silveira-etal-2014-gold", "honnibal-etal-2020-spacy"}, set()),
        ("rome", {"features": ("semantic",), "parser": "none"}, set(), {"warstadt-etal-2019-neural"}),
        ("textmover-wmt", {}, {"bojar-etal-2016-results"}, {"agirre-etal-2012-semeval"}),
        ("textmover-general", {}, {"agirre-etal-2012-semeval"}, {"warstadt-etal-2019-neural"}),
    ],
)
def test_what_is_used_is_cited(name, fields, there, missing):
    keys = {key for keys in cited(name, **fields).keys.values() for key in keys}
    assert there <= keys
    assert not missing & keys


def test_a_checkpoint_of_ones_own(tiny_encoder, tmp_path):
    from textmover.scoring import load_metric, save_checkpoint

    folder = save_checkpoint(load_metric("bertscore-f1", encoder=str(tiny_encoder)), tmp_path / "mine", card="# c\n")
    found = cited(folder)
    assert found.keys["the metric"] == ("zhang-etal-2020-bertscore",)
    assert found.lacking == (f"the encoder {tiny_encoder.name}",)
    assert f"% No entry is known for the encoder {tiny_encoder.name}: cite" in cite(folder)


def test_several_metrics_are_one_list():
    text = bibtex([cited("twmd"), cited("wmd"), cited("twmd", used_for=["koehn-2004-statistical"])])
    keys = [key for _, key, _ in parsed(text)]
    assert len(keys) == len(set(keys))
    assert {"cuturi-2013-sinkhorn", "flamary-etal-2021-pot", "koehn-2004-statistical"} <= set(keys)
    assert keys[-1] == "textmover"


def test_what_does_not_exist():
    with pytest.raises(InputError, match="Did you mean 'twmd'"):
        cite("twmdd")
    with pytest.raises(InputError, match="`temperature`"):
        cite("twmd", temprature=1)
