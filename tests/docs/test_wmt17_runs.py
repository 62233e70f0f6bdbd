"""The table by language pair has the figures of the list of runs on WMT17: seeds, and means with intervals."""

import csv
import re
from pathlib import Path

import numpy as np
from scipy import stats

RESULTS = Path(__file__).parents[2] / "docs" / "results"
COLUMNS = ("mean_pearson", "cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en", "mean_kendall")


def shown(value):
    return f"{value:.3f}".replace("0.", ".", 1)


def test_the_table_by_language_pair_has_the_figures_of_the_list():
    with (RESULTS / "wmt17_runs.csv").open(newline="", encoding="utf-8") as stream:
        runs = list(csv.DictReader(stream))
    recipes = {}
    for run in runs:
        if run["trained_on"] != "no" and all(run[name] for name in COLUMNS):
            key = run["configuration"], run["configuration_sha256"], run["seed"].isdigit()
            recipes.setdefault(key, []).append([float(run[name]) for name in COLUMNS])
    found = {tuple(map(shown, one)) for several in recipes.values() for one in several}
    for values in (np.array(several) for (*_, one_seed), several in recipes.items() if one_seed and len(several) > 1):
        low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)  # Student's t over the seeds
        ends = zip(values.mean(axis=0), (high - low) / 2, strict=True)
        found.add(tuple(f"{shown(mean)} ± {shown(half)}" for mean, half in ends))
    with (RESULTS / "learning_wmt17.csv").open(newline="", encoding="utf-8") as stream:
        told = [row for row in csv.reader(stream) if re.search(r"± 95 %$|, seed \d$", row[0])]
    assert len(told) == 8
    assert [label for label, *cells in told if tuple(cells) not in found] == []


def test_rows_of_each_table_have_the_columns_of_its_header():
    tables = {
        path.name: list(csv.reader(path.read_text(encoding="utf-8").splitlines())) for path in RESULTS.glob("*.csv")
    }
    assert [name for name, rows in tables.items() if len({*map(len, rows)}) != 1] == []
