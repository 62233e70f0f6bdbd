"""Hyper-parameter search: Optuna trials in a database, a table of trials and the best recipe."""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import logging
import math
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from textmover.csv_cells import CsvWriter
from textmover.experiments.search.space import Choices, JudgedParts, Space, read_recipe, read_space
from textmover.files import atomic_file
from textmover.markdown_escaping import one_line
from textmover.terminal import console, print_table
from textmover.types import InputError, fixed, plural

logger = logging.getLogger(__name__)

DATABASE, TABLE, BEST = "search.db", "trials.csv", "best.yaml"  # files of the output folder
RECIPE = "recipe.yaml"  # in the output folder that of the search, in a trial's folder its own
ASKED = "asked"  # study attribute with the search settings, compared by --resume
HOPELESS = 3  # a search ends if its first trials, this many, all fail
STARTUP = 10  # random trials before the sampler uses earlier results
OPTIMISTIC = (
    "The best of {n} was selected on the data that it is evaluated on here, so its value is optimistic: evaluate it "
    "once on unseen ratings."
)

RunTrial = Callable[..., "tuple[float, int]"]
"""Fits a recipe in a folder; returns the objective value and the number of validations."""


class ObjectiveError(InputError):
    """The objective is not among the logged validation values, so every trial would fail."""


