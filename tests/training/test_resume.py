import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from runs import recipe, write_ratings, write_recipe

RUNS = Path(__file__).with_name("runs.py")


def run(step: int, *arguments: str, by: str = "SIGKILL") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNS), str(step), by, "fit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints" / "resume.ckpt", weights_only=True)["state_dict"]


def arguments_of(folder: Path, encoder: Path) -> list[str]:
    """A run of 35 steps: eleven or twelve to an epoch, a checkpoint every five, dropout on."""
    ratings = write_ratings(folder / "ratings.tsv")
    config = recipe(folder, encoder, ratings, trainer__max_steps=35, trainer__max_epochs=-1, export=None)
    return ["--config", str(write_recipe(folder / "recipe.yaml", config))]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> dict[str, torch.Tensor]:
    """Weights of a run that nothing stops."""
    folder = tmp_path_factory.mktemp("unbroken")
    finished = run(-1, *arguments_of(folder, tiny_encoder))
    assert finished.returncode == 0, finished.stderr
    return weights(folder)


@pytest.mark.xdist_group("one unbroken run")
@pytest.mark.parametrize(
    "killed_at",
    [pytest.param(8, marks=pytest.mark.slow), *(pytest.param(step, marks=pytest.mark.long) for step in (17, 23))],
)
def test_a_run_killed_in_the_middle_of_an_epoch_and_resumed_ends_with_the_weights_of_an_unbroken_one(
    tmp_path: Path, tiny_encoder: Path, unbroken: dict[str, torch.Tensor], killed_at: int
) -> None:
    arguments = arguments_of(tmp_path, tiny_encoder)
    broken = run(killed_at, *arguments)
    assert broken.returncode == -signal.SIGKILL, broken.stderr
    resume = tmp_path / "checkpoints" / "resume.ckpt"
    assert torch.load(resume, weights_only=True)["global_step"] == killed_at // 5 * 5
    finished = run(-1, *arguments, "--ckpt_path", str(resume))
    assert finished.returncode == 0, finished.stderr
    resumed = weights(tmp_path)
    assert unbroken.keys() == resumed.keys()
    for name, tensor in unbroken.items():
        assert torch.equal(tensor, resumed[name]), name


@pytest.mark.slow
def test_an_interrupted_run_ends_with_130_and_says_how_to_go_on(tmp_path: Path, tiny_encoder: Path) -> None:
    config = recipe(tmp_path, tiny_encoder, write_ratings(tmp_path / "ratings.tsv"))
    ended = run(8, "--config", str(write_recipe(tmp_path / "recipe.yaml", config)), by="SIGINT")
    assert ended.returncode == 130, ended.stderr
    assert f"--ckpt_path {tmp_path / 'checkpoints' / 'resume.ckpt'}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "metric").exists()


def test_dropout_is_on_in_training(tiny_encoder: Path) -> None:
    from textmover.presets import build_metric, preset_config

    metric = build_metric(preset_config("twmd", encoder=str(tiny_encoder)))
    metric.train()
    tokens = metric.tokenize(["the old dog ran"])
    assert not torch.equal(metric.token_vectors(tokens), metric.token_vectors(tokens))
