"""Experiments as files: what they may hold, which data they ask for, and what is printed."""

import csv
import io
import json
import re
import shlex

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from tests.cli.shared import ROWS as ALL_ROWS
from tests.cli.shared import table_of

from textmover import Scorer
from textmover.cli.commands.paper_experiment import load_experiment
from textmover.scoring.lexical import lexical_scores
from textmover.types import InputError

EXPERIMENT = """
title: A small experiment
paper: {name: Small, authors: One and Two, year: 2001, where: table 3}
files:
  ratings: {what: a table of ratings, source: nowhere}
sets:
  Ratings: {reader: wmt-da}
baselines: [chrf]
metrics:
  ours: {model: twmd, fields: {temperature: 0.05}}
  by-group:
    model: twmd
    by_group:
      - {groups: "fi-*", fields: {temperature: 0.5}}
notes:
  - The paper took other texts.
tables:
  - title: Table 3
    sets: Ratings
    groups: [de-en, fi-en, mean]
    scale: 100
    n: ["5", "5", "10"]
    rows:
      - name: Their metric
        metric: ours
        published:
          - {encoder: a-large, values: [51.0, null, 62.5]}
          - {encoder: b-large, values: [41.0, 42.0, 41.5]}
      - name: Divided
        metric: by-group
      - name: Overlap
        metric: chrf
        published:
          - {encoder: "-", values: [10.1, 20.2, 15.2]}
      - name: Theirs alone
        unavailable: not built
        published:
          - {encoder: "-", values: [1, 2, 1.5]}
"""

PRINTED = ("[51.0, null, 62.5]", "[41.0, 42.0, 41.5]", "[10.1, 20.2, 15.2]", "[1, 2, 1.5]")

ROWS = [*ALL_ROWS[:4], ("de-en", *ALL_ROWS[8][1:3], 0.2), *ALL_ROWS[4:8], ("fi-en", *ALL_ROWS[9][1:])]
HUMAN = np.array([row[3] for row in ROWS])
GROUPS = {"de-en": slice(0, 5), "fi-en": slice(5, 10)}


@pytest.fixture
def ratings(write):
    return write("ratings.tsv", table_of(ROWS))


@pytest.fixture
def experiment(write):
    """Writes an experiment, after replacing some of its text."""

    def experiment(*changes, text=EXPERIMENT):
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        return write("experiment.yaml", [text])

    return experiment


@pytest.fixture
def told(run, ratings, experiment, tiny_encoder):
    """Run the experiment; its JSON, and what has no value at the end."""

    def told(path=None, *options, lacking=None, data=ratings):
        command = ("evaluate", "--experiment", path or experiment(), "--data", data, "--encoder", tiny_encoder)
        ended = run(*command, "--samples", 20, "--format", "json", *options)
        if lacking is None:
            assert ended.code == 0
            assert re.fullmatch(r"(Written: .*Ratings\.tsv.*\n)?", ended.err), ended.err
        else:
            assert ended.code == 2
            assert f"but got none for {lacking}: the reasons stand under the tables" in ended.err
        return json.loads(ended.out)

    return told


def scores(tiny_encoder, rows=ROWS, **fields):
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), **fields)
    return scorer.score([row[1] for row in rows], [row[2] for row in rows]).scores


def agreed(computed, group):
    return pytest.approx(pearsonr(computed[GROUPS[group]], HUMAN[GROUPS[group]]).statistic, abs=1e-6)


