"""Streams of rows: hypotheses of one or more systems with references, read one row at a time."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from textmover.readers.lines import LineError, ProgressTracked, check_once, display_path, zip_lines
from textmover.readers.segments import TableRow, check_columns, named_fields, read_rows
from textmover.readers.tables import refuse_tables
from textmover.types import InputError, NoReferenceError, SourcedReferences
from textmover.types.word_splitting import is_unicode, legible

logger = logging.getLogger(__name__)

OnError = Literal["stop", "skip"]
MissingReferences = Literal["error", "leave-out"]


class Row(NamedTuple):
    """One row of the input."""

    line: int  # line in a text file, first line of a record, or row number of a table
    hypotheses: tuple[str, ...]  # text of each system; empty if the row was skipped
    references: tuple[str, ...]  # one or more texts; empty if the row was skipped
    problem: str = ""  # why the row was skipped; otherwise empty
    kept: tuple[str, ...] = ()  # additional cells of a table, for the output

    @property
    def source(self) -> str | None:
        """Text that the hypotheses translate, if any."""
        return getattr(self.references, "source", None)


class _Reading(ProgressTracked):
    hypotheses: tuple[str, ...]
    references: tuple[str, ...]
    on_error: OnError
    missing_references: MissingReferences | None

    @property
    def source_suffices(self) -> bool:
        """Return whether rows without references are scored by their source."""
        return not self.references or self.missing_references != "leave-out"

    @property
    def systems(self) -> tuple[str, ...]:
        """Files or columns of hypotheses."""
        return self.hypotheses

    def left_out(self, problem: InputError, number: int) -> Row:
        """Return a skipped row with its problem; raise the problem if the options do not allow skipping."""
        lacking = isinstance(problem, NoReferenceError)
        if self.on_error == "skip" or (lacking and self.missing_references == "leave-out"):
            return Row(number, (), (), str(problem))
        if lacking and self.missing_references is not None:
            raise NoReferenceError(f"{str(problem).removesuffix('.')}, or set `missing_references` to leave-out.")
        raise problem


@dataclass(frozen=True)
class TextFiles(_Reading):
    """Text files with one segment a line; line ``i`` of each file belongs to row ``i``."""

    hypotheses: tuple[str, ...]  # the file of each system, also compressed as ``.gz`` or ``.zst``
    references: tuple[str, ...]  # one or more files
    on_error: OnError = "stop"  # whether to stop at or skip lines that are not UTF-8
    missing_references: MissingReferences | None = None  # rows without references: raise an error or skip them
    source: str | None = None  # file of the texts that the hypotheses translate

    def __post_init__(self) -> None:
        if not self.hypotheses or not (self.references or self.source):
            lacking = "references" if self.hypotheses else "hypotheses"
            raise InputError(f"Expected at least one file of {lacking}, but got none: name one after --{lacking}.")
        refuse_tables(self.paths)
        check_once(self.paths)
        check_distinct(self.hypotheses)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files, hypotheses first."""
        return (*self.hypotheses, *self.references, *((self.source,) if self.source else ()))

    def __iter__(self) -> Generator[Row, None, None]:
        """Yield the rows."""
        systems = len(self.hypotheses)
        first, second = " or ".join(map(display_path, self.references)), display_path(self.source or "")
        with contextlib.closing(zip_lines(self.paths, self._position)) as rows:
            for number, lines in enumerate(rows, start=1):
                texts = [line for line in lines if type(line) is str]
                several = list(filter(legible, texts[systems : systems + len(self.references)]))
                places = first and f"line {number} of {first}", second and f"line {number} of {second}"
                references = SourcedReferences(several, texts[-1] if self.source and texts else None, places)
                enough = references or (references.source is not None and self.source_suffices)
                if enough and len(texts) == len(lines):
                    yield Row(number, tuple(texts[:systems]), references)
                    continue
                problem = next((line for line in lines if isinstance(line, LineError)), None) or NoReferenceError(
                    f"Expected a {'reference' if self.references else 'source'} in {places[not self.references]}, but "
                    "got none: add one, or remove the line from all files."
                )
                yield self.left_out(problem, number)


