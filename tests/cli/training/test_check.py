"""``textmover check`` prints the problems of a table and writes a recipe that trains."""

from __future__ import annotations

import re

import pytest

from textmover.cli.main import main


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"old house {n} was sold,the house {n} was bought by us,{n % 5 + 1},p{n // 2}" for n in range(150)]
    lines[3] = "a cat sat,the cat sat there,n/a,p1"
    path = tmp_path / "mine.csv"
    path.write_text("output,reference,rating,prompt\n" + "\n".join(lines) + "\n")
    return path


def test_problems_are_printed_and_a_recipe_is_written(table, capsys, embedded):
    assert main(["check", "mine.csv"]) == 0
    said = capsys.readouterr().out
    assert re.match(
        r"mine.csv: 150 rows, 149 usable; 1\d\d to train on, \d\d held back; ratings from 1 to 5, mean 2.99", said
    )
    assert "rating is not a number" in said
    assert "line 5: n/a" in said
    assert said.endswith("Recipe: mine_recipe.yaml. To train with it:\n  textmover train --config mine_recipe.yaml\n")


def test_an_edited_recipe_is_kept_unless_it_is_to_be_replaced(table, capsys, embedded):
    recipe = table.parent / "mine_recipe.yaml"
    assert main(["check", "mine.csv"]) == main(["check", "mine.csv"]) == 0  # the same recipe again
    written = recipe.read_text()
    recipe.write_bytes(edited := written.encode() + b"# \xe9\n")
    capsys.readouterr()
    assert main(["check", "mine.csv"]) == 2
    said = capsys.readouterr()
    way_out = "Expected mine_recipe.yaml to be new, but it holds another recipe: give another --output or --overwrite."
    assert way_out in said.err
    assert "rating is not a number" in said.out
    assert recipe.read_bytes() == edited
    assert main(["check", "mine.csv", "--overwrite"]) == 0
    assert recipe.read_text() == written


def test_tables_that_differ_in_their_ending_do_not_share_a_recipe(table, capsys, embedded):
    (table.parent / "mine.tsv").write_text(table.read_text().replace(",", "\t"))
    assert main(["check", "mine.csv"]) == 0
    assert main(["check", "mine.tsv"]) == 2
    assert "mine.csv" in (table.parent / "mine_recipe.yaml").read_text()


def test_short_texts_in_another_language_are_listed(table, capsys, embedded):
    with table.open("a") as stream:
        stream.writelines(f"der Zug ist zu spät,der Zug {n} ist da,{n % 5 + 1},q{n}\n" for n in range(30))
    assert main(["check", "mine.csv"]) == 0
    (said,) = [one for one in capsys.readouterr().out.splitlines() if "not look English" in one]
    assert " 30  line 152 " in said


@pytest.mark.parametrize(
    ("text", "listed", "error"),
    [
        (
            "a,b,n/a\n",
            "rating is not a number",
            "correct what is listed, name the column of the ratings with `--score-column`, or write words",
        ),
        ("b,b,3\na,a,1\n" * 9, "text is its reference", "equal them: set `--hypothesis-column` or `--reference"),
        ("a b,b,3\n" * 9, "all ratings are equal", "in mine.csv, but all are 3: set `--score-column` to the"),
    ],
)
def test_a_table_that_cannot_be_trained_on_is_an_error(table, capsys, embedded, text, listed, error):
    table.write_text(f"output,reference,rating\n{text}")
    assert main(["check", "mine.csv"]) == 2
    said = capsys.readouterr()
    assert listed in said.out
    assert error in said.err
    assert not (table.parent / "mine_recipe.yaml").exists()


@pytest.mark.slow
def test_the_recipe_of_rated_translations_without_references_is_accepted_by_train(
    table, capsys, embedded, tiny_multilingual
):
    table.write_text(table.read_text().replace("output,reference", "translation,source", 1))
    assert main(["check", "mine.csv"]) == 0
    once = ["--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2"]
    tiny = ["--model.init_args.overrides.encoder", str(tiny_multilingual)]
    assert main(["train", "--config", "mine_recipe.yaml", *once, *tiny]) == 0
    assert '"mode": "source"' in (table.parent / "runs" / "mine" / "metric" / "config.json").read_text()


@pytest.mark.slow
def test_the_recipe_is_accepted_by_train(table, capsys, embedded):
    assert main(["check", "mine.csv"]) == 0
    once = ["--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2"]
    assert main(["train", "--config", "mine_recipe.yaml", *once]) == 0
    assert (table.parent / "runs" / "mine" / "metric" / "model.safetensors").is_file()