def values(told, row, origin="here"):
    records = [one for table in told["tables"] for one in table["records"]]
    return {one["group"]: one["value"] for one in records if (one["row"], one["from"]) == (row, origin)}


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_values_are_correlations_with_the_fields_of_each_row_and_group(told, tiny_encoder):
    found = told()
    computed = scores(tiny_encoder, temperature=0.05)
    expected = {name: pearsonr(computed[rows], HUMAN[rows]).statistic for name, rows in GROUPS.items()}
    expected["mean"] = np.mean(list(expected.values()))
    assert values(found, "Their metric") == pytest.approx(expected, abs=1e-6)
    divided = values(found, "Divided")
    for name, temperature in (("de-en", 0.02), ("fi-en", 0.5)):
        computed = scores(tiny_encoder, ROWS[GROUPS[name]], temperature=temperature)
        assert divided[name] == pytest.approx(pearsonr(computed, HUMAN[GROUPS[name]]).statistic, abs=1e-6)
    other = scores(tiny_encoder, ROWS[GROUPS["fi-en"]], temperature=0.02)
    assert abs(divided["fi-en"] - pearsonr(other, HUMAN[GROUPS["fi-en"]]).statistic) > 1e-3  # the pattern matters
    first, second = next(one for one in found["tables"][0]["records"] if one["row"] == "Divided")["signature"].split(
        "; "
    )
    assert "T:0.02" in first
    assert first.endswith("(de-en)")
    assert "T:0.5" in second
    assert second.endswith("(fi-en)")
    chrf = lexical_scores("chrf", [row[1] for row in ROWS], [[row[2]] for row in ROWS]).scores
    assert values(found, "Overlap")["de-en"] == agreed(chrf, "de-en")


def test_idf_weights_can_be_those_of_each_group(told, experiment, tiny_encoder):
    change = ("model: twmd, fields: {temperature: 0.05}", "model: bertscore-f1-idf")
    whole = values(told(experiment(change)), "Their metric")
    apart = told(experiment(change, ("baselines:", "idf_by_group: true\nbaselines:")))
    for name, rows in GROUPS.items():
        scorer = Scorer.from_pretrained("bertscore-f1-idf", encoder=str(tiny_encoder))
        one = scorer.score([row[1] for row in ROWS[rows]], [row[2] for row in ROWS[rows]]).scores
        expected = pearsonr(one, HUMAN[rows]).statistic
        assert values(apart, "Their metric")[name] == pytest.approx(expected, abs=1e-6)
        assert abs(whole[name] - expected) > 1e-6
    signature = next(one["signature"] for one in apart["tables"][0]["records"] if one["metric"] == "ours")
    assert "weights:idf-smooth:references@each group" in signature


@pytest.mark.parametrize("own", [False, True])
def test_a_mean_is_fitted_on_the_texts_of_the_set_or_on_the_users(told, experiment, write, tiny_encoder, own):
    corpus = ["it is a good day", "old trees"] * 50 if own else [row[side] for side in (1, 2) for row in ROWS]
    options = ("--fit-on", write("texts.txt", corpus)) if own else ()
    found = told(experiment(("model: twmd, fields: {temperature: 0.05}", "model: twmd-b")), *options)
    scorer = Scorer.from_pretrained("twmd-b", encoder=str(tiny_encoder)).fit(corpus)
    computed = scorer.score([row[1] for row in ROWS], [row[2] for row in ROWS]).scores
    assert values(found, "Their metric")["fi-en"] == agreed(computed, "fi-en")
    remarks = found["tables"][0]["remarks"]
    assert any(one.startswith("Statistics (means, idf) fitted on the texts") for one in remarks) is not own


def test_several_statistics_stand_in_tables_of_their_own(told, experiment, tiny_encoder):
    change = ("    scale: 100\n", "    scale: 100\n    statistics: [spearman, pearson]\n")
    found = told(experiment(change, *((one, "[1, 2, 3, 4, 5, 6]") for one in PRINTED)))
    assert [one["title"] for one in found["tables"]] == ["Table 3: Spearman's ρ", "Table 3: Pearson's r"]
    first, second = (
        [one["value"] for one in table["records"] if one["from"] == "paper" and one["encoder"] == "a-large"]
        for table in found["tables"]
    )
    assert (first, second) == ([0.01, 0.03, 0.05], [0.02, 0.04, 0.06])  # of each group first ρ, then r
    computed = scores(tiny_encoder, temperature=0.05)[GROUPS["de-en"]]
    ours = [one["value"] for one in found["tables"][0]["records"] if one["metric"] == "ours"]
    assert ours[0] == pytest.approx(spearmanr(computed, HUMAN[GROUPS["de-en"]]).statistic, abs=1e-6)


# --- pages ------------------------------------------------------------------------------------------------------------


