"""Marking errors on the command line: what is printed and written, exit codes, and what is refused."""

import json

import pytest

from textmover.report.error_spans import KEYS
from textmover.scoring.error_spans import marking
from textmover.types import ErrorSpan, MarkedTexts, Signature, TextErrors


@pytest.fixture
def planned(monkeypatch):
    """Words that no reference has are wrong: long ones critically, others somewhat, and less likely."""

    def mark(_, hypotheses, references, *, warn):
        assert not warn
        found = []
        for text, several in zip(hypotheses, references, strict=True):
            known = {word for one in several.texts for word in one.split()}
            wrong = [word for word in text.split() if word not in known]
            spans = [
                ErrorSpan(
                    text.index(one), text.index(one) + len(one), *(("critical", 0.9), ("minor", 0.6))[len(one) < 6]
                )
                for one in wrong
            ]
            flags = () if text.strip() else ("empty",)
            found.append(TextErrors(text, tuple(sorted(spans, key=lambda one: one.start)), flags=flags))
        return MarkedTexts(tuple(found), Signature({"errors": "planned"}))

    monkeypatch.setattr(marking, "mark_fitted", mark)


def test_two_texts_are_marked(run, metric, planned):
    ended = run("errors", "a kitten sits", "a cat sits", *metric).ok()
    assert ended.out == "a kitten sits\n  ~~~~~~\n  critical 0.90\n"
    assert ended.err.splitlines() == [
        "Marked: 1 error in 1 text: 1 critical (1.00 per text); 0 without errors",
        "Signature: errors:planned",
    ]
    assert run("errors", "a kitten sits", "a cat sits", *metric, "--quiet").silent().out == ended.out


ROWS = ["a\tb\th\tr", "x\tx\tthe red cat\tthe red dog", "y\ty\told cat\told dog"]


def test_marks_with_other_columns_are_not_taken_up(run, metric, planned, write, monkeypatch):
    monkeypatch.setattr("textmover.cli.commands.errors.CHUNK", 1)
    table = write("t.tsv", [*ROWS, "z\tz\t\t"])
    command = ("errors", "--data", table, "--hypothesis-column", "h", "--reference-column", "r", *metric)
    command += ("--output", "m.jsonl")
    assert "2 finished shards are kept" in run(*command, "--keep-columns", "a").complaint()
    write("t.tsv", ROWS)
    assert "their keep columns is" in run(*command, "--keep-columns", "b", "--resume").complaint()


def test_marks_of_the_same_texts_in_other_lines_are_not_taken_up(run, metric, planned, write):
    """The line of a text stands in the result: files begin with line 1, tables with line 2."""
    texts = write("h.txt", ["the red cat", "old cat"]), write("r.txt", ["the red dog", "old dog"])
    run("errors", "-i", *texts, *metric, "--output", "m.jsonl", "--resume").ok()
    table = write("t.tsv", ROWS)
    columns = ("--hypothesis-column", "h", "--reference-column", "r")
    again = run("errors", "--data", table, *columns, *metric, "--output", "m.jsonl", "--resume")
    assert "m.jsonl" in again.complaint()


def test_a_run_that_stopped_at_a_missing_reference_goes_on_without_it(run, metric, planned, write, monkeypatch):
    monkeypatch.setattr("textmover.cli.commands.errors.CHUNK", 1)
    table = write("t.tsv", [*ROWS, "z\tz\told cat\t"])
    command = ("errors", "--data", table, "--hypothesis-column", "h", "--reference-column", "r", *metric)
    command += ("--output", "m.jsonl")
    assert "2 finished shards are kept" in run(*command).complaint()
    ended = run(*command, "--missing-references", "leave-out", "--resume").ok()
    assert "Kept: 2 shards of an earlier run" in ended.err


def test_a_file_of_unknown_origin_is_not_taken_for_the_result(run, metric, texts, planned, tmp_path):
    (tmp_path / "m.jsonl").write_text("unrelated notes\n")
    ended = run("errors", "-i", *texts, *metric, "--output", "m.jsonl", "--resume").complaint()
    assert "which a run with --resume writes beside its result" in ended
    assert (tmp_path / "m.jsonl").read_text() == "unrelated notes\n"


def test_files_and_tables_are_marked_alike(run, metric, texts, planned, write, tmp_path):
    run("errors", "-i", *texts, *metric, "--output", "o.jsonl").ok()
    records = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [one["line"] for one in records] == [1, 2, 3, 4]
    assert set(records[0]) == set(KEYS)
    words = [[span["text"] for span in one["spans"]] for one in records]
    assert words == [["on"], ["a"], ["many", "in"], ["she", "will", "a", "song"]]
    pairs = zip(*(path.read_text().splitlines() for path in texts), strict=True)
    write("t.tsv", ["id\thyp\tref", *(f"n{place}\t{one}\t{two}" for place, (one, two) in enumerate(pairs))])
    columns = ("--hypothesis-column", "hyp", "--reference-column", "ref", "--keep-columns", "id")
    out = run("errors", "--data", "t.tsv", *columns, *metric, "--format", "jsonl").ok().out
    table = [json.loads(line) for line in out.splitlines()]
    assert [one.pop("id") for one in table] == ["n0", "n1", "n2", "n3"]
    assert [one["spans"] for one in table] == [one["spans"] for one in records]
    assert run("errors", "-t", texts[0], "-r", texts[1], *metric, "--format", "jsonl").out.splitlines() == [
        json.dumps(one) for one in records
    ]


