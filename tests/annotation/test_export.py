"""The export: numbers by hand, a table that training reads, and a recipe that stands for itself."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

from textmover.annotation import criterion_agreement, export_ratings, open_project
from textmover.data import RatingsDataModule
from textmover.meta_evaluation import krippendorff_alpha
from textmover.readers.segments import Columns, read_segments
from textmover.types import InputError


def table(found):
    with found.table.open(encoding="utf-8", newline="") as stream:
        return {row["id"]: row for row in csv.DictReader(stream)}


def test_means_by_hand(project, rate_all):
    rate_all(project, "Ada", {0: (1, 2, 3), 1: 3})
    rate_all(project, "Bob", {0: (3, 2, 2)})
    project.rate("Bob", "i1", "fluency", 1)  # begun: does not count yet
    project.rate("Bob", "i2", "fluency", 1)
    found = export_ratings(project)
    rows = table(found)
    assert list(rows) == ["i0", "i1"]
    first = rows["i0"]
    assert (first["hypothesis"], first["reference"], first["system"]) == ("text 0", "reference 0", "a")
    names = ("fluency", "semantic_correctness", "grammatical_correctness", "score", "annotators")
    assert [float(first[name]) for name in names] == pytest.approx([2, 2, 2.5, 6.5 / 3, 2], abs=1e-5)
    assert [float(rows["i1"][name]) for name in names] == [3, 3, 3, 3, 1]
    assert (found.rows, found.annotators, found.incomplete) == (2, ("Ada", "Bob"), 1)


def test_single_ratings_with_comments(project, rate_all):
    rate_all(project, "Ada", {0: (1, 2, 3)})
    project.comment("Ada", "i1", 'odd, "quoted"\nand broken')
    project.comment("Bob", "i0", "=cmd|' /C calc'!A0")
    project.rate("Bob", "i0", "fluency", 3)
    with export_ratings(project).single.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    names = ("fluency", "semantic_correctness", "grammatical_correctness", "comment")
    assert [(row["id"], row["annotator"], *(row[name] for name in names)) for row in rows] == [
        ("i0", "Ada", "1", "2", "3", ""),
        ("i1", "Ada", "", "", "", 'odd, "quoted"\nand broken'),
        ("i0", "Bob", "3", "", "", "'=cmd|' /C calc'!A0"),
    ]
    assert all(row["time"].endswith("+00:00") for row in rows)


def test_a_damaged_file_is_in_no_table_and_is_named(project, rate_all):
    rate_all(project, "Ada", {0: 1})
    (project.place / "bob-1.jsonl").write_text("x")
    found = export_ratings(project)
    assert (found.annotators, found.damaged) == (("Ada",), ("bob-1.jsonl",))


def test_standardised_by_hand(project, rate_all):
    rate_all(project, "strict", {0: 1, 1: 2, 2: 1})
    rate_all(project, "lenient", {0: 2, 1: 3, 2: 2, 3: 3})
    rate_all(project, "always", {3: 2, 4: 2})
    found = {key: float(row["score"]) for key, row in table(export_ratings(project, standardise=True)).items()}
    strict = (np.array([1, 2, 1]) - 4 / 3) / np.std([1, 2, 1])
    lenient = (np.array([2, 3, 2, 3]) - 2.5) / 0.5
    wanted = [*(strict + lenient[:3]) / 2, (lenient[3] + 0) / 2, 0]
    assert list(found.values()) == pytest.approx(wanted, abs=1e-5)


def test_training_reads_the_table_as_it_is(project, rate_all):
    rate_all(project, "Ada", {number: 1 + number % 3 for number in range(10)})
    found = export_ratings(project)
    recipe = yaml.safe_load(found.recipe.read_text(encoding="utf-8"))
    arguments = recipe["data"]["init_args"]
    data = RatingsDataModule(**{**arguments, "columns": Columns(**arguments["columns"])})
    data.setup("fit")
    assert arguments["train"] == [str(found.table.resolve())]
    segments = read_segments(found.table, Columns())
    assert [one.score for one in segments] == [1 + number % 3 for number in range(10)]
    assert shlex.split(found.command) == ["textmover", "train", "--config", str(found.recipe)]


def test_the_recipe_is_that_of_the_example(project, rate_all):
    rate_all(project, "Ada", {number: 1 + number % 3 for number in range(10)})
    ours = yaml.safe_load(export_ratings(project).recipe.read_text(encoding="utf-8"))
    example = yaml.safe_load(
        (Path(__file__).parents[2] / "examples/own_ratings/recipe.yaml").read_text(encoding="utf-8")
    )
    assert ours["model"] == example["model"]
    assert ours["adapter"] == example["adapter"]


def test_columns_that_the_table_has_already_get_another_name(folder, rate_all):
    rows = json.loads((folder / "items.json").read_text())
    for row in rows:
        row |= {"score": 0.5, "fluency": "x", "source": "s", "annotators": 9}
    (folder / "items.json").write_text(json.dumps(rows))
    project = open_project(folder)
    rate_all(project, "Ada", {0: 2, 1: 1})
    row = table(export_ratings(project))["i0"]
    assert (row["score"], row["fluency"], row["given_score"], row["given_fluency"], row["source"]) == (
        "2", "2", "0.5", "x", "s",
    )  # fmt: skip


def test_hostile_texts_survive_the_table(folder, rate_all):
    texts = ['a "quoted", text', "two\nlines\r\nthree", "<b>&</b>", "שלום עולם", "tab\there", " spaces "]
    texts += ["=cmd|' /C calc'!A0", "-1+1", "@x", "'=1", "''=1", "'tis", "a\rb"]
    rows = [{"id": str(n), "hypothesis": text, "references": [text, f"r{n}"]} for n, text in enumerate(texts)]
    (folder / "items.json").write_text(json.dumps(rows))
    project = open_project(folder)
    rate_all(project, "Ada", {number: 1 + number % 3 for number in range(len(texts))})
    segments = read_segments(export_ratings(project).table, Columns(references=("reference", "reference_2")))
    assert [(one.hypothesis, one.references[0]) for one in segments] == [(text, text) for text in texts]


@pytest.mark.parametrize(
    ("rows", "ratings", "reason"),
    [
        ([{"hypothesis": f"t{n}"} for n in range(9)], [1, 2, 3] * 3, "no references"),
        ([{"hypothesis": f"t{n}", "reference": f"r{n}"} for n in range(9)], [2] * 9, "all scores are the same"),
        ([{"hypothesis": f"t{n}", "reference": "r"} for n in range(9)], [1, 2, 3] * 3, "too few references"),
        ([{"hypothesis": "t", "reference": "r"}], [1], "all scores are the same"),
    ],
)
def test_what_cannot_be_trained_on_is_said(folder, rate_all, rows, ratings, reason):
    (folder / "items.json").write_text(json.dumps(rows))
    project = open_project(folder)
    rate_all(project, "Ada", dict(enumerate(ratings)))
    found = export_ratings(project)
    assert (found.recipe, found.command, found.rows) == (None, "", len(rows))
    assert reason in found.reason


def test_texts_without_a_reference_are_left_out_beside_others(folder, rate_all):
    rows = [{"id": "a", "hypothesis": "a", "reference": "b"}, {"id": "c", "hypothesis": "c"}]
    (folder / "items.json").write_text(json.dumps(rows))
    project = open_project(folder)
    rate_all(project, "Ada", {0: 1, 1: 2})
    found = export_ratings(project)
    assert (list(table(found)), found.without_reference) == (["a"], 1)


def test_nothing_rated_is_refused(project):
    with pytest.raises(InputError, match="rate some first"):
        export_ratings(project)
    project.rate("Ada", "i0", "fluency", 1)
    with pytest.raises(InputError, match="rate some first"):
        export_ratings(project)


def test_an_export_does_not_leave_the_folder(project, rate_all, tmp_path):
    rate_all(project, "Ada", {0: 1})
    (project.place / "ratings.csv").symlink_to(tmp_path / "outside.csv")
    with pytest.raises(InputError, match="inside the folder"):
        export_ratings(project)
    assert not (tmp_path / "outside.csv").exists()


def test_agreement_is_that_of_the_ratings(project, rate_all):
    rate_all(project, "Ada", {number: 1 + number % 3 for number in range(6)})
    rate_all(project, "Bob", {number: 1 + number % 3 for number in range(2, 8)})
    rate_all(project, "Eve", {9: 1})
    for one in criterion_agreement(project):
        assert (one.statistics.annotators, one.statistics.items, one.statistics.same) == (2, 4, 1)
        assert one.statistics.alpha["ordinal"] == krippendorff_alpha(project.matrix(one.criterion)[1], "ordinal") == 1
        assert [(pair.first, pair.second, pair.items) for pair in one.pairs] == [("Ada", "Bob", 4)]


def test_a_project_of_errors_alone_has_no_ratings_to_export(folder):
    with pytest.raises(InputError, match="asks for errors alone"):
        export_ratings(open_project(folder, criteria=(), errors=True))


def test_a_zero_byte_in_a_text_does_not_spoil_the_table(folder, rate_all):
    rows = json.loads((folder / "items.json").read_text())
    (folder / "items.json").write_text(json.dumps([{**row, "note": "a\0b"} for row in rows]))
    project = open_project(folder)
    rate_all(project, "Ada", {number: 1 + number % 3 for number in range(10)})
    found = export_ratings(project)
    assert table(found)["i0"]["note"] == "a\ufffdb"
    assert found.recipe is not None, "the table is read again"


@pytest.mark.parametrize(
    "name", ["Bewertung \U0001f600", "a\u2028b\x85c", 'quote " and \\ slash', "100 %: #1, {a} [b]"]
)
def test_the_recipe_names_the_table_whatever_the_folder_is_called(folder, rate_all, name):
    project = open_project(folder.rename(folder.with_name(name)))
    rate_all(project, "Ada", {number: 1 + number % 3 for number in range(10)})
    found = export_ratings(project)
    recipe = yaml.safe_load(found.recipe.read_text(encoding="utf-8"))
    assert recipe["data"]["init_args"]["train"] == [str(found.table.resolve())]
