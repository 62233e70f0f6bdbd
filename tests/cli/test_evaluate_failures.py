"""A set or dimension without agreement: it is named, the others are shown, and the exit code says so."""

import json

import pytest
from tests.cli.shared import SIGNALS, send

from textmover.scoring.scorer import Scorer

ROWS = [f"a{one}\tb\t{one}\t{one * one % 7}\t5" for one in range(1, 7)]
HEADER = "hypothesis\treference\tgood\tmine\tflat"
REASON = "Expected segments whose agreement can be computed, but got none ("


@pytest.fixture
def several(write):
    """A set with one dimension that varies and one that does not."""
    described = write("two.yaml", ["name: Two", "ratings: [good, flat]", "scores: mine"])
    return ("evaluate", "--set", described, "--data", write("two.tsv", [HEADER, *ROWS]), "--metric-column", "mine")


def test_other_dimensions_are_shown_and_scores_kept(run, several, tmp_path):
    ended = run(*several, "--samples", "20", "--report", "page")
    assert ended.code == 2
    assert "mine: mean Pearson" in ended.out
    assert f"No agreement. Two · flat: {REASON}" in ended.out
    assert ended.complaint().startswith(f"Written: two.scores.tsv, page\ntextmover: Two · flat: {REASON}")
    assert (tmp_path / "two.scores.tsv").exists()
    assert "Two · good" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    for form in ("markdown", "csv", "latex"):
        ended = run(*several, "--samples", "20", "--format", form)
        assert ended.code == 2
        assert "mine" in ended.out
        assert "textmover: Two · flat: " in ended.err
    ended = run(*several, "--samples", "20", "--format", "json")
    assert ended.code == 2
    first, second = json.loads(ended.out)["sets"]
    assert (first["dimension"], first["metrics"][0]["name"]) == ("good", "mine")
    assert {**second, "error": second["error"][: len(REASON)]} == {"set": "Two", "dimension": "flat", "error": REASON}


def test_one_file_of_several(run, write):
    good = write("good.tsv", ["hypothesis\treference\tscore\tm", *(f"a\tb{one}\t{one}\t{one % 3}" for one in range(6))])
    flat = write("flat.tsv", ["hypothesis\treference\tscore\tm", *(f"a\tb{one}\t1\t{one % 3}" for one in range(6))])
    ended = run("evaluate", "--data", good, flat, "--metric-column", "m", "--samples", "20")
    assert ended.code == 2
    assert "good\n" in ended.out
    assert "textmover: flat · score: " in ended.err


def test_nothing_to_agree_with_is_said_before_a_model_is_loaded(refused, write, tmp_path):
    lines = ["hypothesis\treference\tscore", "a\tb\t1", "c\td\t1", "e\tf\t1"]
    said = refused("evaluate", "--data", write("flat.tsv", lines), "--model", "twmd", "--encoder", "never-loaded")
    assert f"flat · score: {REASON}" in said
    assert "; nothing was scored." in said
    assert not (tmp_path / "flat.scores.tsv").exists()


def test_nothing_agrees_though_scored(run, write):
    data = write("some.tsv", ["hypothesis\treference\tscore", *(f"a\tb{one}\t{one}" for one in range(4))])
    first, second = write("a.txt", ["1", "2", "nan", "nan"]), write("b.txt", ["nan", "nan", "1", "2"])
    ended = run("evaluate", "--data", data, "--scores", first, "--scores", second)
    assert (ended.code, ended.out) == (2, "")
    last = ended.err.splitlines()[-1]
    assert last.startswith("textmover: some · score: Expected a text of some that people and every metric have scored")
    assert last.endswith("; the scores are in some.scores.tsv.")


def test_a_report_that_cannot_be_written(run, refused, several, tmp_path):
    (tmp_path / "page").write_text("")
    said = refused(*several, "--report", "page")
    assert "Expected `--report` to be a folder, but got the file page: give the name of a folder." in said
    assert "page/below, but " in refused(*several, "--report", "page/below")
    assert not (tmp_path / "two.scores.tsv").exists()
    (tmp_path / "other" / "index.html").mkdir(parents=True)
    ended = run(*several, "--dimension", "good", "--samples", "20", "--report", "other")
    assert ended.code == 2
    assert "mine: mean Pearson" in ended.out  # the tables come first
    assert "index.html" in ended.err
    assert "Traceback" not in ended.err