@pytest.mark.parametrize(
    ("hypothesis", "options", "code", "said"),
    [
        ("a cat sits", ["--fail-on", "minor"], 0, ""),
        ("a dog sits", ["--fail-on", "minor"], 1, "Failed: 1 error of severity minor or above (--fail-on)."),
        ("a dog sits", ["--fail-on", "major"], 0, ""),
        ("a kitten slept", ["--fail-on", "critical"], 1, "Failed: 1 error of severity critical"),
        ("a kitten slept", ["--fail-on", "minor"], 1, "Failed: 2 errors of severity minor"),
        ("a kitten slept", ["--fail-on", "minor", "--least-confidence", "0.7", "--quiet"], 1, "Failed: 1 error"),
        ("a kitten slept", ["--fail-on", "minor", "--least-confidence", "0.95"], 0, ""),
        ("a kitten slept", [], 0, ""),
    ],
)
def test_the_exit_code_tells_of_errors_of_a_severity(run, metric, planned, hypothesis, options, code, said):
    ended = run("errors", hypothesis, "a cat sits", *metric, *options)
    assert ended.code == code
    assert ("Failed" in ended.err) == bool(code)
    assert said in ended.err


@pytest.mark.parametrize(
    ("name", "start"), [("o.tsv", "line\tstart\t"), ("o.html", "<!DOCTYPE html>"), ("o.txt", "   1  ")]
)
def test_the_ending_says_what_is_written(run, metric, planned, texts, tmp_path, name, start):
    ended = run("errors", "-i", *texts, *metric, "--output", name).ok()
    assert ended.out == ""
    assert f"Written: {name}" in ended.err
    assert (tmp_path / name).read_text(encoding="utf-8").lstrip("\n").startswith(start)


def test_texts_without_words_and_rows_left_out_are_told(run, metric, planned, write):
    write("h.txt", ["a cat", " ", "a dog", "a cow"])
    write("r.txt", ["a cat", "a cat", "", "a cow"])
    ended = run("errors", "-i", "h.txt", "r.txt", *metric, "--missing-references", "leave-out").ok()
    assert ended.out == "   1  a cat\n   2  (empty text)\n   4  a cow\n"
    assert "Left out: 1 row; the first: Expected a reference in line 3 of r.txt" in ended.err
    assert "1 text had no words on one side, so that any words of the other are errors." in ended.err
    assert "Flagged: 1 empty or unreadable (of 3 texts)" in ended.err
    assert "Expected a reference in line 3" in run("errors", "-i", "h.txt", "r.txt", *metric).complaint()


def test_a_metric_marks_by_its_plan(run, metric, texts):
    ended = run("errors", "-i", *texts, *metric).ok()
    assert [line[6:] for line in ended.out.splitlines() if line[:4].strip()] == texts[0].read_text().splitlines()
    assert "|errors:rule-" in ended.err
    long = run("errors", "a dog " * 20, "a dog", *metric, "--max-length", 8).ok()
    assert "1 text had more words than the encoder reads: errors behind the cut are not seen." in long.err
    assert "Flagged: 1 truncated" in long.err
    idf = ["--model", "bertscore-f1-idf", *metric[2:]]
    assert "|errors:rule-" in run("errors", "-i", *texts, *idf).ok().err
    found = json.loads(run("explain", "a dog sat", "a cat", *metric, "--format", "json").ok().out)
    marked = json.loads(run("errors", "a dog sat", "a cat", *metric, "--format", "jsonl").ok().out)
    assert found["errors"] == marked["spans"]
    signed = run("errors", "a dog sat", "a cat", *metric).ok().err.rpartition("Signature: ")[2].strip()
    assert found["signature"] == signed


def test_marks_from_sources_alone_are_called_unreliable(run, write, tiny_multilingual):
    texts = ("-i", write("h.txt", ["a cat", "a dog"]), "--sources", write("s.txt", ["the cat", "a cow"]))
    options = ("--model", "twmd", "--encoder", str(tiny_multilingual), "--layer", 0, "--mode", "source")
    said = "such marks are unreliable"
    assert run("errors", *texts, *options).ok().err.count(said) == 1
    assert said not in run("errors", *texts, *options, "--quiet").ok().err


def test_a_metric_that_matches_no_words_is_refused(run, tiny_encoder):
    rome = ("--model", "rome", "--encoder", tiny_encoder, "--parser", "none", "--features", "semantic")
    rome += ("--scorer", "mean", "--weights", "uniform")
    said = run("errors", "a cat", "the cat", *rome).complaint()
    assert "a transport metric to mark errors, but got a RomeMetric" in said
    assert "errors" not in json.loads(run("explain", "A cat sat.", "A cat.", *rome, "--format", "json").ok().out)


def test_no_control_character_reaches_a_terminal(run, metric, planned):
    out = run("errors", "a \x1b[31mcat\x00 مرحبا", "a cat", *metric).ok().out
    assert not {"\x1b", "\x00"} & set(out)
