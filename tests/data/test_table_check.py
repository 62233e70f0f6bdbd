"""A check of a table of ratings finds every problem at once, and its recipe trains."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from textmover.data import Columns, RatingsDataModule
from textmover.data.table_check import check_table
from textmover.readers.tables import named_tables
from textmover.types import InputError

WORDS = """
    river bridge town old new market children walked slowly station rain morning red books teacher open bank
""".split()  # noqa: SIM905 - a list to read


def clean_rows(texts: int = 120, annotators: int = 2) -> list[dict]:
    """Sentences with some words exchanged, of prompts of three sentences, rated from 1 to 5 by each annotator."""
    rng, rows = random.Random(0), []
    for number in range(texts):
        words = rng.sample(WORDS, 8)
        damaged = [rng.choice(WORDS) if rng.random() < 0.3 else word for word in words] + [f"n{number}"]
        row = {"answer": " ".join(damaged), "reference": " ".join([*words, f"m{number}"]), "topic": f"p{number // 3}"}
        rows += [{**row, "rating": 1 + (number + by) % 5, "rater": f"a{by}"} for by in range(annotators)]
    return rows


def checked(rows, **options):
    return check_table(named_tables(rows, "rows")["the rows of `rows`"], **options)


def changed(change):
    rows = clean_rows()
    change(rows)
    return rows


def set_cell(place, column, value):
    return lambda rows: rows[place].update({column: value})


def constant(rows):
    for row in rows:
        row["rating"] = 3 if row["rater"] == "a1" else row["rating"]


PROBLEMS = {
    "no reference": (set_cell(3, "reference", ""), 1, "row 4", "the row is left out"),
    "no rating": (set_cell(4, "rating", None), 1, "row 5", "the row is left out"),
    "rating is not a number": (set_cell(8, "rating", "n/a"), 1, "row 9: n/a", "the row is left out"),
    "rating with a decimal comma": (set_cell(5, "rating", "4,5"), 1, "row 6: 4,5", "the row is left out"),
    "no text": (set_cell(6, "answer", None), 1, "row 7", "the row is left out"),
    "rating beyond 1 to 5": (set_cell(7, "rating", 50), 1, "row 8: 50", "the row is left out"),
    "the same row again": (
        lambda rows: rows.append(dict(rows[9])),
        1,
        "row 241",
        "the rating counts twice in the mean",
    ),
    "empty text": (set_cell(10, "answer", " "), 1, "row 11", "kept: remove it, unless"),
    "no annotator": (set_cell(14, "rater", ""), 1, "row 15", "kept, as of one more annotator"),
    "text is its reference": (lambda rows: rows[11].update(answer=rows[11]["reference"]), 1, "row 12", "kept"),
    "annotators who give one rating": (constant, 120, "a1", "their ratings count as the mean"),
    "over a tenth of the tokens are unknown": (
        set_cell(12, "answer", "🦭"),
        1,
        "row 13",
        "kept, though scores mean little",
    ),
    "script that the metric does not read": (
        set_cell(13, "answer", "Доброе утро"),
        1,
        "row 14",
        "kept: set `encoder`, such",
    ),
}


def flags(texts):
    return {"unknown": ["🦭" in one for one in texts], "script": ["утро" in one for one in texts]}


def test_ratings_of_two_scales_are_found():
    rows = clean_rows()
    for row in rows[:120]:
        row["rating"] *= 20
    found = {one.problem: one for one in checked(rows).findings}["ratings from 1 to 5 among far higher ones"]
    assert found[1:3] == (120, "row 121")
    assert "set `scales: per-file`" in found.training
    for number, row in enumerate(rows):  # one scale, with the worst rating most often
        row["rating"] = max(0, number - 120)
    assert not any(one.problem.startswith("ratings from") for one in checked(rows).findings)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_problem_is_found_with_its_place(problem):
    change, count, first, training = PROBLEMS[problem]
    before = {one.problem for one in checked(clean_rows(), flags=flags).findings}
    found = {one.problem: one for one in checked(changed(change), flags=flags).findings}
    assert set(found) - before == {problem}
    assert found[problem][1:3] == (count, first)
    assert found[problem].training.startswith(training)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (b"caf\xe9,the cafe,0.5", "row not in UTF-8 (if it is Latin-1: iconv -f LATIN1 -t UTF-8)"),
        (b"one, two,three,0.5", "row with other fields than the header (quote commas)"),
        (b"one\ttwo\tthree\t0.5", "row with other fields than the header (a text with a tab or line break)"),
    ],
)
def test_a_row_that_cannot_be_read_says_why(tmp_path, row, problem):
    lines = [b"hypothesis,reference,score", row, *(b"a cat %d,the cat %d,0.%d" % (n, n, n) for n in range(1, 9))]
    path, mark = (tmp_path / "table.tsv", b"\t") if b"\t" in row else (tmp_path / "table.csv", b",")
    path.write_bytes(b"\n".join(line if line is row else line.replace(b",", mark) for line in lines))
    (table,) = named_tables(path, "rows").values()
    (found,) = (one for one in check_table(table).findings if one.problem == problem)
    assert found[1:3] == (1, "line 2")


def test_what_is_said_of_a_clean_table():
    found = checked(clean_rows())
    assert [one.problem for one in found.findings] == ["several annotators", "rows that share their `topic`"]
    assert found.findings[1].training == "kept together: rows are held back by reference and topic"
    said = r"the rows of `rows`: 240 rows, 120 usable; \d+ to train on, \d+ held back; ratings from 1.5 to 4.5, mean 3"
    assert re.match(said, repr(found))


def test_what_held_back_rows_share_is_counted_among_them():
    """By a column that does not keep nearly the same references together."""
    references = [f"the red dog number {place} saw the big cat near our house" for place in range(60)]
    rows = [
        {"hypothesis": f"a {place}", "reference": text, "rating": place % 5, "prompt": f"p{place // 3}"}
        for place, text in enumerate(references)
    ]
    found = checked(rows)
    problem = "held-back rows share nearly the same reference with training"
    (near,) = (one for one in found.findings if one.problem == problem)
    assert f", {near.rows} held back;" in repr(found)
    assert near.first == f"of {near.rows} held back"
    assert near.training.endswith("by another group column")


@pytest.mark.parametrize("topics", [2, 3, 4])
def test_few_groups_are_parted(topics):
    rows = [{**row, "topic": f"t{number % topics}"} for number, row in enumerate(clean_rows(60, 1))]
    found = checked(rows)
    trained, kept = map(int, re.search(r"; (\d+) to train on, (\d+) held back;", repr(found)).groups())
    assert min(trained, kept) >= 60 // topics


def test_all_problems_at_once_and_a_recipe_that_reads_the_table(tmp_path):
    rows = clean_rows()
    for change in (constant, *(change for change, *_ in PROBLEMS.values() if change is not constant)):
        change(rows)
    found = checked(rows, flags=flags)
    assert re.search(r"ratings from -?\d(\.\d\d?)? to \d(\.\d\d?)?, .* after standardising and averaging", repr(found))
    assert set(PROBLEMS) <= {one.problem for one in found.findings}
    recipe = yaml.safe_load(found.recipe)
    arguments = recipe["data"]["init_args"]
    assert recipe["export"] == "runs/mine/metric"
    del arguments["train"]
    data = RatingsDataModule(rows, **arguments)
    data.setup()
    kept = [*data.segments, *data.parts["held-back"]]
    assert f"{len(data.segments)} to train on, {len(data.parts['held-back'])} held back;" in repr(found)
    key = lambda one: (one.hypothesis, one.score)  # noqa: E731
    assert sorted(map(key, kept)) == sorted(map(key, found.segments))


@pytest.mark.parametrize(
    ("left", "given", "overrides", "by"),
    [
        ("reference", {}, {"encoder": "multilingual", "mode": "source"}, ["source", "topic"]),
        ("", {"source": "src"}, {"encoder": "multilingual", "mode": "both", "fallback": True}, ["reference", "topic"]),
        ("", {}, {}, ["reference", "topic"]),
    ],
)
def test_the_recipe_reads_sources_in_place_of_references_and_beside_them_where_asked(left, given, overrides, by):
    rows = [{"src": f"{row['reference']} x", **row} for row in clean_rows()]
    rows[3] |= {"src": "", "reference": ""}
    rows[5]["reference"] = ""
    rows = [{name: cell for name, cell in row.items() if name != left} for row in rows]
    found = checked(rows, given=given, flags=flags)
    lacking = {one.problem: (one.first, one.rows) for one in found.findings if one.problem.startswith("no ")}
    assert lacking == {"no source" if left else "no reference": ("row 4", 1 if left or given else 2)}
    recipe = yaml.safe_load(found.recipe)
    fields, arguments = recipe["model"]["init_args"]["overrides"], recipe["data"]["init_args"]
    assert {name: fields[name] for name in ("encoder", "mode", "fallback") if name in fields} == overrides
    assert arguments["held_back_by"] == by
    del arguments["train"]
    data = RatingsDataModule(rows, **{**arguments, "columns": Columns(**arguments["columns"])})
    data.setup()
    assert f"{len(data.segments)} to train on, {len(data.parts['held-back'])} held back;" in repr(found)


def test_texts_with_several_ratings_without_annotators():
    rows = [{name: cell for name, cell in row.items() if name != "rater"} for row in clean_rows()]
    found = {one.problem: one for one in checked(rows).findings}
    assert found["the same text with several ratings"].rows == 240
    again = [one for one in checked([*rows, rows[9]]).findings if one.problem == "the same row again"]
    assert [one.training for one in again] == ["the row counts twice: remove one"]


@pytest.mark.parametrize(("texts", "file"), [(120, "examples/own_ratings/recipe.yaml"), (2400, "configs/wmt_da.yaml")])
def test_the_recipe_trains_as_the_one_that_the_page_recommends_for_so_many_ratings(texts, file):
    def training_part(recipe):
        for place in (recipe, recipe["trainer"], recipe["trainer"]["logger"]["init_args"]):
            for name in ("export", "default_root_dir", "save_dir"):
                place.pop(name, None)
        data = recipe.pop("data")["init_args"]
        return recipe | {name: data[name] for name in ("batch_size", "seed")}

    recommended = yaml.safe_load((Path(__file__).parents[2] / file).read_text(encoding="utf-8"))
    assert training_part(yaml.safe_load(checked(clean_rows(texts)).recipe)) == training_part(recommended)


@pytest.mark.parametrize(
    ("rows", "problem", "training", "refusal"),
    [
        (clean_rows(20, 1), "few ratings", "fewer than 100 ratings gain little", ""),
        ([{**row, "rating": 3} for row in clean_rows(60, 1)], "all ratings are equal", "not possible", "but all are 3"),
        (
            [{**row, "reference": "one"} for row in clean_rows(60, 1)],
            "only 1 reference",
            "no recipe: rows of one reference stay together",
            "rows of one reference stay together, and all 60 ratings are of 1 reference: add rows whose",
        ),
        (
            clean_rows(5, 1),
            "only 5 rows",
            "no recipe: 3 to train on and 3 to hold back are needed",
            "but got 5 ratings, and rows of one reference stay together: add rows whose reference is not",
        ),
        (
            [{**row, "topic": "one"} for row in clean_rows(60, 1)],
            "only 1 topic",
            "no recipe: rows of one topic stay together",
            "one topic stay together, and all 60 ratings are of 1 topic: add rows whose topic is not yet in",
        ),
        (
            [{**row, "rating": "" if number else 3} for number, row in enumerate(clean_rows(20, 1))],
            "a single rating",
            "not possible",
            "in the rows of `rows`, but only 1 row is usable: correct the rows that are left out.",
        ),
        ([{**row, "rating": ""} for row in clean_rows(2, 1)], "no rating", "the row is left out", "a row to train on"),
    ],
)
def test_tables_that_train_badly_or_not_at_all(rows, problem, training, refusal):
    found = checked(rows)
    told = {one.problem: one.training for one in found.findings}
    assert told[problem].startswith(training)
    assert (found.recipe is None) is bool(refusal)
    assert refusal in found.refusal


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scale": [5, 1]}, "`scale` to be the lowest and the highest rating, as in 1 5, but got 5 1."),
        ({"scale": [5]}, "`scale` to be the lowest and the highest rating, as in 1 5, but got 5."),
        ({"given": {"score": "ratng"}}, "a column 'ratng' in the rows of `rows`, but got"),
        ({"given": {"annotator": "ratr"}}, "set `annotator` to the name"),
        ({"given": {"groups": ("ratr",)}}, "set `groups` to the name"),
    ],
)
def test_options_that_fit_nothing_are_refused(given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        checked(clean_rows(), **given)


def test_a_column_that_no_name_tells_is_asked_for():
    rows = [{"a": "x", "reference": "y", "rating": 1}]
    with pytest.raises(InputError, match=r"a column of the texts in .*, but got 'a', 'reference', 'rating': name it"):
        checked(rows)
    assert checked(rows * 5, given={"hypothesis": "a"}).rows == 5
    with pytest.raises(InputError, match=r"name it with `references`, or that of the sources with `source`\.$"):
        checked([{"answer": "x", "german": "y", "rating": 1}])


def test_of_several_columns_that_a_role_may_take_the_others_are_named():
    rows = [{**row, "adequacy_score": 6 - row["rating"], "mt": "a text"} for row in clean_rows()]
    found = {one.problem: one for one in checked(rows).findings}
    ratings = found["several columns may hold the score"]
    assert (ratings.first, ratings.training) == ("rating, adequacy_score", "rating is taken: name another with `score`")
    assert found["several columns may hold the hypothesis"].first == "answer, mt"
    named = checked(rows, given={"score": "adequacy_score", "hypothesis": "answer"})
    assert not [one for one in named.findings if one.problem.startswith("several columns")]
    assert "unusable" not in named.recipe


def test_files_are_read_as_tables_in_memory(tmp_path):
    path = str(tmp_path / "rows.csv")
    pd.DataFrame(clean_rows()).rename(columns={"rating": "rating_mean"}).to_csv(path, index=False)
    found = check_table(path)
    assert len(found.segments) == 120
    assert yaml.safe_load(found.recipe)["data"]["init_args"]["columns"]["score"] == "rating_mean"


def test_ratings_beyond_their_range_are_refused_or_left_out():
    rows, columns = clean_rows(), Columns("answer", "reference", "rating", groups=("rater",))
    rows[7]["rating"] = 50
    with pytest.raises(InputError, match=r"ratings from 1 to 5 in the rows of `train`, but got 50 for '.*': correct"):
        RatingsDataModule(rows, columns=columns, rating_range=[1, 5]).setup()
    data = RatingsDataModule(rows, columns=columns, rating_range=[1, 5], unusable="leave-out")
    data.setup()
    assert len(data.segments) + len(data.parts["held-back"]) == 239
