"""The table of named sets, and the folder that holds their files.

``data:NAME`` stands for a file wherever readers take a path, and ``data:NAME-PART`` where a set has several.
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
from textmover.safe_reading import read_yaml
from textmover.types import InputError

PREFIX = "data:"
FOLDER = "TEXTMOVER_DATA"  # environment variable
SHARED = ("source", "each", "options")  # keys that may stand once for all parts of a set


@dataclass(frozen=True)
class Part:
    """A file that recipes read, made from some of the published files."""

    file: str  # its place in the folder
    source: str = ""  # pattern of the published files, as ARCHIVE!MEMBER where they are packed
    each: tuple[Mapping[str, str], ...] = ({},)  # values of the pattern's {variables}, in the order of the rows
    rows: int | None = None  # expected; another number means that the publisher changed the set
    sha256: str | None = None  # of the file that the published figures were computed on, where it comes out the same
    options: Mapping[str, Any] = field(default_factory=dict)  # of the layout


@dataclass(frozen=True)
class NamedSet:
    """A data set that a publisher offers."""

    name: str
    about: str
    licence: str
    citation: str
    parts: Mapping[str, Part]  # "" is the part of a set that has one
    address: str  # prefix of the published files
    checked: str  # when the address was looked up
    layout: str = "table"  # see :mod:`textmover.readers.public_sets.layouts`
    sha256: Mapping[str, str] = field(default_factory=dict)  # of published files, where it is known


@functools.cache
def named_sets() -> Mapping[str, NamedSet]:
    """All sets by name."""
    table = read_yaml(Path(__file__).with_name("sets.yaml"))
    return {name: _named_set(name, dict(entry)) for name, entry in table.items() if not name.startswith("_")}


def _named_set(name: str, entry: dict[str, Any]) -> NamedSet:
    parts, shared = entry.pop("parts"), {key: entry.pop(key) for key in SHARED if key in entry}
    return NamedSet(name=name, parts={key: _part(**{**shared, **one}) for key, one in parts.items()}, **entry)


def _part(*, each: Sequence[Mapping[str, Any]] = ({},), **entry: Any) -> Part:
    combinations: list[dict[str, str]] = []
    for values in each:  # the first variable changes slowest
        lists = [one if isinstance(one, list) else [one] for one in values.values()]
        combinations += [dict(zip(values, map(str, one), strict=True)) for one in itertools.product(*lists)]
    return Part(each=tuple(combinations), **entry)


def data_folder() -> Path:
    """Folder of the sets: ``$TEXTMOVER_DATA``, or one in the user's cache."""
    stated = os.environ.get(FOLDER)
    return Path(stated).expanduser() if stated else user_cache() / "data"


def find_parts(name: str) -> tuple[NamedSet, list[str]]:
    """Return a set and the keys of the parts that a name stands for: of a set all, or the one behind its name."""
    known = named_sets()
    if name in known:
        return known[name], list(known[name].parts)
    by_name = {f"{one.name}-{key}": (one, [key]) for one in known.values() for key in one.parts}
    if name not in by_name:
        close = difflib.get_close_matches(name, [*known, *by_name], n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            f"Expected the name of a data set, but got {name!r}: {hint}`textmover data list` shows the names."
        )
    return by_name[name]


def find_file(path: str) -> tuple[NamedSet, str]:
    """Return the set and the key of the file that ``data:NAME`` stands for."""
    name = path.removeprefix(PREFIX)
    found, keys = find_parts(name)
    if len(keys) > 1:
        choices = ", ".join(f"{PREFIX}{name}-{key}" for key in keys)
        raise InputError(f"Expected one file of {name}, but got {path}, which has {len(keys)}: choose from {choices}.")
    return found, keys[0]


def place_of(path: str | Path) -> str:
    """Path of the file that ``data:NAME`` stands for, which need not be there; any other path as it is."""
    if not str(path).startswith(PREFIX):
        return str(path)
    found, key = find_file(str(path))
    return str(data_folder() / found.parts[key].file)