def test_markdown_has_the_published_line_above_ours(run, ratings, experiment, tiny_encoder, tmp_path):
    command = ("evaluate", "--experiment", experiment(), "--data", ratings, "--encoder", tiny_encoder)
    ended = run(*command, "--samples", 20, "--format", "markdown", "--output", "page.md").silent()
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == ended.out
    lines = ended.out.splitlines()
    assert lines[0] == "# A small experiment"
    assert "Published: One and Two 2001 (Small), table 3." in lines
    assert "* The paper took other texts." in lines
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert table[0] == ["metric", "from", "encoder", "de-en", "fi-en", "mean", "95 % interval"]
    assert table[2] == ["Their metric", "paper", "a-large", "0.510", "-", "0.625", ""]
    assert table[3] == ["Their metric", "paper", "b-large", "0.410", "0.420", "0.415", ""]
    computed = scores(tiny_encoder, temperature=0.05)
    ours = [pearsonr(computed[rows], HUMAN[rows]).statistic for rows in GROUPS.values()]
    assert table[4][:3] == ["Their metric", "here", "tiny, layer 3"]
    assert table[4][3:6] == [f"{one:.3f}" for one in (*ours, np.mean(ours))]
    low, high = (float(end) for end in table[4][6].split(" to "))
    assert low < np.mean(ours) < high
    assert table[-3][:2] == ["Theirs alone", "paper"]
    assert table[-2] == ["n", "paper", "", "5", "5", "10", ""]
    assert table[-1] == ["n", "here", "", "5", "5", "10", ""]
    assert "* Published only: Theirs alone (not built)." in lines
    assert any(line.startswith("* Their metric: `textmover:") and "T:0.05" in line for line in lines)
    command_line = f"python evaluate.py --experiment {tmp_path / 'experiment.yaml'} --data ratings.tsv --samples 20"
    assert f"{command_line} --encoder tiny --output page.md" in lines


def test_csv_json_and_the_terminal_show_the_same(run, told, ratings, experiment, tiny_encoder, tmp_path):
    command = ("evaluate", "--experiment", experiment(), "--data", ratings, "--encoder", tiny_encoder, "--samples", 20)
    rows = list(csv.DictReader(io.StringIO(run(*command, "--format", "csv", "--output", "a.csv").out)))
    records = told()["tables"][0]["records"]
    assert len(rows) == len(records) == 7 * 3
    for row, record in zip(rows, records, strict=True):
        assert row == {key: "" if value is None else str(value) for key, value in record.items()}
    assert (tmp_path / "a.csv").read_text().startswith("table,row,from,metric,")
    lines = run(*command, "--output", "b.json").out.splitlines()
    assert json.loads((tmp_path / "b.json").read_text())["title"] == "A small experiment"
    shown = [line.split() for line in lines if line.startswith("Their metric ")]
    assert [one[2:4] for one in shown] == [["paper", "a-large"], ["paper", "b-large"], ["here", "tiny,"]]
    quiet = run(*command, "--quiet").out
    assert "textmover:" not in quiet
    assert "Their metric" in quiet


def test_groups_that_are_not_in_the_data_and_those_that_are_not_shown(told, experiment):
    found = told(experiment(("[de-en, fi-en, mean]", "[de-en, xx-en, mean]")))
    assert values(found, "Their metric")["xx-en"] is None
    remarks = found["tables"][0]["remarks"]
    assert "Not in the data of Ratings: xx-en." in remarks
    assert "The mean of Ratings includes what the table does not name: fi-en." in remarks


def test_a_metric_that_the_encoder_cannot_give_is_named(told, experiment):
    change = ("model: twmd, fields: {temperature: 0.05}", "model: twmd, fields: {layer: 7}")
    found = told(experiment(change), lacking="Their metric")
    assert values(found, "Their metric") == {}
    assert values(found, "Their metric", "paper") != {}
    said = next(one for one in found["tables"][0]["remarks"] if one.startswith("Not computed: Their metric."))
    assert "Expected `--layer` to be between 0 and 3" in said


FIGURE = """
figures:
  - title: Figure 1
    name: heat
    set: Ratings
    field: temperature
    values: [0.02, 0.5]
    lines:
      - {name: A, model: twmd}
      - {name: B, model: trwmd, fields: {normalize: false}}
"""


