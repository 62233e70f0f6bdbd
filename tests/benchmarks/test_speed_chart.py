"""The speed chart shows what the page of results says, and README says the same."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "scoring_speed.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def chart(load_script):
    return load_script("benchmarks/speed_chart.py")


def test_every_row_is_in_the_page(chart):
    found = chart.rates(PAGE)
    assert set(chart.ROWS) <= set(found)
    base = found["bert-score"][0]
    for row in chart.ROWS:
        rate, ratio = found[row]
        assert abs(rate / base - ratio) < 0.02, row


def test_figures_of_the_readme_are_those_of_the_page(chart):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = {f"{rate:.0f}" for rate, _ in chart.rates(PAGE).values()}
    named = re.findall(r"(\d{3}) pairs/s|and (\d{3}) in bfloat16|makes (\d{3})\b", readme)
    numbers = [number for match in named for number in match if number]
    assert len(numbers) >= 2
    assert set(numbers) <= shown


def test_it_draws(chart, tmp_path):
    chart.draw(chart.rates(PAGE), tmp_path / "speed.png")
    assert (tmp_path / "speed.png").stat().st_size > 10_000
