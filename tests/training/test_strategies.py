"""Two processes train as one does: the same losses at every step, the same weights, the same running mean."""

import csv
import json
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from runs import recipe, write_ratings, write_recipe

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def steady_encoder(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """The tiny encoder without dropout, whose masks would differ with the number of processes."""
    from transformers import AutoModel

    folder = tmp_path_factory.mktemp("steady") / "encoder"
    folder.mkdir()
    for path in tiny_encoder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    assert AutoModel.from_pretrained(folder).config.hidden_dropout_prob == 0
    return folder


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


def train(programs: Path, folder: Path, encoder: Path, devices: int, *, mixed: bool) -> None:
    folder.mkdir()
    files = [str(write_ratings(folder / f"ratings{seed}.tsv", 100, seed=seed)) for seed in (0, 1)]
    changes = {"trainer__devices": devices, "trainer__max_epochs": 2, "data__init_args__batch_size": 7}
    changes |= {"trainer__strategy": "ddp"} if devices > 1 else {}
    config = recipe(folder, encoder, Path(files[0]), **changes)
    if mixed:
        config["data"] = mixture(files)
        config["trainer"]["callbacks"] = []
        config["model"]["init_args"]["signals"] = {"untrained": 0.5}
    arguments = ["fit", "--config", str(write_recipe(folder / "recipe.yaml", config))]
    ended = subprocess.run(
        [programs / "python", "train.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr


def losses(folder: Path) -> dict[str, list[float]]:
    (path,) = folder.glob("log/version_*/metrics.csv")
    found: dict[str, list[float]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            for name, value in row.items():
                if name.endswith(("loss", "pearson")) and value:
                    found.setdefault(name, []).append(float(value))
    return found


@pytest.mark.parametrize(
    "mixed", [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.slow)]
)
def test_two_processes_train_as_one(tmp_path: Path, programs: Path, steady_encoder: Path, mixed: bool) -> None:
    for devices in (1, 2):
        train(programs, tmp_path / str(devices), steady_encoder, devices, mixed=mixed)
    one, two = losses(tmp_path / "1"), losses(tmp_path / "2")
    assert one.keys() == two.keys()
    assert {name for name in one if name.endswith("loss")} == (
        {"train/one/loss", "train/two/loss"} if mixed else {"train/loss"}
    )
    for name, values in one.items():
        assert len(values) > 1, name
        assert two[name] == pytest.approx(values, abs=2e-4), name
    first, second = (load_file(tmp_path / name / "metric" / "model.safetensors") for name in ("1", "2"))
    assert first.keys() == second.keys()
    assert any(name.startswith("centering.statistic.mean") for name in first)
    for name, tensor in first.items():
        if name.endswith("key.bias"):
            continue  # attention does not depend on it: its gradient is rounding, which Adam scales up
        assert torch.allclose(tensor, second[name], atol=2e-3), (name, (tensor - second[name]).abs().max())
