"""Columns of tables in which people marked errors, and YAML files that name them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from textmover.readers.judgements.description import read_field
from textmover.readers.segments import NamedColumns, named_fields
from textmover.safe_reading import check_keys, read_yaml
from textmover.types import InputError


@dataclass(frozen=True)
class MarkedColumns(NamedColumns):
    """Roles of the columns of a table of marked errors.

    Errors are read from ``marked`` if it is named, else from ``spans`` if that is, else from ``words`` and ``tags``.

    Attributes:
        hypothesis: Column of the texts that were judged; not read where there is ``marked``.
        references: Column of the reference, or several of them; none if empty.
        source: Column of the text that was translated or described; ``None`` where there is none.
        words: Column of the Moses tokens of the hypothesis.
        tags: Column of ``2n + 1`` tags ``OK`` or ``BAD`` of ``n`` words: gap, word, gap, …, gap.
        spans: Column of lists of errors, ``[{"start": 4, "end": 7, "severity": "major"}]``, ordered by place.
        marked: Column of the texts that were judged with an error in ``<v>…</v>``, one row an error, as Google
            publishes MQM. Overlapping errors become one of the worst severity; one that is marked in the source alone
            is missing words behind the text.
        severity: Column of the severity of that error; neutral ones are none.
        segment: Columns that rows share where they are about one text by one rater.
        groups: Columns kept as group keys, such as language pair or system.

    Raises:
        InputError: If a name is empty.
    """

    hypothesis: str = "hypothesis"
    references: str | tuple[str, ...] = "reference"
    source: str | None = None
    words: str = "hypothesis_tokens"
    tags: str = "tags"
    spans: str | None = None
    marked: str | None = None
    severity: str = "severity"
    segment: tuple[str, ...] = ("system", "doc", "seg_id", "rater")
    groups: tuple[str, ...] = ()

    @property
    def compared(self) -> bool:
        """Return whether a reference or a source is named."""
        return bool(self.reference_columns) or self.source is not None

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Pairs of field and column name, those of fields that are not read left out."""
        if self.marked is not None:
            errors = named_fields(marked=self.marked, severity=self.severity, segment=tuple(self.segment))
        elif self.spans is not None:
            errors = named_fields(hypothesis=self.hypothesis, spans=self.spans)
        else:
            errors = named_fields(hypothesis=self.hypothesis, words=self.words, tags=self.tags)
        return errors + named_fields(references=self.references, groups=tuple(self.groups), source=self.source)


MARKS = ("tags", "spans", "marked")  # keys by which a description is one of marked errors
UNUSABLE = ("error", "leave out")


@dataclass(frozen=True)
class MarkedDescription:
    """Columns of a set of marked errors, and which of its rows count."""

    columns: MarkedColumns
    name: str | None = None  # what tables call the set; the name of the file where it is ``None``
    about: str = ""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # values of a column: a row must have one
    unusable: str = UNUSABLE[0]  # rows that cannot be used refuse the set, or are left out and counted


COLUMNS = {one.name: str(one.type) for one in dataclasses.fields(MarkedColumns)}
OTHERS = {one.name: str(one.type) for one in dataclasses.fields(MarkedDescription) if one.name != "columns"}


def marked_description(path: str | Path | None) -> MarkedDescription | None:
    """Read a YAML file that describes marked errors; ``None`` for anything else, such as a set of ratings.

    Its keys are the fields of :class:`MarkedColumns`, of which one is ``tags``, ``spans`` or ``marked``, and those of
    :class:`MarkedDescription`.
    """
    if path is None or not Path(path).is_file():
        return None
    found = read_yaml(Path(path))
    if not isinstance(found, dict) or not any(found.get(key) for key in MARKS):
        return None
    check_keys(found, (*COLUMNS, *OTHERS), str(path))
    values = {key: read_field(key, value, f"`{key}` of {path}", COLUMNS | OTHERS) for key, value in found.items()}
    if (choice := values.get("unusable", UNUSABLE[0])) not in UNUSABLE:
        raise InputError(
            f"Expected `unusable` of {path} to be {' or '.join(map(repr, UNUSABLE))}, but got {choice!r}: choose one."
        )
    columns = MarkedColumns(**{key: value for key, value in values.items() if key in COLUMNS})
    return MarkedDescription(columns, **{key: value for key, value in values.items() if key in OTHERS})
