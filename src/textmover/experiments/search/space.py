"""Search spaces for hyper-parameters, and whether the trials of a search can be compared."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from textmover.data.datamodule import SourcesDataModule
from textmover.data.sources import RatedSource, Source
from textmover.modules.config import MetricConfig
from textmover.safe_reading import is_pipe, read_yaml
from textmover.types import InputError
from textmover.types.argument_checks import did_you_mean

JUDGING = (
    "beside", "class_path", "column", "columns", "group", "held_back", "held_out", "labels", "scales", "sentences",
    "sources", "split", "task", "texts", "train", "types", "validation", "validation_batch_size", "validation_split",
    "validation_where", "versions", "where", "without", "words",
)  # fmt: skip
"""Options of the data that say what trials are judged on; with them varied, values could not be compared.

They are refused before the first trial. What else changes the judged parts, each trial finds out when it has read them.
"""

OVERRIDES = "model.init_args.overrides."

OWN = ("seed_everything", "export", "ckpt_path", "trainer.default_root_dir", "trainer.logger", "trainer.callbacks")
"""Keys that the search sets for each trial."""


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, whole where both ends are."""

    low: float
    high: float
    log: bool = False  # whether each factor, rather than each difference, is as likely
    step: float | None = None  # distance of the values; any (any whole) number if None

    def suggest(self, trial: Any, key: str) -> Any:
        """The value that a trial of Optuna takes."""
        if isinstance(self.low, int) and isinstance(self.high, int) and not isinstance(self.step, float):
            return trial.suggest_int(key, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)

    def value(self, stored: Any) -> Any:
        """Value of a stored choice: itself."""
        return stored

    @property
    def first(self) -> Any:
        """A value of the range."""
        return self.low


@dataclass(frozen=True)
class Choices:
    """Values of any kind that YAML has, at least one."""

    values: tuple[Any, ...]

    def suggest(self, trial: Any, key: str) -> Any:
        """The value that a trial of Optuna takes, which stores its JSON: 1, true and mappings stay apart."""
        return self.value(trial.suggest_categorical(key, [_label(one) for one in self.values]))

    def value(self, stored: Any) -> Any:
        """Value of a stored choice."""
        return json.loads(stored)

    @property
    def first(self) -> Any:
        """One of them."""
        return self.values[0]


Space = Mapping[str, Range | Choices]
"""Range or choices of each key, which is written as on the command line of ``train.py fit``."""

PARTS = ("data", "model", "trainer", "optimizer", "lr_scheduler")
"""Keys of a recipe whose value may stand in a file of its own."""


def read_mapping(path: Path | str, what: str) -> dict[str, Any]:
    """A file that holds a mapping."""
    content = read_yaml(path)
    if not isinstance(content, dict) or not content:
        kind = "text" if isinstance(content, str) else type(content).__name__
        got = "none" if content is None else f"a {kind}"
        raise InputError(f"Expected {path} to be {what}, a mapping of keys to values, but got {got}: correct it.")
    return content


def read_recipe(path: Path | str) -> dict[str, Any]:
    """A recipe; its parts in other files are checked too, as Lightning reads both again without bounds."""
    _check_no_pipe(Path(path))
    recipe = read_mapping(path, "a recipe")
    for key in PARTS:
        if isinstance(part := recipe.get(key), str) and os.path.exists(place := Path(path).parent / part):
            _check_no_pipe(place)
            read_mapping(place, f"the part `{key}` of a recipe")
    return recipe


def _check_no_pipe(path: Path) -> None:
    if is_pipe(path):
        raise InputError(f"Expected {path} to be a file, as a recipe is read more than once, but got a pipe: save it.")


def read_space(path: Path | str) -> dict[str, Range | Choices]:
    """Read a search space."""
    return {str(key): _entry(str(key), value) for key, value in read_mapping(path, "a search space").items()}


def check_keys(space: Space, config: Mapping[str, Any]) -> None:
    """Refuse keys that the recipe cannot have, or that the search must not vary."""
    for key in space:
        if key.startswith(OWN):
            raise InputError(
                f"Expected keys of the recipe to search over, but {key} is set by the search: leave it out."
            )
        if _judging(key):
            raise InputError(
                f"Expected the parts that trials are judged on to stay the same, but {key} changes them: leave it out."
            )
        if key.startswith(OVERRIDES):
            prefix, near = OVERRIDES, [field.name for field in fields(MetricConfig)]
            known = key.removeprefix(OVERRIDES) in near
        else:
            parents = [key.rsplit(".", count)[0] for count in range(1, key.count(".") + 1)]
            # Under a mapping, or a setting that is off, there are keys that only the run itself can judge.
            known = key in config or any(isinstance(config.get(one, ""), dict | None) for one in parents)
            prefix, near = "", list(config)
        if not known:
            otherwise = "write keys as `train.py fit --print_config` does."
            way = did_you_mean(key.removeprefix(prefix), near, otherwise, prefix + "{}")
            raise InputError(f"Expected keys of the recipe to search over, but it has no {key}: {way}")


