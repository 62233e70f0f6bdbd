"""JSON documents, which are read as a whole, and their parts, which are checked as they are taken out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from textmover.readers.lines import empty, open_bytes
from textmover.reading import BOUNDS, check_size, load_json, unreadable
from textmover.types import InputError

Kind = TypeVar("Kind")

KINDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


def read_document(path: str | Path) -> Any:
    """The value that a JSON file holds.

    Args:
        path: The file, unpacked if its name ends in ``.gz`` or ``.zst``.

    Raises:
        InputError: If it cannot be read or is not JSON.
    """
    try:
        with open_bytes(path) as stream:
            raw = stream.read(BOUNDS["json_bytes"] + 1)
    except (OSError, EOFError) as error:
        raise unreadable(str(path), error) from error
    check_size(raw, str(path), "json_bytes")
    if not raw.strip():
        raise empty(str(path))
    return load_json(raw, str(path))


def part(holder: object, key: str | None, kind: type[Kind], place: str) -> Kind:
    """A part of a document, or the whole of it, if it is of the kind that it should be.

    Args:
        holder: The object that has the part.
        key: Its key; ``None`` for the holder itself.
        kind: What it should be.
        place: What errors call the holder.

    Raises:
        InputError: If there is no such part or it is of another kind.
    """
    found = holder if key is None else part(holder, None, dict, place).get(key)
    if isinstance(found, kind) and not isinstance(found, bool):
        return found
    where = place if key is None else f"`{key}` of {place}"
    shown = "nothing" if found is None else type(found).__name__
    raise InputError(
        f"Expected {where} to be {KINDS[kind]}, but got {shown}: see docs/judgement-sets.md for the shape."
    )