class Search:
    """Search configured by the options of ``textmover search``; ``optuna`` is the imported package."""

    def __init__(self, options: argparse.Namespace, optuna: Any) -> None:
        self.options, self.optuna = options, optuna
        self.recipe = read_recipe(options.config)
        self.space: Space = read_space(options.space)
        self.objective: str = options.objective
        self.maximise = not options.minimise
        self.seeds: tuple[int | None, ...] = tuple(options.seeds or (None,))
        self.folder = Path(options.output)
        self.study: Any = None

    def check_folder(self) -> None:
        """Raise an error before anything is written if the output folder holds another search, or results of one."""
        if (self.folder / DATABASE).exists():
            self.open()
            return
        own = [path for name in (TABLE, BEST, "trial-*") for path in sorted(self.folder.glob(name))]
        given = [Path(one) for one in (self.options.config, self.options.space)]
        written = [(self.folder / name).resolve() for name in (RECIPE, TABLE, BEST)]
        found = next(iter([*own, *(path for path in given if path.resolve() in written)]), None)
        if found is not None:
            raise InputError(
                f"Expected --output to be a new folder, or one with {DATABASE} to continue, but {self.folder} has "
                f"{found}, which the search would replace: give another folder."
            )

    def open(self) -> None:
        """Create the study in the output folder, or load it to resume."""
        optuna, file = self.optuna, self.folder / DATABASE
        if file.exists() and not self.options.resume:
            raise InputError(
                f"Expected --output to be a folder without a search, but {self.folder} has one: continue it with "
                "--resume, or give another folder."
            )
        pruners = optuna.pruners
        self.study = optuna.create_study(
            storage=optuna.storages.RDBStorage(_database(file)),
            study_name="search",
            direction="maximize" if self.maximise else "minimize",
            load_if_exists=True,
            pruner=pruners.NopPruner() if self.options.no_pruning else pruners.MedianPruner(n_startup_trials=4),
        )
        digest = hashlib.sha256(json.dumps(self.recipe, sort_keys=True, default=str).encode()).hexdigest()
        settings = {
            "--config": digest[:16],
            "--space": {key: repr(entry) for key, entry in self.space.items()},
            "--objective": self.objective,
            "--minimise": not self.maximise,
            "--seeds": list(self.seeds),
        }
        earlier = self.study.user_attrs.get(ASKED, settings)
        different = [name for name in settings if settings[name] != earlier.get(name)]
        if different:
            raise InputError(
                f"Expected --resume to continue the same search, but {different[0]} differs from that in "
                f"{self.folder}: give another --output."
            )
        self.study.set_user_attr(ASKED, settings)

    def run(self, run_trial: RunTrial) -> None:
        """Run trials one after another; write the table and the best recipe after each."""
        states, trials = self.optuna.trial.TrialState, self.options.trials
        try:
            self._write()
            while len(self._finished()) < trials:
                running = self.study.get_trials(states=[states.RUNNING])  # left by an interrupted run
                trial = self.optuna.trial.Trial(self.study, running[0]._trial_id) if running else self.study.ask()
                values: dict[str, Any] = {}
                for key, entry in self.space.items():
                    # With a seed for each value, a resumed search samples the same values as an uninterrupted one.
                    self.study.sampler = self._sampler(trial.number * len(self.space) + len(values))
                    values[key] = entry.suggest(trial, key)
                reason = self._one_trial(trial, values, run_trial)
                self._write()
                last = self.study.trials[trial.number]
                shown = "" if last.value is None else f" {self.objective} {fixed(last.value, 4)}"
                chosen = ", ".join(f"{name}={_as_text(values[key])}" for key, name in _short_names(self.space).items())
                why = f": {reason}" if reason else ""
                line = f"Trial {trial.number + 1} of {trials}: {_state(last)}{shown} ({chosen}){why}"
                console(stderr=True).print(line, soft_wrap=True)
                ended = self._finished()
                if len(ended) == HOPELESS and all(one.state == states.FAIL for one in ended):
                    raise InputError(
                        f"Expected trials that can be run, but the first {HOPELESS} failed, the last with: {reason}"
                    )
        except (KeyboardInterrupt, ObjectiveError) as error:
            self._write()
            if isinstance(error, KeyboardInterrupt):
                table = self.folder / TABLE
                logger.warning("%s: %s so far; continue with --resume.", table, plural(len(self._finished()), "trial"))
            raise

    def _sampler(self, number: int) -> Any:
        seed = self.options.sampler_seed + number
        if self.options.sampler == "random":
            return self.optuna.samplers.RandomSampler(seed=seed)
        return self.optuna.samplers.TPESampler(n_startup_trials=STARTUP, seed=seed)

    def _one_trial(self, trial: Any, values: Mapping[str, Any], run_trial: RunTrial) -> str:
        """Run a trial with each seed and report it to the study; return the reason of a failure, else ``""``."""
        states, study = self.optuna.trial.TrialState, self.study
        start, validations = time.monotonic(), 0
        results: list[float] = []
        reported = set(study.trials[trial.number].intermediate_values)  # by a run that was interrupted
        place = self.folder / f"trial-{trial.number + 1:03}"
        shutil.rmtree(place, ignore_errors=True)
        recipe, judged = with_values(self.recipe, values), JudgedParts(study, values)

        def report(number: int, value: float) -> None:
            if results or not math.isfinite(value):
                return  # pruning compares trials by their first seed
            if number not in reported:
                trial.report(value, number)
            if trial.should_prune():
                raise self.optuna.TrialPruned

        reason, state = "", states.COMPLETE
        try:
            for seed in self.seeds:
                folder = place / ("" if seed is None else f"seed-{seed}")
                seed_recipe = placed(recipe, folder, seed, checkpoints=True)
                callbacks: dict[str, Any] = {"report": report, "judged": partial(judged.check, seed)}
                value, count = run_trial(seed_recipe, folder, self.objective, maximise=self.maximise, **callbacks)
                results.append(value)
                validations += count
            judged.keep()
        except self.optuna.TrialPruned:
            state = states.PRUNED
        except ObjectiveError:
            trial.set_user_attr("reason", "the objective is not logged")
            study.tell(trial, state=states.FAIL)
            raise
        except (ValueError, RuntimeError, ArithmeticError, OSError, MemoryError) as error:
            # A setting that fails, for example out of memory, must not end the search.
            reason, state = " ".join(f"{error}".split()) or type(error).__name__, states.FAIL
            trial.set_user_attr("reason", reason)
        trial.set_user_attr("seconds", round(time.monotonic() - start, 1))
        trial.set_user_attr("validations", validations or len(study.trials[trial.number].intermediate_values))
        trial.set_user_attr("values", results)
        study.tell(trial, math.fsum(results) / len(results) if state == states.COMPLETE else None, state=state)
        return reason

    def _write(self) -> None:
        with atomic_file(self.folder / TABLE) as stream:
            writer = CsvWriter(stream)
            ends = ("validations", "seconds", "reason")
            writer.writerow(["trial", "state", self.objective, *self.space, "values", *ends])
            for one in (one for one in self.study.trials if one.state.is_finished()):
                value, notes = "" if one.value is None else repr(one.value), one.user_attrs
                every = " ".join(map(repr, notes.get("values", [])))
                cells = [*self._cells(one), every, *(notes.get(name, "") for name in ends)]
                writer.writerow([one.number + 1, _state(one), value, *cells])
        best = self._best()
        if best is not None:
            recipe = with_values(self.recipe, self._values(best))
            recipe = placed(recipe, self.folder / "best", self.seeds[0], checkpoints=True)
            trial = f"trial {best.number + 1} of {len(self._finished())} by textmover search"
            command = f"textmover train --config {shlex.quote(str(self.folder / BEST))}"
            write_recipe(recipe, self.folder / BEST, [f"{self.objective} {fixed(best.value, 4)}, {trial}", command])

    def print(self) -> None:
        """Print the trials, best first, and the command that trains with the best recipe."""
        best, ended = self._best(), self._finished()
        if best is None:
            table = self.folder / TABLE
            raise InputError(
                f"Expected at least one trial to end well, but none of {len(ended)} did: {table} says why."
            )
        sign = -1 if self.maximise else 1
        headers = ["trial", self.objective, *_short_names(self.space).values(), "state"]
        rows = []
        for trial in sorted(ended, key=lambda trial: (trial.value is None, sign * (trial.value or 0.0), trial.number)):
            value = "-" if trial.value is None else fixed(trial.value, 4)
            state = "best" if trial.number == best.number else _state(trial)
            rows.append([str(trial.number + 1), value, *self._cells(trial), state])
        print_table(headers, rows, numbers=headers[:-1], narrow=headers[:2])
        complete = sum(trial.value is not None for trial in ended)
        sys.stdout.write(f"\n{OPTIMISTIC.format(n=complete)}\n" if complete > 1 else "\n")
        sys.stdout.write(f"Files: {self.folder / TABLE}, {self.folder / BEST}. Train with the best:\n")
        sys.stdout.write(f"  textmover train --config {shlex.quote(str(self.folder / BEST))}\n")

    def _values(self, trial: Any) -> dict[str, Any]:
        stored = {key: trial.params[key] for key in self.space if key in trial.params}
        return {key: json.loads(one) if isinstance(self.space[key], Choices) else one for key, one in stored.items()}

    def _cells(self, trial: Any) -> list[str]:
        values = self._values(trial)
        return [_as_text(values[key]) if key in values else "" for key in self.space]

    def _best(self) -> Any:
        complete = [one for one in self._finished() if one.value is not None and _state(one) == "complete"]
        return (max if self.maximise else min)(complete, key=lambda one: one.value, default=None)

    def _finished(self) -> list[Any]:
        """Return the finished trials, except interrupted ones that earlier versions stored with the reason below."""
        finished = [one for one in self.study.trials if one.state.is_finished()]
        return [one for one in finished if "run anew" not in one.user_attrs.get("reason", "")]


