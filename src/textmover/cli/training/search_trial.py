"""One trial of a search: a recipe with some values set, run as ``train.py fit`` runs it, in a folder of its own."""

from __future__ import annotations

import copy
import gc
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import yaml

from textmover.cli.training.train import TrainCLI, run_training
from textmover.experiments.search.space import judged_print
from textmover.files import atomic_file
from textmover.markdown import one_line
from textmover.training.trainer_checks import check_moved
from textmover.types import InputError

PLACES = ("dirpath", "folder", "root_dir", "save_dir")
"""Options of loggers and callbacks that say where they write."""

CHECKPOINT = "ModelCheckpoint"


class ObjectiveError(InputError):
    """The objective is not among the logged validation values, so that no trial can have one."""


class _ConfigCLI(TrainCLI):
    """Reads and checks the arguments, and stops there."""

    def instantiate_classes(self) -> None:
        """Build nothing."""

    def _run_subcommand(self, subcommand: str) -> None:
        """Run nothing."""


class _TrialCLI(TrainCLI):
    """Fits, and neither reports nor exports: the value of a trial is what its validations logged."""

    def before_fit(self) -> None:
        """Refuse several processes, each of which would start a search of its own."""
        if self.trainer.world_size > 1:
            raise InputError(
                f"Expected one device to a trial, but the recipe takes {self.trainer.world_size}: set "
                "trainer.devices to 1."
            )

    def after_fit(self) -> None:
        """Leave the parts that were kept from training alone."""
        check_moved(self.model)


class _Watch(pl.Callback):
    """Keeps the objective of each validation, and hands it on, as it does the print of what is judged."""

    def __init__(self, objective: str, report: Callable[[int, float], None], judged: Callable[[str], None]) -> None:
        self.objective, self.report, self.judged = objective, report, judged
        self.values: list[float] = []

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Tell what validations will judge, before a step is made."""
        self.judged(judged_print(trainer.datamodule))  # type: ignore[attr-defined]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note the value.

        Raises:
            ObjectiveError: If validation does not log it.
        """
        if trainer.sanity_checking:
            return
        logged = trainer.callback_metrics
        if self.objective not in logged:
            names = ", ".join(sorted(name for name in logged if not name.startswith("train/")))
            raise ObjectiveError(
                f"Expected --objective to be one of what validation logs ({names}), but got {self.objective!r}."
            )
        self.values.append(float(logged[self.objective]))
        self.report(len(self.values), self.values[-1])


def config_of(recipe: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """All keys of a recipe with their values, defaults among them, as the command line reads them.

    Args:
        recipe: The recipe.
        file: Where to write it for that.
    """
    arguments = ["fit", "--config", str(write_recipe(recipe, file))]
    config = run_training(arguments, _ConfigCLI).config["fit"]
    return dict(config.items())


def with_values(recipe: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a recipe with values set by dotted keys.

    Example:
        >>> with_values({"model": {"rate": 1, "kind": "a"}}, {"model.rate": 2, "data.seed": 0})
        {'model': {'rate': 2, 'kind': 'a'}, 'data': {'seed': 0}}
    """
    found: dict[str, Any] = copy.deepcopy(dict(recipe))
    for key, value in values.items():
        *path, last = key.split(".")
        target = found
        for name in path:
            if target.get(name) is None:
                target[name] = {}
            target = target[name]
            if not isinstance(target, dict):
                raise InputError(f"Expected {key} to be a key of the recipe, but {name} has no keys there.")
        target[last] = value
    return found


def placed(recipe: Mapping[str, Any], folder: Path, seed: int | None, *, checkpoints: bool) -> dict[str, Any]:
    """A copy of a recipe that writes nowhere but into a folder.

    Args:
        recipe: The recipe.
        folder: Where logs and checkpoints go; with checkpoints, the exported metric too.
        seed: Of weights, dropout and the order of the data; ``None`` leaves the recipe's.
        checkpoints: Whether checkpoints are written.
    """
    found: dict[str, Any] = copy.deepcopy(dict(recipe))
    trainer = found["trainer"] = dict(found.get("trainer") or {})
    trainer["default_root_dir"] = str(folder)
    for entry in (*_entries(trainer.get("logger")), *_entries(trainer.get("callbacks"))):
        options = entry.get("init_args") or {}
        for name in PLACES:
            if isinstance(options.get(name), str):
                options[name] = str(folder / "checkpoints" if name == "dirpath" else folder)
    found["export"] = str(folder / "metric") if checkpoints else None
    if not checkpoints:
        trainer["enable_checkpointing"] = False
        trainer["callbacks"] = [one for one in _entries(trainer.get("callbacks")) if not _is_checkpoint(one)]
    if seed is not None:
        found["seed_everything"] = seed
        options = (found.get("data") or {}).get("init_args") or {}
        if "seed" in options:
            options["seed"] = seed
    return found


def watched(recipe: Mapping[str, Any], objective: str) -> bool:
    """Return whether the recipe keeps the best weights by the objective, rather than the last ones."""
    callbacks = _entries((recipe.get("trainer") or {}).get("callbacks"))
    return any(_is_checkpoint(one) and (one.get("init_args") or {}).get("monitor") == objective for one in callbacks)


def run_trial(
    recipe: Mapping[str, Any],
    folder: Path,
    objective: str,
    *,
    maximise: bool,
    report: Callable[[int, float], None],
    judged: Callable[[str], None],
) -> tuple[float, int]:
    """Fit a recipe in a folder, by the code that ``train.py fit`` runs.

    Args:
        recipe: The recipe.
        folder: For its logs; the recipe as it was run is written there.
        objective: Name of the logged statistic.
        maximise: Whether more is better.
        report: Called after each validation with its number, from 1, and the value; may raise to end the trial.
        judged: Called before the first step with the print of the parts that validations judge; may raise likewise.

    Returns:
        The value (that of the best validation, where the recipe keeps those weights, else that of the last one), and
        the number of validations.
    """
    watch = _Watch(objective, report, judged)
    own = placed(recipe, folder, None, checkpoints=False)
    own["trainer"] |= {"enable_progress_bar": False, "num_sanity_val_steps": 0}
    try:
        run_training(["fit", "--config", str(write_recipe(own, folder / "recipe.yaml"))], _TrialCLI, [watch])
    finally:
        gc.collect()  # a Lightning module and its trainer refer to each other
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if not watch.values:
        raise ObjectiveError("Expected the recipe to validate at least once, but it ended before: let it run longer.")
    finite = [value for value in watch.values if math.isfinite(value)]
    if not finite or not math.isfinite(watch.values[-1]):
        raise InputError(f"Expected a finite {objective}, but got {watch.values[-1]}.")
    best = (max if maximise else min)(finite)
    return (best if watched(recipe, objective) else watch.values[-1]), len(watch.values)


def write_recipe(recipe: Mapping[str, Any], file: Path, comment: Sequence[str] = ()) -> Path:
    """Write a recipe as YAML, in the order that it has, below lines of comment."""
    with atomic_file(file) as stream:
        stream.writelines(f"# {one_line(line)}\n" for line in comment)
        yaml.safe_dump(dict(recipe), stream, sort_keys=False, allow_unicode=True, width=120)
    return file


def _entries(value: Any) -> list[dict[str, Any]]:
    """Class paths with their options, of one or several."""
    several = value if isinstance(value, list) else [value]
    return [one for one in several if isinstance(one, dict)]


def _is_checkpoint(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("class_path", "")).rsplit(".", 1)[-1] == CHECKPOINT
