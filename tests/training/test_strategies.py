"""Two processes train as one does: the same losses at every step, the same weights, the same running mean."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from runs import logged, recipe, write_ratings, write_recipe


def mixture(ratings: list[str]) -> dict:
    """Two sources of ratings, one of them on another scale and in two groups that do not meet."""
    common = {"columns": {"groups": ["group"]}, "group": "group", "held_back": 0.25, "batch_size": 7}
    module = "textmover.data.RatingsDataModule"
    first = {"class_path": module, "init_args": {**common, "train": ratings[:1]}}
    second = {"class_path": module, "init_args": {**common, "train": ratings[1:], "batch_group": "group"}}
    return {
        "class_path": "textmover.data.MixtureDataModule",
        "init_args": {"sources": {"one": first, "two": second}, "temperature": 2.0},
    }


def arguments_of(
    folder: Path, encoder: Path, devices: int, strategy: str = "fsdp", *, mixed: bool = False, **changes
) -> list[str]:
    folder.mkdir(exist_ok=True)
    files = [str(write_ratings(folder / f"ratings{seed}.tsv", 100, seed=seed)) for seed in (0, 1)]
    changes = {"trainer__devices": devices, "trainer__max_epochs": 2, "data__init_args__batch_size": 7, **changes}
    changes |= {"trainer__strategy": strategy} if devices > 1 else {}
    config = recipe(folder, encoder, Path(files[0]), **changes)
    if strategy == "fsdp":
        config["model"]["init_args"]["gradient_clip"] = 0.05  # every step, so that a wrong norm would show
    if mixed:
        config["data"] = mixture(files)
        config["trainer"]["callbacks"] = []
        config["model"]["init_args"]["signals"] = {"untrained": 0.5}
    return ["fit", "--config", str(write_recipe(folder / "recipe.yaml", config))]


def losses(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in logged(folder):
        for name, value in row.items():
            if name.endswith(("loss", "pearson")):
                found.setdefault(name, []).append(float(value))
    return found


def assert_same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        if not name.endswith("key.bias"):  # attention does not depend on it: its gradient is rounding
            assert torch.allclose(tensor, second[name], atol=2e-3), (name, (tensor - second[name]).abs().max())


@pytest.mark.parametrize(
    ("strategy", "mixed"),
    [
        pytest.param("ddp", True, marks=pytest.mark.slow),
        pytest.param("fsdp", False, marks=pytest.mark.slow),
        pytest.param("ddp", False, marks=pytest.mark.long),
        pytest.param("fsdp", True, marks=pytest.mark.long),
    ],
)
def test_two_processes_train_as_one(train_py, tmp_path, steady_encoder, strategy, mixed):
    """Each with all weights, or with a share of them."""
    for devices in (1, 2):
        ended = train_py(*arguments_of(tmp_path / str(devices), steady_encoder, devices, strategy, mixed=mixed))
        assert ended.returncode == 0, ended.stderr
        assert "before" in ended.stdout
    one, two = losses(tmp_path / "1"), losses(tmp_path / "2")
    assert one.keys() == two.keys()
    assert {name for name in one if name.endswith("loss")} == (
        {"train/one/loss", "train/two/loss"} if mixed else {"train/loss"}
    )
    for name, values in one.items():
        assert len(values) > 1, name
        assert two[name] == pytest.approx(values, abs=2e-4), name
    first, second = (load_file(tmp_path / name / "metric" / "model.safetensors") for name in ("1", "2"))
    assert any(name.startswith("centering.statistic.mean") for name in first)
    assert_same_weights(first, second)
