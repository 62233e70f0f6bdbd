"""The picture of gains and costs of training is drawn from the table of rungs; its runs on WMT17 are in the list."""

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def chart(load_script):
    return load_script("benchmarks/frontier_chart.py")


def test_tables_are_read_with_means_alone(chart):
    text = (
        "section,rung,WMT15-16 held back,STS-B dev,SICK trial,SFREST,Kendall WMT15-16\n"
        'One,"a, then b",.779 (.777-.782),.785,.775,.209,\n'
    )
    assert chart.tables(text) == {"One": {"a, then b": (0.779, 0.785, 0.775, 0.209)}}


def test_it_draws_the_table(chart, tmp_path):
    found = chart.tables((RESULTS / "learning.csv").read_text(encoding="utf-8"))
    assert {chart.SHARES, chart.ALONE, chart.STAGES, chart.OPTIONS} <= set(found)
    chart.draw(found, tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 20_000


def test_runs_on_wmt17_are_those_of_the_list_of_all():
    """Each run of the table by language pair is in the list of all runs."""
    columns = ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en")
    with (RESULTS / "wmt17_runs.csv").open(encoding="utf-8") as stream:
        runs = [one for one in csv.DictReader(stream) if one["mean_kendall"]]
    known = [[float(one[key]) for key in ("mean_pearson", *columns, "mean_kendall")] for one in runs]
    with (RESULTS / "learning_wmt17.csv").open(encoding="utf-8") as stream:
        rows = [one for one in csv.DictReader(stream) if "±" not in one["mean"]]
    told = [[float(one[key]) for key in ("mean", *columns, "Kendall")] for one in rows]
    assert len(told) >= 9
    for values in told:  # a run's figures have four digits, those of the table three
        assert any(all(abs(a - b) < 0.00056 for a, b in zip(values, run, strict=True)) for run in known), values
