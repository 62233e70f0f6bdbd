"""Table of named data sets and the folder of their files.

Readers accept ``data:NAME`` in place of a path, and ``data:NAME-PART`` for a set of several files.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textmover.files import user_cache
from textmover.safe_reading import expanded, read_yaml
from textmover.types import InputError

PREFIX = "data:"
FOLDER = "TEXTMOVER_DATA"  # environment variable
SHARED = ("source", "each", "options")  # keys that a set may define once for all its parts


@dataclass(frozen=True)
class Part:
    """File that recipes read, converted from published files."""

    file: str  # path in the data folder
    source: str = ""  # pattern of the published files; ARCHIVE!MEMBER for packed files
    each: tuple[Mapping[str, str], ...] = ({},)  # values of the {variables} in the pattern, in row order
    rows: int | None = None  # expected number; another number means that the publisher changed the set
    sha256: str | None = None  # digest of the file behind the published figures, if conversion is reproducible
    options: Mapping[str, Any] = field(default_factory=dict)  # of the layout


@dataclass(frozen=True)
class NamedSet:
    """Data set of a publisher."""

    name: str
    about: str
    licence: str
    citation: str
    parts: Mapping[str, Part]  # a single part has the key ""
    address: str  # URL prefix of the published files
    checked: str  # date when the address was last checked
    layout: str = "table"  # see :mod:`textmover.readers.public_sets.dataset_conversion`
    sha256: Mapping[str, str] = field(default_factory=dict)  # of published files, if known


@functools.cache
def named_sets() -> Mapping[str, NamedSet]:
    """Return all sets by name."""
    table = read_yaml(Path(__file__).with_name("sets.yaml"))
    return {name: _named_set(name, dict(entry)) for name, entry in table.items() if not name.startswith("_")}


def _named_set(name: str, entry: dict[str, Any]) -> NamedSet:
    parts, shared = entry.pop("parts"), {key: entry.pop(key) for key in SHARED if key in entry}
    return NamedSet(name=name, parts={key: _part(**{**shared, **part}) for key, part in parts.items()}, **entry)


def _part(*, each: Sequence[Mapping[str, Any]] = ({},), **entry: Any) -> Part:
    combinations: list[dict[str, str]] = []
    for values in each:  # the first variable changes slowest
        lists = [value if isinstance(value, list) else [value] for value in values.values()]
        combinations += [dict(zip(values, map(str, one), strict=True)) for one in itertools.product(*lists)]
    return Part(each=tuple(combinations), **entry)


def data_folder() -> Path:
    """Return the data folder: ``$TEXTMOVER_DATA``, or a folder in the user's cache."""
    stated = os.environ.get(FOLDER)
    return expanded(stated) if stated else user_cache() / "data"


def find_parts(name: str) -> tuple[NamedSet, list[str]]:
    """Return a set and part keys for a name: all parts for a set name, one part for SET-PART."""
    sets = named_sets()
    if name in sets:
        return sets[name], list(sets[name].parts)
    by_name = {f"{named_set.name}-{key}": (named_set, [key]) for named_set in sets.values() for key in named_set.parts}
    if name not in by_name:
        close = difflib.get_close_matches(name, [*sets, *by_name], n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            f"Expected the name of a data set, but got {name!r}: {hint}`textmover data list` shows the names."
        )
    return by_name[name]


def find_file(path: str) -> tuple[NamedSet, str]:
    """Return the set and part key of a ``data:NAME`` file."""
    name = path.removeprefix(PREFIX)
    named_set, keys = find_parts(name)
    if len(keys) > 1:
        choices = ", ".join(f"{PREFIX}{name}-{key}" for key in keys)
        raise InputError(f"Expected one file of {name}, but got {path}, which has {len(keys)}: choose from {choices}.")
    return named_set, keys[0]


def place_of(path: str | Path) -> str:
    """Return the local path of a ``data:NAME`` file, which may not exist; other paths are returned unchanged."""
    if not str(path).startswith(PREFIX):
        return str(path)
    named_set, key = find_file(str(path))
    return str(data_folder() / named_set.parts[key].file)
