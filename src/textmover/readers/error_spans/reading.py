"""Tables of human error annotations: columns, YAML descriptions and rows."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from textmover.readers.error_spans.tagged_words import WAY_OUT, errors_of_tags, place_words
from textmover.readers.judgements.description import read_field
from textmover.readers.lines import usable
from textmover.readers.segments import NamedColumns, TableRow, named_fields, quoted_value, read_rows
from textmover.readers.tables import MemoryTable, rows_where
from textmover.safe_reading import NotJsonError, check_keys, load_json, read_yaml
from textmover.types import InputError, SourcedReferences, plural
from textmover.types.error_spans import SEVERITIES, ErrorSpan, MarkedSegment, Severity

logger = logging.getLogger(__name__)

NO_ERROR = frozenset(("no-error", "no_error", "neutral"))
"""Severities that do not count as errors; neutral marks are matters of taste (Freitag et al. 2021)."""

ATTENTION_TEST = "hotw-test"  # severity of rows whose sentence was altered to test the rater

MARK = re.compile("</?v>")


@dataclass(frozen=True)
class MarkedColumns(NamedColumns):
    """Column roles of a table of marked errors.

    Errors are read from ``marked`` if it is named, else from ``spans`` if named, else from ``words`` and ``tags``.

    Attributes:
        hypothesis: Column of the texts that were judged; not read with ``marked``.
        references: One or several reference columns; may be empty.
        source: Column of the text that was translated or described; ``None`` if the table has none.
        words: Column of the Moses tokens of the hypothesis.
        tags: Column of ``2n + 1`` tags ``OK`` or ``BAD`` for ``n`` words: gap, word, gap, …, gap.
        spans: Column of lists of errors, ``[{"start": 4, "end": 7, "severity": "major"}]``, ordered by position.
        marked: Column of the judged texts with an error in ``<v>…</v>``, one row an error, as in the MQM data of
            Google. Overlapping errors are merged with the worst severity. An error marked only in the source counts as
            missing words at the end of the text.
        severity: Column of the severity of that error; neutral marks are ignored.
        segment: Columns that identify the rows about one text by one rater.
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
        """Pairs of field and column name, without unused fields."""
        if self.marked is not None:
            errors = named_fields(marked=self.marked, severity=self.severity, segment=tuple(self.segment))
        elif self.spans is not None:
            errors = named_fields(hypothesis=self.hypothesis, spans=self.spans)
        else:
            errors = named_fields(hypothesis=self.hypothesis, words=self.words, tags=self.tags)
        return errors + named_fields(references=self.references, groups=tuple(self.groups), source=self.source)


MARKS = ("tags", "spans", "marked")  # a description with one of these keys is one of marked errors
UNUSABLE = ("error", "leave out")


@dataclass(frozen=True)
class MarkedDescription:
    """Columns and row filters of a set of marked errors."""

    columns: MarkedColumns
    name: str | None = None  # name of the set in reports; the file name if ``None``
    about: str = ""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # allowed values by column
    unusable: str = UNUSABLE[0]  # unusable rows raise an error or are excluded and counted


COLUMNS = {column.name: str(column.type) for column in dataclasses.fields(MarkedColumns)}
OTHERS = {column.name: str(column.type) for column in dataclasses.fields(MarkedDescription) if column.name != "columns"}


def marked_description(path: str | Path | None) -> MarkedDescription | None:
    """Read a YAML description of marked errors; return ``None`` for anything else, such as a set of ratings.

    Its keys are the fields of :class:`MarkedColumns`, including ``tags``, ``spans`` or ``marked``, and those of
    :class:`MarkedDescription`.
    """
    if path is None or not Path(path).is_file():
        return None
    data = read_yaml(Path(path))
    if not isinstance(data, dict) or not any(data.get(key) for key in MARKS):
        return None
    check_keys(data, (*COLUMNS, *OTHERS), str(path))
    values = {key: read_field(key, value, f"`{key}` of {path}", COLUMNS | OTHERS) for key, value in data.items()}
    if (choice := values.get("unusable", UNUSABLE[0])) not in UNUSABLE:
        raise InputError(
            f"Expected `unusable` of {path} to be {' or '.join(map(repr, UNUSABLE))}, but got {choice!r}: choose one."
        )
    columns = MarkedColumns(**{key: value for key, value in values.items() if key in COLUMNS})
    return MarkedDescription(columns, **{key: value for key, value in values.items() if key in OTHERS})


