"""Choosing among candidates on the command line: what is read, written and refused."""

import gzip
import io
import json
import re
import signal
import sys

import pytest
from tests.cli.shared import SIGNALS, send

from textmover.scoring.engine.engine import Engine

GROUPS = [
    ["the cat sat on the street", "a cat sat on the street", "dogs bark", "the cat sat"],
    ["red rain", "it rained", "the rain", "rain rain"],
    ["people walk", "people walk", "many people", ""],
]


@pytest.fixture
def samples(write):
    return write("samples.txt", [text for group in GROUPS for text in group])


@pytest.fixture
def table(write):
    rows = [{"id": f"s{place}", "candidates": group, "p": [4, 3, 2, 1]} for place, group in enumerate(GROUPS)]
    return write("samples.jsonl", [json.dumps(row) for row in rows])


@pytest.fixture
def chosen(run):
    return lambda *given: [json.loads(line) for line in run("mbr", *given, "--format", "jsonl").ok().out.splitlines()]


def test_the_chosen_texts_are_printed(run, metric, samples):
    ended = run("mbr", "-i", samples, "--num-candidates", 4, *metric).ok()
    texts = ended.out.splitlines()
    assert all(text in group for text, group in zip(texts, GROUPS, strict=True))
    assert re.search(r"^Signature: textmover:.*\|metric:twmd\|.*\|mbr:others$", ended.err, re.MULTILINE)
    assert (
        "1 segment had an empty or unreadable hypothesis or reference, and scored as texts with nothing in common"
        in ended.err
    )
    quiet = run("mbr", "-i", samples, "--num-candidates", 4, *metric, "--quiet")
    assert quiet.out == ended.out
    assert "Signature" not in quiet.err


@pytest.mark.parametrize(("number", "more", "few"), [(1, (), 12), (2, (), 6), (2, ("--include-self",), 0), (3, (), 0)])
def test_too_few_candidates_are_warned_of(run, metric, samples, number, more, few):
    said = run("mbr", "-i", samples, "--num-candidates", number, *metric, *more).ok().err
    assert said.count("or two that tie under this metric, so the first was chosen: give three or more.") == bool(few)
    assert not few or f"{few} segments had one candidate" in said


