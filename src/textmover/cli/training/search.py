"""``textmover search``: hyper-parameter search over a training recipe, with Optuna.

Every trial is a fit as ``train.py fit`` runs it, judged on the parts that the recipe keeps from training. All trials
are in a database, so that a search that was stopped goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import math
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from textmover.cli.console import causes, set_up_logging
from textmover.cli.training.search_trial import ObjectiveError, config_of, placed, run_trial, with_values, write_recipe
from textmover.cli.training.train import quiet_lightning
from textmover.csv_cells import CsvWriter
from textmover.experiments.search.space import JudgedParts, Space, check_keys, read_mapping, read_space
from textmover.files import atomic_file
from textmover.terminal import console, print_table
from textmover.types import InputError

logger = logging.getLogger(__name__)

DATABASE, TABLE, BEST = "search.db", "trials.csv", "best.yaml"
"""Files of the output folder."""

ASKED = "asked"
"""Attribute of the study that says what was asked for, so that --resume does not mix searches."""

HOPELESS = 3
"""A search whose first trials fail, as many as this, ends: the next ones would too."""

STARTUP = 10
"""Trials that are drawn at random before the sampler learns from those that there are."""

OPTIMISTIC = (
    "The best of {n} was chosen on the part that it is judged on here, so its value is optimistic: judge it once on "
    "ratings that had no part in the choice."
)


@dataclass(frozen=True)
class _Search:
    """Settings of a search.

    Attributes:
        recipe: The recipe that the values are set in.
        space: What is varied.
        objective: Name of the logged statistic.
        maximise: Whether more is better.
        seeds: Each trial is run with each; ``None`` is the recipe's own.
        folder: Of the output.
    """

    recipe: Mapping[str, Any]
    space: Space
    objective: str
    maximise: bool
    seeds: tuple[int | None, ...]
    folder: Path

    def asked(self) -> dict[str, Any]:
        """Settings that must be equal for a search to resume."""
        digest = hashlib.sha256(json.dumps(self.recipe, sort_keys=True, default=str).encode()).hexdigest()
        space = {key: repr(one) for key, one in self.space.items()}
        return {
            "--config": digest[:16],
            "--space": space,
            "--objective": self.objective,
            "--minimise": not self.maximise,
            "--seeds": list(self.seeds),
        }

    def values(self, trial: Any) -> dict[str, Any]:
        """Values that a trial has set, by key."""
        return {key: one.value(trial.params[key]) for key, one in self.space.items() if key in trial.params}


OPTIONS = (
    """
-c, --config RECIPE (required): a recipe for `textmover train`, YAML
--space FILE (required): YAML with keys as on the command line of train, such as
    model.init_args.optimizer.learning_rate, each with {low, high, log: true} or {choices: [...]}
