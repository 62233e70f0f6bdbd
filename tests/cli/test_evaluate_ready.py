"""Scores from files: whose they are, which columns count, and what is refused before anything is scored."""

import json
import re

import numpy as np
import pytest

ROWS = [("de-en", "1", "A", 1.0), ("de-en", "1", "B", 2.5), ("de-en", "2", "A", 0.5), ("de-en", "2", "B", 3.0)]


@pytest.fixture
def described(write):
    """A described set with items and systems."""
    lines = ["lp\tseg_id\tsystem\thypothesis\treference\tscore"]
    lines += [f"{lp}\t{item}\t{system}\tx{item}{system}\ty{item}\t{score}" for lp, item, system, score in ROWS]
    return ("--set", "wmt-da", "--data", write("wmt.tsv", lines))


@pytest.fixture
def sets(write):
    """Two sets of equal size."""
    header = "hypothesis\treference\tscore"
    return [write(f"{name}.tsv", [header, *(f"a{one}\tb{one}\t{one}" for one in range(5))]) for name in ("one", "two")]


def told(ended):
    assert ended.code == 0, ended.err
    return [{one["name"]: one for one in entry["metrics"]} for entry in json.loads(ended.out)["sets"]]


def test_keys_that_are_called_differently(run, refused, described, write):
    lines = ["lp\tseg_id\tsys\tm", *(f"{lp}\t{item}\t{system}\t{score}" for lp, item, system, score in ROWS[::-1])]
    command = ("evaluate", *described, "--scores", write("scores.tsv", lines))
    said = refused(*command)
    assert "in column 'lp' of" in said
    assert "with `--scores NAME,NAME=FILE`, and those of keys with `--score-key ROLE=COLUMN`" in said
    keys = ("--score-key", "item=seg_id", "--score-key", "system=sys", "--score-key", "group=lp")
    (metrics,) = told(run(*command, *keys, "--format", "json"))
    assert metrics["m"]["value"] == pytest.approx(1.0)
    assert "set `--score-key item=COLUMN` to the name" in refused(*command, "--score-key", "item=segment")
    for wrong in ("segment=seg_id", "item", "item="):
        assert "Expected --score-key ROLE=COLUMN with a role of group, item, system" in refused(
            *command, "--score-key", wrong
        )


def test_a_column_that_is_not_there_names_the_flag(refused, described, write):
    path = write("scores.tsv", ["m", "1", "2", "3", "4"])
    assert "set `--scores NAME,NAME=FILE` to the name" in refused("evaluate", *described, "--scores", f"n={path}")
    plain = write("plain.txt", ["1", "2", "3", "4"])
    said = refused("evaluate", *described, "--scores", plain, "--score-key", "item=seg_id")
    assert "Expected `--score-key` with a table of --scores" in said


def test_our_own_output_is_read_back_and_added_to(run, described, tmp_path):
    first = run("evaluate", *described, "--baselines", "chrf", "--format", "json")
    command = ("evaluate", *described, "--baselines", "ter", "--scores", "wmt.scores.tsv", "--format", "json")
    (metrics,) = told(run(*command))
    assert list(metrics) == ["ter", "chrf"]
    assert metrics["chrf"]["value"] == told(first)[0]["chrf"]["value"]
    header = (tmp_path / "wmt.scores.tsv").read_text().splitlines()[0].split("\t")
    assert header == ["item", "system", "hypothesis", "reference", "human_score", "ter", "chrf"]


def test_scores_are_not_replaced_by_fewer(run, refused, described, tmp_path):
    run("evaluate", *described, "--baselines", "chrf", "ter")
    before = (tmp_path / "wmt.scores.tsv").read_text()
    for flags in (["--scores", "chrf=wmt.scores.tsv"], ["--scores", "wmt.scores.tsv", "--output", "wmt.scores.tsv"]):
        said = refused("evaluate", *described, *flags)
        assert "Expected the scores to go to a new file, but got wmt.scores.tsv, which --scores names" in said
    assert (tmp_path / "wmt.scores.tsv").read_text() == before


def test_each_set_has_scores_of_its_own(run, sets, write):
    first, second = write("a.txt", list("12345")), write("b.txt", list("54321"))
    flags = ("--scores", f"one:m={first}", "--scores", f"two:m={second}", "--scores", f"two:{first}")
    ended = run("evaluate", "--data", *sets, *flags, "--format", "json", "--samples", "20")
    one, two = told(ended)
    assert one["m"]["value"] == pytest.approx(1)
    assert two["m"]["value"] == pytest.approx(-1)
    assert (list(one), list(two)) == (["m"], ["m", "a"])
    assert len({metrics["m"]["signature"] for metrics in (one, two)}) == 2


def test_a_folder_holds_the_scores_of_each_set(run, refused, sets, tmp_path):
    run("evaluate", "--data", *sets, "--baselines", "chrf", "ter", "--output", "out", "--samples", "20")
    ended = run("evaluate", "--data", *sets, "--scores", "chrf=out", "--format", "json", "--samples", "20")
    assert [list(metrics) for metrics in told(ended)] == [["chrf"], ["chrf"]]
    (tmp_path / "out" / "two.scores.tsv").unlink()
    said = refused("evaluate", "--data", *sets, "--scores", "out", "--output", "new")
    assert "Expected the scores of two at out/two.scores.tsv, but there is no file" in said


def test_against_has_to_be_there_for_every_set(refused, sets, write):
    scores = write("a.txt", list("12345"))
    flags = ("--scores", f"one:m={scores}", "--baselines", "chrf", "--against", "m")
    assert "one of chrf for two, but got 'm'" in refused("evaluate", "--data", *sets, *flags)


def test_signatures_say_which_values(run, write):
    rows = ["hypothesis\treference\tscore\tmine", *(f"a\tb{one}\t{one}\t{one * one}" for one in range(5))]
    data, table = write("own.tsv", rows), write("table.tsv", ["m\tn", *(f"{one}\t{one * one}" for one in range(5))])
    ended = run("evaluate", "--data", data, "--metric-column", "mine", "--scores", table, "--format", "json")
    (metrics,) = told(ended)
    digests = {}
    for name, file in (("mine", "own.tsv"), ("m", "table.tsv"), ("n", "table.tsv")):
        pattern = rf"scores of a file:{file}\|column:{name}\|sha256:([0-9a-f]{{12}})"
        digests[name] = re.fullmatch(pattern, metrics[name]["signature"])[1]
    assert digests["mine"] == digests["n"] != digests["m"]


def test_the_name_of_a_file_may_hold_what_parts_name_and_file(run, sets, write):
    odd = write("a=b.txt", list("12345"))
    ended = run("evaluate", "--data", sets[0], "--scores", odd, "--format", "json")
    assert np.isclose(told(ended)[0]["a=b"]["value"], 1)