def as_severity(value: object, place: str) -> Severity | None:
    """Return a severity as annotated; ``None`` if there is no error."""
    name = value.strip().lower() if isinstance(value, str) else ""
    severity: Severity | None = next((known for known in SEVERITIES if known == name), None)
    if severity is None and name not in NO_ERROR:
        raise InputError(
            f"Expected one of the severities {', '.join(SEVERITIES)}, neutral and no-error in {place}, but got "
            f"{quoted_value(value)}: {WAY_OUT}."
        )
    return severity


def split_marks(text: str, place: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text without its marks, and the character ranges that they enclose.

    Example:
        >>> split_marks("A <v>cat</v> sat<v></v>.", "line 2")
        ('A cat sat.', [(2, 5), (9, 9)])
    """
    plain, spans, start, done = "", [], None, 0
    for mark in MARK.finditer(text):
        plain += text[done : mark.start()]
        done = mark.end()
        opens = mark[0] == "<v>"
        if opens == (start is not None):
            raise _unmatched(place, "one inside another" if opens else "the end of one that was not begun")
        if start is not None:
            spans.append((start, len(plain)))
        start = len(plain) if opens else None
    if start is not None:
        raise _unmatched(place, "one that is not closed")
    return plain + text[done:], spans


def _unmatched(place: str, what: str) -> InputError:
    return InputError(f"Expected marks <v>…</v> one after the other in {place}, but got {what}: {WAY_OUT}.")


def joined(spans: Sequence[ErrorSpan]) -> tuple[ErrorSpan, ...]:
    """Return spans by position; overlapping ones are merged with the worst severity."""
    merged: list[ErrorSpan] = []
    for current in sorted(spans, key=lambda span: (span.start, span.end)):
        last = merged[-1] if merged else None
        if last is not None and (current.start < last.end or (current.start, current.end) == (last.start, last.end)):
            worst = max(last.severity, current.severity, key=SEVERITIES.index)
            merged[-1] = ErrorSpan(last.start, max(last.end, current.end), worst)
        else:
            merged.append(current)
    return tuple(merged)


def errors_of_list(value: object, text: str, place: str) -> tuple[tuple[ErrorSpan, ...], bool]:
    """Return the errors of a list of spans or its JSON, by position, and whether each has a severity."""
    if isinstance(value, str):
        try:
            value = load_json(value, place)
        except NotJsonError as error:
            raise _not_a_list(place, value) from error
    if not isinstance(value, list):
        raise _not_a_list(place, value)
    spans, graded = [], True
    for entry in value:
        start, end = _ends(entry, text, place)
        grade = entry.get("severity")
        graded &= grade is not None
        severity = as_severity("major" if grade is None else grade, place)
        if severity is not None:
            spans.append(ErrorSpan(start, end, severity))
    spans.sort(key=lambda span: (span.start, span.end))
    for first, second in itertools.pairwise(spans):
        if second.start < first.end or (second.start, second.end) == (first.start, first.end):
            raise InputError(
                f"Expected spans that do not overlap in {place}, but got {first.start} to {first.end} and "
                f"{second.start} to {second.end}: {WAY_OUT}."
            )
    return tuple(spans), graded


def _ends(entry: Any, text: str, place: str) -> tuple[int, int]:
    start, end = (entry.get("start"), entry.get("end")) if isinstance(entry, dict) else (None, None)
    if type(start) is not int or type(end) is not int:  # a bool is also an int
        raise _not_a_list(place, entry)
    if not 0 <= start <= end <= len(text):
        raise InputError(
            f"Expected spans from their first character to the one behind their last, within the {len(text)} of the "
            f"text, in {place}, but got {start} to {end}: {WAY_OUT}."
        )
    return start, end


def _not_a_list(place: str, value: object) -> InputError:
    return InputError(
        f'Expected a JSON list of spans such as [{{"start": 4, "end": 7, "severity": "major"}}] in {place}, but got '
        f"{quoted_value(value)}: {WAY_OUT}."
    )


def read_marked(
    path: str | Path | MemoryTable,
    columns: MarkedColumns = MarkedColumns(),
    *,
    where: Mapping[str, Sequence[str]] | None = None,
    format: str | None = None,
    split: str = "train",
    left_out: list[InputError] | None = None,
) -> list[MarkedSegment]:
    r"""Read a table of texts with human error annotations.

    Args:
        path: File, set or in-memory table, as for :func:`~textmover.readers.segments.read_segments`.
        columns: Roles of the columns, which define how errors are written.
        where: Rows to read, as values by column; all if ``None``.
        format: ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``.
        split: Split of a hub or saved data set; plain files have none.
        left_out: List that collects the errors of unusable rows, which are skipped; ``None`` raises the first error.

    Returns:
        One segment per text and rater, in file order.

    Raises:
        InputError: If the file cannot be read, lacks a column or has an unusable row.

    Example:
        >>> path = getfixture("tmp_path") / "tagged.tsv"
        >>> header, row = "hypothesis\treference\thypothesis_tokens\ttags\n", "A cat.\tA dog.\tA cat .\t"
        >>> _ = path.write_text(f"{header}{row}OK OK OK BAD OK OK OK\n")
        >>> read_marked(path)[0].errors
        (ErrorSpan(start=2, end=5, severity='major', confidence=1.0),)
    """
    where = where or {}
    fields = (*columns.fields, *(("where", column) for column in where))
    columns = replace(columns, groups=tuple(dict.fromkeys((*columns.groups, *where))))
    rows = [row for _, row in read_rows(path, fields, format=format, split=split)]
    chosen = rows_where([row for row in rows if isinstance(row, TableRow)], where, str(path), TableRow.group)
    segments: list[MarkedSegment | InputError] = [row for row in rows if isinstance(row, InputError)]
    segments += [_segment(members, columns) for members in _grouped_rows(chosen, columns)]
    result = list(usable(segments, left_out))
    if columns.spans and not columns.marked and (count := sum(bool(one.errors) and not one.graded for one in result)):
        logger.warning("%s of %s had spans without a severity, which count as major.", plural(count, "text"), path)
    return result


def _grouped_rows(rows: Sequence[TableRow], columns: MarkedColumns) -> list[list[TableRow]]:
    """Group the rows about one text by one rater; in tables of marks, each row describes one error."""
    if columns.marked is None:
        return [[row] for row in rows]
    groups: dict[tuple[str, ...], list[TableRow]] = {}
    for row in rows:
        if row.group(columns.severity).lower() != ATTENTION_TEST:
            groups.setdefault(tuple(map(row.group, columns.segment)), []).append(row)
    return list(groups.values())


def _segment(rows: Sequence[TableRow], columns: MarkedColumns) -> MarkedSegment | InputError:
    row = rows[0]
    try:
        segment = _of_marks(rows, columns) if columns.marked else _of_row(row, columns)
        compared = row.compared(columns.reference_columns, columns.source) if columns.compared else SourcedReferences()
        references = SourcedReferences(compared, None, compared.places)
        source = segment.source if columns.marked else compared.source
        groups = {column: row.group(column) for column in columns.groups}
        return replace(segment, references=references, source=source, groups=groups)
    except InputError as error:
        return error


def _of_row(row: TableRow, columns: MarkedColumns) -> MarkedSegment:
    text = _words(row.text(columns.hypothesis), row.cell(columns.hypothesis))
    if columns.spans is not None:
        errors, graded = errors_of_list(row.cells.get(columns.spans), text, row.cell(columns.spans))
        return MarkedSegment(text, errors, graded=graded)
    words = _words(row.text(columns.words), row.cell(columns.words))
    places = place_words(text, words.split(), row.cell(columns.words))
    errors = errors_of_tags(places, row.text(columns.tags).split(), row.cell(columns.tags))
    return MarkedSegment(text, errors, words=places)


def _words(text: str, place: str) -> str:
    if not text.strip():
        raise InputError(f"Expected words in {place}, but got none: {WAY_OUT}.")
    return text


def _of_marks(rows: Sequence[TableRow], columns: MarkedColumns) -> MarkedSegment:
    marked, errors = str(columns.marked), []
    first: tuple[str, str | None] | None = None
    source = None
    for row in rows:
        place = row.cell(marked)
        text, spans = split_marks(row.text(marked), place)
        _words(text, place)
        in_source: list[tuple[int, int]] = []
        if columns.source is not None:
            source, in_source = split_marks(row.optional_text(columns.source) or "", row.cell(columns.source))
        first = first or (text, source)
        if (text, source) != first:
            differs = marked if text != first[0] else str(columns.source)
            raise InputError(
                f"Expected the same text in {rows[0].cell(differs)} and {row.unit} {row.number}, which share "
                f"{', '.join(columns.segment)}, but they differ: {WAY_OUT}, or name more columns in `segment`."
            )
        severity = as_severity(row.cells.get(columns.severity), row.cell(columns.severity))
        if severity is None:
            continue
        if not spans and not in_source:
            raise InputError(f"Expected a mark <v>…</v> in {place}, but got none for a {severity} error: {WAY_OUT}.")
        errors += [ErrorSpan(*span, severity) for span in spans or [(len(text.rstrip()),) * 2]]
    return MarkedSegment(first[0] if first else "", joined(errors), source=source or None, graded=True)
