"""What training shares with judgement sets: pairs in either order, normalised, and single texts."""

import pytest
import yaml

SHARED = [("The cat sat.", "A cat sat."), ("Go home!", "go away"), ("one", "two"), ("three", "four")]
OWN = [("a red house", "the house is red"), ("it", "rains"), ("one", "a number"), *(SHARED[place] for place in (1, 0))]


@pytest.fixture
def recipe(tmp_path):
    """A recipe that leaves the pairs of a test set out, and a ladder with this set and another one."""

    def written(name, pairs):
        lines = ["hypothesis,reference,score", *(f"{one},{other},{row / 10}" for row, (one, other) in enumerate(pairs))]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return str(tmp_path / name)

    own, test = written("own.csv", OWN), written("test.csv", [(other.upper(), one) for one, other in SHARED])
    other = written("other.csv", [("nothing", "of this"), ("is", "there"), ("at", "all")])
    ratings = {"train": [own], "held_back": 0.0, "validation": [other], "without": [{"path": test}]}
    ladder = {"sets": {name: {"files": [path]} for name, path in (("dev", other), ("test", test))}}
    (tmp_path / "ladder.yaml").write_text(yaml.safe_dump(ladder))
    return {"data": {"class_path": "textmover.data.RatingsDataModule", "init_args": ratings}}


def test_pairs_that_are_left_out_those_that_are_not_and_single_texts(script, run, recipe, tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    loose = script.without_lists(recipe)
    assert "without" in recipe["data"]["init_args"]
    assert "without" not in loose["data"]["init_args"]
    (tmp_path / "loose.yaml").write_text(yaml.safe_dump(loose))
    assert run(tmp_path / "recipe.yaml", tmp_path / "loose.yaml", "--sets", tmp_path / "ladder.yaml") == 0
    first, second = capsys.readouterr().out.split(f"{tmp_path / 'loose.yaml'}:")
    assert "| ratings | 3 | test | 2 | 0 | 1 |\n| ratings | 3 | dev | 0 | 0 | 0 |" in first
    assert "| ratings | 5 | test | 0 | 2 | 1 |\n| ratings | 5 | dev | 0 | 0 | 0 |" in second


def test_a_file_that_is_missing_is_one_sentence(run, recipe, tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (tmp_path / "own.csv").unlink()
    assert run(tmp_path / "recipe.yaml", "--sets", tmp_path / "ladder.yaml") == 2
    assert capsys.readouterr().err.endswith(
        f"Expected a file at {tmp_path / 'own.csv'}, but there is none: correct the path.\n"
    )
