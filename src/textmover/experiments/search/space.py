"""Hyper-parameter search spaces, and checks that all trials use the same validation data."""

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
from textmover.data.training_sources import RatedSource, Source
from textmover.modules.config import MetricConfig
from textmover.safe_reading import is_pipe, read_yaml
from textmover.types import InputError
from textmover.types.argument_checks import did_you_mean

JUDGING = (
    "beside", "class_path", "column", "columns", "group", "held_back", "held_out", "labels", "scales", "sentences",
    "sources", "split", "task", "texts", "train", "types", "validation", "validation_batch_size", "validation_split",
    "validation_where", "versions", "where", "without", "words",
)  # fmt: skip
"""Data options that select the validation data; if they varied, objective values would not be comparable.

They are refused before the first trial. Each trial checks for other changes after it has read its data.
"""

OVERRIDES = "model.init_args.overrides."

OWN = ("seed_everything", "export", "ckpt_path", "trainer.default_root_dir", "trainer.logger", "trainer.callbacks")
"""Recipe keys that the search sets for each trial."""


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; integers if both bounds are integers and ``step`` is not a float."""

    low: float
    high: float
    log: bool = False  # sample uniformly on a logarithmic scale
    step: float | None = None  # distance between values; None allows any number (integer)

    def suggest(self, trial: Any, key: str) -> Any:
        """Return the value that an Optuna trial samples."""
        if isinstance(self.low, int) and isinstance(self.high, int) and not isinstance(self.step, float):
            return trial.suggest_int(key, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)


@dataclass(frozen=True)
class Choices:
    """One or more values of any YAML type."""

    values: tuple[Any, ...]

    def suggest(self, trial: Any, key: str) -> Any:
        """Return the value that an Optuna trial samples; it is stored as JSON to distinguish 1, true and mappings."""
        return json.loads(trial.suggest_categorical(key, [_json_label(one) for one in self.values]))


Space = Mapping[str, Range | Choices]
"""Range or choices by recipe key; keys are written as on the command line of ``train.py fit``."""

PARTS = ("data", "model", "trainer", "optimizer", "lr_scheduler")
"""Recipe keys whose value may be the path of another file."""


def read_mapping(path: Path | str, what: str) -> dict[str, Any]:
    """Read a YAML file that contains a non-empty mapping."""
    content = read_yaml(path)
    if not isinstance(content, dict) or not content:
        kind = "text" if isinstance(content, str) else type(content).__name__
        got = "none" if content is None else f"a {kind}"
        raise InputError(f"Expected {path} to be {what}, a mapping of keys to values, but got {got}: correct it.")
    return content


def read_recipe(path: Path | str) -> dict[str, Any]:
    """Read a recipe; check the files it refers to as well, since Lightning reads both again without limits."""
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
    return {str(key): _parse_entry(str(key), value) for key, value in read_mapping(path, "a search space").items()}


def check_keys(space: Space, config: Mapping[str, Any]) -> None:
    """Raise an error for keys that the recipe does not have or that the search must not vary."""
    for key in space:
        if key.startswith(OWN):
            raise InputError(
                f"Expected keys of the recipe to search over, but {key} is set by the search: leave it out."
            )
        if _affects_validation(key):
            raise InputError(f"Expected the same validation data for all trials, but {key} changes it: leave it out.")
        if key.startswith(OVERRIDES):
            prefix, names = OVERRIDES, [field.name for field in fields(MetricConfig)]
            known = key.removeprefix(OVERRIDES) in names
        else:
            parents = [key.rsplit(".", count)[0] for count in range(1, key.count(".") + 1)]
            # Only the run itself can check keys below a mapping or below a setting that is null.
            known = key in config or any(isinstance(config.get(one, ""), dict | None) for one in parents)
            prefix, names = "", list(config)
        if not known:
            otherwise = "write keys as `train.py fit --print_config` does."
            way = did_you_mean(key.removeprefix(prefix), names, otherwise, prefix + "{}")
            raise InputError(f"Expected keys of the recipe to search over, but it has no {key}: {way}")


def _affects_validation(key: str) -> bool:
    """Return whether a key is an option of the data, or of a source, that changes the validation data."""
    first, *path = key.split(".")
    if first != "data":
        return False
    while path[:1] == ["init_args"] or (path[:1] == ["sources"] and len(path) > 1):
        path = path[1:] if path[0] == "init_args" else path[2:]
    return not path or path[0] in JUDGING


def _parse_entry(key: str, value: Any) -> Range | Choices:
    if isinstance(value, dict) and set(value) == {"choices"}:
        values = value["choices"]
        if not isinstance(values, list) or not values:
            raise InputError(f"Expected `choices` of {key} to be a list of values, but got {values!r}.")
        if len({_json_label(one) for one in values}) < len(values):
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


def _json_label(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


JUDGED = "judged"
"""Study attribute: by seed, the digest of the validation data and the values of the trial it comes from."""


def validation_fingerprint(data: SourcesDataModule) -> str:
    """Return the SHA-256 of the validation data: texts, ratings or labels, and the groups of a correlation."""
    digest = hashlib.sha256()
    for source, part in data.judged:
        # Partners are searched within a batch, so the batch size affects the result.
        batch = None if isinstance(source, RatedSource) else source.validation_batch_size
        for entry in [(data.label(source, part), batch), *_items(source, part)]:
            digest.update(f"{entry!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _items(source: Source[Any], part: str) -> list[tuple[Any, ...]]:
    items = source.parts[part]
    groups = source.groups_of(items) if isinstance(source, RatedSource) else [None] * len(items)
    targets = ((getattr(item, "score", None), getattr(item, "label", None)) for item in items)
    return [(source.texts(item), *target, group) for item, target, group in zip(items, targets, groups, strict=True)]


class JudgedParts:
    """Check that a trial has the same validation data as the first successful trial."""

    def __init__(self, study: Any, values: Mapping[str, Any]) -> None:
        self.study, self.values = study, dict(values)
        self.found: dict[str, str] = {}

    def check(self, seed: int | None, found: str) -> None:
        """Raise an error if the digest of a fit differs from the stored one of the same seed."""
        self.found[str(seed)] = found
        stored = self.study.user_attrs.get(JUDGED, {}).get(str(seed))
        if stored is None or stored["print"] == found:
            return
        different = [key for key, value in self.values.items() if stored["values"].get(key) != value]
        likely = [key for key in different if key.startswith("data.")] or different
        advice = f"leave {' and '.join(likely)} out of the space" if likely else "the files have changed: search again"
        raise InputError(
            f"Expected the same validation data for all trials, but it differs from that of the first trial: {advice}."
        )

    def keep(self) -> None:
        """Store the digests of this successful trial for seeds that have none yet."""
        new = {seed: {"print": found, "values": self.values} for seed, found in self.found.items()}
        self.study.set_user_attr(JUDGED, {**new, **self.study.user_attrs.get(JUDGED, {})})
