import csv
import io
import json
import re
import sys

import numpy as np
import pytest
from pyarrow import parquet

from textmover import Scorer
from textmover.csv_cells import unescape_formula


@pytest.fixture
def expected(tiny_encoder, pairs):
    return Scorer.from_pretrained("twmd", encoder=str(tiny_encoder)).score(*zip(*pairs, strict=True))


def test_flags_are_a_column_of_tables_and_counted_in_the_closing_line(run, write, tiny_encoder, tmp_path):
    texts = write("h.txt", ["tea 😀", "", "a dog"]), write("r.txt", ["tea", "tea", "a dog"])
    for name in ("s.tsv", "s.csv", "s.jsonl"):
        ended = run("score", "-i", *texts, "--encoder", tiny_encoder, "--output", tmp_path / name)
        assert "\nFlagged: 1 empty or unreadable, 1 with unknown tokens (of 3 segments)\nMean: " in ended.err
        lines = (tmp_path / name).read_text().splitlines()
        assert [re.search(r'[,\t "](\w*)"?}?$', line)[1] for line in lines[-3:]] == ["unknown", "empty", ""]
    assert lines[-1].endswith('"flags": ""}')


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_text_is_one_score_a_line_and_the_signature_beside_it(run, texts, tiny_encoder, expected):
    ended = run("score", "-i", *texts, "--encoder", tiny_encoder).ok()
    lines = ended.out.splitlines()
    assert len(lines) == 4
    np.testing.assert_array_equal(np.float32(lines), np.float32(expected.scores))  # nine digits tell float32 apart
    assert ended.err.endswith(f" segments\nSignature: {expected.signature}\n")


def test_json_holds_everything_and_the_mean_may_stand_alone(run, texts, tiny_encoder, expected):
    common = ("score", "-i", *texts, "--encoder", tiny_encoder)
    told = json.loads(run(*common, "--format", "json").silent().out)
    for name in ("scores", "precision", "recall", "f"):
        assert told[name] == getattr(expected, name).tolist()
    assert told["mean"] == expected.mean
    assert told["n"] == 4
    assert (told["counts"], told["flags"]) == ({}, [""] * 4)
    assert told["signature"] == str(expected.signature)
    told = json.loads(run(*common, "--model", "sbert", "--format", "json").out)
    assert set(told) == {"scores", "flags", "mean", "standard_error", "n", "counts", "signature"}
    assert float(run(*common, "--only-mean", "--quiet").silent().out) == pytest.approx(expected.mean, rel=1e-8)
    told = json.loads(run(*common, "--only-mean", "--format", "json").out)
    assert set(told) == {"mean", "standard_error", "n", "counts", "signature"}


def test_output_is_written_where_it_is_wanted(run, texts, tiny_encoder, tmp_path, expected):
    there = tmp_path / "new" / "scores.txt"
    ended = run("score", "-i", *texts, "--encoder", tiny_encoder, "--output", there)
    error = expected.scores.std(ddof=1) / 2
    mean = f"Mean: {expected.mean:.4f} ± {error:.4f} (standard error), 4 segments"
    assert ended == (0, "", f"{mean}\nSignature: {expected.signature}\nWritten: {there}\n")
    assert len(there.read_text().splitlines()) == 4
    assert sorted(path.name for path in there.parent.iterdir()) == ["scores.txt"]
    ended = run("score", "-i", *texts, "--encoder", tiny_encoder, "--output", there, "--shard-size", 1, "--resume")
    assert "Complete already" in ended.ok().err
    there.unlink()
    ended = run("score", "-i", *texts, "--encoder", tiny_encoder, "--output", there, "--shard-size", 1, "--resume").ok()
    record = there.with_name(".scores.txt.textmover.json")
    assert f"{mean}\nSignature: {expected.signature}\nKept for --resume: {record}\nWritten: {there}\n" == ended.err
    assert sorted(path.name for path in there.parent.iterdir()) == [record.name, "scores.txt"]
    run("score", "-i", *texts, "--encoder", tiny_encoder, "--output", there, "--overwrite").ok()
    assert not record.exists()


def test_fields_are_overridden_and_named_in_the_signature(run, texts, tiny_encoder, expected):
    flags = ("--layer", "1", "--temperature", "0.1", "--hypothesis-special-tokens", "drop", "--normalize", "false")
    told = json.loads(run("score", "-i", *texts, "--encoder", tiny_encoder, *flags, "--format", "json").out)
    assert told["scores"] != expected.scores.tolist()
    for entry in ("layer:1", "T:0.1", "special:drop/first", "normalized:no"):
        assert f"|{entry}|" in told["signature"]


