"""Small training runs for the tests: made-up ratings, a recipe over the tiny encoder, a run that kills itself."""

from __future__ import annotations

import csv
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import yaml

HARMLESS = {"old": "young", "red": "green", "big": "small", "quickly": "slowly"}
HARMFUL = {"cat": "dog", "sat": "ran", "on": "under", "mat": "rug"}


def write_ratings(path: Path, n: int = 120, *, seed: int = 0) -> Path:
    """Sentences with some words exchanged, in three groups; some exchanges cost 15 points, the others nothing."""
    rng = random.Random(seed)
    lines = ["group\treference\thypothesis\tscore"]
    words = [*HARMLESS, *HARMFUL]
    for number in range(n):
        sentence = rng.sample(words, k=rng.randint(4, 8))
        damaged = [(HARMLESS | HARMFUL)[word] if rng.random() < 0.5 else word for word in sentence]
        harm = sum(new == HARMFUL.get(word) for word, new in zip(sentence, damaged, strict=True))
        lines.append(f"g{number % 3}\t{' '.join(sentence)}\t{' '.join(damaged)}\t{100 - 15 * harm}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recipe(folder: Path, encoder: Path, ratings: Path, **changes: Any) -> dict[str, Any]:
    """A configuration for ``train.py fit`` over the tiny encoder."""
    checkpoint = "pytorch_lightning.callbacks.ModelCheckpoint"
    common = {"dirpath": str(folder / "checkpoints"), "enable_version_counter": False}
    config: dict[str, Any] = {
        "seed_everything": 3,
        "trainer": {
            "accelerator": "cpu",
            "devices": 1,
            "max_epochs": 3,
            "deterministic": True,
            "enable_progress_bar": False,
            "num_sanity_val_steps": 0,
            "log_every_n_steps": 1,
            "default_root_dir": str(folder),
            "logger": {
                "class_path": "pytorch_lightning.loggers.CSVLogger",
                "init_args": {"save_dir": str(folder), "name": "log"},
            },
            "callbacks": [
                {
                    "class_path": checkpoint,
                    "init_args": {**common, "filename": "best", "monitor": "held-back/pearson", "mode": "max"},
                },
                {"class_path": checkpoint, "init_args": {**common, "filename": "resume", "every_n_train_steps": 5}},
            ],
        },
        "model": {
            "class_path": "textmover.training.RatingsModule",
            "init_args": {
                "metric": "twmd",
                "overrides": {"encoder": str(encoder), "temperature": 0.1, "centering": "corpus"},
                "optimizer": {"learning_rate": 2e-3},
                "bfloat16": "no",
            },
        },
        "data": {
            "class_path": "textmover.data.RatingsDataModule",
            "init_args": {
                "train": [str(ratings)],
                "columns": {"groups": ["group"]},
                "group": "group",
                "held_back": 0.25,
                "batch_size": 8,
            },
        },
        "export": str(folder / "metric"),
    }
    for key, value in changes.items():
        target = config
        *path, last = key.split("__")
        for part in path:
            target = target[part]
        target[last] = value
    return config


def write_recipe(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def logged(folder: Path, version: str = "*") -> list[dict[str, str]]:
    """Rows of the log of a run, without the cells that are empty."""
    (path,) = folder.glob(f"log/version_{version}/metrics.csv")
    with path.open(newline="") as stream:
        return [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(stream)]


def main() -> int:
    """Train with the given arguments; at the step and with the signal that the first two name, end this process."""
    import pytorch_lightning as pl

    from textmover.cli.training.train import main as train

    step, name, *arguments = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has children ignore it

    original = pl.LightningModule.on_train_batch_start

    def kill(self: pl.LightningModule, *args: Any) -> Any:
        if self.global_step == int(step):
            os.kill(os.getpid(), signal.Signals[name])
        return original(self, *args)

    pl.LightningModule.on_train_batch_start = kill
    return train(arguments)


if __name__ == "__main__":
    sys.exit(main())
