"""Pages have the figures of the tables of results that they are taken from."""

import csv
import re
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
COLUMNS = ("mean_pearson", "cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en", "mean_kendall")


def shown(value, digits=3):
    return f"{value:.{digits}f}".removeprefix("0")


def rows_of(name):
    return list(csv.DictReader((RESULTS / name).read_text(encoding="utf-8").splitlines()))


def cells_of(path, heading):
    """Cells of the table of a page whose header has a text, by column, and by the first cell of a row."""
    table = re.search(
        rf"^[^\n]*{re.escape(heading)}.*?(?=\n\n)", (ROOT / path).read_text(encoding="utf-8"), re.M | re.S
    )
    header, _, *rows = [
        [cell.replace("`", "").strip(" *") for cell in line.split("|")[1:-1]] for line in table[0].splitlines()
    ]
    return {name: {row[0]: row[place] for row in rows} for place, name in enumerate(header)}


def test_the_table_by_language_pair_has_the_figures_of_the_list():
    recipes = {}
    for run in rows_of("wmt17_runs.csv"):
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


def test_pages_have_the_figures_of_robustness():
    tables = {}
    for name, prefix in {"robustness.csv": "", "robustness_sfhotel.csv": "SFHOTEL, "}.items():
        rows = [row for row in rows_of(name) if row["degree"] == "all" and row["share"]]
        tables |= {(f"{prefix}{row['metric']}", row["kind"]): shown(float(row["share"]), 2) for row in rows}
    columns = cells_of("docs/results/robustness.md", "| change |")
    told = {
        (metric, change.removesuffix(" (preserves)")): share
        for metric, cells in columns.items()
        if metric not in ("change", "n")
        for change, share in cells.items()
    }
    assert {key: share for key, share in told.items() if tables[key] != share} == {}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    costs = re.search(r"a wrong name costs (\S+) and a wrong number (\S+)", readme).groups()
    assert costs == tuple(tables["textmover-general", kind] for kind in ("entity", "number"))


def test_pages_have_the_figures_of_contrasts():
    tables = {row["metric"]: row for row in rows_of("contrasts.csv")}
    columns = {"name": "entity", "negation": "negate", "opposite": "antonym", "word": "replace"}
    told = cells_of("docs/results/learning_details.md", "| mean | number |")
    for column, cells in told.items():
        if column != "metric":
            del cells["triples"]
            listed = {metric: tables[metric][columns.get(column, column)] for metric in cells}
            assert cells == {metric: value.removeprefix("0") for metric, value in listed.items()}
    page = " ".join((ROOT / "docs/choosing-a-metric.md").read_text(encoding="utf-8").split())
    shares = re.search(r"wrong number in (\d+) %, a wrong name in (\d+) %, two names exchanged in (\d+) %", page)
    general = tables["textmover-general"]
    assert [*map(int, shares.groups())] == [round(100 * float(general[one])) for one in ("number", "entity", "roles")]


def test_rows_of_each_table_have_the_columns_of_its_header():
    tables = {
        path.name: list(csv.reader(path.read_text(encoding="utf-8").splitlines())) for path in RESULTS.glob("*.csv")
    }
    assert [name for name, rows in tables.items() if len({*map(len, rows)}) != 1] == []