def test_a_figure_is_drawn_beside_its_page_and_its_points_are_correlations(told, experiment, tiny_encoder, tmp_path):
    found = told(experiment(text=EXPERIMENT.split("tables:")[0] + FIGURE), "--output", "page.md")
    assert (tmp_path / "page_heat.png").read_bytes().startswith(b"\x89PNG")
    assert "![Figure 1](page_heat.png)" in (tmp_path / "page.md").read_text()
    records = found["tables"][0]["records"]
    assert [(one["row"], one["temperature"]) for one in records] == [("A", 0.02), ("A", 0.5), ("B", 0.02), ("B", 0.5)]
    for one, model, fields in ((records[1], "twmd", {}), (records[2], "trwmd", {"normalize": False})):
        scorer = Scorer.from_pretrained(model, encoder=str(tiny_encoder), temperature=one["temperature"], **fields)
        computed = scorer.score([row[1] for row in ROWS], [row[2] for row in ROWS]).scores
        expected = np.mean([pearsonr(computed[rows], HUMAN[rows]).statistic for rows in GROUPS.values()])
        assert one["value"] == pytest.approx(expected, abs=1e-6)
        assert one["n"] == 10


# --- data -------------------------------------------------------------------------------------------------------------

TWO_FILES = (
    (
        "  ratings: {what: a table of ratings, source: nowhere}",
        "  one: {what: ones, source: here}\n  two: {what: twos, source: there}",
    ),
    (
        "  Ratings: {reader: wmt-da}",
        "  Ratings: {reader: wmt-da, files: {path: one}}\n  More: {reader: wmt-da, files: {path: two}}",
    ),
    ("sets: Ratings\n    groups: [de-en, fi-en, mean]", "sets: [Ratings, More]\n    groups: mean"),
    ('n: ["5", "5", "10"]', 'n: ["10", "10"]'),
    *((values, f"{values.rpartition(',')[0]}]") for values in PRINTED),
)


def test_without_data_it_says_what_is_needed_and_where_from(refused, experiment):
    said = refused("evaluate", "--experiment", experiment())
    assert said == (
        "textmover: Expected the data of A small experiment, but got none: give --data FILE, where FILE is a table of "
        "ratings (from nowhere).\n"
    )


def test_a_set_that_was_not_given_is_marked(run, experiment, ratings, tiny_encoder):
    path = experiment(*TWO_FILES)
    command = ("evaluate", "--experiment", path, "--data", f"one={ratings}", "--encoder", tiny_encoder)
    ended = run(*command, "--samples", 20, "--format", "json").ok()
    told = json.loads(ended.out)
    ours = {one["set"]: one["value"] for one in told["tables"][0]["records"] if one["metric"] == "ours"}
    assert ours["Ratings"] is not None
    assert ours["More"] is None
    said = "More: not run: data absent; give --data two=PLACE, where two is twos (from there)."
    assert said in told["tables"][0]["remarks"]
    assert told["command"].endswith("--data one=ratings.tsv --samples 20 --encoder tiny")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "give --data one=PLACE two=PLACE, where one is ones (from here); two is twos (from there)"),
        (["{file}"], "Expected --data KEY=FILE with a key of one, two, but got"),
        (["three={file}"], "Expected --data KEY=FILE with a key of one, two, but got the key 'three'"),
        (["one={file}", "one={file}"], "but got one twice"),
        (["one=nowhere.tsv"], "Expected one of --data at nowhere.tsv, but there is no such file"),
    ],
)
def test_data_that_cannot_be_used(refused, experiment, ratings, data, said):
    given = [one.format(file=ratings) for one in data]
    assert said in refused("evaluate", "--experiment", experiment(*TWO_FILES), *(["--data", *given] if given else []))


def test_a_set_with_half_of_its_files(refused, experiment, ratings):
    text = EXPERIMENT.split("baselines:")[0].replace(
        "  ratings: {what: a table of ratings, source: nowhere}",
        "  preferences: {what: preferences, source: a}\n  texts: {what: texts, source: b}",
    ).replace("{reader: wmt-da}", "{reader: darr, files: {preferences: preferences, texts: texts}}")  # fmt: skip
    text += "tables:\n  - {title: T, sets: Ratings, statistics: darr, rows: [{name: a, unavailable: why}]}\n"
    said = refused("evaluate", "--experiment", experiment(text=text), "--data", f"preferences={ratings}")
    assert "Expected all files of Ratings, but some are missing: give --data texts=PLACE, where texts is texts" in said


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--model", "twmd"], "but got --model as well"),
        (["--set", "wmt-da"], "but got --set as well"),
        (["--baselines", "chrf"], "but got --baselines as well"),
        (["--format", "latex"], "Expected --format of an experiment to be table, markdown, csv, json"),
        (["--samples", "0"], "Expected --samples to be at least 20"),
        (["--output", "page.txt"], "Expected --output of an experiment to end in .md, .csv, .json"),
        (["--precision", "auto"], "Expected `--precision` to be exact, fast or int8"),
    ],
)
def test_options_that_an_experiment_decides(refused, experiment, ratings, option, said):
    assert said in refused("evaluate", "--experiment", experiment(), "--data", ratings, *option)


