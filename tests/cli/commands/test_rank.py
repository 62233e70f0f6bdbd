"""Ranking systems on the command line: what is printed, written and refused."""

import csv
import io
import json

import numpy as np
import pytest

from textmover.meta_evaluation import rank_systems, ranking_agreement

FEW_DRAWS = ["--samples", 60, "--trials", 300]
GAINS = {"A": 0.0, "B": 0.9, "C": 1.0}


def made(groups=("de-en",), size=30, seed=0):
    """Rows of a table: group, system, item, metric's score, human score."""
    rng = np.random.default_rng(seed)
    rows = []
    for group in groups:
        base = rng.normal(size=size)
        rows += [
            (group, name, str(item), round(base[item] + gain + 0.4 * rng.normal(), 4), round(gain + rng.normal(), 4))
            for name, gain in GAINS.items()
            for item in range(size)
        ]
    return rows


def table_of(rows):
    return ["lp,system,seg,metric,human", *(",".join(map(str, row)) for row in rows)]


COLUMNS = ["--system-column", "system", "--item-column", "seg", "--metric-column", "metric"]


@pytest.fixture
def long(write):
    """A table with a row for each output, with scores that are there already."""
    return write("long.csv", table_of(made(("de-en", "zh-en"))))


def test_systems_of_a_wide_table_of_scores(run, write):
    by_system = {name: [row[3] for row in made() if row[1] == name] for name in GAINS}
    rows = zip(*by_system.values(), strict=True)
    table = write("wide.csv", [",".join(by_system), *(",".join(map(str, row)) for row in rows)])
    ended = run("rank", "--scores", table, *FEW_DRAWS).ok()
    lines = ended.out.splitlines()
    assert lines[0].split() == ["system", "rank", "mean", "95", "%", "interval", "wins", "segments"]
    assert [line.split()[:2] for line in lines[1:4]] == [["C", "1"], ["B", "1"], ["A", "2"]]
    assert "Not all systems" not in ended.out
    assert "test:paired-randomisation|samples:300|seed:12345" in ended.err
    assert run("rank", "--scores", table, *FEW_DRAWS, "--quiet").err == ""
    compared = json.loads(run("compare", "--scores", table, *FEW_DRAWS, "--format", "json").out)
    ranked = json.loads(run("rank", "--scores", table, *FEW_DRAWS, "--format", "json").out)["groups"][0]
    for one, other in zip(ranked["systems"], compared["systems"], strict=True):
        assert {key: one[key] for key in ("name", "rank", "mean", "low", "high")} == {
            key: other[key] for key in ("name", "rank", "mean", "low", "high")
        }


def test_groups_people_and_means(run, long):
    given = ["rank", "--data", long, *COLUMNS, "--group", "lp", "--score-column", "human", *FEW_DRAWS]
    found = json.loads(run(*given, "--format", "json").out)
    rows = made(("de-en", "zh-en"))
    keys = [[row[at] for row in rows] for at in (1, 2, 0)]
    tables, people = (rank_systems([row[at] for row in rows], *keys, samples=60, trials=300) for at in (3, 4))
    for group, table, human in zip(found["groups"], tables, people, strict=True):
        assert group["group"] == table.group
        for entry in group["systems"]:
            place = table.systems.index(entry["name"])
            assert entry["mean"] == pytest.approx(table.means[place])
            assert (entry["rank"], entry["segments"]) == (table.ranks[place], 30)
            assert entry["people"]["rank"] == human.ranks[place]
            assert entry["people"]["mean"] == pytest.approx(human.means[place])
        own = [row for row in rows if row[0] == table.group]
        expected = ranking_agreement(*([row[at] for row in own] for at in (3, 4, 1, 2)))
        assert group["agreement"] == pytest.approx(expected)
        assert [pair["shared"] for pair in group["pairs"]] == [30, 30, 30]
    (first, *_) = found["mean"]["systems"]
    assert first["system"] == "C"
    assert first["mean"] == pytest.approx(np.mean([table.means[2] for table in tables]))
    assert found["mean"]["agreement"]["kendall"] == pytest.approx(
        np.mean([group["agreement"]["kendall"] for group in found["groups"]])
    )
    printed = run(*given).out
    assert "mean over 2 groups" in printed
    assert "Means are over 2 groups, of all 3 systems." in printed
    assert printed.count("Agreement with human scores on 3 systems: Pearson") == 2
    assert "Mean agreement with human scores over 2 groups: Pearson" in printed


def test_all_formats_say_the_same(run, long, tmp_path):
    given = ["rank", "--data", long, *COLUMNS, "--group", "lp", "--score-column", "human", *FEW_DRAWS]
    found = json.loads(run(*given, "--format", "json").out)
    rows = list(csv.DictReader(io.StringIO(run(*given, "--format", "csv").out)))
    assert len(rows) == 6
    for row, entry in zip(rows, [one for group in found["groups"] for one in group["systems"]], strict=True):
        assert (row["system"], int(row["rank"]), float(row["mean"])) == (entry["name"], entry["rank"], entry["mean"])
        assert float(row["people"]) == entry["people"]["mean"]
    latex = run(*given, "--output", "table.tex")
    assert (latex.code, latex.out) == (0, "")
    text = (tmp_path / "table.tex").read_text()
    assert text.count(r"\begin{tabular}") == 3
    assert text.isascii()
    page = run(*given, "--output", "page.html")
    assert (page.code, page.out) == (0, "")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("p-values of each two systems") >= 2
    assert f"{found['groups'][0]['systems'][0]['mean']:.4f}" in text


