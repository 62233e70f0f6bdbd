"""Mutations of a recipe: whatever value stands in the wrong place, ``train`` ends well or with one sentence."""

import copy
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runs import recipe, write_ratings
from textmover.cli.training.train import main as train

pytestmark = pytest.mark.filterwarnings("ignore")  # of Lightning, about odd but possible values

REFUSED = [
    ("", []),
    ("trainer", 0),
    ("trainer.devices", "x"),
    ("trainer.devices", 0),
    ("trainer.num_nodes", 2),
    ("trainer.accelerator", "x"),
    ("trainer.strategy", "x"),
    ("trainer.accumulate_grad_batches", 0),
    ("trainer.accumulate_grad_batches", None),
    ("trainer.max_steps", None),
    ("trainer.max_epochs", -2),
    ("trainer.limit_train_batches", -1),
    ("trainer.val_check_interval", 1e300),
    ("trainer.precision", "x"),
    ("trainer.detect_anomaly", None),
    ("trainer.logger", {"class_path": "x"}),
    ("trainer.callbacks", {}),
    ("trainer.callbacks.0.init_args.mode", "x"),
    ("trainer.callbacks.1.init_args.every_n_train_steps", -1),
    ("seed_everything", -1),
    ("seed_everything", 10**12),
    ("model", None),
    ("model.class_path", "textmover.training.LoraConfig"),
    ("model.init_args.optimizer", 5),
    ("model.init_args.losses", []),
    ("model.init_args.overrides", 3),
    ("data", {"class_path": "textmover.data.RatingsDataModule"}),
    ("data.init_args.train", []),
    ("data.init_args.seed", -1),
    ("data.init_args.workers", -1),
    ("data.init_args.columns", "x"),
    ("export", 3),
    ("adapter", {"rank": 0}),
    ("untrained_share", "x"),
    ("ckpt_path", 3),
    ("no_such_key", 1),
]

VALUES: list[Any] = ["x", "", -1, 0, 1e300, True, None, [], {}, [None], {"class_path": "x"}]

ENDLESS = ("max_epochs", "max_steps", "min_epochs", "min_steps", "num_nodes", "workers", "devices", "max_time")
"""Keys of which a larger number is a longer run, or more processes."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> dict[str, Any]:
    """A recipe of one step, with most keys of trainer, model and data."""
    folder = tmp_path_factory.mktemp("base")
    config = recipe(folder, tiny_encoder, write_ratings(folder / "ratings.tsv", 40), trainer__max_steps=1)
    more = {"accumulate_grad_batches": 1, "precision": "32-true", "strategy": "auto", "val_check_interval": 1.0}
    config["trainer"] |= {**more, "limit_train_batches": 1.0, "limit_val_batches": 1.0, "detect_anomaly": False}
    config["model"]["init_args"] |= {"lora": None, "losses": {"mse": 1.0}, "signals": None, "gradient_clip": 1.0}
    config["data"]["init_args"] |= {"validation": None, "where": None, "without": None, "seed": 1, "workers": 0}
    return config | {"ckpt_path": None, "adapter": None, "untrained_share": 0.0}


def mutated(config: dict[str, Any], key: str, value: Any) -> Any:
    """A copy with another value for a dotted key; the whole for an empty one."""
    found = copy.deepcopy(config)
    *path, last = key.split(".")
    target: Any = found
    for name in path:
        target = target[int(name) if name.isdigit() else name]
    target[int(last) if last.isdigit() else last] = value
    return found if key else value


def keys(node: Any, path: str = "") -> Iterator[str]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in items:
        yield (key := f"{path}.{name}".strip("."))
        yield from keys(value, key)


def ended(folder: Path, content: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code of a training, and what it complains of in one line."""
    file = folder / "recipe.yaml"
    file.write_bytes(content if isinstance(content, bytes) else yaml.safe_dump(content).encode())
    capsys.readouterr()
    code = train(["fit", "--config", str(file)])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("textmover: ")]
    assert len(said) == (code == 2), said
    return code, "".join(said)


@pytest.mark.parametrize(("key", "value"), REFUSED)
def test_a_wrong_value_is_one_sentence(tmp_path, base, capsys, monkeypatch, key, value):
    monkeypatch.chdir(tmp_path)
    code, said = ended(tmp_path, mutated(base, key, value), capsys)
    assert code == 2
    assert "Traceback" not in said


@pytest.mark.long
def test_any_value_in_any_place_ends_well_or_in_one_sentence(tmp_path, base, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    long = [*itertools.product(ENDLESS, (-1, 1e300, None)), *((key, {}) for key in ("trainer", *ENDLESS))]
    places = [
        (key, value)
        for key, value in itertools.product(keys(base), VALUES)
        if (key.rpartition(".")[2], value) not in long
    ]
    for key, value in random.Random(0).sample(places, 150):
        assert ended(tmp_path, mutated(base, key, value), capsys)[0] in (0, 2), (key, value)
