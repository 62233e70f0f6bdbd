"""YAML that users write, read into dataclasses: values are checked against the types of their fields."""

from __future__ import annotations

import dataclasses
import difflib
import sys
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from textmover.types import InputError

Kind = TypeVar("Kind")

Words = Annotated[str, "or a number"]
"""Type of a field of text that YAML may take for a number, such as 1987."""


class Place(NamedTuple):
    """Place of a value in the YAML, as errors name it.

    Example:
        >>> str(Place("a.yaml").inner("rows", 0)), str(Place("a.yaml"))
        ('`rows.0` of a.yaml', 'a.yaml')
    """

    file: str
    key: str = ""

    def inner(self, *keys: object) -> Place:
        """The place of a value inside this one."""
        return Place(self.file, ".".join([*([self.key] if self.key else []), *map(str, keys)]))

    def __str__(self) -> str:
        return f"`{self.key}` of {self.file}" if self.key else self.file


def converted(kind: type[Kind], value: object, place: Place) -> Kind:
    r"""A dataclass from the keys of a mapping, checked against the types of its fields.

    One value may stand without a list where a field takes several. The field ``origin`` is the name of the file.

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
    check_keys(value, list(entries), str(place))
    for name, entry in entries.items():
        if name not in value and entry.default is entry.default_factory is dataclasses.MISSING:
            raise InputError(f"Expected {place} to have the key {name!r}, but it has not: add it.")
    hints = get_type_hints(kind, include_extras=True)
    found = {name: _value(hints[name], one, place.inner(name)) for name, one in value.items()}
    return kind(**found, **({"origin": place.file} if "origin" in hints else {}))


def check_keys(found: Collection[object], known: Sequence[str], origin: str) -> None:
    """Refuse an unknown key of a description."""
    for key in found:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "remove it."
            raise InputError(f"Expected the keys of {origin} to be among {', '.join(known)}, but got {key!r}: {hint}")


def check_filled(values: Collection[object], place: Place) -> None:
    """Refuse an empty list, or a mapping without keys."""
    if not values:
        raise InputError(f"Expected {place} to hold something, but got none: add one.")


def _value(hint: Any, value: object, place: Place) -> Any:
    """A value as the type of a field wants it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(next(one for one in inner if one is not type(None)), value, place)
    if hint is Any:
        return value
    if hint in PLAIN:
        return _plain_value(hint, value, place)
    if origin is tuple:
        entries = value if isinstance(value, list) else [value]
        return tuple(_value(inner[0], one, place.inner(index)) for index, one in enumerate(entries))
    if origin is not None:  # a mapping
        if not isinstance(value, dict):
            raise _wrong(place, "names with values", value)
        return {_value(inner[0], key, place): _value(inner[1], one, place.inner(key)) for key, one in value.items()}
    return converted(hint, value, place)


PLAIN: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    str: ("text", (str,)),
    Words: ("text", (str, int, float)),
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
}
"""Name of a type in errors, and the types of YAML that it accepts."""


def _plain_value(hint: Any, value: Any, place: Place) -> Any:
    expected, accepted = PLAIN[hint]
    if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        quote = expected == "text" and isinstance(value, (bool, int, float))
        raise _wrong(place, expected, value, "put it in quotation marks" if quote else "correct it")
    if isinstance(value, str):
        if not value.strip():
            raise _wrong(place, expected, value)
        return value.strip()
    if not abs(value) <= sys.float_info.max:
        raise _wrong(place, "a finite number", value)
    return str(value) if hint == Words else hint(value)


def _wrong(place: Place, expected: str, value: object, way_out: str = "correct it") -> InputError:
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    if isinstance(value, Mapping | list):
        shown = "keys with values" if isinstance(value, Mapping) else "a list"
    return InputError(f"Expected {place} to be {expected}, but got {shown}: {way_out}.")
