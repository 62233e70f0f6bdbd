"""Tables and plain text files as segments.

:class:`Columns` defines the role of each column of a table. An unusable cell raises an error that names the file, line
and column; nothing is dropped or guessed.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from textmover.readers.csv_and_jsonl import named, other_separator
from textmover.readers.lines import STANDARD_INPUT, Position, display_path, iter_lines, usable
from textmover.readers.tables import MemoryTable, is_table, open_tables
from textmover.types import InputError, NoReferenceError, Segment, SourcedReferences
from textmover.types.word_splitting import is_unicode, legible

NO_GROUP = "(empty)"  # group of an empty cell
LARGEST = 1e15  # limit of ratings and scores: statistics and losses square them in single precision
FINITE = "a finite number"  # wording of errors


def joined_groups(values: Sequence[str]) -> str:
    r"""Join the values of several group columns; distinct values give distinct groups, since slashes are escaped.

    Example:
        >>> print(joined_groups(["a / b", "c"]), joined_groups(["a", "b / c"]), joined_groups(["news/2017", ""]))
        a \/ b / c a / b \/ c news/2017 / (empty)
    """
    values = [value or NO_GROUP for value in values]
    if len(values) > 1:
        values = [re.sub(r"(?<!\S)/|/(?!\S)", r"\/", value.replace("\\", r"\\")) for value in values]
    return " / ".join(values)


def finite(value: object, place: str, way_out: str, *, expected: str = FINITE, got: str | None = None) -> float:
    """Return the finite number in a cell; raise an error for anything else."""
    number = as_number(value)
    if not math.isfinite(number):
        if math.isinf(number):
            expected = expected.replace(FINITE, f"{FINITE} of at most {LARGEST:.0e}")
        if isinstance(value, str) and re.fullmatch(r"\s*-?\d+,\d+\s*", value) and "separated by" not in way_out:
            way_out = "write it with a point"
        raise InputError(
            f"Expected {expected} in {place}, but got {quoted_value(value) if got is None else got}: {way_out}."
        )
    return number


def quoted_value(value: object) -> str:
    """Return a cell for an error message, truncated; "nothing" for a null of JSON or Parquet."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def as_number(value: object) -> float:
    """Return the number in a cell: NaN if it is not a number, infinite beyond :data:`LARGEST`.

    Example:
        >>> as_number("1e3"), as_number(True), as_number("1_000"), as_number("1e300")
        (1000.0, nan, nan, inf)
    """
    if isinstance(value, bool) or (isinstance(value, str) and ("_" in value or not value.strip().isascii())):
        return math.nan  # float() would accept 1_000 and digits of other scripts
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if not abs(number) > LARGEST else math.copysign(math.inf, number)