# --- metrics without a value ------------------------------------------------------------------------------------------


@pytest.fixture
def rated(write):
    rows = [f"a {'b' * one} c\ta bb\t{one}" for one in range(5)]
    return write("rated.tsv", ["hypothesis\treference\tscore", *rows])


def test_a_metric_without_a_value_says_why(run, judged, rated, write):
    ended = run("evaluate", "--data", rated, "--scores", write("flat.txt", ["0.5"] * 5)).ok()
    assert "flat: no value of Pearson (its scores are all equal)." in ended.out
    assert "interval - to -" not in ended.out
    none = ("--data", rated, "--scores", write("none.txt", ["nan"] * 5))
    (told,) = judged(*none, "--baselines", "chrf", "--against", "chrf", "--report", "page")
    by_name = {one["name"]: one for one in told["metrics"]}
    assert by_name["none"]["value"] is None
    assert by_name["chrf"]["value"] is not None
    assert told["p_values"] == [[None, None], [None, None]]
    assert told["left_out"]["rows"] == 0
    assert any("none (it has no score for any text" in one for one in told["remarks"])
    ended = run("evaluate", *none)
    assert "none has no score (nan) for 5 of 5 segments." in ended.err
    assert "rated · score: Expected a score of none for some text, but got nan for all" in ended.complaint()
    ended = run("evaluate", *none, "--model", "never-loaded", "--against", "none")
    assert "got 'none' with nan for every text" in ended.complaint()


@SIGNALS
def test_the_scores_so_far_are_kept(run, write, tiny_encoder, tmp_path, monkeypatch, sent, code):
    """The first windows of both metrics are kept; no later run takes their file away."""
    data = write("some.tsv", ["hypothesis\treference\tscore", *(f"a {one}\tb {one}\t{one}" for one in range(4))])
    models = ("--model", "twmd", "--model", "bertscore-f1", "--encoder", tiny_encoder)
    command = ("evaluate", "--data", data, *models, "--samples", 20, "--output", "o.tsv")
    monkeypatch.setattr("textmover.scoring.metric_set.WINDOW", 2)
    run(*command).ok()
    whole = (tmp_path / "o.tsv").read_text().splitlines()
    (tmp_path / "o.tsv").unlink()
    score, calls = Scorer.score_fitted, []

    def interrupted(self, *given, **options):
        calls.append(1)
        if len(calls) == 4:
            send(sent)
        return score(self, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "score_fitted", interrupted)
        assert run(*command) == (code, "", "textmover: interrupted: the scores so far are in o.partial.tsv\n")
        assert not (tmp_path / "o.tsv").exists()
    kept = [line.split("\t") for line in (tmp_path / "o.partial.tsv").read_text().splitlines()]
    expected = [line.split("\t") for line in whole]
    assert kept[:3] == expected[:3]
    assert [row[3:] for row in kept[3:]] == [[row[3], "nan"] for row in expected[3:]]
    for more in ((), ("--scores", "old=o.partial.tsv")):
        again = run(*command, *more).complaint()
        assert "o.partial.tsv to be new, but it holds the scores of an interrupted run: rename it and give its" in again
    (tmp_path / "o.partial.tsv").rename(tmp_path / "kept.tsv")
    rest = ("--scores", f"{expected[0][3]}=kept.tsv", *command[5:])  # the second metric alone is scored
    assert run(*command[:3], *rest).ok()
    assert (tmp_path / "o.tsv").read_text().splitlines()[0].split("\t")[3:] == expected[0][:2:-1]
    (tmp_path / "o.tsv").unlink()
    run(*command).ok()
    assert (tmp_path / "o.tsv").read_text().splitlines() == whole
    assert not (tmp_path / "o.partial.tsv").exists()
