"""What a paper has to say of a metric, from any command that has one."""

import json
import re

import pytest

from textmover.presets import PRESETS
from textmover.report.paper_sentences import PHRASES, describe_metric, latex_paragraph
from textmover.types import InputError, Signature


@pytest.fixture
def metric(tiny_encoder):
    return ["--encoder", tiny_encoder, "--backend", "torch"]


def test_citations_need_no_texts(run):
    for command in ("score", "compare", "explain", "mbr", "evaluate", "fit-idf"):
        model = () if command == "evaluate" else ("--model", "twmd")
        text = run(command, *model, "--cite").silent().out
        assert text.startswith("% the metric\n\n@inproceedings{chen-etal-2020-improving,")
        assert ("koehn-2004-statistical" in text) == (command == "compare")
        assert ("eikema-aziz-2022-sampling" in text) == (command == "mbr")
    text = run("score", "--cite", "--model", "wmd", "--order-penalty", "0.2", "--encoder", "x/unheard-of").out
    assert "chow-etal-2019-wmdo" in text
    assert "% No entry is known for the encoder unheard-of: cite what its authors ask for." in text


def test_the_paragraph_holds_the_signature_that_scoring_prints(run, metric, texts):
    scored = run("score", "-i", *texts, "--model", "twmd", *metric).err
    signature = re.search(r"^Signature: (.*)$", scored, re.MULTILINE)[1]
    ended = run("score", "--model", "twmd", "--signature", *metric).silent()
    assert ended.out.endswith(f"; higher is better. Signature: {signature}\n")
    assert ended.out.startswith("We score with textmover ")
    assert "tempered word mover similarity (TWMD) over " in ended.out
    assert "temperature 0.02, 1 Sinkhorn iteration, the first special token kept" in ended.out
    assert ended.out.count("\n") == 1


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "rome"])
def test_every_preset_is_said_in_words(run, metric, name):
    fields = ["--last-layers", 3] if PRESETS[name].config.aggregation != "single" else []
    ended = run("mbr", "--signature", "--model", name, *metric, *fields).ok()
    words, _, signature = ended.out.strip().partition("Signature: ")
    entries = dict(entry.split(":", 1) for entry in signature.split("|"))
    assert set(entries) <= {*PHRASES, "textmover", "metric", "measure", "unknown", "stopwords"}
    assert "the matching" not in words
    assert ", ," not in words
    assert ("lower is better" in words) == (not PRESETS[name].higher_is_better)
    assert entries["mbr"] == "others"
    if "-b" in name or "idf" in name or name.startswith(("moverscore", "hmd", "yisi")):
        assert "@" not in entries["weights"] + entries["centering"]  # nothing has been fitted
        assert ended.err.startswith(f"Note: {name} fits statistics on texts.")
    else:
        assert ended.err == ""


def test_rome_is_said_in_words(run, embedded):
    text = run("score", "--signature", "--model", "rome").out
    assert ": RoMe over all-MiniLM-L6-v2 (sha256 53aa5117…), layer 6" in text
    assert "features semantic, syntactic, acceptability" in text


def test_statistics_that_are_given_and_choices_by_mbr_are_named(run, metric, write):
    corpus = write("corpus.txt", ["the cat sat", "a dog", "the rain"])
    text = run("score", "--signature", "--model", "twmd-b", "--fit-on", corpus, *metric)
    assert text.err == ""
    assert re.search(r"\|centering:corpus@[0-9a-f]{8}\|", text.out)
    given = ("mbr", "--signature", "--model", "twmd", *metric)
    text = run(*given, "--weights-column", "p").out
    assert text.endswith("|mbr:all-weighted\n")
    assert "each candidate compared with all candidates, which have weights" in text
    assert "compared with references of their own" in run(*given, "--references-column", "r").out


def test_latex(run, metric):
    text = run("score", "--signature", "latex", "--model", "lazy-emd-en", *metric).out
    assert text.isascii()
    assert r"better. Signature: \texttt{textmover:" in text
    assert r"\textbar{}\allowbreak{}metric:lazy-emd" in text
    assert "iterated to a tolerance of 1e-06" in text.replace("$-$", "-")
    bare = re.sub(r"\\[a-z]+|\\_|\\%", "", text)
    assert not set(bare) & set("%&#_^~|")
    assert bare.count("{") == bare.count("}")
    assert r"\_" in latex_paragraph("a_b. Signature: x:y")


def test_several_metrics(run, metric):
    ended = run("evaluate", "--signature", "--model", "twmd", "--model", "sbert", *metric)
    assert [line.split(":")[0].split()[-1] for line in ended.out.split("\n\n")] == ["twmd", "sbert"]
    assert "zhang-etal-2020-bertscore" in run("evaluate", "--cite", "--model", "twmd", "--model", "bertscore-p").out


def test_tests_of_systems_are_told_with_their_options(run, metric, write):
    given = ("--model", "twmd", "--samples", 500, "--trials", 700, "--seed", 3, *metric)
    scored, tests = run("compare", "--signature", *given).out.strip().split("\n\n")
    assert scored.startswith("We score with textmover ")
    assert tests.startswith("We compare systems by paired bootstrap resampling of the segments (500 samples) and by")
    assert "(700 trials), seed 3;" in tests
    assert tests.endswith("|samples:500|seed:3, test:paired-randomisation|samples:700|seed:3")
    ranked = run("rank", "--signature", "--test", "bootstrap", *given).out
    assert "of paired bootstrap resampling of the segments (500 samples), seed 3, among systems" in ranked
    assert ranked.endswith("Signature: test:paired-bootstrap|samples:500|seed:3|fewest:5|bootstrap:500\n")
    assert r"test:paired-bootstrap\textbar{}\allowbreak{}" in run("compare", "--signature", "latex", *given).out
    for name, line in {"r": "the dog ran home", "a": "a dog ran", "b": "she will buy a book"}.items():
        write(name, [line] * 6)
    done = run("compare", "--hypotheses", "a", "b", "--references", "r", *given).err  # the tests that are made
    assert tests.endswith(re.search(r"^Tests: (.*)$", done, re.MULTILINE)[1])


def test_the_list_takes_names_and_cites_them(run, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # which would fold the lines
    assert [line.split()[0] for line in run("list", "rome", "twmd").out.splitlines()] == ["name", "twmd", "rome"]
    assert [one["name"] for one in json.loads(run("list", "textmover-wmt", "--format", "json").out)] == [
        "textmover-wmt"
    ]
    assert run("list", "twmd", "--cite").out == run("score", "--model", "twmd", "--cite").out
    assert run("list", "--cite").out.count("\n@") > 25


def test_a_signature_without_a_metric_is_refused():
    with pytest.raises(InputError, match="names its metric"):
        describe_metric("x", None, Signature({}))
