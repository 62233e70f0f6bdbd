"""The command that an experiment prints, and means over other groups than the published ones."""

import json
import shlex

import pytest

EXPERIMENT = """
title: A small experiment
paper: {name: Small, authors: One and Two, year: 2001, where: table 3}
files:
  ratings: {what: a table of ratings, source: nowhere}
sets:
  Ratings: {reader: wmt-da}
metrics:
  ours: {model: twmd-b}
tables:
  - title: Table 3
    sets: Ratings
    groups: [de-en, fi-en, lv-en, mean]
    rows:
      - name: Their metric
        metric: ours
        published:
          - {encoder: a-large, values: [.5, .6, .7, .6]}
"""

TEXTS = [
    ("the cat sat on the street", "a cat sat in the street", 0.1),
    ("a dog", "the dog", 0.3),
    ("many people walk in the rain", "people walk under the rain", 0.5),
    ("she will sing a song", "he can not sing", -0.7),
]


@pytest.fixture
def told(run, write, tiny_encoder):
    """Run the experiment on some groups; its JSON and its table as Markdown."""

    def told(*options, groups=("de-en", "fi-en", "lv-en"), text=EXPERIMENT):
        lines = [f"{group}\t{one}\t{two}\t{rating}" for group in groups for one, two, rating in TEXTS]
        data = write("ratings.tsv", ["lp\thypothesis\treference\tscore", *lines])
        experiment = write("experiment.yaml", [text])
        command = ("evaluate", "--experiment", experiment, "--data", data, "--encoder", tiny_encoder, *options)
        ended = run(*command, "--format", "json", "--output", "page.md").silent()
        return json.loads(ended.out)

    return told


@pytest.fixture
def mean(told, tmp_path):
    """The cell of our mean on the page, and its record."""

    def mean(**options):
        found = told("--samples", 5, **options)
        rows = [
            line for line in (tmp_path / "page.md").read_text(encoding="utf-8").splitlines() if " | here | " in line
        ]
        record = next(one for one in found["tables"][0]["records"] if (one["from"], one["group"]) == ("here", "mean"))
        cells = [cell.strip() for cell in rows[0].strip("|").split("|")]
        return cells[-2], record  # the interval is last

    return mean


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_has_every_option_that_changes_a_number(told, write, tmp_path):
    write("texts.txt", ["it is a good day", "old trees"])
    options = ("--samples", 7, "--seed", 3, "--fit-on", tmp_path / "texts.txt", "--device", "cpu", "--no-cache")
    found = told(*options, "--backend", "torch", "--batch-tokens", 64, "--temperature", 0.3, "--quiet")
    words = shlex.split(found["command"])
    assert words[: words.index("--data") + 2] == [
        "python", "evaluate.py", "--experiment", str(tmp_path / "experiment.yaml"), "--data", "ratings.tsv"
    ]  # fmt: skip
    rest = words[words.index("--data") + 2 :]
    for flag, value in (
        ("--samples", "7"),
        ("--seed", "3"),
        ("--fit-on", "texts.txt"),
        ("--device", "cpu"),
        ("--backend", "torch"),
        ("--batch-tokens", "64"),
        ("--temperature", "0.3"),
        ("--encoder", "tiny"),
        ("--output", "page.md"),
    ):
        assert rest[rest.index(flag) + 1] == value
    assert "--no-cache" in rest
    assert len(rest) == 9 * 2 + 1  # neither what has its default nor --quiet and --format


def test_files_of_statistics_stand_there_one_by_one(run, told, write, tiny_encoder, tmp_path):
    texts = write("texts.txt", ["it is a good day", "old trees"])
    run("fit-mean", "--data", texts, "--model", "twmd-b", "--encoder", tiny_encoder, "--output", "mean.safetensors")
    assert (tmp_path / "mean.safetensors").exists()
    found = told("--samples", 5, "--statistics", tmp_path / "mean.safetensors")
    assert "--samples 5 --statistics mean.safetensors --encoder tiny" in found["command"]


def test_defaults_are_left_out(told):
    assert "--data ratings.tsv --encoder tiny --output page.md" in told("--seed", 0, "--precision", "exact")["command"]


# --- means ------------------------------------------------------------------------------------------------------------


def test_a_mean_over_the_published_groups_stands_alone(mean):
    cell, record = mean()
    assert cell == f"{record['value']:.3f}"
    assert record["mean_over"] == ""


@pytest.mark.parametrize(
    ("groups", "over"),
    [
        (("de-en", "lv-en"), "2 of 3"),
        (("de-en", "lv-en", "xx-en"), "2 of 3, 1 more"),
        (("de-en", "fi-en", "lv-en", "xx-en"), "3 of 3, 1 more"),
    ],
)
def test_a_mean_over_other_groups_is_marked_in_its_cell(mean, groups, over):
    cell, record = mean(groups=groups)
    assert cell == f"{record['value']:.3f} ({over})"
    assert record["mean_over"] == over


def test_groups_of_a_published_mean_can_be_named_without_columns(mean):
    text = EXPERIMENT.replace("groups: [de-en, fi-en, lv-en, mean]", "mean_of: [de-en, fi-en, lv-en]")
    text = text.replace("[.5, .6, .7, .6]", ".6")
    assert mean(text=text)[1]["mean_over"] == ""
    cell, record = mean(text=text, groups=("de-en",))
    assert cell == f"{record['value']:.3f} (1 of 3)"