def _judging(key: str) -> bool:
    """Return whether a key is an option of the data, or of one of several sources, by which the judged parts change."""
    first, *path = key.split(".")
    if first != "data":
        return False
    while path[:1] == ["init_args"] or (path[:1] == ["sources"] and len(path) > 1):
        path = path[1:] if path[0] == "init_args" else path[2:]
    return not path or path[0] in JUDGING


def _entry(key: str, value: Any) -> Range | Choices:
    if isinstance(value, dict) and set(value) == {"choices"}:
        values = value["choices"]
        if not isinstance(values, list) or not values:
            raise InputError(f"Expected `choices` of {key} to be a list of values, but got {values!r}.")
        if len({_label(one) for one in values}) < len(values):
            raise InputError(f"Expected `choices` of {key} to differ, but got {values!r}: name each once.")
        return Choices(tuple(values))
    if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= {"low", "high", "log", "step"}:
        raise InputError(
            f"Expected {key} to have {{low, high}}, with log or step if wanted, or {{choices}}, but got {value!r}."
        )
    low, high = _number(key, "low", value["low"]), _number(key, "high", value["high"])
    step = None if value.get("step") is None else _number(key, "step", value["step"])
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise InputError(f"Expected `log` of {key} to be true or false, but got {log!r}.")
    if not low < high:
        raise InputError(f"Expected `low` of {key} to be below `high`, but got {low} and {high}: exchange them.")
    if log and not low > 0:
        raise InputError(f"Expected `low` of {key} to be above 0 on a logarithmic scale, but got {low}.")
    if step is not None and (log or not 0 < step <= high - low):
        raise InputError(
            f"Expected `step` of {key} to be above 0, at most {high - low} and without log, but got {step}."
        )
    return Range(low, high, log, step)


def _number(key: str, name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"Expected `{name}` of {key} to be a finite number, but got {value!r}.")
    return value


def _label(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


JUDGED = "judged"
"""Attribute of the study: the print of the judged parts by seed, and the values of the trial that it is of."""


def judged_print(data: SourcesDataModule) -> str:
    """SHA-256 of all that trials are judged on: texts, ratings or labels, and the groups of a correlation."""
    digest = hashlib.sha256()
    for source, part in data.judged:
        # Partners are looked for within a batch, so that the smaller it is, the more are found.
        batch = None if isinstance(source, RatedSource) else source.validation_batch_size
        for entry in [(data.label(source, part), batch), *_items(source, part)]:
            digest.update(f"{entry!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _items(source: Source[Any], part: str) -> list[tuple[Any, ...]]:
    items = source.parts[part]
    groups = source.groups_of(items) if isinstance(source, RatedSource) else [None] * len(items)
    told = ((getattr(item, "score", None), getattr(item, "label", None)) for item in items)
    return [(source.texts(item), *one, group) for item, one, group in zip(items, told, groups, strict=True)]


class JudgedParts:
    """The parts that one trial is judged on, beside those of the first trial that ended well."""

    def __init__(self, study: Any, values: Mapping[str, Any]) -> None:
        self.study, self.values = study, dict(values)
        self.found: dict[str, str] = {}

    def check(self, seed: int | None, found: str) -> None:
        """Compare the parts of a fit with the known ones."""
        self.found[str(seed)] = found
        known = self.study.user_attrs.get(JUDGED, {}).get(str(seed))
        if known is None or known["print"] == found:
            return
        other = [key for key, value in self.values.items() if known["values"].get(key) != value]
        likely = [key for key in other if key.startswith("data.")] or other
        way = f"leave {' and '.join(likely)} out of the space" if likely else "the files have changed: search again"
        raise InputError(
            "Expected the parts that trials are judged on to stay the same, but they are not those of the first trial: "
            f"{way}."
        )

    def keep(self) -> None:
        """Have the trials to come be compared with this one, which has ended well, unless they are with another."""
        new = {seed: {"print": found, "values": self.values} for seed, found in self.found.items()}
        self.study.set_user_attr(JUDGED, {**new, **self.study.user_attrs.get(JUDGED, {})})