def test_every_form_of_input_chooses_alike(run, metric, samples, table, write, monkeypatch, tmp_path):
    texts = run("mbr", "-i", samples, "--num-candidates", 4, *metric).out
    files = [write(f"system{place}.txt", [group[place] for group in GROUPS]) for place in range(4)]
    assert run("mbr", "-t", *files, *metric).out == texts
    assert run("mbr", "--data", table, *metric).out == texts
    packed = tmp_path / "samples.jsonl.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    assert run("mbr", "--data", packed, *metric).out == texts
    for arguments, path in (
        (["-i", "-", "--num-candidates", 4], samples),
        (["--data", "-", "--data-format", "jsonl"], table),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        assert run("mbr", *arguments, *metric).out == texts


def test_the_formats_tell_the_same(run, chosen, metric, table, write, tmp_path):
    found = chosen("--data", table, "--id-column", "id", *metric)
    assert [one["id"] for one in found] == ["s0", "s1", "s2"]
    for one, group in zip(found, GROUPS, strict=True):
        assert one["text"] == group[one["index"]]
        assert one["utility"] == max(one["utilities"]) == one["utilities"][one["index"]]
        assert len(one["utilities"]) == 4
    assert [one["text"] for one in found] == run("mbr", "--data", table, *metric).out.splitlines()
    output = tmp_path / "choices.tsv.gz"
    ended = run("mbr", "--data", table, "--id-column", "id", "--output", output, *metric)
    assert ended.out == ""
    assert f"Written: {output}" in ended.err
    header, *rows = gzip.decompress(output.read_bytes()).decode().splitlines()
    assert header.split("\t") == ["id", "index", "utility", "utilities", "text"]
    for row, one in zip(rows, found, strict=True):
        name, index, utility, utilities, text = row.split("\t")
        assert (name, int(index), text) == (one["id"], one["index"], one["text"])
        assert float(utility) == one["utility"]
        assert [float(value) for value in utilities.split()] == one["utilities"]
    without = run("mbr", "--data", table, "--format", "tsv", *metric).out
    assert without.splitlines()[0] == "index\tutility\tutilities\ttext"
    assert list(tmp_path.glob("*.parts")) == []

    hypotheses, references = [GROUPS[0][0]] * 3, GROUPS[0][1:]
    scores = run("score", "-i", write("h.txt", hypotheses), write("r.txt", references), *metric).out.split()
    assert found[0]["utilities"][0] == pytest.approx(sum(map(float, scores)) / 3, abs=1e-6)


def test_weights_references_and_the_candidate_itself(chosen, metric, write):
    rows = [{"candidates": ["a cat", "the cat", "red rain"], "p": [0, 0, 1], "refs": ["the cat", "the cat"]}]
    given = ["--data", write("samples.jsonl", [json.dumps(row) for row in rows]), *metric]
    (weighted,) = chosen(*given, "--weights-column", "p")
    assert (weighted["index"], weighted["utility"]) == (2, pytest.approx(1))
    (others,) = chosen(*given, "--weights-column", "p", "--no-include-self")
    assert others["utilities"][0] == pytest.approx(weighted["utilities"][0], abs=1e-6)
    (against,) = chosen(*given, "--references-column", "refs")
    assert (against["text"], against["utility"]) == ("the cat", pytest.approx(1))
    (plain,), (itself,) = chosen(*given), chosen(*given, "--include-self")
    assert itself["utilities"] == pytest.approx([(2 * one + 1) / 3 for one in plain["utilities"]], abs=1e-6)


def test_distances_are_minimised_and_idf_is_fitted_on_the_whole_input(chosen, metric, table, write):
    for one in chosen("--data", table, "--model", "lazy-emd-en", *metric[2:]):
        assert one["utility"] == min(one["utilities"])
    backwards = write("reversed.jsonl", table.read_text().splitlines()[::-1])
    found, turned = (chosen("--data", one, "--model", "bertscore-f1-idf", *metric[2:]) for one in (table, backwards))
    for one, other in zip(found, turned[::-1], strict=True):
        assert one["utilities"] == pytest.approx(other["utilities"], abs=1e-6)


def test_texts_of_any_kind_survive(chosen, metric, write):
    odd = ["<b>bold</b> & 'x'", "עברית עברית", "tab\there", "line\nbreak\r", "\x1b[31mred\x00"]
    table = write("odd.jsonl", [json.dumps({"candidates": [text, text]}) for text in odd])
    assert [one["text"] for one in chosen("--data", table, *metric)] == odd


@pytest.fixture
def interrupt(monkeypatch):
    """Let a signal come behind some windows of one segment each."""

    def interrupt(after, sent=signal.SIGINT):
        score_within, calls = Engine.score_within, []

        def stopping(self, *arguments):
            calls.append(1)
            if len(calls) == after + 1:
                send(sent)
            return score_within(self, *arguments)

        monkeypatch.setattr("textmover.scoring.mbr.BLOCK", 1)
        monkeypatch.setattr(Engine, "score_within", stopping)

    return interrupt


@SIGNALS
def test_an_interruption_loses_nothing(run, metric, table, tmp_path, interrupt, sent, code):
    whole = run("mbr", "--data", table, *metric).out.splitlines(keepends=True)
    output = tmp_path / "choices.txt"
    interrupt(2, sent)
    said = f"textmover: interrupted: 2 finished shards are kept in {output}.parts, continue with --resume\n"
    assert run("mbr", "--data", table, "--output", output, *metric) == (code, "", said)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert not output.exists()
    assert [path.read_text() for path in sorted((tmp_path / "choices.txt.parts").glob("0*.txt"))] == whole[:2]
    assert "it holds 2 finished shards" in run("mbr", "--data", table, "--output", output, *metric).complaint()
    interrupt(2, sent)
    assert run("mbr", "--data", table, "--format", "text", *metric).code == code
    interrupt(0, sent)
    assert run("mbr", "--data", table, "--output", "out/choices.txt", *metric).code == code
    assert not (tmp_path / "out").exists()
    interrupt(9)  # never, but a segment is a shard as before
    ended = run("mbr", "--data", table, "--output", output, "--resume", *metric).ok()
    assert "\nKept: 2 shards of an earlier run\n" in ended.err
    assert "1 segment had an empty" in ended.err  # in a shard of the interrupted run
    assert output.read_text() == "".join(whole)
    complete = f"Complete already: {output} (--overwrite computes it again)\n"
    assert run("mbr", "--data", table, "--output", output, "--resume", *metric).ok().err == complete
    other = run("mbr", "--data", table, "--output", output, "--resume", "--include-self", *metric).complaint()
    assert "its include self is 'None' and that of this run 'True'" in other


def test_names_that_break_rows_are_refused_not_changed(run, metric, write):
    names = ("a  b", "a\tb")
    tables = [write(f"{n}.jsonl", [json.dumps({"id": name, "candidates": ["a", "b"]})]) for n, name in enumerate(names)]
    good, bad = (run("mbr", "--data", one, "--id-column", "id", "--format", "tsv", *metric) for one in tables)
    assert good.ok().out.splitlines()[1].startswith("a  b\t")
    assert f"names without tabs and line breaks for --format tsv, but got one in {tables[1]}, line 1" in bad.complaint()


def test_a_malformed_line_behind_others(run, metric, write, tmp_path, monkeypatch):
    monkeypatch.setattr("textmover.scoring.mbr.BLOCK", 1)
    rows = [json.dumps({"candidates": ["a", "b"]}), '{"candidates": ["a"', json.dumps({"candidates": ["a"]})]
    table, output = write("bad.jsonl", rows), tmp_path / "choices.txt"
    said = run("mbr", "--data", table, "--output", output, *metric).complaint()
    assert "bad.jsonl" in said
    assert "line 2" in said
    assert not output.exists()
    assert said.endswith(f"1 finished shard is kept in {output}.parts, continue with --resume.\n")
    assert (tmp_path / "choices.txt.parts" / "000000.txt").read_text() == "a\n"
