"""The files that an experiment needs: which ones were given, and the judgement sets that they hold."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from textmover.experiments.papers.config import Experiment
from textmover.readers.judgements import (
    READERS,
    SetDescription,
    built_in_descriptions,
    load_description,
    read_judgements,
)
from textmover.readers.judgements.description import FIELDS, read_field
from textmover.types import InputError, Judgements

TABLE_FILES = ("path",)


def check_readers(experiment: Experiment) -> None:
    """Make sure that every set can be read as the experiment says."""
    for name, spec in experiment.sets.items():
        place = f"`sets.{name}` of {experiment.origin}"
        wanted = READERS[spec.reader][1] if spec.reader in READERS else TABLE_FILES
        if set(experiment.needed(name)) != set(wanted):
            raise InputError(
                f"Expected `files` of {place} to name {' and '.join(wanted)}, which {spec.reader} reads, but got "
                f"{', '.join(spec.files) or 'none'}: name a key of a file for each."
            )
        if spec.reader not in READERS:
            _description(experiment, name)
            continue
        reader, files = READERS[spec.reader]
        known = [one for one in inspect.signature(reader).parameters if one not in (*files, "name")]
        for key in spec.options:
            if key not in known:
                raise InputError(
                    f"Expected `options` of {place} to be among {', '.join(known)}, but got {key!r}: remove it."
                )


def given_files(experiment: Experiment, data: Sequence[str]) -> dict[str, str]:
    """The files that the user gave, by their keys."""
    found: dict[str, str] = {}
    keys = list(experiment.files)
    for entry in data:
        key, path = _split(experiment, entry)
        if key in found:
            raise InputError(f"Expected each file of --data once, but got {key} twice: leave one out.")
        if not path.startswith(("hub:", "data:")) and not Path(path).exists():
            raise InputError(f"Expected {key} of --data at {path}, but there is nothing: correct the path.")
        found[key] = path
    if not found:
        raise InputError(f"Expected the data of {experiment.title}, but got none: {_how_to_give(experiment, keys)}.")
    for name in experiment.sets:
        lacking = [key for key in experiment.needed(name).values() if key not in found]
        if lacking and len(lacking) < len(set(experiment.needed(name).values())):
            raise InputError(
                f"Expected all files of {name}, but got a part of them: {_how_to_give(experiment, lacking)}."
            )
    return found


def absent_files(experiment: Experiment, name: str, files: Mapping[str, str]) -> str:
    """Describe the files that a set still needs."""
    lacking = [key for key in experiment.needed(name).values() if key not in files]
    return _how_to_give(experiment, lacking) if lacking else ""


def read_set(experiment: Experiment, name: str, files: Mapping[str, str]) -> Judgements:
    """Read a set."""
    spec = experiment.sets[name]
    places: dict[str, Any] = {argument: files[key] for argument, key in experiment.needed(name).items()}
    if spec.reader in READERS:
        return READERS[spec.reader][0](**places, **spec.options, name=name)
    return read_judgements(places["path"], _description(experiment, name), name=name)


def _split(experiment: Experiment, entry: str) -> tuple[str, str]:
    keys = list(experiment.files)
    found = re.fullmatch(r"([\w-]+)=(.+)", entry, flags=re.DOTALL)
    if found and found[1] in keys:
        return found[1], found[2]
    if len(keys) == 1 and (not found or Path(entry).exists()):
        return keys[0], entry
    got = f"the key {found[1]!r}" if found else repr(entry)
    raise InputError(f"Expected --data KEY=FILE with a key of {', '.join(keys)}, but got {got}: choose one of them.")


def _how_to_give(experiment: Experiment, keys: Sequence[str]) -> str:
    alone = len(experiment.files) == 1
    wanted = {key: experiment.files[key] for key in keys}
    given = " ".join("FILE" if alone else f"{key}=PLACE" for key in wanted)
    listed = (f"{'FILE' if alone else key} is {one.what} (from {one.source})" for key, one in wanted.items())
    return f"give --data {given}, where {'; '.join(listed)}"


def _description(experiment: Experiment, name: str) -> SetDescription:
    """The description of a table, with the changes that the experiment makes."""
    spec = experiment.sets[name]
    beside = Path(experiment.origin).parent / spec.reader
    built_in = spec.reader in built_in_descriptions()
    found = load_description(spec.reader if built_in or not beside.is_file() else beside)
    changes = {}
    for key, value in spec.options.items():
        place = f"`sets.{name}.options.{key}` of {experiment.origin}"
        if key not in FIELDS:
            raise InputError(f"Expected {place} to be among {', '.join(FIELDS)}, but got {key!r}: remove it.")
        changes[key] = read_field(key, value, place)
    return replace(found, **changes, origin=experiment.origin) if changes else found
