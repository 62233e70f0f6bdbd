"""Values of a YAML file, turned into frozen dataclasses by the types of their fields."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from textmover.types import InputError

Kind = TypeVar("Kind")


class Place(NamedTuple):
    """Where a value stands, as errors name it.

    Example:
        >>> str(Place("a.yaml").inner("rows").inner(0)), str(Place("a.yaml"))
        ('`rows.0` of a.yaml', 'a.yaml')
    """

    file: str
    key: str = ""

    def inner(self, key: object) -> Place:
        """The place of a value inside this one."""
        return Place(self.file, f"{self.key}.{key}" if self.key else str(key))

    def __str__(self) -> str:
        return f"`{self.key}` of {self.file}" if self.key else self.file


def converted(kind: type[Kind], value: object, place: Place) -> Kind:
    r"""A dataclass from the keys of a mapping, checked against the types of its fields.

    Where a field takes several values, one alone may stand without a list. Fields that are called ``origin`` are filled
    with the name of the file.

    Args:
        kind: The dataclass.
        value: What the file holds.
        place: Where.

    Returns:
        The dataclass.

    Raises:
        InputError: If a key is unknown or lacking, or a value has another type.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Row:
        ...     name: str
        ...     values: tuple[float, ...] = ()
        >>> converted(Row, {"name": "a", "values": [1, 2.5]}, Place("a.yaml"))
        Row(name='a', values=(1.0, 2.5))
    """
    if not isinstance(value, dict):
        raise _wrong(place, "keys with values", value)
    entries = {one.name: one for one in dataclasses.fields(kind) if one.name != "origin"}  # type: ignore[arg-type]
    for key in value:
        if key not in entries:
            close = difflib.get_close_matches(str(key), entries, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "remove it."
            raise InputError(f"Expected the keys of {place} to be among {', '.join(entries)}, but got {key!r}: {hint}")
    hints = get_type_hints(kind)
    for name, entry in entries.items():
        optional = entry.default is not dataclasses.MISSING or entry.default_factory is not dataclasses.MISSING
        if name not in value and not optional:
            raise InputError(f"Expected {place} to have the key {name!r}, but it has not: add it.")
    found = {name: _value(hints[name], one, place.inner(name)) for name, one in value.items()}
    return kind(**found, **({"origin": place.file} if "origin" in hints else {}))


def _value(hint: Any, value: object, place: Place) -> Any:
    """A value as the type of a field wants it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _value(next(one for one in inner if one is not type(None)), value, place)
    if hint is Any:
        return value
    if origin is tuple:
        entries = value if isinstance(value, list) else [value]
        return tuple(_value(inner[0], one, place.inner(index)) for index, one in enumerate(entries))
    if origin is not None:  # a mapping
        if not isinstance(value, dict):
            raise _wrong(place, "names with values", value)
        return {_text(key, place): _value(inner[1], one, place.inner(key)) for key, one in value.items()}
    if dataclasses.is_dataclass(hint):
        return converted(hint, value, place)  # type: ignore[arg-type]
    return _plain(hint, value, place)


def _plain(hint: type, value: object, place: Place) -> Any:
    """A text, a number, or a yes or no."""
    if hint is str:
        return _text(value, place)
    if hint is bool:
        if isinstance(value, bool):
            return value
        raise _wrong(place, "true or false", value)
    if isinstance(value, bool) or not isinstance(value, (int, float) if hint is float else int):
        raise _wrong(place, "a number" if hint is float else "a whole number", value)
    if not math.isfinite(value):
        raise _wrong(place, "a finite number", value)
    return hint(value)


def _text(value: object, place: Place) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    hint = "put it in quotation marks" if isinstance(value, (bool, int, float)) else "correct it"
    raise _wrong(place, "text", value, hint)


def _wrong(place: Place, expected: str, value: object, way_out: str = "correct it") -> InputError:
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    if isinstance(value, Mapping | list):
        shown = "keys with values" if isinstance(value, Mapping) else "a list"
    return InputError(f"Expected {place} to be {expected}, but got {shown}: {way_out}.")