def test_fields_of_several_values_are_separated_by_commas(run, texts, tiny_encoder):
    found = run(
        "score", "-i", *texts, "--model", "rome", "--encoder", tiny_encoder, "--parser", "none",
        "--features", "semantic, chrf", "--scorer", "mean", "--weights", "uniform", "--format", "json",
    )  # fmt: skip
    given = json.loads(found.out)
    assert {"semantic", "chrf"} <= set(given)
    assert "acceptability" not in given


def test_a_checkpoint_scores_as_the_preset_it_came_from(run, texts, checkpoint, expected):
    told = json.loads(run("score", "-i", *texts, "--model", checkpoint, "--no-cache", "--format", "json").out)
    np.testing.assert_allclose(told["scores"], expected.scores, rtol=0, atol=1e-6)


# --- what goes in -----------------------------------------------------------------------------------------------------


def test_texts_themselves_are_scored_as_those_of_files(run, texts, tiny_encoder, pairs, tmp_path):
    hypothesis, reference = pairs[0]
    fields = ("--encoder", tiny_encoder, "--quiet")
    [first, *_] = run("score", "-i", *texts, *fields).silent().out.splitlines()
    assert run("score", hypothesis, reference, *fields).silent().out.splitlines() == [first]
    table = ("--output", tmp_path / "s.csv", "--resume")
    run("score", hypothesis, reference, *fields, *table).ok()
    assert "it was made from other texts" in run("score", reference, hypothesis, *fields, *table).complaint()
    assert "Expected either two texts or files" in run("score", hypothesis, "-i", *texts, *fields).complaint()


def test_of_several_references_the_best_counts_and_empty_lines_do_not(run, texts, tiny_encoder, write, pairs, expected):
    second = write("ref2.txt", [pairs[0][0], "", "", pairs[3][0]])
    ended = run("score", "-i", *texts, second, "--encoder", tiny_encoder, "--multi-reference", "best")
    first, *middle, last = map(float, ended.out.split())
    assert first == pytest.approx(1, abs=1e-6)
    assert last == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(middle, expected.scores[1:3], rtol=0, atol=1e-6)
    mean = run("score", "-i", *texts, second, "--encoder", tiny_encoder, "--multi-reference", "mean")
    values = np.array(mean.out.split(), dtype=float)
    np.testing.assert_allclose(values[1:3], expected.scores[1:3], rtol=0, atol=1e-6)
    assert values[0] == pytest.approx((1 + expected.scores[0]) / 2, abs=1e-6)


def test_idf_is_fitted_on_the_texts_of_files_and_never_on_standard_input(
    run, refused, texts, tiny_encoder, monkeypatch
):
    command = ("score", "--model", "bertscore-f1-idf", "--encoder", tiny_encoder)
    ended = run(*command, "-i", *texts).ok()
    assert "weights:idf-smooth:references@" in ended.err

    def piped():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(texts[0].read_bytes())))

    piped()
    said = refused(*command, "-i", "-", texts[1])
    for part in ("bertscore-f1-idf", "standard input (-)", "`textmover fit-idf`", "--statistics FILE", "--fit-on FILE"):
        assert part in said
    piped()
    told = run(*command, "-i", "-", texts[1], "--fit-on", texts[1])
    assert told.out == ended.out
    assert "weights:idf-smooth:corpus@" in told.err


def test_a_metric_gives_its_distance_on_request(run, texts, tiny_encoder):
    command = ("score", "-i", *texts, "--model", "wmd", "--encoder", tiny_encoder)
    similarity, distance = (run(*command, *flags).out.split() for flags in ((), ("--metric-output", "distance")))
    np.testing.assert_allclose(np.float64(similarity), 1 - np.float64(distance), rtol=0, atol=1e-6)


def test_the_closing_line_has_the_number_of_references_where_there_are_several(run, write, tiny_encoder):
    texts = write("h.txt", ["a dog", "the cat"]), write("r.txt", ["a dog", "the cat"]), write("r2.txt", ["a", "b"])
    rows = ['{"hypothesis": "a", "reference": ["b", "c", "d"]}', '{"hypothesis": "a", "reference": ["b"]}']
    for given, said in (
        (["-i", *texts[:2]], ", 2 segments\n"),
        (["-i", *texts, "--shard-size", 1], ", 2 segments, 2 references each\n"),
        (["--data", write("t.jsonl", rows)], ", 2 segments, 1 to 3 references each\n"),
    ):
        assert said in run("score", *given, "--encoder", tiny_encoder).ok().err


def test_cells_of_tsv_in_quotation_marks_are_named_once(run, write, tiny_encoder):
    header = "hypothesis\treference"
    quoted = write("q.tsv", [header, "a\tb", '"a ""dog"", black"\t"a dog"', '"a"\tb'])
    spoken = write("s.tsv", [header, '"Go", he said.\ta', '"Go."\ta'])
    warning = f"{quoted} has cells in quotation marks, the first in line 3. TSV is read without quoting, so that they"
    assert run("score", "--data", quoted, "--encoder", tiny_encoder).ok().err.count(warning) == 1
    assert "quotation" not in run("score", "--data", spoken, "--encoder", tiny_encoder).ok().err


