"""The recipes of ``configs/stages``: each runs over made-up files with the columns of those that it names."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from runs import write_recipe

from textmover import Scorer
from textmover.cli.train import main as train

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "configs" / "stages").glob("*.yaml"))

COLUMNS = {
    "cola": ("sentence", "label"),
    "mnli_dev": ("premise", "hypothesis", "label"),
    "snli_dev": ("premise", "hypothesis", "label"),
    "qnli_dev": ("premise", "hypothesis", "label"),
    "rte_train": ("premise", "hypothesis", "label"),
    "qqp_positives": ("question1", "question2", "is_duplicate"),
}
"""Columns by the beginning of a file's name, or that of its folder."""

LABELS = {
    "cola": ["0", "1"],
    "mnli_dev": ["entailment", "neutral", "contradiction"],
    "snli_dev": ["entailment", "neutral", "contradiction"],
    "qnli_dev": ["entailment", "not_entailment"],
    "rte_train": ["entailment", "not_entailment"],
    "qqp_positives": ["1"],
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec.*"),
    pytest.mark.filterwarnings("ignore:.*LightningCLI's args parameter.*"),
    pytest.mark.filterwarnings("ignore:.*is smaller than the logging interval.*"),
    pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning"),
]


def made_up(name: str, folder: Path) -> str:
    """A file in place of one that a recipe names."""
    path = Path(name)
    kind = path.stem if path.stem in COLUMNS else path.parent.name
    columns, labels = COLUMNS[kind], LABELS[kind]
    texts = len(columns) - 1
    rows = [
        "\t".join([*(f"word{side} {number} of {path.stem}" for side in range(texts)), labels[number % len(labels)]])
        for number in range(80)
    ]
    target = folder / path.name
    target.write_text("\t".join(columns) + "\n" + "\n".join(rows) + "\n")
    return str(target)


def replaced(value: Any, folder: Path) -> Any:
    """The data of a recipe with made-up files."""
    if isinstance(value, dict):
        return {
            key: [made_up(name, folder) for name in one] if key in ("train", "validation") else replaced(one, folder)
            for key, one in value.items()
        }
    return value


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_stage_runs_two_steps_and_exports(path, tmp_path, tiny_encoder, monkeypatch):
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["data"] = replaced(config["data"], tmp_path)
    config["model"]["init_args"]["overrides"]["encoder"] = str(tiny_encoder)
    config["trainer"] |= {"max_epochs": 1, "limit_train_batches": 2, "accelerator": "cpu"}
    monkeypatch.chdir(tmp_path)
    assert train(["fit", "--config", str(write_recipe(tmp_path / "recipe.yaml", config))]) == 0
    assert Scorer.from_pretrained(tmp_path / config["export"]).score("a cat", "a cat").mean == pytest.approx(
        1, abs=1e-4
    )
    assert (tmp_path / "runs" / path.stem / "checkpoints" / "best.ckpt").is_file()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_stage_says_what_its_fields_mean(path):
    text = path.read_text(encoding="utf-8")
    assert f"python train.py fit --config configs/stages/{path.name}" in text
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    bare = [line for line in lines if "#" not in line and not line.rstrip().endswith(":")]
    assert len(bare) < len(lines) / 2, bare


def test_the_recipes_name_files_that_are_there(shared_folder):
    for path in RECIPES:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))["data"]["init_args"]
        for data in [one["init_args"] for one in config.get("sources", {"": {"init_args": config}}).values()]:
            for name in [*data["train"], *data.get("validation", [])]:
                assert (shared_folder.parent / Path(name).relative_to("..")).is_file(), name