def test_texts_are_scored(run, metric, write):
    texts = {"good": ["the cat sat on a mat", "a dog ran home"], "bad": ["book", "rain"]}
    references = ["the cat sat on the mat", "a dog ran home"]
    for name, lines in {**texts, "ref": references}.items():
        write(f"{name}.txt", lines)
    rows = [f"{name}\t{references[item]}\t{text}" for name, lines in texts.items() for item, text in enumerate(lines)]
    write("long.tsv", ["system\treference\thypothesis", *rows])
    given = ["--hypotheses", "good.txt", "bad.txt", "--references", "ref.txt"]
    one = json.loads(run("rank", *given, *metric, *FEW_DRAWS, "--format", "json").out)
    other = json.loads(
        run("rank", "--data", "long.tsv", "--system-column", "system", *metric, *FEW_DRAWS, "--format", "json").out
    )
    assert [entry["name"] for entry in one["groups"][0]["systems"]] == ["good", "bad"]
    for first, second in zip(one["groups"][0]["systems"], other["groups"][0]["systems"], strict=True):
        assert first["mean"] == pytest.approx(second["mean"], abs=1e-6)
    assert one["signature"].startswith("textmover:")
    assert one["groups"][0]["pairs"][0] == {"systems": ["good", "bad"], "shared": 2, "p_value": None}
    printed = run("rank", *given, *metric, *FEW_DRAWS).out
    assert "a test needs 5 segments with outputs of both systems: 1 pair of systems, good and bad. Give" in printed
    assert [entry["rank"] for entry in one["groups"][0]["systems"]] == [None, None]
    table = run("rank", *given, *metric, *FEW_DRAWS, "--format", "csv").out
    assert [line.split(",")[1:3] for line in table.splitlines()[1:]] == [["good", ""], ["bad", ""]]
    page = run("rank", *given, *metric, *FEW_DRAWS, "--format", "html").out
    assert page.count('<td class="number rank" data-value="">–</td>') == 2
    assert [line.split()[1] for line in printed.splitlines() if line.startswith(("good ", "bad "))] == ["-", "-"]


def test_one_row_for_systems_with_the_same_output(run, write):
    rows = [("x", "A+B", "1", 1.0, 0), ("x", "A", "2", 0.5, 0), ("x", "B", "2", 0.25, 0)]
    write("long.csv", table_of(rows))
    given = ["rank", "--data", "long.csv", *COLUMNS, "--system-separator", "+", *FEW_DRAWS, "--format", "json"]
    (group,) = json.loads(run(*given).out)["groups"]
    found = {one["name"]: (one["mean"], one["segments"]) for one in group["systems"]}
    assert found == {"A": (0.75, 2), "B": (0.625, 2)}


def test_distances_and_the_other_test(run, long):
    given = ["rank", "--data", long, *COLUMNS, "--group", "lp", *FEW_DRAWS, "--lower-is-better", "--test", "bootstrap"]
    ended = run(*given)
    assert ended.out.splitlines()[2].split()[:2] == ["A", "1"]
    assert "Lower scores are better." in ended.out
    assert "test:paired-bootstrap|samples:60|seed:12345" in ended.err


def test_systems_that_were_not_compared_have_no_rank(run, write):
    rows = [(group, system, f"{group}{system}{n}", n, 9 - n) for group in "xy" for system in "AB" for n in range(3)]
    write("apart.csv", table_of(rows))
    out = run("rank", "--data", "apart.csv", *COLUMNS, "--group", "lp", "--score-column", "human", *FEW_DRAWS).out
    ranks = [line.split() for line in out.splitlines() if line[:2] in ("A ", "B ")]
    assert len(ranks) == 6
    assert {one[1] for one in ranks} == {one[-1] for one in ranks} == {"-"}


@pytest.mark.parametrize(
    ("metric", "human", "found"),
    [
        (1, 0, "pairwise accuracy -, soft pairwise accuracy - (the human scores of all systems are equal)."),
        (0, 0, "pairwise accuracy -, soft pairwise accuracy - (the human scores of all systems are equal)."),
        (0, 1, "pairwise accuracy 0.000, soft pairwise accuracy 1.000 (the scores of all systems are equal)."),
    ],
)
def test_agreement_with_equal_scores(run, write, metric, human, found):
    write(
        "long.csv", table_of(("x", name, n, metric * gain, human * gain) for name, gain in GAINS.items() for n in "12")
    )
    given = ["rank", "--data", "long.csv", *COLUMNS, "--group", "lp", "--score-column", "human", *FEW_DRAWS]
    assert f"Agreement with human scores on 3 systems: Pearson -, Kendall -, {found}" in run(*given).ok().out


def test_what_is_not_complete_is_said(run, write):
    rows = [row for row in made(size=40) if (int(row[2]) + ord(row[1])) % 3]
    rows += [("fi-en", "A", "1", 0.5, 0.5)]
    write("long.csv", table_of(rows))
    out = run("rank", "--data", "long.csv", *COLUMNS, "--group", "lp", *FEW_DRAWS).out
    assert "Not all systems have the same segments: means are over those of each, tests over the 13 to 14" in out
    assert "Tests of fewer than 30 segments say little." in out
    assert "Left out, since they hold one system alone: fi-en." in out