@dataclass(frozen=True)
class TableFile(_Reading):
    """Table with a column of hypotheses for each system and one or more reference columns."""

    path: str  # as for :func:`~textmover.readers.segments.read_segments`
    hypotheses: tuple[str, ...] = ("hypothesis",)  # the column of each system
    references: tuple[str, ...] = ("reference",)  # one or more columns; a cell may hold a list (JSON Lines, Parquet)
    format: str | None = None  # ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``
    split: str = "train"
    on_error: OnError = "stop"  # whether to stop at or skip rows that are malformed, lack a text or are not UTF-8
    missing_references: MissingReferences | None = None  # rows without references: raise an error or skip them
    keep: tuple[str, ...] = ()  # additional columns, returned as text with each row
    source: str | None = None  # column of the texts that the hypotheses translate

    def __post_init__(self) -> None:
        check_distinct(self.hypotheses)

    def __iter__(self) -> Generator[Row, None, None]:
        """Yield the rows."""
        rows = read_rows(self.path, self._fields, format=self.format, split=self.split, position=self._position)
        with contextlib.closing(rows):
            for number, row in rows:
                result = self._row(number, row)
                cells = ("" if isinstance(row, InputError) else row.group(column) for column in self.keep)
                yield result._replace(kept=tuple(cells)) if self.keep else result

    @property
    def paths(self) -> tuple[str, ...]:
        """Path of the table, as a tuple."""
        return (self.path,)

    @property
    def _fields(self) -> tuple[tuple[str, str], ...]:
        return named_fields(
            hypothesis=self.hypotheses, references=self.references, source=self.source or None, keep=self.keep
        )

    def _row(self, number: int, row: TableRow | InputError) -> Row:
        try:
            if isinstance(row, InputError):
                raise row
            hypotheses = tuple(row.text(column) for column in self.hypotheses)
            references = row.compared(self.references, self.source)
            if not references and (references.source is None or not self.source_suffices):
                empty = ("reference", *self.references) if self.references else ("source", self.source or "")
                raise row.lacking(*empty)
            return Row(number, hypotheses, references)
        except InputError as problem:
            try:
                return self.left_out(problem, number)
            except InputError as error:
                if isinstance(row, TableRow) and number == 1 and not isinstance(error, NoReferenceError):
                    # Keys of JSON Lines vary by row: if the first row has no text, the column name is probably wrong.
                    check_columns(row.name, tuple(row.cells), self._fields)
                raise


@dataclass(frozen=True)
class GivenTexts(_Reading):
    """One row of texts given directly instead of files."""

    texts: tuple[str, ...]  # the hypothesis and its references
    source: str | None = None  # text that the hypothesis translates
    hypotheses: tuple[str, ...] = ("the hypothesis",)
    references: tuple[str, ...] = ()
    on_error: OnError = "stop"
    missing_references: MissingReferences | None = None
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.texts) < 2 and (self.source is None or not self.texts):
            raise InputError(
                f"Expected a hypothesis and a reference, but got {len(self.texts) or 'no'} "
                f"text{'' if len(self.texts) == 1 else 's'}: put each into quotation marks, or name files with -i."
            )
        if self.source is not None and os.path.isfile(self.source):
            raise InputError(
                f"Expected the source itself beside texts, but got the name of a file ({self.source}): give its text, "
                "or name files of all with -t, -r and -s."
            )
        for text in self.texts:
            if not is_unicode(text):  # bytes of another encoding
                raise InputError(
                    f"Expected Unicode text, but got half a surrogate pair in {text[:20]!r}: write it in UTF-8."
                )
        if len(self.texts) > 2 and not any(" " in text.strip() for text in self.texts):
            logger.warning("Each text is one word: put texts of several words into quotation marks.")
        files = [text for text in self.texts if os.path.isfile(text)]
        if len(files) == len(self.texts):
            listed = ", ".join(files)
            raise InputError(f"Expected texts, but got the names of files ({listed}): write -i before the names.")
        for name in files:
            logger.warning("The text %s names a file, which is not read: write -i before the names of files.", name)

    def __iter__(self) -> Generator[Row, None, None]:
        """Yield the row."""
        yield Row(1, self.texts[:1], SourcedReferences(self.texts[1:], self.source))


Rows = TextFiles | TableFile | GivenTexts  # source of rows; each iteration reads the input again


def check_distinct(names: Sequence[str], what: str = "system") -> None:
    """Raise an error if a name occurs twice."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Expected each {what} once, but got {twice!r} twice: name it once.")