def test_a_field_that_every_metric_sets_is_refused(refused, experiment, ratings):
    path = experiment(("    model: twmd\n", "    model: twmd\n    fields: {temperature: 0.1}\n"))
    said = refused("evaluate", "--experiment", path, "--data", ratings, "--temperature", "0.2")
    assert "to leave --temperature open, but it sets `temperature` for every metric" in said


def test_a_field_that_is_open_can_be_set(told):
    signatures = {one["metric"]: one["signature"] for one in told(None, "--temperature", "0.3")["tables"][0]["records"]}
    assert "T:0.05|" in signatures["ours"]
    assert "T:0.3|" in signatures["by-group"].split("; ")[0]


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_has_every_option_that_changes_a_number(told, write, tmp_path):
    write("texts.txt", ["it is a good day", "old trees"])
    changed = {"--seed": 3, "--fit-on": tmp_path / "texts.txt", "--device": "cpu", "--backend": "torch"}
    changed |= {"--batch-tokens": 64, "--temperature": 0.3, "--output": "page.md"}
    options = [part for pair in changed.items() for part in pair]
    words = shlex.split(told(None, *options, "--no-cache", "--quiet", "--precision", "exact")["command"])
    assert words[:2] == ["python", "evaluate.py"]
    experiment = {"--experiment": tmp_path / "experiment.yaml", "--data": "ratings.tsv"}
    expected = {**experiment, "--samples": 20, **changed, "--fit-on": "texts.txt", "--encoder": "tiny"}
    for flag, value in expected.items():
        assert words[words.index(flag) + 1] == str(value)
    assert "--no-cache" in words
    assert len(words) == 2 + 2 * len(expected) + 1  # neither what has its default nor --quiet and --format


def test_files_of_statistics_stand_there_one_by_one(run, told, experiment, write, tiny_encoder):
    texts = write("texts.txt", ["it is a good day", "old trees"])
    run("fit-mean", "--data", texts, "--model", "twmd-b", "--encoder", tiny_encoder, "--output", "mean.safetensors")
    path = experiment(("model: twmd, fields: {temperature: 0.05}", "model: twmd-b"))
    assert "--statistics mean.safetensors --encoder tiny" in told(path, "--statistics", "mean.safetensors")["command"]


OVER = {"de-en fi-en": "", "de-en": "1 of 2", "de-en xx-en": "1 of 2, 1 more", "de-en fi-en xx-en": "2 of 2, 1 more"}


@pytest.mark.parametrize(("groups", "over"), OVER.items())
@pytest.mark.parametrize("named", [False, True], ids=["columns", "mean_of"])
def test_a_mean_over_other_groups_than_the_published_is_marked_in_its_cell(
    told, experiment, write, tmp_path, groups, over, named
):
    """Groups of a published mean can be named without columns."""
    lines = ["\t".join(map(str, (group, *row[1:]))) for group in groups.split() for row in ROWS[:5]]
    data = write("others.tsv", ["lp\thypothesis\treference\tscore", *lines])
    alone = [("groups: [de-en, fi-en, mean]", "mean_of: [de-en, fi-en]"), ('n: ["5", "5", "10"]', 'n: "10"')]
    path = experiment(*alone, *((one, "[1]") for one in PRINTED)) if named else experiment()
    found = told(path, "--output", "page.md", data=data)
    record = next(one for one in found["tables"][0]["records"] if (one["from"], one["group"]) == ("here", "mean"))
    assert record["mean_over"] == over
    page = (tmp_path / "page.md").read_text(encoding="utf-8").splitlines()
    cells = [cell.strip() for cell in next(line for line in page if " | here | " in line).strip("|").split("|")]
    assert cells[-2] == f"{record['value']:.3f}" + (f" ({over})" if over else "")  # the interval is last