# --- out of the ordinary ----------------------------------------------------------------------------------------------


def test_empty_texts_score_0_and_are_counted_and_warned_of_once(run, tiny_encoder, write):
    hypotheses = write("h.txt", ["", "a dog", " "])
    references = write("r.txt", ["the cat", "a dog", "the cat"])
    ended = run("score", "-i", hypotheses, references, "--encoder", tiny_encoder, "--format", "json")
    told = json.loads(ended.out)
    assert told["scores"][::2] == [0, 0]
    assert told["counts"] == {"empty": 2}
    said = [
        "2 segments had an empty or unreadable hypothesis or reference, "
        "and scored as texts with nothing in common: `score --format tsv` flags each.",
        "Flagged: 2 empty or unreadable (of 3 segments)",
    ]
    assert ended.err.splitlines() == said


def test_long_texts_are_cut_and_counted_or_an_error(run, refused, tiny_encoder, write):
    hypotheses = write("h.txt", ["a dog", "the cat sat on a small red " + " ".join(map(str, range(200)))])
    references = write("r.txt", ["the dog", "the cat"])
    command = ("score", "-i", hypotheses, references, "--encoder", tiny_encoder, "--format", "json")
    ended = run(*command)
    assert json.loads(ended.out)["counts"] == {"truncated": 1}
    assert ended.err.count("\n") == 2
    assert "was cut" in ended.err
    said = refused(*command, "--long-texts", "error")
    assert "128 tokens" in said
    assert "the cat sat on" in said
    assert "long_texts" in said


# --- bad input --------------------------------------------------------------------------------------------------------


def test_the_mean_and_its_standard_error_do_not_depend_on_shards_and_name_each_system(run, texts, tiny_encoder):
    common = ("score", "-t", texts[0], texts[1], "-r", texts[1], "--encoder", tiny_encoder)
    whole, cut = (run(*common, *more).ok().err for more in ((), ("--shard-size", 2)))
    means = cut.splitlines()[:2]
    assert means[0].startswith(f"Mean of {texts[0]}: 0.")
    assert means[1] == f"Mean of {texts[1]}: 1.0000 ± 0.0000 (standard error), 4 segments"
    assert cut == whole
    assert run("score", "-t", texts[0], "-r", texts[1], "--encoder", tiny_encoder, "--quiet").ok().err == ""


def test_kept_columns_stand_before_the_scores_and_belong_to_the_run(run, write, tmp_path, tiny_encoder):
    rows = ['7,a cat,the cat,"a, b"', '=8,dogs,the dogs,"two\nlines"', "9,rain,,x"]
    path = write("r.csv", ["id,hypothesis,reference,note", *rows])
    common = ("score", "--data", path, "--encoder", tiny_encoder, "--missing-references", "leave-out")
    kept = ("--keep-columns", "id", "note", "--shard-size", 2, "--resume")
    expected = [("7", "a, b"), ("=8", "two\nlines"), ("9", "x")]
    read = {
        "csv": lambda file: list(csv.DictReader(io.StringIO(file.read_text()))),
        "jsonl": lambda file: [json.loads(line) for line in file.read_text().splitlines()],
        "parquet": lambda file: parquet.read_table(file).to_pylist(),
    }
    for suffix, reader in read.items():
        file = tmp_path / f"s.{suffix}"
        run(*common, *kept, "--output", file).ok()
        found = reader(file)
        assert list(found[0]) == ["id", "note", "score", "precision", "recall", "f", "flags"]
        assert [(unescape_formula(one["id"]), one["note"]) for one in found] == expected
        again = run(*common, *kept, "--output", file).ok()
        assert again.err.startswith("Complete already")
        write("r.csv", ["id,hypothesis,reference,note", rows[0].replace("7", "5"), *rows[1:]])
        assert "made from other texts" in run(*common, *kept, "--output", file).complaint()
        write("r.csv", ["id,hypothesis,reference,note", *rows])
    for more, message in {
        ("--keep-columns", "note", "--format", "tsv"): "without tabs and line breaks in TSV, but got 'two\\nlines'",
        (
            "--keep-columns",
            "id",
        ): "a table format for `--keep-columns`, but got text: set --format to csv, tsv, jsonl or parquet",
        ("--keep-columns", "score", "--format", "csv"): "`--keep-columns` without score, a column of the output",
        ("--keep-columns", "ids", "--format", "csv"): "did you mean 'id'? Otherwise set `--keep-columns`",
    }.items():
        assert message in run(*common, *more).complaint()
