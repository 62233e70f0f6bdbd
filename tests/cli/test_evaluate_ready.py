"""Scores from files: whose they are, which columns count, and what is refused before anything is scored."""

import re

import numpy as np
import pytest

ROWS = [("de-en", "1", "A", 1.0), ("de-en", "1", "B", 2.5), ("de-en", "2", "A", 0.5), ("de-en", "2", "B", 3.0)]


@pytest.fixture
def described(write):
    lines = ["lp\tseg_id\tsystem\thypothesis\treference\tscore"]
    lines += [f"{lp}\t{item}\t{system}\tx{item}{system}\ty{item}\t{score}" for lp, item, system, score in ROWS]
    return ("--set", "wmt-da", "--data", write("wmt.tsv", lines))


@pytest.fixture
def sets(write):
    """Two sets of equal size."""
    header = "hypothesis\treference\tscore"
    return [write(f"{name}.tsv", [header, *(f"a{one}\tb{one}\t{one}" for one in range(5))]) for name in ("one", "two")]


@pytest.fixture
def metrics(judged):
    return lambda *arguments: [{one["name"]: one for one in entry["metrics"]} for entry in judged(*arguments)]


def test_keys_and_columns_that_are_called_differently(metrics, refused, described, write):
    lines = ["pair\tsegment\tsys\tm", *(f"{lp}\t{item}\t{system}\t{score}" for lp, item, system, score in ROWS[::-1])]
    command = ("evaluate", *described, "--scores", write("scores.tsv", lines))
    said = refused(*command)
    assert "in column 'pair' of" in said
    assert "with `--scores NAME,NAME=FILE`, and those of keys with `--score-key ROLE=COLUMN`" in said
    keys = ("--score-key", "item=segment", "--score-key", "system=sys", "--score-key", "group=pair")
    (found,) = metrics(*command[1:], *keys)
    assert found["m"]["value"] == pytest.approx(1.0)
    assert "set `--score-key item=COLUMN` to the name" in refused(*command, "--score-key", "item=seg_id")
    for wrong in ("segment=seg_id", "item", "item="):
        assert "Expected --score-key ROLE=COLUMN with a role of group, item, system" in refused(
            *command, "--score-key", wrong
        )
    path = write("scores.tsv", ["m", "1", "2", "3", "4"])
    assert "set `--scores NAME,NAME=FILE` to the name" in refused("evaluate", *described, "--scores", f"n={path}")
    plain = write("plain.txt", ["1", "2", "3", "4"])
    said = refused("evaluate", *described, "--scores", plain, "--score-key", "item=seg_id")
    assert "Expected `--score-key` with a table of --scores" in said


def test_our_own_output_is_read_back_and_added_to_but_not_replaced_by_fewer(metrics, refused, described, tmp_path):
    (first,) = metrics(*described, "--baselines", "chrf")
    (found,) = metrics(*described, "--baselines", "ter", "--scores", "wmt.scores.tsv")
    assert list(found) == ["ter", "chrf"]
    assert found["chrf"]["value"] == first["chrf"]["value"]
    before = (tmp_path / "wmt.scores.tsv").read_text()
    header = before.splitlines()[0].split("\t")
    assert header == ["item", "system", "hypothesis", "reference", "human_score", "ter", "chrf"]
    for flags in (["--scores", "chrf=wmt.scores.tsv"], ["--scores", "wmt.scores.tsv", "--output", "wmt.scores.tsv"]):
        said = refused("evaluate", *described, *flags)
        assert "Expected the scores to go to a new file, but got wmt.scores.tsv, which --scores names" in said
    assert (tmp_path / "wmt.scores.tsv").read_text() == before


def test_each_set_has_scores_of_its_own(metrics, refused, sets, write):
    first, second = write("a.txt", list("12345")), write("b.txt", list("54321"))
    flags = ("--scores", f"one:m={first}", "--scores", f"two:m={second}", "--scores", f"two:{first}")
    one, two = metrics("--data", *sets, *flags, "--samples", "20")
    assert one["m"]["value"] == pytest.approx(1)
    assert two["m"]["value"] == pytest.approx(-1)
    assert (list(one), list(two)) == (["m"], ["m", "a"])
    assert one["m"]["signature"] != two["m"]["signature"]
    flags = ("--scores", f"one:m={first}", "--baselines", "chrf", "--against", "m")
    assert "one of chrf for two, but got 'm'" in refused("evaluate", "--data", *sets, *flags)
    odd = write("a=b.txt", list("12345"))
    assert np.isclose(metrics("--data", sets[0], "--scores", odd)[0]["a=b"]["value"], 1)


