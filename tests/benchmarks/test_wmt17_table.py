"""The table of runs on WMT17 is computed from the list of runs, and the table by language pair has its figures."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script(load_script):
    return load_script("benchmarks/wmt17_table.py")


def test_the_interval_is_that_of_scipy(script):
    values = np.random.default_rng(0).normal(size=(5, 2))
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert script.half_widths(values) == pytest.approx((high - low) / 2)


def test_seeds_of_one_recipe_stand_together_and_others_do_not(script):
    def run(sha256, seed, value, trained_on="ratings"):
        figures = dict.fromkeys(script.COLUMNS, str(value))
        return {
            "configuration": "a.yaml",
            "configuration_sha256": sha256,
            "seed": seed,
            "trained_on": trained_on,
            **figures,
        }

    preset, lacking = run("x", "", 0.9, "no"), run("x", "3", 0.9) | {"mean_kendall": ""}
    lines = list(script.table([preset, lacking, run("x", "1", 0.5), run("y", "1", 0.7004), run("x", "2", 0.7)]))[2:]
    assert [line.split(" | ")[:2] for line in lines] == [
        ["| `a.yaml` x, seed 1", ".500"],
        ["| `a.yaml` x, seed 2", ".700"],
        ["| `a.yaml` x, mean of 2 ± 95 %", ".600 ± 1.271"],
        ["| `a.yaml` y, seed 1", ".700"],
    ]


def test_the_table_by_language_pair_has_the_figures_of_the_list(script):
    with script.RUNS.open(newline="", encoding="utf-8") as stream:
        rows = list(script.table(list(csv.DictReader(stream))))[2:]
    found = {line.split(" | ", 1)[1] for line in rows}
    with (ROOT / "docs" / "results" / "learning_wmt17.csv").open(newline="", encoding="utf-8") as stream:
        told = [row for row in csv.reader(stream) if re.search(r"± 95 %$|, seed \d$", row[0])]
    assert len(told) == 8
    assert [label for label, *cells in told if " | ".join(cells) + " |" not in found] == []
