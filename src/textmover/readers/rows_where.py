"""Rows of a table that are chosen by their groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from textmover.types import InputError


class _Row(Protocol):
    @property
    def groups(self) -> Mapping[str, str]: ...


Row = TypeVar("Row", bound=_Row)


def rows_where(rows: Sequence[Row], where: Mapping[str, Sequence[str]], path: str) -> list[Row]:
    """The rows of a file whose groups have one of the values that are named for each key."""
    for key, values in where.items():
        present = {row.groups[key] for row in rows}
        missing = [value for value in values if value not in present]
        if missing:
            raise InputError(
                f"Expected rows of {path} whose {key!r} is {missing[0]!r}, but got none: it holds "
                f"{', '.join(sorted(present)[:8])}."
            )
    return [row for row in rows if all(row.groups[key] in values for key, values in where.items())]
