"""``textmover search``: hyper-parameter search over a training recipe, with Optuna.

Every trial is a fit like that of ``train.py fit``, evaluated on the validation parts of the recipe. All trials are
stored in a database, so that an interrupted search can be resumed.
"""

from __future__ import annotations

import argparse
import logging
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from filelock import Timeout
from pytorch_lightning.utilities.memory import garbage_collection_cuda

from textmover.cli.training.train import TrainCLI, quiet_lightning, run_training
from textmover.experiments.search import study
from textmover.experiments.search.space import Range, check_keys, validation_fingerprint
from textmover.files import held_lock
from textmover.runs.exit_codes_and_signals import causes
from textmover.training.trainer_checks import check_moved
from textmover.types import InputError, needs_extra


def run(options: argparse.Namespace) -> None:
    """Run the requested number of trials, print the table and write the best recipe."""
    quiet_lightning()
    for name in ("pytorch_lightning", "lightning_fabric"):  # messages that every trial repeats
        logging.getLogger(name).setLevel(logging.WARNING)
    with needs_extra("search", "optuna to search"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = study.Search(options, optuna)
    with _folder_lock(search.folder):
        search.check_folder()
        _check(search)
        search.open()
        search.run(run_trial)
        search.print()


def _check(search: study.Search) -> None:
    """Parse the recipe before the first trial, unchanged and with a value for each key."""
    file = search.folder / study.RECIPE
    check_keys(search.space, config_of(search.recipe, file))
    try:
        first = {key: one.low if isinstance(one, Range) else one.values[0] for key, one in search.space.items()}
        config_of(study.with_values(search.recipe, first), file)
    finally:
        study.write_recipe(search.recipe, file)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Lock the folder against other searches; the operating system releases the lock of a killed one."""
    try:
        with held_lock(folder / ".lock", 0):
            yield
    except Timeout as error:
        raise InputError(f"Expected --output to be free, but another search runs in {folder}: wait for it.") from error
    except Exception as error:
        cause = next((one for one in causes(error) if isinstance(one, sqlite3.Error)), None)
        if cause is None:
            raise
        raise InputError(
            f"Expected to be able to read and write {folder / study.DATABASE}, but got: {cause}. Free some space, "
            "and go on with --resume."
        ) from error


# --- one trial --------------------------------------------------------------------------------------------------------


class _ConfigCLI(TrainCLI):
    """Command line that only parses and checks the arguments."""

    def instantiate_classes(self) -> None:
        """Build nothing."""

    def _run_subcommand(self, subcommand: str) -> None:
        """Run nothing."""


class _TrialCLI(TrainCLI):
    """Command line that fits without report and export; the value of a trial is what its validations log."""

    def before_fit(self) -> None:
        """Raise :class:`InputError` for several processes, since each would start its own search."""
        if self.trainer.world_size > 1:
            raise InputError(
                f"Expected one device to a trial, but the recipe takes {self.trainer.world_size}: set "
                "trainer.devices to 1."
            )

    def after_fit(self) -> None:
        """Skip the report on the evaluation parts."""
        check_moved(self.model)


class _ObjectiveRecorder(pl.Callback):
    """Callback that records and reports the objective of each validation and the fingerprint of the validation data."""

    def __init__(self, objective: str, report: Callable[[int, float], None], judged: Callable[[str], None]) -> None:
        self.objective, self.report, self.judged = objective, report, judged
        self.values: list[float] = []

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report the fingerprint of the validation data before the first step."""
        self.judged(validation_fingerprint(trainer.datamodule))  # type: ignore[attr-defined]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the objective; raise an error if validation does not log it."""
        if trainer.sanity_checking:
            return
        logged = trainer.callback_metrics
        if self.objective not in logged:
            names = ", ".join(sorted(name for name in logged if not name.startswith("train/")))
            raise study.ObjectiveError(
                f"Expected --objective to be one of what validation logs ({names}), but got {self.objective!r}."
            )
        self.values.append(float(logged[self.objective]))
        self.report(len(self.values), self.values[-1])


def config_of(recipe: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return all values of a recipe with defaults, as the command line parses them from a file."""
    arguments = ["fit", "--config", str(study.write_recipe(recipe, file))]
    config = run_training(arguments, _ConfigCLI).config["fit"]
    return dict(config.items())


def run_trial(
    recipe: Mapping[str, Any],
    folder: Path,
    objective: str,
    *,
    maximise: bool,
    report: Callable[[int, float], None],
    judged: Callable[[str], None],
) -> tuple[float, int]:
    """Fit a recipe in a folder with the code of ``train.py fit``; return the objective and the number of validations.

    ``report`` gets the number and value of each validation, ``judged`` the fingerprint of the validation data. Both may
    raise an error to end the trial. The objective is that of the best validation if the recipe keeps its weights, else
    that of the last one.
    """
    recorder = _ObjectiveRecorder(objective, report, judged)
    trial = study.placed(recipe, folder, None, checkpoints=False)
    trial["trainer"] |= {"enable_progress_bar": False, "num_sanity_val_steps": 0}
    try:
        run_training(["fit", "--config", str(study.write_recipe(trial, folder / "recipe.yaml"))], _TrialCLI, [recorder])
    finally:
        garbage_collection_cuda()  # a Lightning module and its trainer refer to each other
    if not recorder.values:
        raise study.ObjectiveError(
            "Expected the recipe to validate at least once, but it ended before: let it run longer."
        )
    finite = [value for value in recorder.values if math.isfinite(value)]
    if not finite or not math.isfinite(recorder.values[-1]):
        raise InputError(f"Expected a finite {objective}, but got {recorder.values[-1]}.")
    best = (max if maximise else min)(finite)
    return (best if study.watched(recipe, objective) else recorder.values[-1]), len(recorder.values)
