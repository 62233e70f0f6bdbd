"""What the tests of training share: one run for all of them, ratings, and a way to be refused."""

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from textmover.cli.training.train import main as train

sys.path.insert(0, str(Path(__file__).parents[2] / "training"))
from runs import recipe, write_ratings, write_recipe


class Fitted(NamedTuple):
    """A run that has ended: its folder, its recipe, and what it printed."""

    folder: Path
    config: dict
    out: str


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Fitted:
    """A run over the tiny encoder."""
    folder = tmp_path_factory.mktemp("fitted")
    ratings = write_ratings(folder / "ratings.tsv")
    config = recipe(folder, tiny_encoder, ratings, data__init_args__notice="These ratings are made up.")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert train(["fit", "--config", str(write_recipe(folder / "recipe.yaml", config))]) == 0
    return Fitted(folder, config, out.getvalue())


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """Ratings in the folder of the test."""
    return write_ratings(tmp_path / "ratings.tsv")


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a program that has to end with one sentence of ours on standard error, which is returned."""

    def complaint(*arguments: object, main: Callable[[list[str]], int] = train) -> str:
        capsys.readouterr()
        assert main([str(one) for one in arguments]) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        (line,) = (line for line in said.splitlines() if line.startswith("textmover: "))
        return line

    return complaint


@pytest.fixture
def refuse(tmp_path: Path, tiny_encoder: Path, ratings: Path, complaint: Callable[..., str]) -> Callable[..., str]:
    """Fits a recipe with changes and options, which is refused before training; returns the sentence."""

    def refuse(*options: str, **changes: object) -> str:
        config = recipe(tmp_path, tiny_encoder, ratings, **changes)
        said = complaint("fit", "--config", write_recipe(tmp_path / "recipe.yaml", config), *options)
        assert not (tmp_path / "metric").exists()
        assert not (tmp_path / "checkpoints").exists()
        return said

    return refuse