def named_fields(**columns: str | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Return pairs of field and column name, one for each column of a field; ``None`` omits the field."""
    several = {field: [given] if isinstance(given, str) else given or () for field, given in columns.items()}
    return tuple((field, name) for field, names in several.items() for name in names)


class NamedColumns:
    """Base class for column roles of a table."""

    references: str | tuple[str, ...]

    def __post_init__(self) -> None:
        for field, name in self.fields:
            if not name:
                raise InputError(f"Expected `{field}` to be the name of a column, but got {name!r}: name one.")

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Pairs of field and column name, without unused fields."""
        raise NotImplementedError

    @property
    def reference_columns(self) -> tuple[str, ...]:
        """Reference columns as a tuple, even if there is only one."""
        return (self.references,) if isinstance(self.references, str) else tuple(self.references)


@dataclass(frozen=True)
class Columns(NamedColumns):
    """Roles of the columns of a table.

    Attributes:
        hypothesis: Column of the texts to evaluate.
        references: One or several reference columns; a cell may hold a list (JSON Lines, Parquet).
        score: Column of the human score, higher is better; ``None`` reads segments without scores.
        source: Column of the text that was translated or described; ``None`` if the table has none.
        groups: Columns kept as group keys, such as language pair or system.

    Raises:
        InputError: If a column name is empty, or neither references nor a source are named.

    Example:
        >>> Columns(references=("ref1", "ref2"), groups=("lp",)).names
        ('hypothesis', 'ref1', 'ref2', 'score', 'lp')
    """

    hypothesis: str = "hypothesis"
    references: str | tuple[str, ...] = "reference"
    score: str | None = "score"
    source: str | None = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.reference_columns and self.source is None:
            raise InputError("Expected `references` to name at least one column, but got none: name one.")
        super().__post_init__()

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Pairs of field and column name, without unused fields."""
        texts = {"hypothesis": self.hypothesis, "references": self.references}
        return named_fields(**texts, score=self.score, source=self.source, groups=tuple(self.groups))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns that are read."""
        return tuple(dict.fromkeys(name for _, name in self.fields))


def read_segments(
    path: str | Path | MemoryTable,
    columns: Columns,
    *,
    format: str | None = None,
    split: str = "train",
    left_out: list[InputError] | None = None,
) -> list[Segment]:
    r"""Read a table of segments.

    Texts are not changed; an empty hypothesis is valid. Empty references are dropped, so that rows may differ in their
    number of references. A row without references is an error.

    Args:
        path: ``.csv`` (quoted), ``.tsv`` (without quoting), ``.jsonl``, ``.json`` or ``.ndjson`` (one object a line),
            also compressed as ``.gz`` or ``.zst``; ``.parquet``, or a folder of such files; a folder saved by
            `datasets`; or a hub data set as ``hub:owner/name`` or ``hub:owner/name/configuration``. Text is UTF-8; CSV
            and TSV have a header; trailing blank lines are ignored.
        columns: Roles of the columns.
        format: ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``.
        split: Split of a hub or saved data set; plain files have none.
        left_out: List that collects the errors of unusable rows, which are skipped; ``None`` raises the first error.

    Returns:
        One segment per row, in file order, with human scores in float64.

    Raises:
        InputError: If the file cannot be read, is empty, lacks a column, or holds a cell that cannot be used.

    Example:
        >>> path = getfixture("tmp_path") / "ratings.tsv"
        >>> _ = path.write_text("lp\thypothesis\treference\tscore\nde-en\ta cat\tthe cat\t0.5\n")
        >>> read_segments(path, Columns(groups=("lp",)))
        [Segment(hypothesis='a cat', references=('the cat',), score=0.5, source=None, groups={'lp': 'de-en'})]
    """
    found = numbered_segments(path, columns, format=format, split=split)
    return list(usable((one for _, one in found), left_out))


def numbered_segments(
    path: str | Path | MemoryTable, columns: Columns, *, format: str | None = None, split: str = "train"
) -> list[tuple[int, Segment | InputError]]:
    """Return row or line numbers with the segments of a table; an unusable row gives its error instead."""
    rows = read_rows(path, columns.fields, format=format, split=split)
    return [(number, row if isinstance(row, InputError) else _segment(row, columns)) for number, row in rows]


def _segment(row: TableRow, columns: Columns) -> Segment | InputError:
    try:
        hypothesis, compared = row.text(columns.hypothesis), row.compared(columns.reference_columns, columns.source)
        if not compared.texts:
            named = columns.reference_columns
            raise row.lacking("reference", *named) if named else row.lacking("source", columns.source or "")
        return Segment(
            hypothesis=hypothesis,
            references=SourcedReferences(compared, None, compared.places),  # scored without the source, too
            score=None if columns.score is None else row.score(columns.score),
            source=None if columns.source is None else row.optional_text(columns.source),
            groups={column: row.group(column) for column in columns.groups},
        )
    except InputError as error:
        return error


def read_lines(path: str | Path) -> list[str]:
    r"""Read a plain text file of one segment a line, without the ends of lines.

    Only ``\n`` and ``\r\n`` end a line; an empty line is an empty text.

    Args:
        path: A UTF-8 file, also compressed as ``.gz`` or ``.zst``, or ``-`` for standard input.

    Raises:
        InputError: If the file cannot be read, is empty or is not UTF-8.

    Example:
        >>> path = getfixture("tmp_path") / "hyp.txt"
        >>> _ = path.write_text("a cat\n\nno dog\n")
        >>> read_lines(path)
        ['a cat', '', 'no dog']
    """
    with contextlib.closing(iter_lines(path)) as lines:
        return list(usable(lines))


def read_texts(path: str | Path, column: str | None = None, *, split: str = "train") -> list[str]:
    """Read the texts of a corpus: the lines of a plain text file, or a column of a table."""
    if column is None:
        if is_table(path):
            raise InputError(
                f"Expected the column of {path} that holds the texts, but got none: name it with `column`."
            )
        return read_lines(path)
    if str(path) == STANDARD_INPUT:
        raise InputError("Expected a table to take a column of, but got standard input (-): leave `column` out.")
    with contextlib.closing(read_rows(path, (("column", column),), split=split)) as rows:
        return [row.text(column) for row in list(usable(row for _, row in rows))]


def read_rows(
    path: str | Path | MemoryTable,
    fields: Sequence[tuple[str, str]],
    *,
    format: str | None = None,
    split: str = "train",
    position: Position | None = None,
    check: Callable[[str, Sequence[str], Sequence[tuple[str, str]]], None] | None = None,
) -> Generator[tuple[int, TableRow | InputError], None, None]:
    """Yield row numbers with the rows of a table, all columns without ``fields``; an unusable row gives its error.

    ``check`` replaces :func:`check_columns`.
    """
    found, check = False, check or check_columns
    wanted = {name for _, name in fields} or None
    with contextlib.closing(open_tables(path, format=format, split=split, wanted=wanted, position=position)) as tables:
        for table in tables:
            columns = dict.fromkeys(table.columns or ())
            checked = named_columns = False
            for number, cells in table.rows:
                if not checked and table.columns is not None:
                    check(table.name, table.columns, fields)
                found = checked = True
                if isinstance(cells, InputError):
                    yield number, cells
                    continue
                named_columns = True
                if table.columns is None:
                    columns.update(dict.fromkeys(cells))
                yield number, TableRow(table.name, table.unit, number, cells)
            if table.columns is None and named_columns:
                check(table.name, tuple(columns), fields)
    if not found:
        raise InputError(
            f"Expected {display_path(str(path))} to hold at least one row, but got none: give a file with rows."
        )


class TableRow(NamedTuple):
    """Row of a table with checked access to its cells and their positions for errors."""

    name: str
    unit: str
    number: int
    cells: Mapping[str, object]

    def text(self, column: str) -> str:
        """Return a text, possibly empty."""
        return self._checked_text(column, self.cells.get(column))

    def optional_text(self, column: str) -> str | None:
        """Return a text, or ``None`` if the cell is empty."""
        value = self.cells.get(column)
        return None if value is None or value == "" else self._checked_text(column, value)

    def references(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the texts of all non-empty reference cells; raise an error if there are none."""
        texts: list[str] = []
        for column in columns:
            value = self.cells.get(column)
            cell = value if isinstance(value, list) else [value]
            texts += [self._checked_text(column, text) for text in cell if text is not None]
        found = tuple(filter(legible, texts))
        if not found:
            raise self.lacking("reference", *columns)
        return found

    def lacking(self, what: str, *columns: str) -> NoReferenceError:
        """Return the error of a row without a reference or source."""
        return NoReferenceError(f"Expected a {what} in {self.cell(*columns)}, but got none: add one or remove the row.")

    def compared(self, columns: Sequence[str], source: str | None) -> SourcedReferences:
        """Return references and source. With a source column, the references may be empty."""
        if source is None:
            return SourcedReferences(self.references(columns), None, (self.cell(*columns), ""))
        found: tuple[str, ...] = ()
        with contextlib.suppress(NoReferenceError):
            found = self.references(columns)
        places = self.cell(*columns) if columns else "", self.cell(source)
        return SourcedReferences(found, self.optional_text(source), places)

    def score(self, column: str) -> float:
        """Return a finite score; raise an error for anything else."""
        return finite(self.cells.get(column), self.cell(column), "correct it or remove the row")

    def group(self, column: str) -> str:
        """Return a group value as text; an empty cell gives an empty text."""
        value = self.cells.get(column)
        if isinstance(value, (list, dict)):
            raise InputError(
                f"Expected one value in {self.cell(column)}, but got {quoted_value(value)}: choose another column."
            )
        return "" if value is None else str(value)

    def _checked_text(self, column: str, value: object) -> str:
        if not isinstance(value, str):
            raise InputError(
                f"Expected text in {self.cell(column)}, but got {quoted_value(value)}: correct it or remove the row."
            )
        if not is_unicode(value):
            raise InputError(
                f"Expected Unicode text in {self.cell(column)}, but got half a surrogate pair: correct it or "
                "remove the row."
            )
        return value

    @property
    def place(self) -> str:
        """Position of the row, for errors."""
        return f"{self.unit} {self.number} of {self.name}"

    def cell(self, *columns: str) -> str:
        """Return the position of a cell, for errors."""
        return f"column {named(columns)} of {self.name}, {self.unit} {self.number}"


class OptionalColumn(str):
    """Name of a column that may be missing: a reference or source if the table has the other, or a key of scores."""

    __slots__ = ()


def check_columns(table: str, columns: Sequence[str], fields: Sequence[tuple[str, str]]) -> None:
    """Raise an error unless a table has each requested column exactly once."""
    compared = any(field in ("references", "source") and name in columns for field, name in fields)
    by_lower = {column.lower(): column for column in columns}
    for field, name in fields:
        occurrences = columns.count(name)
        if occurrences == 1:
            continue
        if occurrences > 1:
            raise InputError(
                f"Expected one column {name!r} in {table}, but got {occurrences}: rename all but one of them."
            )
        close = difflib.get_close_matches(name.lower(), by_lower, n=1)
        # Otherwise a misspelt reference column would count as absent, and only sources would be scored.
        if compared and isinstance(name, OptionalColumn) and not (close and field == "references"):
            continue
        if separated := other_separator(columns):
            raise InputError(f"Expected a column {name!r} in {table}, but its header is {named(columns)}, {separated}.")
        if any(re.search(r"[.!?]\s*$", column) for column in columns):
            raise InputError(
                f"Expected a column {name!r} in {table}, but its first line is {named(columns)}: add a first line "
                f"that names the columns, or set `{field}` to one of these."
            )
        other = ", or take textmover-multilingual, which reads the column 'source'"
        sourced = other if field == "references" and "source" in columns else ""
        suggestion = f"did you mean {by_lower[close[0]]!r}? Otherwise " if close else ""
        raise InputError(
            f"Expected a column {name!r} in {table}, but got {named(columns) or 'none'}: "
            f"{suggestion}set `{field}` to the name of the right one{sourced}."
        )
