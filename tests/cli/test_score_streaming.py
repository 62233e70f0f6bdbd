"""``textmover score`` on long input: every format, several systems, and going on after whatever ended a run early."""

import gzip
import io
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import zstandard
from pyarrow import parquet
from tests.sentences import sentences

from textmover.runs.shards.folder import locked
from textmover.runs.shards.shards import ShardFolder

NAMES = ("A.txt", "B.txt", "R.txt")


@pytest.fixture
def corpus(write):
    """Two systems and their references, 100 lines each."""
    return [write(name, sentences(100, seed)) for seed, name in enumerate(NAMES)]


@pytest.fixture
def short(write):
    """The same with 40 lines each: three shards, of which the last is not full."""
    return [write(name, sentences(40, seed)) for seed, name in enumerate(NAMES)]


@pytest.fixture
def score(run, tiny_encoder):
    def score(*arguments):
        sized = () if "--shard-size" in arguments else ("--shard-size", 16)
        return run("score", "--encoder", tiny_encoder, "--device", "cpu", *sized, *arguments)

    return score


@pytest.fixture
def refuse(refused, tiny_encoder):
    return lambda *arguments: refused("score", "--encoder", tiny_encoder, "--device", "cpu", *arguments)


@pytest.fixture
def stop_after(after_shards):
    """Let scoring be interrupted behind so many shards."""

    def interrupt():
        raise KeyboardInterrupt

    return lambda shards: after_shards(shards, interrupt)


# --- what goes in -----------------------------------------------------------------------------------------------------


def test_every_input_gives_the_same_scores(score, short, tmp_path, monkeypatch):
    hypotheses, _, references = short
    expected = score("-i", hypotheses, references).out
    assert len(expected.splitlines()) == 40
    for path in (hypotheses, references):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
        Path(f"{path}.zst").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    assert score("-i", f"{hypotheses}.gz", f"{references}.zst").out == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(hypotheses.read_bytes())))
    assert score("-i", "-", references).out == expected

    pairs = zip(*(path.read_text().splitlines() for path in (hypotheses, references)), strict=True)
    rows = [{"mt": hypothesis, "ref": reference} for hypothesis, reference in pairs]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "t.jsonl").write_text(lines)
    (tmp_path / "t.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in (rows[0], *(one.values() for one in rows)))
    )
    (tmp_path / "folder").mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows[:30]), tmp_path / "folder" / "0.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows[30:]), tmp_path / "folder" / "1.parquet")
    columns = ("--hypothesis-column", "mt", "--reference-column", "ref")
    for name in ("t.jsonl", "t.tsv", "folder"):
        assert score("--data", tmp_path / name, *columns).out == expected, name
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert score("--data", "-", "--data-format", "jsonl", *columns).out == expected