def _state(trial: Any) -> str:
    return {"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower())


def _short_names(space: Space) -> dict[str, str]:
    names = {}
    for key in space:
        parts = key.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        names[key] = next(end for end in ends if sum(f".{other}".endswith(f".{end}") for other in space) == 1)
    return names


def _as_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


PLACES = ("dirpath", "folder", "root_dir", "save_dir")  # output folder options of loggers and callbacks
CHECKPOINT = "ModelCheckpoint"


def with_values(recipe: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a recipe with values set by dotted keys.

    Example:
        >>> with_values({"model": {"rate": 1, "kind": "a"}}, {"model.rate": 2, "data.seed": 0})
        {'model': {'rate': 2, 'kind': 'a'}, 'data': {'seed': 0}}
    """
    result: dict[str, Any] = copy.deepcopy(dict(recipe))
    for key, value in values.items():
        *path, last = key.split(".")
        target = result
        for name in path:
            if target.get(name) is None:
                target[name] = {}
            target = target[name]
            if not isinstance(target, dict):
                raise InputError(f"Expected {key} to be a key of the recipe, but {name} has no keys there.")
        target[last] = value
    return result


def placed(recipe: Mapping[str, Any], folder: Path, seed: int | None, *, checkpoints: bool) -> dict[str, Any]:
    """Return a copy of a recipe that writes all its output to a folder.

    With ``checkpoints``, it exports the metric there too. The seed sets weights, dropout and the order of the data.
    """
    result: dict[str, Any] = copy.deepcopy(dict(recipe))
    trainer = result["trainer"] = dict(result.get("trainer") or {})
    trainer["default_root_dir"] = str(folder)
    for entry in (*_entries(trainer.get("logger")), *_entries(trainer.get("callbacks"))):
        options = entry.get("init_args") or {}
        for name in PLACES:
            if isinstance(options.get(name), str):
                options[name] = str(folder / "checkpoints" if name == "dirpath" else folder)
    result["export"] = str(folder / "metric") if checkpoints else None
    if not checkpoints:
        trainer["enable_checkpointing"] = False
        trainer["callbacks"] = [one for one in _entries(trainer.get("callbacks")) if not _is_checkpoint(one)]
    if seed is not None:
        result["seed_everything"] = seed
        options = (result.get("data") or {}).get("init_args") or {}
        if "seed" in options:
            options["seed"] = seed
    return result


def watched(recipe: Mapping[str, Any], objective: str) -> bool:
    """Return whether the recipe has a checkpoint callback that monitors the objective."""
    callbacks = _entries((recipe.get("trainer") or {}).get("callbacks"))
    return any(_is_checkpoint(one) and (one.get("init_args") or {}).get("monitor") == objective for one in callbacks)


def write_recipe(recipe: Mapping[str, Any], file: Path, comment: Sequence[str] = ()) -> Path:
    """Write a recipe as YAML in its key order, below comment lines."""
    with atomic_file(file) as stream:
        stream.writelines(f"# {one_line(line)}\n" for line in comment)
        yaml.safe_dump(dict(recipe), stream, sort_keys=False, allow_unicode=True, width=120)
    return file


def _entries(value: Any) -> list[dict[str, Any]]:
    """Return the entries (class path and options) of a single entry or a list."""
    several = value if isinstance(value, list) else [value]
    return [one for one in several if isinstance(one, dict)]


def _is_checkpoint(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("class_path", "")).rsplit(".", 1)[-1] == CHECKPOINT


def _database(file: Path) -> str:
    """Return the URL of a database; raise an error if SQLAlchemy cannot write one for its path (before version 2.1)."""
    from sqlalchemy import URL, make_url

    path = str(file.resolve())
    url = URL.create("sqlite", database=path).render_as_string(hide_password=False)
    if make_url(url).database != path:
        raise InputError(f"Expected --output without ? and %, but got {file.parent}: give another folder.")
    return url
