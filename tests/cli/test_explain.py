"""Explaining on the command line: what is printed, and what is refused."""

import json
import sys

import pytest

from textmover.cli.explain_text import readable


@pytest.fixture
def metric(tiny_encoder):
    """Options of a small metric."""
    return ["--model", "twmd", "--encoder", tiny_encoder, "--backend", "torch"]


def test_a_pair_is_explained(run, metric):
    ended = run("explain", "the cat sat, slowly", "a cat sat", *metric)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[:2] == ["hypothesis  the cat sat, slowly", "reference   a cat sat"]
    assert lines[2].startswith("score       0.")
    assert any(line.startswith("recall") and "flow times similarity" in line for line in lines)
    assert any(line.split()[:2] == ["cat", "cat"] for line in lines)
    assert any(line.startswith("Not in the reference: ") for line in lines)
    assert ended.err.startswith("Signature: textmover:")
    assert "Signature" not in run("explain", "the cat sat", "a cat sat", *metric, "--quiet").err


def test_the_score_is_that_of_the_command_score(run, metric, texts):
    scores = [float(line) for line in run("score", "-i", *texts, *metric).out.split()]
    for number in (1, 3):
        ended = run("explain", "-i", *texts, "--line", number, "--format", "json", *metric)
        found = json.loads(ended.out)
        assert found["score"] == pytest.approx(scores[number - 1], abs=1e-6)
        assert found["segment_score"] == found["score"]
    first = json.loads(run("explain", "-i", *texts, "--format", "json", *metric).out)
    assert first["score"] == pytest.approx(scores[0], abs=1e-6)


def test_weights_are_those_of_the_whole_files(run, texts, tiny_encoder):
    options = ["--model", "bertscore-f1-idf", "--encoder", tiny_encoder, "--backend", "torch"]
    scores = run("score", "-i", *texts, *options).out.split()
    found = json.loads(run("explain", "-i", *texts, "--line", 2, "--format", "json", *options).out)
    assert found["score"] == pytest.approx(float(scores[1]), abs=1e-6)
    alone = json.loads(run("explain", "a dog", "the dog", "--format", "json", *options).out)
    assert alone["signature"] != found["signature"]


def test_the_best_reference_is_named(run, metric):
    out = run("explain", "a dog", "rain", "a dog", "the dog", *metric).out
    assert "reference 2 a dog" in out
    assert "this is the best" in out


def test_what_is_out_of_the_ordinary_is_noted(run, metric):
    assert "a side has nothing to match" in run("explain", "", "a dog", *metric).out
    long = run("explain", "a dog " * 20, "a dog", *metric, "--max-length", 8).out
    assert "longer than the encoder allows" in long


def test_no_control_character_reaches_a_terminal(run, metric):
    out = run("explain", "a \x1b[31mcat\x00 مرحبا", "a cat", *metric).out
    assert not {"\x1b", "\x00"} & set(out)
    assert r"\x1b[31mcat\x00 مرحبا" in out.replace("\\x1b [ 31m", "\\x1b[31m")
    assert readable("a\n\tb\ud800") == r"a b\ud800"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a hypothesis and a reference, but got no texts"),
        (["a"], "but got 1 text: put each into quotation marks"),
        (["a", "b", "-i", "h.txt", "r.txt"], "either two texts or -i"),
        (["-i", "h.txt"], "h.txt alone"),
        (["a", "b", "--line", "2"], "`--line` together with -i"),
        (["-i", "h.txt", "r.txt", "--line", "0"], "lines are counted from 1"),
        (["-i", "h.txt", "r.txt", "--line", "3"], "got 3: they have 2"),
        (["-i", "h.txt", "gone.txt"], "gone.txt"),
        (["-i", "-", "-"], "standard input (-) once"),
        (["-i", "-", "r.txt", "--fit-on", "-"], "standard input (-) once"),
        (["a\udcff", "b"], "half a surrogate pair"),
        (["a", "b", "--model", "nope"], "a preset, but got 'nope'"),
        (["a", "b", "--temperature", "-1"], "temperature"),
        (["a", "b", "--centering", "batch"], "reads each text by itself"),
        (["a", "b", "c", "--multi-reference", "all"], "one reference to explain"),
        (["a", "b", "--centering", "corpus"], "--fit-on FILE"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(refused, write, metric, arguments, message):
    write("h.txt", ["a cat", "a dog"])
    write("r.txt", ["the cat", "the dog"])
    given = [] if "--model" in arguments else metric
    assert message in refused("explain", *given, *arguments)


def test_standard_input_is_read_once(run, metric, monkeypatch, write):
    write("r.txt", ["the cat"])
    given = write("h.txt", ["a cat"])
    for options, code in ((metric, 0), (["--model", "bertscore-f1-idf", *metric[2:]], 2)):
        with given.open(encoding="utf-8") as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            ended = run("explain", "-i", "-", "r.txt", *options)
        assert ended.code == code
        assert ended.out.startswith("hypothesis  a cat\n") if code == 0 else "read only once" in ended.err


def test_rome_shows_features_words_and_trees(run, embedded):
    out = run("explain", "Elon Musk has founded Tesla.", "Tesla is founded by Elon Musk.", "--model", "rome").out
    for name in ("semantic", "syntactic", "acceptability"):
        assert any(line.startswith(name) for line in out.splitlines())
    assert "aligned with" in out
    assert "Not in the hypothesis: by" in out
    assert "Trees, from the reference to the hypothesis: " in out
    assert any(line.split()[:3] == ["kept", "Musk", "Musk"] for line in out.splitlines())
