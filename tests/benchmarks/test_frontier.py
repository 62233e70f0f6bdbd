"""The table of agreement and speed holds every metric; README and the picture show what it says."""

import csv
import re
from pathlib import Path

import pytest

from textmover.checkpoints.hub import released_metrics
from textmover.presets import PRESETS, measured

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows(script):
    return list(csv.DictReader(script.TABLE.read_text(encoding="utf-8").splitlines()))


def test_every_metric_is_measured(script, rows):
    assert {row["metric"] for row in rows} == {*PRESETS, *released_metrics(), *script.PEERS}
    for row in rows:
        values = [float(value) for name, value in row.items() if name not in ("metric", "agreement") and value]
        sets = [value for value in values if value < 1][:6]
        assert abs(sum(sets) / 6 - float(row["agreement"])) < 0.001, row["metric"]
        speed = {name: float(value) for name, value in row.items() if name.startswith("pairs/s") and value}
        assert {script.column("exact", cores) for cores in script.CORES} <= set(speed)
        known = {"agreement": float(row["agreement"]), "pairs_per_second": speed[script.column("exact", 2)]}
        assert measured()[row["metric"]] == known


def test_the_readme_says_what_the_table_says(rows):
    known = {row["metric"]: row for row in rows}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| ([^|]+) \| [*]*(\.\d{3})[^|]+ \| (\.\d{3}) \| ([\d,]+) \|$", text, re.MULTILINE)
    assert len(table) >= 8
    for name, pearson, agreement, speed in table:
        row = known[re.findall(r"[\w-]+", name)[0]]
        found = [f"0{pearson}", f"0{agreement}", speed.replace(",", "")]
        assert found == [row[key] for key in ("WMT17", "agreement", "pairs/s, exact, 2 cores")], name


def test_it_draws(script, rows, tmp_path):
    script.draw(rows, tmp_path / "frontier.png", "A title")
    assert (tmp_path / "frontier.png").stat().st_size > 20_000


def test_rows_that_are_not_measured_again_stay(script, rows):
    [kept] = [row for row in rows if row["metric"] == "twmd"]
    changed = script.merged({"wmd": {"WMT17": 0.5, "STS-B test": 0.7}}, {"wmd": {script.column("exact", 2): 12.4}})
    found = {row["metric"]: row for row in changed}
    assert found["twmd"] == kept
    assert (found["wmd"]["agreement"], found["wmd"][script.column("exact", 2)]) == ("0.600", "12")
    assert [row["agreement"] for row in changed] == sorted((row["agreement"] for row in changed), reverse=True)


def test_runs_on_wmt17_are_those_of_the_list_of_all():
    """Each run of the table by language pair is in the list of all runs."""
    columns = ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en")
    results = ROOT / "docs" / "results"
    runs, rows = (
        csv.DictReader((results / name).read_text(encoding="utf-8").splitlines())
        for name in ("wmt17_runs.csv", "learning_wmt17.csv")
    )
    keys = ("mean_pearson", *columns, "mean_kendall")
    known = [[float(one[key]) for key in keys] for one in runs if one["mean_kendall"]]
    told = [[float(one[key]) for key in ("mean", *columns, "Kendall")] for one in rows if "±" not in one["mean"]]
    assert len(told) >= 9
    for values in told:  # a run's figures have four digits, those of the table three
        assert any(all(abs(a - b) < 0.00056 for a, b in zip(values, run, strict=True)) for run in known), values