--output FOLDER (required): where trials, table and best recipe go
--trials N (default 20, at least 1): trials in all, earlier ones among them
--objective NAME (default held-back/pearson): the logged statistic that is made large
--minimise: make the objective small, as of a loss
--seeds N...: run each trial with each seed and take the mean of the values
--sampler tpe|random (default tpe): how the next values are chosen
--sampler-seed N (default 0): seed of the choice of values
--no-pruning: run every trial to its end, also one that is below the median of the earlier ones after as many epochs
--resume: go on with the search that is in the folder
""",
)


def run(options: argparse.Namespace) -> None:
    """Run trials until there are as many as asked for; print the table and write the best recipe."""
    set_up_logging(quiet=True)
    quiet_lightning()
    for name in ("pytorch_lightning", "lightning_fabric"):  # what each trial would repeat
        logging.getLogger(name).setLevel(logging.WARNING)
    optuna = _optuna()
    seeds = tuple(options.seeds) if options.seeds else (None,)
    search = _Search(
        read_mapping(options.config, "a recipe"),
        read_space(options.space),
        options.objective,
        not options.minimise,
        seeds,
        Path(options.output),
    )
    with _alone(search.folder):
        _check(search)
        study = _study(optuna, search, options)
        try:
            _run_trials(optuna, search, study, options)
        except (KeyboardInterrupt, ObjectiveError) as error:
            _write(search, study)
            if isinstance(error, KeyboardInterrupt):
                logger.warning("%d trials are in %s; go on with --resume.", len(_ended(study)), search.folder / TABLE)
            raise
        _print(search, study)


def _check(search: _Search) -> None:
    """Have the command line read the recipe as it is, and with a value for each key, before the first trial."""
    file = search.folder / "recipe.yaml"
    check_keys(search.space, config_of(search.recipe, file))
    try:
        config_of(with_values(search.recipe, {key: one.first for key, one in search.space.items()}), file)
    finally:
        write_recipe(search.recipe, file)


def _run_trials(optuna: Any, search: _Search, study: Any, options: argparse.Namespace) -> None:
    """Trials one after another; table and best recipe are up to date after each."""
    states, trials = optuna.trial.TrialState, options.trials
    _write(search, study)
    while len(_ended(study)) < trials:
        stopped = study.get_trials(states=[states.RUNNING])  # when an earlier run ended
        trial = optuna.trial.Trial(study, stopped[0]._trial_id) if stopped else study.ask()
        values: dict[str, Any] = {}
        for key, one in search.space.items():
            # Seeds of their own let a resumed search draw what an unbroken one draws.
            study.sampler = _sampler(optuna, options, trial.number * len(search.space) + len(values))
            values[key] = one.suggest(trial, key)
        reason = _one_trial(optuna, search, study, trial, values)
        _write(search, study)
        last = study.trials[trial.number]
        shown = "" if last.value is None else f" {search.objective} {last.value:.4f}"
        told = ", ".join(f"{name}={_written(values[key])}" for key, name in _short(search.space).items())
        line = f"Trial {trial.number + 1} of {trials}: {_state(last)}{shown} ({told}){f': {reason}' if reason else ''}"
        console(stderr=True).print(line, soft_wrap=True)
        ended = _ended(study)
        if len(ended) == HOPELESS and all(one.state == states.FAIL for one in ended):
            raise InputError(
                f"Expected trials that can be run, but the first {HOPELESS} failed, the last one so: {reason}"
            )


def _one_trial(optuna: Any, search: _Search, study: Any, trial: Any, values: Mapping[str, Any]) -> str:
    """Run a trial with each seed and tell the study; returns why it failed, if it did."""
    states = optuna.trial.TrialState
    start, validations = time.monotonic(), 0
    found: list[float] = []
    reported = set(study.trials[trial.number].intermediate_values)  # of a trial that was stopped
    place = search.folder / f"trial-{trial.number + 1:03}"
    shutil.rmtree(place, ignore_errors=True)
    recipe, judged = with_values(search.recipe, values), JudgedParts(study, values)

    def report(number: int, value: float) -> None:
        if found or not math.isfinite(value):
            return  # a trial is compared with others by its first seed
        if number not in reported:
            trial.report(value, number)
        if trial.should_prune():
            raise optuna.TrialPruned

    reason, state = "", states.COMPLETE
    try:
        for seed in search.seeds:
            folder = place / ("" if seed is None else f"seed-{seed}")
            own = placed(recipe, folder, seed, checkpoints=True)
            check = partial(judged.check, seed)
            options: dict[str, Any] = {"maximise": search.maximise, "report": report, "judged": check}
            value, count = run_trial(own, folder, search.objective, **options)
            found.append(value)
            validations += count
        judged.keep()
    except optuna.TrialPruned:
        state = states.PRUNED
    except ObjectiveError:
        trial.set_user_attr("reason", "the objective is not logged")
        study.tell(trial, state=states.FAIL)
        raise
    except (ValueError, RuntimeError, ArithmeticError, OSError, MemoryError) as error:
        # One setting that cannot be run, such as a batch that the device has no room for, must not end the others.
        reason, state = " ".join(f"{error}".split()) or type(error).__name__, states.FAIL
        trial.set_user_attr("reason", reason)
    trial.set_user_attr("seconds", round(time.monotonic() - start, 1))
    trial.set_user_attr("validations", validations or len(study.trials[trial.number].intermediate_values))
    trial.set_user_attr("values", found)
    study.tell(trial, math.fsum(found) / len(found) if state == states.COMPLETE else None, state=state)
    return reason


def _study(optuna: Any, search: _Search, options: argparse.Namespace) -> Any:
    """The study in the folder, new or as it was left."""
    file = search.folder / DATABASE
    if file.exists() and not options.resume:
        raise InputError(
            f"Expected --output to be a folder without a search, but {search.folder} has one: --resume goes on with "
            "it, or give another folder."
        )
    storage = optuna.storages.RDBStorage(f"sqlite:///{file.resolve()}")
    study = optuna.create_study(
        storage=storage,
        study_name="search",
        direction="maximize" if search.maximise else "minimize",
        load_if_exists=True,
        pruner=optuna.pruners.NopPruner() if options.no_pruning else optuna.pruners.MedianPruner(n_startup_trials=4),
    )
    asked, before = search.asked(), study.user_attrs.get(ASKED)
    different = [] if before is None else [name for name in asked if asked[name] != before.get(name)]
    if different:
        raise InputError(
            f"Expected --resume to go on with the same search, but {different[0]} is another one than in "
            f"{search.folder}: give another --output."
        )
    study.set_user_attr(ASKED, asked)
    return study


def _sampler(optuna: Any, options: argparse.Namespace, number: int) -> Any:
    """A sampler that draws one value."""
    seed = options.sampler_seed + number
    if options.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(n_startup_trials=STARTUP, seed=seed)


def _write(search: _Search, study: Any) -> None:
    """Write the table of all trials, and the best recipe if there is one."""
    keys = list(search.space)
    with atomic_file(search.folder / TABLE) as stream:
        writer = CsvWriter(stream)
        writer.writerow(["trial", "state", search.objective, *keys, "values", "validations", "seconds", "reason"])
        for one in (one for one in study.trials if one.state.is_finished()):
            values, notes = search.values(one), one.user_attrs
            writer.writerow(
                [
                    one.number + 1,
                    _state(one),
                    "" if one.value is None else repr(one.value),
                    *(_written(values[key]) if key in values else "" for key in keys),
                    " ".join(map(repr, notes.get("values", []))),
                    *(notes.get(name, "") for name in ("validations", "seconds", "reason")),
                ]
            )
    best = _best(search, study)
    if best is not None:
        recipe = placed(
            with_values(search.recipe, search.values(best)), search.folder / "best", search.seeds[0], checkpoints=True
        )
        about = (
            f"{search.objective} {best.value:.4f}, trial {best.number + 1} of {len(_ended(study))} by textmover search"
        )
        command = f"python train.py fit --config {search.folder / BEST}"
        write_recipe(recipe, search.folder / BEST, [about, command])


def _print(search: _Search, study: Any) -> None:
    """The trials, the best first, and what to do with it."""
    best = _best(search, study)
    ended = _ended(study)
    if best is None:
        raise InputError(
            f"Expected at least one trial to end well, but none of {len(ended)} did: {search.folder / TABLE} says why."
        )
    names = _short(search.space)
    sign = -1 if search.maximise else 1
    ranked = sorted(ended, key=lambda one: (one.value is None, sign * (one.value or 0.0), one.number))
    headers = ["trial", search.objective, *names.values(), "state"]
    rows = []
    for one in ranked:
        values = search.values(one)
        cells = (_written(values[key]) if key in values else "" for key in names)
        value = "-" if one.value is None else f"{one.value:.4f}"
        rows.append([str(one.number + 1), value, *cells, "best" if one.number == best.number else _state(one)])
    print_table(headers, rows, numbers=headers[:-1], narrow=headers[:2])
    complete = sum(one.value is not None for one in ended)
    sys.stdout.write(f"\n{OPTIMISTIC.format(n=complete)}\n" if complete > 1 else "\n")
    sys.stdout.write(f"Files: {search.folder / TABLE}, {search.folder / BEST}. Train with the best:\n")
    sys.stdout.write(f"  python train.py fit --config {search.folder / BEST}\n")


def _best(search: _Search, study: Any) -> Any:
    complete = [one for one in _ended(study) if one.value is not None and _state(one) == "complete"]
    pick = max if search.maximise else min
    return pick(complete, key=lambda one: one.value, default=None)


def _ended(study: Any) -> list[Any]:
    """Trials that count; earlier versions kept those that were stopped beside their repetition."""
    return [
        one for one in study.trials if one.state.is_finished() and "run anew" not in one.user_attrs.get("reason", "")
    ]


def _state(trial: Any) -> str:
    return {"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower())


def _short(space: Space) -> dict[str, str]:
    """The shortest ends of keys that tell them apart."""
    found = {}
    for key in space:
        parts = key.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        found[key] = next(end for end in ends if sum(f".{other}".endswith(f".{end}") for other in space) == 1)
    return found


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One search at a time in a folder; the operating system drops the lock of one that was killed."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        with lock.acquire(timeout=0):
            yield
    except Timeout as error:
        raise InputError(f"Expected --output to be free, but another search runs in {folder}: wait for it.") from error
    except Exception as error:
        cause = next((one for one in causes(error) if isinstance(one, sqlite3.Error)), None)
        if cause is None:
            raise
        raise InputError(
            f"Expected to be able to read and write {folder / DATABASE}, but got: {cause}. Make room for it, and go on "
            "with --resume."
        ) from error


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            'Expected optuna to search, but it is not installed: pip install "textmover[search]".'
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
