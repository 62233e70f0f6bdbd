"""``textmover check`` prints the problems of a table and writes a recipe that trains."""

import functools
import re

import pytest

from textmover.checkpoints.loading import load_metric


@pytest.fixture(scope="module")
def load_once():
    """Loads a metric once for all commands, which only tokenise with it."""
    return functools.cache(load_metric)


@pytest.fixture
def table(write, embedded):
    lines = [f"old house {n} was sold,the house {n} was bought by us,{n % 5 + 1},p{n // 2}" for n in range(150)]
    lines[3] = "a cat sat,the cat sat there,n/a,p1"
    return write("mine.csv", ["output,reference,rating,prompt", *lines])


@pytest.fixture
def check(run, table, load_once, monkeypatch):
    monkeypatch.setattr("textmover.cli.training.check.load_metric", load_once)
    return lambda *more: run("check", "mine.csv", *more)


def test_problems_are_printed_and_a_recipe_is_written(check):
    said = check().ok().out
    assert re.match(
        r"mine.csv: 150 rows, 149 usable; 1\d\d to train on, \d\d held back; ratings from 1 to 5, mean 2.99", said
    )
    assert "rating is not a number" in said
    assert "line 5: n/a" in said
    assert said.endswith("Recipe: mine_recipe.yaml. To train with it:\n  textmover train --config mine_recipe.yaml\n")


def test_an_edited_recipe_is_kept_unless_it_is_to_be_replaced(check, tmp_path):
    recipe = tmp_path / "mine_recipe.yaml"
    assert check().code == check().code == 0  # the same recipe again
    written = recipe.read_text()
    recipe.write_bytes(edited := written.encode() + b"# \xe9\n")
    ended = check()
    way_out = "Expected mine_recipe.yaml to be new, but it holds another recipe: give another --output or --overwrite."
    assert way_out in ended.complaint()
    assert "rating is not a number" in ended.out
    assert recipe.read_bytes() == edited
    assert check("--overwrite").code == 0
    assert recipe.read_text() == written


def test_tables_that_differ_in_their_ending_do_not_share_a_recipe(run, check, table, tmp_path):
    (tmp_path / "mine.tsv").write_text(table.read_text().replace(",", "\t"))
    assert check().code == 0
    assert run("check", "mine.tsv").code == 2
    assert "mine.csv" in (tmp_path / "mine_recipe.yaml").read_text()


def test_short_texts_in_another_language_are_listed(check, table):
    with table.open("a") as stream:
        stream.writelines(f"der Zug ist zu spät,der Zug {n} ist da,{n % 5 + 1},q{n}\n" for n in range(30))
    (said,) = [one for one in check().ok().out.splitlines() if "not look English" in one]
    assert " 30  line 152 " in said


@pytest.mark.parametrize(
    ("text", "listed", "error"),
    [
        ("a,b,n/a\n", "rating is not a number", "name the column of the ratings with `--score-column`, or write words"),
        ("b,b,3\na,a,1\n" * 9, "text is its reference", "equal them: set `--hypothesis-column` or `--reference"),
        ("a b,b,3\n" * 9, "all ratings are equal", "in mine.csv, but all are 3: set `--score-column` to the"),
    ],
)
def test_a_table_that_cannot_be_trained_on_is_an_error(check, table, tmp_path, text, listed, error):
    table.write_text(f"output,reference,rating\n{text}")
    ended = check()
    assert listed in ended.out
    assert error in ended.complaint()
    assert not (tmp_path / "mine_recipe.yaml").exists()


@pytest.mark.parametrize("text", ['{"output": "a"\n', '[{"output": "a", "reference": "b", "rating": 1}]\n'])
def test_a_table_of_which_no_row_can_be_read_says_why(run, write, monkeypatch, text):
    monkeypatch.setattr("textmover.cli.training.check.load_metric", None)  # none is loaded
    write("bad.jsonl", [text.strip()])
    assert "one JSON object a line, but got" in run("check", "bad.jsonl").complaint()


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["output,reference", "translation,source"])
def test_the_recipe_is_accepted_by_train(run, check, table, tmp_path, tiny_multilingual, columns):
    table.write_text(table.read_text().replace("output,reference", columns, 1))
    check().ok()
    sourced = "source" in columns
    options = ["--trainer.max_epochs", 1, "--trainer.limit_train_batches", 2]
    options += ["--model.init_args.overrides.encoder", tiny_multilingual] if sourced else []
    run("train", "--config", "mine_recipe.yaml", *options).ok()
    metric = tmp_path / "runs" / "mine" / "metric"
    assert (metric / "model.safetensors").is_file()
    assert ('"mode": "source"' in (metric / "config.json").read_text()) == sourced


@pytest.mark.parametrize("scale", [("1-4",), ("1", "4"), ("1–4",), ("1", "-", "4"), ("1.0-4.",), ("1e0", "4")])
def test_a_scale_is_written_as_for_the_app_or_as_two_numbers(check, scale):
    assert "rating beyond 1 to 4" in check("--scale", *scale).ok().out


def test_a_scale_below_zero_keeps_its_signs(check):
    assert "rating beyond -10 to -5" in check("--scale", "-10", "-5").out


@pytest.mark.parametrize("scale", [("5",), ("1,5",), ("1", "5", "7"), ("low", "high")])
def test_other_scales_are_refused_with_an_example(check, scale):
    way_out = f"--scale to be the lowest and the highest rating, as in 1-5 or 1 5, but got {' '.join(scale)}"
    assert way_out in check("--scale", *scale).complaint()
