"""Comparing systems on the command line: what is printed, written and refused."""

import json

import pytest


@pytest.fixture
def metric(tiny_encoder):
    """Options of a small metric, and few samples."""
    return ["--model", "twmd", "--encoder", tiny_encoder, "--backend", "torch", "--samples", 50, "--trials", 50]


REFERENCES = ["the cat sat on the mat", "a dog ran home", "she will buy a book", "rain in the old town"]
GOOD = ["the cat sat on a mat", "a dog ran home", "she will buy a book", "rain in the town"]
BAD = ["book", "a small dog is big", "he sold it", "rain in the old town"]


@pytest.fixture
def files(tmp_path):
    """Files of two systems and their references."""
    for name, lines in (("good.en", GOOD), ("bad.en", BAD), ("ref.en", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return [tmp_path / name for name in ("bad.en", "good.en", "ref.en")]


def options(files):
    return ["--hypotheses", *files[:-1], "--references", files[-1]]


def test_systems_are_compared(run, metric, files):
    ended = run("compare", *options(files), *metric)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].split() == ["system", "rank", "mean", "95", "%", "interval"]
    assert lines[1].split()[0] == "good"
    assert lines[2].split()[0] == "bad"
    sentence = next(line for line in lines if line.startswith("good against bad: +"))
    assert "better in 3, equal in 0, worse in 1 of 4 segments" in sentence
    assert "These are 4 segments: intervals and tests say little of fewer than 30." in lines
    assert "Segments on which they differ most:" in lines
    assert any(line.startswith("line ") for line in lines)
    assert "Signature: textmover:" in ended.err
    assert "test:paired-bootstrap|samples:50|seed:12345" in ended.err
    assert run("compare", *options(files), *metric, "--quiet").err == ""


def test_scores_are_those_of_the_command_score(run, metric, files):
    found = json.loads(run("compare", *options(files), *metric, "--format", "json").out)
    by_name = {one["name"]: one for one in found["systems"]}
    for name, path in (("bad", files[0]), ("good", files[1])):
        scores = [float(one) for one in run("score", "-i", path, files[2], *metric[:6]).out.split()]
        assert by_name[name]["scores"] == pytest.approx(scores, abs=1e-6)
        assert by_name[name]["mean"] == pytest.approx(sum(scores) / 4, abs=1e-6)
    (pair,) = found["pairs"]
    assert (pair["baseline"], pair["system"]) == ("bad", "good")
    assert pair["wins"] + pair["ties"] + pair["losses"] == 4
    assert found["differing"][0]["systems"].keys() == {"good", "bad"}
    assert found["signature"].startswith("textmover:")


def test_columns_of_a_table(run, metric, tmp_path, files):
    table = tmp_path / "table.tsv"
    rows = [("ours", "theirs", "reference"), *zip(GOOD, BAD, REFERENCES, strict=True)]
    table.write_text("".join("\t".join(row) + "\n" for row in rows))
    columns = ["--hypothesis-column", "theirs", "--hypothesis-column", "ours"]
    found = json.loads(run("compare", "--data", table, *columns, *metric, "--format", "json").out)
    other = json.loads(run("compare", *options(files), *metric, "--format", "json").out)
    assert [one["name"] for one in found["systems"]] == ["ours", "theirs"]
    assert [one["scores"] for one in found["systems"]] == [one["scores"] for one in other["systems"]]


def test_names_and_files(run, metric, tmp_path, files):
    output = tmp_path / "table.tex"
    ended = run("compare", *options(files), *metric, "--names", "A_1", "B&C", "--format", "latex", "--output", output)
    assert (ended.code, ended.out) == (0, "")
    text = output.read_text()
    assert r"\textbf{" in text
    assert r"B\&C" in text
    assert r"A\_1" in text
    assert text.count(r"\begin{tabular}") == 2
    assert text.isascii()


def test_metrics_that_fit_on_a_call_fit_on_all_systems(run, files, tiny_encoder):
    metric = ["--model", "bertscore-f1-idf", "--encoder", tiny_encoder, "--backend", "torch", "--samples", 9]
    one = json.loads(run("compare", *options(files), *metric, "--format", "json").out)
    other = json.loads(run("compare", *options([files[1], files[0], files[2]]), *metric, "--format", "json").out)
    assert {two["name"]: two["scores"] for two in one["systems"]} == {
        two["name"]: two["scores"] for two in other["systems"]
    }


def test_files_of_one_name_are_told_apart(run, metric, tmp_path, files):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder, path in zip(folders, files, strict=False):
        folder.mkdir()
        (folder / "out.txt").write_text(path.read_text())
    given = [folder / "out.txt" for folder in folders]
    found = json.loads(run("compare", *options([*given, files[2]]), *metric, "--format", "json").out)
    assert {one["name"] for one in found["systems"]} == set(map(str, given))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--hypotheses", "{0}", "--references", "{2}"], "Expected two systems to compare"),
        (["--hypotheses", "{0}", "{1}"], "file of references"),
        (["--hypotheses", "{0}", "{0}", "--references", "{2}"], "once"),
        (["--hypotheses", "{0}", "{short}", "--references", "{2}"], "3"),
        (["--hypotheses", "{0}", "{empty}", "--references", "{empty}"], "Expected"),
        (["--hypotheses", "{0}", "{1}", "--references", "{2}", "--names", "A"], "a name for each of the 2 systems"),
        (["--hypotheses", "{0}", "{1}", "--references", "{2}", "--names", "A", "A"], "tell the systems apart"),
        (["--hypotheses", "{0}", "{1}", "--references", "{2}", "--samples", "0"], "--samples to be at least 1"),
        (["--hypotheses", "{0}", "{1}", "--references", "{2}", "--output", "{new}"], "--format json or latex"),
        (["--hypotheses", "{0}", "{1}", "--references", "{2}", "--split", "x"], "together with --data"),
        (["--data", "{0}", "--hypothesis-column", "a"], "Expected two systems to compare"),
        (["--data", "{0}", "--references", "{2}"], "leave one out"),
    ],
)
def test_what_cannot_be_compared_is_refused(run, metric, tmp_path, files, changed, said):
    (tmp_path / "short.txt").write_text("".join(f"{line}\n" for line in GOOD[:3]))
    (tmp_path / "empty.txt").write_text("")
    places = {"short": tmp_path / "short.txt", "empty": tmp_path / "empty.txt", "new": tmp_path / "new.json"}
    ended = run("compare", *metric, *(one.format(*files, **places) for one in changed))
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "Traceback" not in ended.err
