"""What the tests of training share: one run for all of them, ratings, and a way to be refused."""

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from textmover.checkpoints.loading import load_metric
from textmover.cli.training.train import main as train
from textmover.modules import MetricModel

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


@pytest.fixture
def save_run(tmp_path: Path, tiny_encoder: Path) -> Callable[..., tuple[str, MetricModel]]:
    """Writes a Lightning checkpoint of a run whose seed has moved every weight; returns its name and its metric."""

    def save(name: str = "run.ckpt", seed: int = 0, start: object = "twmd", **fields: object) -> tuple:
        own = {} if isinstance(start, Path) else {"encoder": str(tiny_encoder)}
        metric = load_metric(start, **{**own, "calibrate": True, **fields})
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            for one in metric.parameters():
                one.add_(0.03 * torch.randn_like(one))
        if metric.needs_fit:
            metric.fit(["a cat sat in the street", "she will sing", "the cat sat on a street", "he can not sing"])
        state = {f"metric.{key}": one for key, one in metric.state_dict().items()}
        content = {
            "epoch": 0,
            "global_step": 9,
            "pytorch-lightning_version": "2.6.0",
            "state_dict": {**state, "rating_mean": torch.zeros((), dtype=torch.float64)},
            "textmover": {"start": str(start), "config": metric.config.to_dict()},
        }
        torch.save(content, tmp_path / name)
        return name, metric.eval()

    return save
