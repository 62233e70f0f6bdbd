import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from textmover.data import RatingsDataModule
from textmover.data.split import normalise_reference
from textmover.readers.segments import Columns, read_segments

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "own_ratings"
RECIPE = yaml.safe_load((FOLDER / "recipe.yaml").read_text(encoding="utf-8"))
DATA = RECIPE["data"]["init_args"]
SEGMENTS = read_segments(FOLDER / "ratings.csv", Columns(**DATA["columns"]))


@pytest.fixture(scope="module")
def script(load_script):
    return load_script("examples/own_ratings/make_ratings.py")


def written(script, folder, monkeypatch, *arguments):
    target = folder / "out.csv"
    monkeypatch.setattr(sys, "argv", ["make_ratings.py", "--output", str(target), *arguments])
    script.main()
    return target


def test_the_committed_file_is_what_the_script_writes(script, tmp_path, monkeypatch):
    assert written(script, tmp_path, monkeypatch).read_bytes() == (FOLDER / "ratings.csv").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_the_script_says_what_it_does():
    command = [sys.executable, str(FOLDER / "make_ratings.py"), "--help"]
    assert "--rest" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_200_different_outputs_with_ratings_from_1_to_5():
    assert len(SEGMENTS) == len({(one.hypothesis, one.references) for one in SEGMENTS}) == 200
    assert all(1 <= one.score <= 5 and abs(3 * one.score - round(3 * one.score)) < 0.02 for one in SEGMENTS)
    assert {len(one.references) for one in SEGMENTS} == {1, 2}
    assert all(one.hypothesis not in one.references for one in SEGMENTS)


def test_the_ratings_follow_the_quickstart_s_but_not_exactly():
    with (ROOT / "examples" / "quickstart" / "ratings.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    scores = {(row["reference"], row["hypothesis"]): float(row["score"]) for row in rows}
    pairs = [(one.score, 1 + scores[one.references[0], one.hypothesis] / 25) for one in SEGMENTS]
    differences = [given - expected for given, expected in pairs]
    assert 0.2 < sum(abs(one) for one in differences) / len(differences) < 0.6
    assert max(Counter(given for given, _ in pairs).values()) < len(pairs) / 5


def test_the_rest_shares_no_sentence_with_the_ratings(script, tmp_path, monkeypatch):
    rest = read_segments(written(script, tmp_path, monkeypatch, "--rest"), Columns(**DATA["columns"]))
    assert len(rest) == 100
    assert not {one.references[0] for one in rest} & {one.references[0] for one in SEGMENTS}


def test_another_seed_draws_others(script, tmp_path, monkeypatch):
    other = read_segments(written(script, tmp_path, monkeypatch, "--seed", "2"), Columns(**DATA["columns"]))
    assert len(other) == 200
    assert {one.hypothesis for one in other} != {one.hypothesis for one in SEGMENTS}


def test_the_recipe_holds_back_what_it_says(monkeypatch):
    monkeypatch.chdir(ROOT)
    data = RatingsDataModule(**{**DATA, "columns": Columns(**DATA["columns"])})
    data.setup()
    (held_back,) = data.parts.values()
    said = (FOLDER / "recipe.yaml").read_text(encoding="utf-8")
    assert f"{len(held_back)} of the 200 ratings here" in said
    assert f"with the {len(data.segments)} ratings to train on" in said
    assert f"of {-(-len(data.segments) // DATA['batch_size'])} steps each" in said
    sides = [
        {normalise_reference(text) for one in part for text in one.references} for part in (held_back, data.segments)
    ]
    assert not sides[0] & sides[1]
    assert RECIPE["data"]["init_args"]["notice"].strip()
    monitored = [one for one in RECIPE["trainer"]["callbacks"] if "monitor" in one["init_args"]]
    assert not monitored, "nothing is chosen on a handful of held-back ratings"
