"""Two processes that share the weights out train as one does, and leave files that one process reads."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from runs import recipe, write_ratings, write_recipe
from safetensors.torch import load_file
from test_strategies import losses, mixture, steady_encoder  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]


def arguments_of(folder: Path, encoder: Path, devices: int, *, mixed: bool = False, **changes) -> list[str]:
    folder.mkdir(exist_ok=True)
    files = [str(write_ratings(folder / f"ratings{seed}.tsv", 100, seed=seed)) for seed in (0, 1)]
    changes = {"trainer__devices": devices, "trainer__max_epochs": 2, "data__init_args__batch_size": 7, **changes}
    changes |= {"trainer__strategy": "fsdp"} if devices > 1 else {}
    config = recipe(folder, encoder, Path(files[0]), **changes)
    config["model"]["init_args"]["gradient_clip"] = 0.05  # every step is clipped, so that a wrong norm would show
    if mixed:
        config["data"] = mixture(files)
        config["trainer"]["callbacks"] = []
        config["model"]["init_args"]["signals"] = {"untrained": 0.5}
    return ["fit", "--config", str(write_recipe(folder / "recipe.yaml", config))]


def train(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "train.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )


def assert_same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], atol: float) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        if not name.endswith("key.bias"):  # attention does not depend on it: its gradient is rounding
            assert torch.allclose(tensor, second[name], atol=atol), (name, (tensor - second[name]).abs().max())


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_two_processes_that_share_the_weights_train_as_one(tmp_path, steady_encoder, mixed):  # noqa: F811
    for devices in (1, 2):
        ended = train(*arguments_of(tmp_path / str(devices), steady_encoder, devices, mixed=mixed))
        assert ended.returncode == 0, ended.stderr
        assert "before" in ended.stdout
    one, two = losses(tmp_path / "1"), losses(tmp_path / "2")
    assert one.keys() == two.keys()
    for name, values in one.items():
        assert len(values) > 1, name
        assert two[name] == pytest.approx(values, abs=2e-4), name
    first, second = (load_file(tmp_path / name / "metric" / "model.safetensors") for name in ("1", "2"))
    assert_same_weights(first, second, atol=2e-3)
