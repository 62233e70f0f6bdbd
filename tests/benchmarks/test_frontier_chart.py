"""The picture of gains and costs of training is drawn from the table of rungs; its runs on WMT17 are in the list."""

import csv
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def test_tables_are_read_with_means_alone(script):
    text = (
        "section,rung,WMT15-16 held back,STS-B dev,SICK trial,SFREST,Kendall WMT15-16\n"
        'One,"a, then b",.779 (.777-.782),.785,.775,.209,\n'
    )
    assert script.tables(text) == {"One": {"a, then b": (0.779, (0.785 + 0.775) / 2, 0.209)}}


def test_it_draws_the_table(script, tmp_path):
    found = script.tables((RESULTS / "learning.csv").read_text(encoding="utf-8"))
    assert {script.SHARES, script.ALONE, script.STAGES, script.OPTIONS} <= set(found)
    script.draw(found, tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 20_000


def test_runs_on_wmt17_are_those_of_the_list_of_all():
    """Each run of the table by language pair is in the list of all runs."""
    columns = ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en")
    runs, rows = (
        csv.DictReader((RESULTS / name).read_text(encoding="utf-8").splitlines())
        for name in ("wmt17_runs.csv", "learning_wmt17.csv")
    )
    keys = ("mean_pearson", *columns, "mean_kendall")
    known = [[float(one[key]) for key in keys] for one in runs if one["mean_kendall"]]
    told = [[float(one[key]) for key in ("mean", *columns, "Kendall")] for one in rows if "±" not in one["mean"]]
    assert len(told) >= 9
    for values in told:  # a run's figures have four digits, those of the table three
        assert any(all(abs(a - b) < 0.00056 for a, b in zip(values, run, strict=True)) for run in known), values
