"""Descriptions of sets of marked errors: a YAML file that names the role of each column."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from textmover.readers.error_spans.columns import MarkedColumns
from textmover.readers.judgements.description import check_keys, read_field
from textmover.reading import read_yaml
from textmover.types import InputError

MARKS = ("tags", "spans", "marked")
"""Keys by which a description is one of marked errors."""

UNUSABLE = ("error", "leave out")


@dataclass(frozen=True)
class MarkedDescription:
    """Columns of a set of marked errors, and which of its rows count.

    Attributes:
        columns: Roles of the columns.
        name: What tables call the set; the name of the file where it is ``None``.
        about: What the set is, in a line.
        where: Values of a column of which a row must have one.
        unusable: ``"leave out"`` leaves out and counts the rows that cannot be used; ``"error"`` refuses the set.
    """

    columns: MarkedColumns
    name: str | None = None
    about: str = ""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unusable: str = UNUSABLE[0]


COLUMNS = {one.name: str(one.type) for one in dataclasses.fields(MarkedColumns)}
OTHERS = {one.name: str(one.type) for one in dataclasses.fields(MarkedDescription) if one.name != "columns"}


def marked_description(path: str | Path | None) -> MarkedDescription | None:
    r"""Read a YAML file that describes marked errors; ``None`` for anything else, such as a set of ratings.

    Its keys are the fields of :class:`MarkedColumns`, of which one is ``tags``, ``spans`` or ``marked``, and those of
    :class:`MarkedDescription`.

    Raises:
        InputError: If the file is not YAML, or a key is unknown or of the wrong type.

    Example:
        >>> path = getfixture("tmp_path") / "tags.yaml"
        >>> _ = path.write_text("tags: tags\nwords: tokens\ngroups: lp\nwhere: {part: dev}\n")
        >>> found = marked_description(path)
        >>> found.columns.words, found.columns.groups, found.where
        ('tokens', ('lp',), {'part': ('dev',)})
    """
    if path is None or not Path(path).is_file():
        return None
    found = read_yaml(Path(path))
    if not isinstance(found, dict) or not any(found.get(key) for key in MARKS):
        return None
    check_keys(found, (*COLUMNS, *OTHERS), str(path))
    types = COLUMNS | OTHERS
    values = {key: read_field(key, value, f"`{key}` of {path}", types) for key, value in found.items()}
    if (choice := values.get("unusable", UNUSABLE[0])) not in UNUSABLE:
        raise InputError(
            f"Expected `unusable` of {path} to be {' or '.join(map(repr, UNUSABLE))}, but got {choice!r}: choose one."
        )
    columns = MarkedColumns(**{key: value for key, value in values.items() if key in COLUMNS})
    return MarkedDescription(columns, **{key: value for key, value in values.items() if key in OTHERS})
