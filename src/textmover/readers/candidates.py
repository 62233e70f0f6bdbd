"""Candidate sets: texts to choose from, such as samples of a generator, one set for each segment."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from textmover.readers.lines import ProgressTracked, check_once, display_path, iter_lines, usable, zip_lines
from textmover.readers.segments import TableRow, as_number, check_columns, named_fields, quoted_value, read_rows
from textmover.readers.tables import refuse_tables
from textmover.types import InputError, SourcedReferences
from textmover.types.word_splitting import legible


class Candidates(NamedTuple):
    """Candidate texts of one segment."""

    texts: tuple[str, ...]  # one or more candidates; duplicates count repeatedly
    references: tuple[str, ...] | None = None  # texts to compare the candidates with
    weights: tuple[float, ...] | None = None  # of each text to compare with, at least 0
    name: Any = None  # name of the segment in the input: any JSON value
    named: bool = False  # whether the input names the segment
    place: str = ""  # position of the segment, for errors
    source: str | None = None  # text that the candidates translate
    source_place: str = ""  # position of the source, for errors

    @property
    def compared(self) -> SourcedReferences:
        """References, or the candidates if there are none, with the source."""
        texts = self.texts if self.references is None else self.references
        return SourcedReferences(texts, self.source, (self.place, self.source_place))

    def checked(self) -> Candidates:
        """Return the candidates; raise an error if they cannot be used."""
        for what, texts in (("candidate", self.texts), ("reference", self.references)):
            if texts is not None and not texts:
                raise InputError(
                    f"Expected at least one {what} in {self.place}, but got none: add one or leave the segment out."
                )
        blank = next((place for place, text in enumerate(self.references or (), start=1) if not legible(text)), None)
        if blank is not None:
            raise InputError(
                f"Expected references with text in {self.place}, but number {blank} is empty: remove it and its weight."
            )
        if self.weights is None:
            return self
        if len(self.weights) != len(self.compared):
            whose = "candidate" if self.references is None else "reference"
            raise InputError(
                f"Expected a weight for each {whose} in {self.place}, but got {len(self.weights)} for "
                f"{len(self.compared)}: give as many."
            )
        if not all(math.isfinite(w) and w >= 0 for w in self.weights) or not math.fsum(self.weights) > 0:
            raise InputError(
                f"Expected weights of at least 0, some of them above, in {self.place}, but got "
                f"{', '.join(f'{w:g}' for w in self.weights[:5])}{', …' if len(self.weights) > 5 else ''}: give "
                "probabilities, not their logarithms."
            )
        return self


@dataclass(frozen=True)
class CandidateFiles(ProgressTracked):
    """Text files with one candidate a line."""

    paths: tuple[str, ...]  # one file for each system, or one file with consecutive candidates
    number: int | None = None  # candidates for each segment of a single file
    source: str | None = None  # file of the texts that the candidates translate, one a segment

    def __post_init__(self) -> None:
        if not self.paths:
            raise InputError("Expected at least one file of candidates, but got none: name one.")
        refuse_tables((*self.paths, *([self.source] if self.source else [])))
        check_once([*self.paths, self.source])
        if len(self.paths) == 1 and self.number is None:
            raise InputError(
                f"Expected `number` where all candidates are in one file ({self.paths[0]}), but got none: say how many "
                "consecutive lines belong to a segment, or name a file for each system."
            )
        if len(self.paths) > 1 and self.number is not None:
            raise InputError(
                f"Expected `number` together with a single file, but got {len(self.paths)} files, each of which has "
                "one candidate of every segment: leave it out."
            )
        if self.number is not None and self.number < 1:
            raise InputError(f"Expected `number` to be at least 1, but got {self.number}: give a larger number.")

    def __iter__(self) -> Generator[Candidates, None, None]:
        """Yield the candidates of each segment."""
        segments = self._from_one() if len(self.paths) == 1 else self._from_several()
        return segments if self.source is None else self._with_sources(segments, self.source)

    @staticmethod
    def _with_sources(segments: Generator[Candidates, None, None], path: str) -> Generator[Candidates, None, None]:
        with contextlib.closing(segments), contextlib.closing(iter_lines(path)) as lines:
            for number, (candidates, source) in enumerate(itertools.zip_longest(segments, usable(lines)), start=1):
                if candidates is None or source is None:
                    raise InputError(
                        f"Expected a line of {display_path(path)} for each segment, but segment {number} lacks its "
                        f"{'source' if candidates else 'candidates'}: give as many of both."
                    )
                yield candidates._replace(source=source, source_place=f"line {number} of {display_path(path)}")

    def _from_one(self) -> Generator[Candidates, None, None]:
        (path,) = self.paths
        with contextlib.closing(iter_lines(path, self._position)) as lines:
            for segment in itertools.count(1):
                texts = tuple(usable(itertools.islice(lines, self.number)))
                if not texts:
                    return
                if len(texts) != self.number:
                    whole = (segment - 1) * (self.number or 0) + len(texts)
                    raise InputError(
                        f"Expected the lines of {display_path(path)} to be a multiple of `number` ({self.number}), but "
                        f"got {whole}: the last segment has {len(texts)}, so correct the file or the number."
                    )
                yield Candidates(texts, place=f"segment {segment} of {display_path(path)}")

    def _from_several(self) -> Generator[Candidates, None, None]:
        names = " or ".join(map(display_path, self.paths))
        with contextlib.closing(zip_lines(self.paths, self._position)) as rows:
            for line, texts in enumerate(rows, start=1):
                yield Candidates(tuple(usable(texts)), place=f"line {line} of {names}")


@dataclass(frozen=True)
class CandidateTable(ProgressTracked):
    """Table with the candidates of a segment as a list in each row."""

    path: str  # JSON Lines or Parquet, as for :func:`~textmover.readers.segments.read_segments`
    candidates: str = "candidates"  # column of lists of texts
    references: str | None = None  # column of lists of texts to compare the candidates with
    weights: str | None = None  # column of lists of numbers, one for each text to compare with
    source: str | None = None  # column of the text that the candidates translate
    name: str | None = None  # column of segment names; ``None`` leaves segments unnamed
    format: str | None = None  # ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``
    split: str = "train"

    def __iter__(self) -> Generator[Candidates, None, None]:
        """Yield the candidates of each segment."""
        roles = ("candidates", "references", "weights", "source", "name")
        fields = named_fields(**{role: getattr(self, role) for role in roles})
        rows = read_rows(self.path, fields, format=self.format, split=self.split, position=self._position)
        with contextlib.closing(rows):
            for number, row in rows:
                if isinstance(row, InputError):
                    raise row
                if number == 1:  # Keys of JSON Lines vary by row: the column name is probably wrong
                    check_columns(row.name, tuple(row.cells), fields)
                yield self._of(row)

    def _of(self, row: TableRow) -> Candidates:
        references = None if self.references is None else _texts(row, self.references)
        listed = [] if self.weights is None else _list(row, self.weights, "numbers")
        if wrong := [one for one in listed if math.isnan(as_number(one))]:
            raise InputError(
                f"Expected weights of at least 0 in {row.cell(self.weights or '')}, but got {quoted_value(wrong[0])}: "
                "write numbers."
            )
        weights = None if self.weights is None else tuple(map(as_number, listed))
        return Candidates(
            _texts(row, self.candidates),
            references,
            weights,
            None if self.name is None else row.cells.get(self.name),
            self.name is not None,
            f"{row.name}, {row.unit} {row.number}",
            None if self.source is None else row.optional_text(self.source),
            "" if self.source is None else row.cell(self.source),
        ).checked()


CandidateSets = CandidateFiles | CandidateTable  # source of candidates; each iteration reads the input again


def _texts(row: TableRow, column: str) -> tuple[str, ...]:
    return tuple(row._replace(cells={column: text}).text(column) for text in _list(row, column, "texts"))


def _list(row: TableRow, column: str, what: str) -> Sequence[object]:
    value = row.cells.get(column)
    if not isinstance(value, list):
        raise InputError(
            f"Expected a list of {what} in {row.cell(column)}, but got {quoted_value(value)}: write it as a "
            "list of JSON, or as a column of lists in Parquet."
        )
    return value
