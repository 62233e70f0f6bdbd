"""Values of a description as YAML gives them, turned into the types of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from textmover.types import InputError

Choice = Literal["error", "keep", "leave out"]
"""What is done about a row that is not as it should be."""


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise _wrong(place, "text", value)


def _optional_text(value: object, place: str) -> str | None:
    return None if value is None else _text(value, place)


def _texts(value: object, place: str) -> tuple[str, ...]:
    """One text or a list of them."""
    entries = value if isinstance(value, list) else [value]
    return tuple(_text(entry, place) for entry in entries)


def _named_columns(value: object, place: str) -> dict[str, str]:
    """Names with their columns; a list of columns gives each its own name."""
    if isinstance(value, dict):
        return {_text(name, place): _text(column, place) for name, column in value.items()}
    return {column: column for column in _texts(value, place)}


def _ratings(value: object, place: str) -> dict[str, str]:
    """Dimensions with their columns; one column alone is the dimension ``score``."""
    return {"score": value} if isinstance(value, str) and value else _named_columns(value, place)


def _filters(value: object, place: str) -> dict[str, tuple[str, ...]]:
    """Columns with one or several values each."""
    if not isinstance(value, dict):
        raise _wrong(place, "columns with their values", value)
    return {
        _text(column, place): tuple(
            _filter_value(entry, f"the values of {column!r} in {place}")
            for entry in (values if isinstance(values, list) else [values])
        )
        for column, values in value.items()
    }


def _filter_value(value: object, place: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else str(value)
    raise _wrong(place, "text or numbers", value, "put it in quotation marks if it is meant as text")


def _wrong(place: str, expected: str, value: object, way_out: str = "correct it") -> InputError:
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return InputError(f"Expected {place} to be {expected}, but got {shown}: {way_out}.")


CONVERTERS: Mapping[str, Callable[[object, str], Any]] = {
    "name": _optional_text,
    "about": _text,
    "hypothesis": _text,
    "references": _texts,
    "ratings": _ratings,
    "lower_is_better": _texts,
    "groups": _texts,
    "item": _optional_text,
    "system": _optional_text,
    "source": _optional_text,
    "scores": _named_columns,
    "where": _filters,
    "leave_out": _filters,
    "optional": _texts,
    "missing_ratings": _text,
    "missing_references": _text,
    "duplicates": _text,
}
"""What turns the value of a key into that of the field; the second argument is what errors call it."""