# --- files that are no experiments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("title: A small", "titel: A small")], "but got 'titel': did you mean 'title'?"),
        ([("title: A small experiment\n", "")], "to have the key 'title', but it has not: add it."),
        ([("year: 2001", "year: long ago")], "Expected `paper.year` of {file} to be a whole number, but got 'long"),
        ([("year: 2001", "year: true")], "Expected `paper.year` of {file} to be a whole number, but got true"),
        ([("title: Table 3", "title: 3")], "Expected `tables.0.title` of {file} to be text, but got 3: put it in quot"),
        ([("scale: 100", "scale: much")], "Expected `tables.0.scale` of {file} to be a number, but got 'much'"),
        ([("reader: wmt-da", "reader: wmt-dd")], "Expected a built-in description"),
        ([("reader: wmt-da", "reader: darr")], "to name preferences and texts, which darr reads, but got none"),
        ([("reader: wmt-da", "reader: wmt-da, options: {grup: lp}")], "but got 'grup': remove it."),
        ([("baselines: [chrf]", "baselines: [bleu]")], "Expected `baselines` of {file} to be one of sentbleu, chrf,"),
        ([("  ours: {", "  chrf: {")], "to have other names than the baselines, but got 'chrf'"),
        ([("model: twmd, fields", "model: twd, fields")], "`metrics.ours` of {file}: Expected a checkpoint folder"),
        ([("{temperature: 0.05}", "{temprature: 1}")], "did you mean `temperature`?"),
        ([("{temperature: 0.5}", "{temperature: hot}")], "`metrics.by-group` of {file}: Expected `temperature` to be"),
        ([("metric: ours", "metric: theirs")], "Expected `tables.0.rows.0.metric` of {file} to be one of ours, by-gr"),
        ([("metric: ours", "metric: ours\n        unavailable: why")], "to have `metric` or else `unavailable`"),
        ([("        unavailable: not built\n", "")], "to have `metric` or else `unavailable`, but got neither"),
        ([("[51.0, null, 62.5]", "[51.0, 62.5]")], "to hold 3 values, one for each column, but got 2"),
        ([('n: ["5", "5", "10"]', 'n: ["5"]')], "to hold 3 values, one for each set and group, but got 1"),
        ([("sets: Ratings", "sets: Judgements")], "Expected `tables.0.sets` of {file} to be one of Ratings"),
        ([("scale: 100", "statistics: cosine")], "`tables.0` of {file}: Expected the statistic to be pearson"),
        ([("scale: 100", "level: per-item\n    statistics: darr")], "Expected the level of darr to be"),
    ],
    ids=lambda value: value[0][1].strip()[:30] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_file_that_is_no_experiment(experiment, changes, said):
    path = experiment(*changes)
    with pytest.raises(InputError) as raised:
        load_experiment(path)
    assert said.replace("{file}", str(path)) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a list", "to be keys with values, but got a list"),
        ("title: [", "to be YAML, but got"),
        (EXPERIMENT.partition("sets:")[0], "tables, figures"),
    ],
)
def test_other_files(refused, experiment, ratings, text, said):
    assert said in refused("evaluate", "--experiment", experiment(text=text), "--data", ratings)


def test_a_description_beside_the_experiment_and_its_changes(told, experiment, write):
    write("mine.yaml", ["groups: lp", "ratings: {score: score}"])
    found = told(experiment(("reader: wmt-da", "reader: mine.yaml, options: {lower_is_better: score}")))
    plain = told(experiment())
    for group, value in values(found, "Their metric").items():
        assert value == pytest.approx(-values(plain, "Their metric")[group], abs=1e-12)


def test_a_dimension_that_the_set_does_not_have(refused, experiment, ratings, tiny_encoder):
    path = experiment(("sets: Ratings", "sets: Ratings\n    dimensions: fluency"))
    command = ("evaluate", "--experiment", path, "--data", ratings, "--encoder", tiny_encoder)
    assert "names for Ratings to be among score, but got 'fluency'" in refused(*command)
