"""Explaining on the command line: what is printed, and what is refused."""

import json
import sys

import pytest

from textmover.markdown_escaping import one_line


@pytest.fixture(autouse=True)
def floor(monkeypatch):
    """The floor of unrelated words, which takes half of the time and has tests of its own."""
    monkeypatch.setattr("textmover.explaining.transport.unrelated_similarity", lambda _: 0.9)


@pytest.fixture
def explained(run):
    return lambda *arguments: json.loads(run("explain", *arguments, "--format", "json").ok().out)


def test_a_pair_is_explained(run, metric):
    ended = run("explain", "the cat sat, slowly", "a cat sat", *metric).ok()
    lines = ended.out.splitlines()
    assert lines[:2] == ["hypothesis  the cat sat, slowly", "reference   a cat sat"]
    assert any(line.startswith("score       0.") for line in lines)
    assert any(line.startswith("recall") and "matched mass times similarity" in line for line in lines)
    assert any(line.split()[:2] == ["cat", "cat"] for line in lines)
    assert any(line.startswith("Without a counterpart in the reference: ") for line in lines)
    assert ended.err.startswith("Signature: textmover:")
    assert "Signature" not in run("explain", "the cat sat", "a cat sat", *metric, "--quiet").err


def test_the_score_and_its_weights_are_those_of_the_whole_files(run, explained, metric, texts, tiny_encoder):
    for options in (metric, ["--model", "bertscore-f1-idf", *metric[2:]]):
        scores = [float(line) for line in run("score", "-i", *texts, *options).out.split()]
        found = explained("-i", *texts, "--line", 3, *options)
        assert found["score"] == pytest.approx(scores[2], abs=1e-6)
        assert found["segment_score"] == found["score"]
    assert explained("-i", *texts, *options)["score"] == pytest.approx(scores[0], abs=1e-6)  # the first line
    assert explained("-t", texts[0], "-r", *texts[1:], "--line", 3, *options) == found
    assert explained("a dog", "the dog", *options)["signature"] != found["signature"]


def test_one_text_that_names_a_file_is_warned_of(run, metric, texts):
    said = "The text hyp.txt names a file, which is not read: write -i before the names of files."
    assert said in run("explain", "hyp.txt", "a text", *metric).ok().err
    assert "names a file" not in run("explain", "hyp", "a text", *metric).ok().err
    named = run("explain", "ein Hund", "a dog", "--sources", texts[0], *metric).complaint()
    assert "Expected the source itself beside texts, but got the name of a file" in named


def test_words_without_quotation_marks_are_warned_of(run, metric):
    said = "Each text is one word: put texts of several words into quotation marks."
    assert said in run("explain", "the", "dog", "barks", *metric).ok().err
    assert said not in run("explain", "the dog", "dogs", "cats", *metric).ok().err
    assert said not in run("explain", "dogs", "cats", *metric).ok().err


def test_the_best_reference_and_what_is_out_of_the_ordinary_are_noted(run, metric):
    out = run("explain", "a dog", "rain", "a dog", "the dog", *metric).out
    assert "reference 2 a dog" in out
    assert "this is the best" in out
    empty = run("explain", "", "a dog", *metric).out
    assert "(nothing to match in the hypothesis: the value of unrelated texts)" in empty
    assert "a side has nothing to match" in empty
    assert "nothing to match in the reference:" in run("explain", "a dog", "", *metric).out
    assert "nothing to match in the hypothesis and the reference:" in run("explain", "", "", *metric).out
    long = run("explain", "a dog " * 20, "a dog", *metric, "--max-length", 8).out
    assert "longer than the encoder allows" in long


def test_no_control_character_reaches_a_terminal(run, refused, metric):
    assert "half a surrogate pair" in refused("explain", "a\udcff", "b")
    out = run("explain", "a \x1b[31mcat\x00 مرحبا", "a cat", *metric).out
    assert not {"\x1b", "\x00"} & set(out)
    assert r"\x1b[31mcat\x00 مرحبا" in out.replace("\\x1b [ 31m", "\\x1b[31m")
    assert one_line("a\n\tb\ud800") == r"a b\ud800"


@pytest.mark.parametrize(("command", "start"), [("explain", "hypothesis  a cat\n"), ("errors", "   1  a cat\n")])
def test_standard_input_is_read(run, metric, monkeypatch, write, command, start):
    write("r.txt", ["the cat"])
    with write("h.txt", ["a cat"]).open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert run(command, "-i", "-", "r.txt", *metric).ok().out.startswith(start)