def test_a_folder_holds_the_scores_of_each_set(run, metrics, refused, sets, tmp_path):
    run("evaluate", "--data", *sets, "--baselines", "chrf", "ter", "--output", "out", "--samples", "20")
    found = metrics("--data", *sets, "--scores", "chrf=out", "--samples", "20")
    assert [list(one) for one in found] == [["chrf"], ["chrf"]]
    (tmp_path / "out" / "two.scores.tsv").unlink()
    said = refused("evaluate", "--data", *sets, "--scores", "out", "--output", "new")
    assert "Expected the scores of two at out/two.scores.tsv, but there is no file" in said


def test_signatures_say_which_values(metrics, write):
    rows = ["hypothesis\treference\tscore\tmine", *(f"a\tb{one}\t{one}\t{one * one}" for one in range(5))]
    data, table = write("own.tsv", rows), write("table.tsv", ["m\tn", *(f"{one}\t{one * one}" for one in range(5))])
    (found,) = metrics("--data", data, "--metric-column", "mine", "--scores", table)
    digests = {}
    for name, file in (("mine", "own.tsv"), ("m", "table.tsv"), ("n", "table.tsv")):
        pattern = rf"scores of a file:{file}\|column:{name}\|sha256:([0-9a-f]{{12}})"
        digests[name] = re.fullmatch(pattern, found[name]["signature"])[1]
    assert digests["mine"] == digests["n"] != digests["m"]


@pytest.mark.parametrize("column", ["seg_id", "item"])
def test_a_column_named_as_in_the_data_is_a_key(metrics, refused, write, column):
    """Scores equal to the ratings, in reverse: r is 1 if rows are matched by id, -1 by position."""
    data = ["seg_id\thypothesis\treference\tscore", *(f"s{one}\ta{one}\tb{one}\t{one}" for one in range(6))]
    command = ("--data", write("data.tsv", data), "--item-column", "seg_id", "--samples", "20", "--scores")
    lines = [f"{column}\tm", *(f"s{one}\t{one}" for one in reversed(range(6)))]
    for given in (write("scores.tsv", lines), f"m={write('scores.tsv', lines)}"):
        (found,) = metrics(*command, given)
        assert list(found) == ["m"]
        assert found["m"]["value"] == pytest.approx(1)
    assert "for every text of data, but got none for 1" in refused("evaluate", *command, write("s.tsv", lines[:-1]))


def test_scores_that_the_description_names_stand_alone_unless_a_model_is_given(metrics, write):
    lines = ["hypothesis\treference\tscore\tbleu", *(f"a{one}\tb{one}\t{one}\t{one * one}" for one in range(6))]
    described = write("set.yaml", ["ratings: score", "references: reference", "scores: {BLEU: bleu}"])
    command = ("--data", write("data.tsv", lines), "--set", described, "--samples", "20")
    (found,) = metrics(*command)
    assert list(found) == ["BLEU"]
    assert found["BLEU"]["value"] == pytest.approx(np.corrcoef(np.arange(6), np.arange(6) ** 2)[0, 1])
    (found,) = metrics(*command, "--baselines", "chrf")
    assert list(found) == ["chrf", "BLEU"]


def test_our_own_output_is_read_back_whatever_breaks_are_in_names(metrics, write, tmp_path):
    import json

    rows = [
        {"lp": lp, "id": item, "system": system, "hypothesis": f"h\n{system}", "reference": "r", "score": item * place}
        for lp in ("a\nb", "c") for item in range(4) for place, system in enumerate(("x\ty", "z\r\nq", "w"))
    ]  # fmt: skip
    data = write("data.jsonl", [json.dumps(row) for row in rows])
    names = ("--group", "lp", "--item-column", "id", "--system-column", "system")
    (first,) = metrics("--data", data, *names, "--metric-column", "score", "--output", "own.tsv", "--samples", "20")
    (found,) = metrics("--data", data, *names, "--scores", "own.tsv", "--output", "new.tsv", "--samples", "20")
    assert found["score"]["value"] == first["score"]["value"] == pytest.approx(1)
