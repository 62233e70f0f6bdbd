"""Read tables of marked errors."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from textmover.readers.error_spans.columns import MarkedColumns
from textmover.readers.error_spans.tagged_words import WAY_OUT, errors_of_tags, place_words
from textmover.readers.lines import usable
from textmover.readers.memory_tables import MemoryTable
from textmover.readers.rows_where import rows_where
from textmover.readers.segments import TableRow, read_rows
from textmover.types import InputError, SourcedReferences
from textmover.types.error_spans import MarkedSegment


class _Row(NamedTuple):
    """A row that is chosen by its groups."""

    cells: TableRow
    columns: tuple[str, ...]

    @property
    def groups(self) -> Mapping[str, str]:
        return {column: self.cells.group(column) for column in self.columns}


def read_marked(
    path: str | Path | MemoryTable,
    columns: MarkedColumns = MarkedColumns(),  # noqa: B008 - frozen
    *,
    where: Mapping[str, Sequence[str]] | None = None,
    format: str | None = None,
    split: str = "train",
    left_out: list[InputError] | None = None,
) -> list[MarkedSegment]:
    r"""Read a table of texts whose errors people marked.

    Args:
        path: A file, a set, or a table in memory, as for :func:`~textmover.readers.segments.read_segments`.
        columns: Roles of the columns, which say how the errors are written.
        where: Rows to read, as values by column; all if ``None``.
        format: ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``.
        split: Split of a hub or saved data set; plain files have none.
        left_out: A list that takes the errors of rows that cannot be used, which are left out; ``None`` raises the
            first.

    Returns:
        One segment a text, in file order.

    Raises:
        InputError: If the file cannot be read or lacks a column, or a row cannot be used: tags that do not fit their
            words, words that are not in their text.

    Example:
        >>> path = getfixture("tmp_path") / "tagged.tsv"
        >>> header, row = "hypothesis\treference\thypothesis_tokens\ttags\n", "A cat.\tA dog.\tA cat .\t"
        >>> _ = path.write_text(f"{header}{row}OK OK OK BAD OK OK OK\n")
        >>> read_marked(path)[0].errors
        (ErrorSpan(start=2, end=5, severity='major', confidence=1.0),)
    """
    where = where or {}
    columns = replace(columns, groups=tuple(dict.fromkeys((*columns.groups, *where))))
    with contextlib.closing(read_rows(path, columns.fields, format=format, split=split)) as rows:
        numbered = [row for _, row in rows]
    chosen = rows_where([_Row(one, columns.groups) for one in numbered if isinstance(one, TableRow)], where, str(path))
    found = [one for one in numbered if isinstance(one, InputError)] + [_segment(row, columns) for row in chosen]
    if left_out is None:
        return list(usable(found))
    left_out += [one for one in found if isinstance(one, InputError)]
    return [one for one in found if isinstance(one, MarkedSegment)]


def _segment(row: _Row, columns: MarkedColumns) -> MarkedSegment | InputError:
    try:
        text, groups = row.cells.text(columns.hypothesis), row.groups
        if not text.strip():
            raise InputError(f"Expected words in {row.cells.cell(columns.hypothesis)}, but got none: {WAY_OUT}.")
        words, tags = row.cells.text(columns.words).split(), row.cells.text(columns.tags).split()
        places = place_words(text, words, row.cells.cell(columns.words))
        errors = errors_of_tags(places, tags, row.cells.cell(columns.tags))
        compared = row.cells.compared(columns.reference_columns, columns.source)
        references = SourcedReferences(compared, None, compared.places)
        return MarkedSegment(text, errors, references, compared.source, places, groups=groups)
    except InputError as error:
        return error