def test_rome_shows_features_words_and_trees(run, embedded):
    out = run("explain", "Elon Musk has founded Tesla.", "Tesla is founded by Elon Musk.", "--model", "rome").out
    for name in ("semantic", "syntactic", "acceptability"):
        assert any(line.startswith(name) for line in out.splitlines())
    assert "aligned with" in out
    assert 'Without a counterpart in the hypothesis: "by"' in out
    assert "Trees, from the reference to the hypothesis: " in out
    assert any(line.split()[:3] == ["kept", "Musk", "Musk"] for line in out.splitlines())


# --- where it goes ----------------------------------------------------------------------------------------------------


def test_what_words_add_is_a_column_and_a_sum(run, explained, metric):
    out = run("explain", "the cat sat", "a cat sat", *metric).out
    (line,) = [line for line in out.splitlines() if line.startswith("adds up")]
    score = next(line.split()[1] for line in out.splitlines() if line.startswith("score"))
    assert line.endswith(f"= score {score}")
    found = explained("the cat sat", "a cat sat", *metric)
    table = out[out.index("matched with") :].splitlines()
    adds = dict(zip(found["hypothesis"]["words"], found["hypothesis"]["adds"], strict=True))
    for row in table[1:]:
        if row.strip() and not row.startswith("Not in"):
            assert float(row.split()[-1]) == pytest.approx(adds[row.split()[0]], abs=5e-5)
    beside = sum(one["value"] for one in found["remainders"])
    assert sum(found["reference"]["adds"]) + beside == pytest.approx(found["score"], abs=1e-6)


def test_the_suffix_says_what_is_written(run, metric, tmp_path):
    for name, start in {
        "a.png": b"\x89PNG", "a.pdf": b"%PDF", "a.html": b"<!DOCTYPE", "a.json": b'{"score"',
        "new/a.txt": b"hypothesis  the cat",
    }.items():  # fmt: skip
        ended = run("explain", "the cat sat", "a cat sat", "--output", name, *metric)
        assert (ended.code, ended.out) == (0, "")
        assert ended.err.startswith("Signature: ")
        assert (tmp_path / name).read_bytes().strip().startswith(start)


def test_several_lines_in_every_format(run, explained, metric, texts):
    options = ["-i", *texts, "--lines", "2-3", "--quiet", *metric]
    text = run("explain", *options).out
    assert [line for line in text.splitlines() if line.startswith("line ")] == ["line        2", "line        3"]
    lines = [json.loads(line) for line in run("explain", *options, "--format", "jsonl").out.splitlines()]
    assert lines == explained(*options)
    assert [one["line"] for one in lines] == [2, 3]
    scores = [float(line) for line in run("score", "-i", *texts, *metric).out.split()]
    assert [one["score"] for one in lines] == pytest.approx(scores[1:3], abs=1e-6)
    assert explained("-i", *texts, "--lines", "4-", *metric)["line"] == 4
    page = run("explain", *options, "--format", "html").out
    assert 'id="line-2"' in page
    assert 'id="line-4"' not in page


def test_a_page_of_a_file_has_its_first_lines(run, metric, texts, monkeypatch):
    monkeypatch.setattr("textmover.report.explanation.page.MOST_LINES", 3)
    page = run("explain", "-i", *texts, "--format", "html", *metric)
    assert page.err == "The first 3 of 4 lines; choose others with --lines.\n"
    assert page.err.strip() in page.out
    assert [f'id="line-{number}"' in page.out for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert "at most 3 lines" in run("explain", "-i", *texts, "--lines", "1-4", "--format", "html", *metric).err
    assert "of 4" not in run("explain", "-i", *texts, "--lines", "3-", "--format", "html", *metric).err
    assert run("explain", "-i", *texts, *metric).err.startswith("Line 1 of 4 lines; choose others with --lines.\n")


def test_the_line_of_a_defect_is_named(refused, metric, write, monkeypatch):
    write("h.txt", ["a cat", "a " * 60])
    write("r.txt", ["the cat", "b " * 60])
    monkeypatch.setattr("textmover.scoring.explain.LONGEST", 100)
    said = refused("explain", "-i", "h.txt", "r.txt", "--lines", "1-2", "--output", "a.html", *metric)
    assert "Line 2: Expected texts of at most 100 pairs" in said


def test_words_are_coloured_on_a_terminal_only(run, metric, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    arguments = ["explain", "the cat sat on\tit \x1b[31m", "a cat sat", *metric]
    coloured = run(*arguments).out
    assert "\x1b[" in coloured
    assert "underlined" in coloured
    assert "\x1b[31m" not in coloured
    assert "48;2;" in coloured  # backgrounds
    assert "━" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = run(*arguments).out
    assert "48;2;" not in plain
    assert "\x1b[4m" in plain  # without a counterpart: underlined all the same
    monkeypatch.delenv("FORCE_COLOR")
    assert "\x1b" not in run(*arguments).out
