"""The picture of what training gains and costs shows what the page of results says, and the page what the runs were."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "learning.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def chart(load_script):
    return load_script("benchmarks/frontier_chart.py")


def test_tables_are_read_with_means_alone(chart):
    page = (
        "## One\n\n| rung | WMT15-16 held back | STS-B dev | SICK trial | SFREST |\n|---|---|---|---|---|\n"
        "| `a`, then b | **.779** (.777-.782) | .785 | .775 | .209 |\n\n| other | n |\n|---|---|\n| a | 3 |\n"
    )
    assert chart.tables(page) == {"One": {"a, then b": (0.779, 0.785, 0.775, 0.209)}}


def test_it_draws_the_page(chart, tmp_path):
    found = chart.tables(PAGE)
    assert {chart.SHARES, chart.ALONE, chart.STAGES, chart.OPTIONS} <= set(found)
    chart.draw(found, tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 20_000


def test_runs_on_wmt17_are_told_as_they_are_in_the_list_of_all(chart):
    """Each row of the page's table is a run of the list, with all pairs of languages."""
    rows = re.findall(r"^\| .* \| (\d?\.\d{3}) \| ((?:\.\d{3} \| ){7})(\.\d{3}) \|$", PAGE, re.MULTILINE)
    with (ROOT / "docs" / "results" / "wmt17_runs.csv").open(encoding="utf-8") as stream:
        runs = list(csv.DictReader(stream))
    pairs = ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en")
    known = [
        [float(one[key]) for key in ("mean_pearson", *pairs, "mean_kendall")] for one in runs if one["mean_kendall"]
    ]
    told = [[float(one) for one in (mean, *cells.strip(" |").split(" | "), kendall)] for mean, cells, kendall in rows]
    assert len(told) >= 9
    for values in told:  # a run's figures have four digits, those of the page three
        assert any(all(abs(a - b) < 0.00056 for a, b in zip(values, run, strict=True)) for run in known), values