def heed_interruptions() -> None:
    """What shells start in the background ignores them, the tests too, and what is started by these."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_results_come_while_more_is_being_written(tiny_encoder, tmp_path, write):
    references = write("R.txt", ["a cat"] * 5)
    arguments = ["--encoder", str(tiny_encoder), "--shard-size", "1", "-i", "-", str(references)]
    command = [sys.executable, "-m", "textmover", "score", "--device", "cpu", "--backend", "torch", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, preexec_fn=heed_interruptions, **pipes) as process:
        for _ in range(3):
            process.stdin.write(b"a cat\n")
            process.stdin.flush()
        assert float(process.stdout.readline()) == pytest.approx(1, abs=1e-6)
        process.send_signal(signal.SIGINT)  # while the thread that reads waits for more
        assert process.wait(30) == 130
        assert process.stderr.read() == b"textmover: interrupted\n"


def test_several_systems_score_as_each_by_itself(score, short, write):
    first, second, references = short
    alone = [np.array(score("-i", one, references).out.split(), dtype=float) for one in (first, second)]
    assert score("--hypotheses", first, "--references", references).out == score("-i", first, references).out
    header, *lines = score("--hypotheses", first, second, "--references", references).out.splitlines()
    assert header == f"{first}\t{second}"
    texts = [path.read_text().splitlines() for path in short]
    table = write("t.tsv", ["A\tB\treference", *("\t".join(row) for row in zip(*texts, strict=True))])
    ended = score("--data", table, "--hypothesis-column", "A", "--hypothesis-column", "B")
    assert ended.out.splitlines() == ["A\tB", *lines]
    np.testing.assert_allclose(np.array([line.split("\t") for line in lines], dtype=float).T, alone, rtol=0, atol=1e-6)
    told = json.loads(
        score("--hypotheses", first, second, "--references", references, "--format", "json", "--only-mean").out
    )
    assert list(told["mean"].values()) == pytest.approx([one.mean() for one in alone], abs=1e-6)
    assert told["n"] == 40


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_files_of_every_format_and_the_mean_of_all_shards(score, short, tmp_path):
    first, second, references = short
    expected = score("-i", first, references).out
    for name in ("s.txt", "s", "s.txt.gz", "s.txt.zst"):
        assert score("-i", first, references, "--output", name).out == ""
    assert (tmp_path / "s.txt").read_text() == (tmp_path / "s").read_text() == expected
    assert gzip.decompress((tmp_path / "s.txt.gz").read_bytes()).decode() == expected
    scores = np.array(expected.split(), dtype=float)
    for name in ("s.jsonl", "s.tsv", "s.csv", "s.parquet", "s.json", "folder/"):
        score("-i", first, references, "--output", name)
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert list(rows[0]) == ["score", "precision", "recall", "f", "flags"]
    np.testing.assert_allclose([row["score"] for row in rows], scores, atol=1e-9)
    np.testing.assert_allclose(json.loads((tmp_path / "s.json").read_text())["scores"], scores, atol=1e-9)
    for name in ("s.parquet", "folder"):
        np.testing.assert_allclose(parquet.read_table(tmp_path / name).column("score").to_numpy(), scores, atol=1e-9)
    assert len(list((tmp_path / "folder").glob("*.parquet"))) == 3
    assert json.loads((tmp_path / "folder" / "_summary.json").read_text())["mean"] == pytest.approx(scores.mean())
    lines = (tmp_path / "s.tsv").read_text().splitlines()
    assert lines[0] == "score\tprecision\trecall\tf\tflags"
    assert [line.split("\t")[0] for line in lines[1:]] == expected.splitlines()
    assert (tmp_path / "s.csv").read_text().replace(",", "\t").splitlines() == lines
    assert not list(tmp_path.glob("*.parts"))

    score("--hypotheses", first, second, "--references", references, "--output", "two.parquet")
    assert parquet.read_table(tmp_path / "two.parquet").column_names == [str(first), str(second), "flags"]

    told = json.loads(score("-i", first, references, "--only-mean", "--format", "json").out)
    assert (told["mean"], told["n"]) == (pytest.approx(scores.mean(), abs=1e-9), 40)
    command = ("-i", first, references, "--output", "mean.txt")
    score(*command, "--only-mean", "--resume")
    assert float((tmp_path / "mean.txt").read_text()) == pytest.approx(scores.mean(), abs=1e-8)
    assert (tmp_path / ".mean.txt.textmover.json").is_file()
    assert "its values is 'mean alone' and that of this run 'all'" in score(*command, "--resume").err
    assert score(*command, "--resume", "--only-mean").err.startswith("Complete already: mean.txt")


def test_a_device_takes_scores_as_they_come(score, refuse, corpus):
    first, _, references = corpus
    assert score("-i", first, references, "--output", "/dev/null").code == 0
    assert "No space left on device" in refuse("-i", first, references, "--output", "/dev/full")
    assert "device or pipe" in refuse("-i", first, references, "--output", "/dev/null", "--format", "parquet")


def test_segments_out_of_the_ordinary_are_counted_over_all_shards(score, write):
    paths = write("h", ["", "a"] * 20), write("r", ["a"] * 40)
    ended = score("-i", *paths, "--quiet")
    assert (
        ended.err == "20 segments had an empty or unreadable hypothesis or reference, "
        "and scored as texts with nothing in common: `score --format tsv` flags each.\n"
    )


# --- bad rows ---------------------------------------------------------------------------------------------------------


def test_a_bad_row_stops_or_is_left_out_and_counted(score, refuse, tmp_path, corpus):
    lines = [json.dumps({"hypothesis": one, "reference": one}) for one in corpus[0].read_text().splitlines()]
    lines[50], lines[70] = "{", "[]"
    table = tmp_path / "t.jsonl"
    table.write_text("".join(f"{line}\n" for line in lines))
    said = score("--data", table, "--output", "s.txt").complaint()
    assert "one JSON object a line, but got '{' in line 51 of" in said
    assert f"3 finished shards are kept in {'s.txt.parts'}, continue with --resume" in said
    assert said.count("\n") == 1
    assert refuse("--data", table).count("line 51")

    ended = score("--data", table, "--on-error", "skip")
    resumed = score("--data", table, "--output", "s.txt", "--resume", "--on-error", "skip")
    assert "Kept: 3 shards of an earlier run" in resumed.err.splitlines()
    assert (tmp_path / "s.txt").read_text() == ended.out
    flags = score("--data", table, "--on-error", "skip", "--format", "tsv").out.splitlines()
    assert [row for row, line in enumerate(flags[1:]) if line.endswith("\tskipped")] == [50, 70]
    values = np.array(ended.out.split(), dtype=float)
    assert np.flatnonzero(np.isnan(values)).tolist() == [50, 70]
    np.testing.assert_allclose(np.delete(values, [50, 70]), 1, atol=1e-6)
    assert ended.err.startswith(
        "No score (nan): 2 rows; the first: Expected one JSON object a line, but got '{' in line 51"
    )
    told = json.loads(score("--data", table, "--on-error", "skip", "--only-mean", "--format", "json").out)
    assert (told["n"], told["skipped"]) == (98, 2)
    assert told["mean"] == pytest.approx(1, abs=1e-6)


def test_a_row_without_a_reference_is_refused_or_left_out_and_counted(score, refuse, write):
    for name, lines, line in (
        ("t.jsonl", [json.dumps({"hypothesis": "a", "reference": cell}) for cell in ("a", "", "b", None)], 2),
        ("t.csv", ["hypothesis,reference", "a,a", "b, ", "b,b", "c,"], 3),
        ("r.txt", ["a", "", "b", "  "], 2),
    ):
        table = write(name, lines)
        given = ("-i", write("h.txt", ["a", "b", "b", "c"]), table) if name == "r.txt" else ("--data", table)
        said = refuse(*given)
        place = f"line {line} of {table}" if name == "r.txt" else f"column 'reference' of {table}, line {line}"
        assert f"a reference in {place}, but got none: add one" in said
        assert "or set `--missing-references` to leave-out" in said
        given += ("--missing-references", "leave-out")
        ended = score(*given)
        assert np.isnan(np.array(ended.out.split(), dtype=float)).tolist() == [False, True, False, True]
        assert ended.err.startswith("No score (nan): 2 rows; the first: Expected a reference in ")
        told = json.loads(score(*given, "--only-mean", "--format", "json").out)
        assert (told["n"], told["skipped"]) == (2, 2)


LEFT = "all 40 were left out. The first: Expected "
BAD = {
    "bad.txt": (b"\xff\n" * 40, f"{LEFT}bad.txt to be UTF-8, but got the byte 0xff in "),
    "one.txt": (b"\xff\n", "the only one was left out. The first: Expected one.txt to be UTF-8, "),
    "bad.jsonl": (b"{\n" * 40, f"{LEFT}one JSON object a line, but got '{{' in line 1 "),
    "bad.tsv": (b"hypothesis\treference\n" + b"x\n" * 40, f"{LEFT}2 fields as in "),
}


@pytest.mark.parametrize("model", ["twmd", "bertscore-f1-idf"])  # the latter fits idf on the texts
@pytest.mark.parametrize("name", BAD)
def test_a_file_of_which_every_row_is_left_out_is_refused(score, write, tmp_path, name, model):
    content, said = BAD[name]
    (tmp_path / name).write_bytes(content)
    good = write("good.txt", ["tea"] * (1 if name == "one.txt" else 40))
    given = ("-i", name, good) if name.endswith(".txt") else ("--data", name)
    for output in ("s.txt", "s.json", "s/"):
        ended = score(*given, "--on-error", "skip", "--model", model, "--output", output)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"textmover: Expected rows that can be scored, but got none: {said}")
        assert ended.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((name, "good.txt"))
    assert score(*given, "--on-error", "skip", "--model", model, "--only-mean")[:2] == (2, "")


def test_an_older_result_is_not_taken_for_that_of_rows_that_are_left_out(score, write, tmp_path):
    good = write("good.txt", ["tea"] * 40)
    assert score("-i", good, good, "--output", "s.txt").code == 0
    older = (tmp_path / "s.txt").read_bytes()
    (tmp_path / "good.txt").write_bytes(b"\xff\n" * 40)
    again = ("-i", "good.txt", "good.txt", "--output", "s.txt", "--on-error", "skip")
    for how in ("--overwrite", "--resume"):
        assert "all 40 were left out" in score(*again, how).complaint()
        assert (tmp_path / "s.txt").read_bytes() == older


def test_files_that_are_cut_off_or_of_unequal_length_keep_what_was_scored(score, corpus, write, tmp_path):
    first, _, references = corpus
    packed = gzip.compress(first.read_bytes())
    (tmp_path / "cut.txt.gz").write_bytes(packed[:-200])
    short = write("short.txt", references.read_text().splitlines()[:40])
    said = score("-i", first, short, "--output", "other.txt").complaint()
    assert f"got 100 in {first}, 40 in {short}" in said
    assert "2 finished shards are kept" in said
    said = score("-i", "cut.txt.gz", references, "--output", "s.txt").complaint()
    assert "Expected cut.txt.gz to be a whole compressed file, but after line" in said
    assert "continue with --resume" in said
    (tmp_path / "cut.txt.gz").write_bytes(packed)
    assert score("-i", "cut.txt.gz", references, "--output", "s.txt", "--resume").code == 0
    assert (tmp_path / "s.txt").read_text() == score("-i", first, references).out


# --- going on ---------------------------------------------------------------------------------------------------------


def test_beside_an_older_result_an_interrupted_run_is_not_complete(score, corpus, tmp_path, stop_after):
    (tmp_path / "s.txt").write_text("old\n")
    stop_after(0)
    score("-i", corpus[0], corpus[2], "--output", "s.txt")
    assert score("-i", corpus[0], corpus[2], "--output", "s.txt", "--resume").code == 0
    assert (tmp_path / "s.txt").read_text() == score("-i", corpus[0], corpus[2]).out


def test_a_folder_that_is_deleted_meanwhile_loses_only_what_was_in_it(score, corpus, tmp_path, after_shards):
    command = ("-i", corpus[0], corpus[2], "--output", "s.txt")
    after_shards(3, lambda: shutil.rmtree(tmp_path / "s.txt.parts"))
    said = score(*command).complaint()
    assert "number 0 is missing" in said
    assert "4 finished shards are kept in s.txt.parts, continue with --resume" in said
    ended = score(*command, "--resume")
    assert ended.err.startswith("Kept: 4 shards of an earlier run\n")
    assert (tmp_path / "s.txt").read_text() == score("-i", corpus[0], corpus[2]).out
    assert not (tmp_path / "s.txt.parts").exists()


def test_other_texts_or_another_metric_are_refused(score, corpus, stop_after, tmp_path, write):
    command = ("-i", corpus[0], corpus[2], "--output", tmp_path / "s.txt")
    stop_after(3)
    assert "interrupted: 3 finished shards" in score(*command).err
    assert (
        "their signature entry layer is '3' and that of this run '1'"
        in score(*command, "--resume", "--layer", "1").complaint()
    )
    assert "their rows per shard is '16' and that of this run '8'" in score(*command, "--resume", "--shard-size", 8).err
    assert "their on error is 'stop' and that of this run" not in score(*command, "--resume", "--layer", "1").err
    lines = corpus[0].read_text().splitlines()
    write("A.txt", [*lines[:20], "another cat", *lines[21:]])
    assert "it differs from row 21 (line 21) on" in score(*command, "--resume").complaint()
    assert len(list((tmp_path / "s.txt.parts").glob("_0*.json"))) == 3
    assert score(*command, "--overwrite").code == 0
    assert (tmp_path / "s.txt").read_text() == score(*command[:3]).out


def test_a_folder_of_shards_goes_on_too(score, corpus, stop_after, tmp_path):
    command = ("-i", corpus[0], corpus[2], "--output", "out/")
    stop_after(3)
    assert "3 finished shards are kept in out" in score(*command).err
    assert score(*command).code == 2
    assert score(*command, "--resume").code == 0
    assert parquet.read_table(tmp_path / "out").num_rows == 100
    assert "Complete already" in score("-i", corpus[0], corpus[2], "--output", "out", "--resume").err
    assert "the result of a finished run" in score(*command).err
    assert "Expected a column 'reference'" in score("--data", "out", "--hypothesis-column", "score").complaint()
    assert "got the input" in score("--data", "out", "--output", "out/", "--overwrite").err
    assert parquet.read_table(tmp_path / "out").num_rows == 100


# --- one run at a time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [(), ("--resume",), ("--overwrite",)])
def test_a_second_run_on_the_same_output_leaves_the_first_alone(score, corpus, tmp_path, stop_after, again):
    command, parts = ("-i", corpus[0], corpus[2], "--output", "s.txt"), tmp_path / "s.txt.parts"
    stop_after(2)
    score(*command)
    with locked(parts, tmp_path / "s.txt"):
        before = {path: path.read_bytes() for path in parts.iterdir()}
        said = score(*command, *again).complaint()
        assert "another run is writing there: wait for it, or give another --output" in said
        assert said.count("\n") == 1
        assert {path: path.read_bytes() for path in parts.iterdir()} == before


# --- knowing a result again -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["s.tsv.gz", "out/"])
def test_a_result_is_complete_only_for_its_own_texts_and_metric(score, corpus, write, tmp_path, output):
    first, second, references = corpus
    assert score("-i", first, references, "--output", output, "--resume").code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ended = score("-i", first, references, "--output", output, "--resume")
    assert (ended.code, ended.err) == (0, f"Complete already: {output.rstrip('/')} (--overwrite computes it again)\n")
    for texts, more, message in (
        ((first, references), ("--layer", 1), "its signature entry layer is '3' and that of this run '1'"),
        ((first, references), ("--model", "bertscore-f1"), "its signature entry "),
        ((second, references), (), "made from other texts (as many rows, and this run has 100)"),
        ((write("h", ["a"]), write("r", ["a"])), (), "made from other texts (100 rows, and this run has 1)"),
    ):
        said = score("-i", *texts, "--output", output, "--resume", *more).complaint()
        assert message in said
        assert said.count("\n") == 1
    assert {path: path.read_bytes() for path in before} == before
    (damaged,) = (path for path in before if path.name in (output, "000002.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    assert (
        "its content was changed after it was written"
        in score("-i", first, references, "--output", output, "--resume").complaint()
    )
    assert score("-i", first, references, "--output", output, "--overwrite").code == 0
    if not output.endswith("/"):
        assert not (tmp_path / f".{output}.textmover.json").exists()
        before = {path: content for path, content in before.items() if not path.name.endswith(".textmover.json")}
    assert {path: path.read_bytes() for path in before} == before


def test_a_file_of_unknown_origin_is_complete_only_with_as_many_rows(score, corpus, tmp_path):
    command = ("-i", corpus[0], corpus[2], "--output", "s.txt", "--resume")
    path = tmp_path / "s.txt"
    path.write_text("")  # nothing is there yet
    assert score(*command).code == 0
    assert len(path.read_text().splitlines()) == 100
    (tmp_path / ".s.txt.textmover.json").unlink()
    ended = score(*command, "--model", "bertscore-f1", "--quiet").ok()
    assert ended.err.startswith(
        "s.txt has as many rows as the input. Metric and texts are not compared, since there is no .s.txt"
    )
    path.write_text("1\n" * 99)
    ended = score(*command)
    assert (ended.code, path.read_text()) == (2, "1\n" * 99)
    assert "it has 99 rows and the input 100: give another --output" in ended.err
    ended = score(*command, "--only-mean")
    assert ended.err.startswith("s.txt holds something. Metric and texts are not compared, since there is no")


def test_what_an_interruption_left_beside_a_result_is_cleared_away(score, corpus, tmp_path, monkeypatch):
    def interrupted(_: ShardFolder) -> None:
        raise KeyboardInterrupt

    score("-i", corpus[0], corpus[2], "--output", "whole/")
    command = ("-i", corpus[0], corpus[2], "--output", "broken/")
    with monkeypatch.context() as patch:
        patch.setattr(ShardFolder, "tidy", interrupted)
        assert score(*command).code == 130
    assert (tmp_path / "broken" / "_000000.json").exists()
    assert score(*command, "--resume").err.startswith("Complete already: broken")
    whole, broken = (
        {one.name: one.read_bytes() for one in (tmp_path / name).iterdir()} for name in ("whole", "broken")
    )
    assert broken == whole

    command = ("-i", corpus[0], corpus[2], "--output", "s.txt")
    score(*command, "--resume")
    (tmp_path / "s.txt.parts").mkdir()
    (tmp_path / "s.txt.parts" / "_merged.json").write_text("{}")
    assert score(*command, "--resume").err.startswith("Complete already: s.txt")
    assert not (tmp_path / "s.txt.parts").exists()


# --- memory -----------------------------------------------------------------------------------------------------------

PEAK = """
import resource, sys
from textmover.cli.main import main
assert main(sys.argv[1:]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_input(tiny_encoder, tmp_path, write):
    peaks = []
    for count in (4000, 20_000):
        paths = [write(name, sentences(count, seed)) for seed, name in enumerate(("h", "r"))]
        command = ["score", "--encoder", tiny_encoder, "-i", *paths, "--shard-size", 1000, "--output", tmp_path / "s"]
        given = [sys.executable, "-c", PEAK, *map(str, command)]
        ran = subprocess.run(given, capture_output=True, text=True, check=True)
        peaks.append(int(ran.stderr.split()[-1]))
    assert peaks[1] < peaks[0] + 40, f"Expected the peak to stay within 40 MB, but got {peaks} MB."
