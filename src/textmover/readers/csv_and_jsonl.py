"""Tables that are read line by line: CSV, TSV and JSON Lines."""

from __future__ import annotations

import csv
import io
import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from textmover.csv_cells import unescape_formula
from textmover.readers.lines import LONGEST_LINE, Line, LineError, empty
from textmover.safe_reading import NotJsonError, load_json
from textmover.types import InputError, plural

logger = logging.getLogger(__name__)

T = TypeVar("T")
Cells = Mapping[str, object]
Numbered = tuple[int, Cells | InputError]
Record = tuple[int, "list[str] | InputError"]


class Table(NamedTuple):
    """Table with named columns and its origin."""

    name: str  # name of the file or data set in errors
    unit: str  # unit of row numbers: ``"line"`` (the header is line 1) or ``"row"`` (counted from 1)
    columns: tuple[str, ...] | None  # all column names, in file order
    rows: Iterator[Numbered]  # number and cells of each row


def other_separator(columns: Sequence[str]) -> str:
    """Describe the separator of names that were read as one column, with the way out; empty if there is none."""
    separator = next((mark for mark in ";\t|," if len(columns) == 1 and mark in columns[0]), "")
    own = {"\t": "tabs: rename it to end in .tsv", ",": "commas: rename it to end in .csv"}
    others = f"{separator!r}: save it as CSV with commas, or as TSV with tabs"
    return separator and f"separated by {own.get(separator, others)}"


def named(values: Collection[str], *, most: int = 20, width: int = 40) -> str:
    """Return quoted names for an error message; long names and long lists are truncated."""
    shown = [repr(value if len(value) <= width else value[: width - 1] + "…") for value in list(values)[:most]]
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(shown) + more


LONGEST_RECORD = 1 << 20  # characters of a multi-line record: a stray quotation mark must not swallow the rest

csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # the line reader limits the length of lines

_CSV_PROBLEMS = {"unexpected end of data": "a quotation mark that is never closed"}
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_CSV_WAY_OUT = 'put texts that hold a comma in quotation marks (")'
_TSV_WAY_OUT = "texts must not hold tabs or line breaks (JSON Lines allows both)"


class _CsvLines:
    """Lines of a CSV file for the parser, with a step back to the second line of the current record."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self._next: deque[tuple[str, LineError | None]] = deque()  # text, and its error if the line is not UTF-8
        self._record: list[tuple[str, LineError | None]] = []
        self._before = self._size = 0

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        while not self._next:
            line = next(self._lines)
            text, problem = (line.text, line) if isinstance(line, LineError) else (line, None)
            # A lone carriage return also ends a record, as in old Mac files. The parser needs one such line at a time.
            pieces = io.StringIO(text, newline="") if "\r" in text.removesuffix("\r\n") else (text,)
            self._next.extend((piece, problem) for piece in pieces)
        self._record.append(self._next.popleft())
        text, _ = self._record[-1]
        self._size += len(text)
        if len(self._record) > 1 and self._size > LONGEST_RECORD:
            raise csv.Error(f"a record of several lines with more than {LONGEST_RECORD:,} characters")
        return text

    def start_record(self) -> int:
        """Begin a record and return the number of its first line."""
        self._before += len(self._record)
        self._record, self._size = [], 0
        return self._before + 1

    def back_to_second(self) -> None:
        """Step back to the second line of the record, so that a stray quotation mark loses only one line."""
        self._next.extendleft(reversed(self._record[1:]))
        del self._record[1:]

    @property
    def problem(self) -> LineError | None:
        """Error of the record, if one of its lines is not UTF-8."""
        return next((problem for _, problem in self._record if problem is not None), None)


def _csv_records(name: str, lines: _CsvLines) -> Iterator[Record]:
    reader = csv.reader(lines, strict=True)
    while True:
        start = lines.start_record()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = lines.problem or InputError(
                f"Expected {name} to be CSV, but got {_CSV_PROBLEMS.get(str(error), repr(str(error)))} in the record "
                f"that starts in line {start}: put such a text in quotation marks and double those inside it "
                '("" for "), or save the file as JSON Lines.'
            )
            lines.back_to_second()
            yield start, problem
        else:
            yield start, lines.problem or list(map(unescape_formula, fields))


def _tsv_records(name: str, lines: Iterable[Line]) -> Iterator[Record]:
    """Yield the cells of each line. Warn if the first quotation mark of the table quotes a whole cell."""
    has_quote = False
    for number, line in enumerate(lines, start=1):
        cells = line if isinstance(line, LineError) else line.split("\t")
        first = "" if has_quote or isinstance(cells, LineError) else next((one for one in cells if '"' in one), "")
        has_quote = has_quote or first != ""
        if _QUOTED.fullmatch(first):
            logger.warning(
                "%s has cells in quotation marks, the first in line %d. TSV is read without quoting, so that they are "
                "part of the text: save it as CSV if they should not be.",
                *(name, number),
            )
        yield number, cells


def _delimited_table(name: str, records: Iterator[Record], way_out: str) -> Table:
    """Return a table of a header and records with the same number of fields. Trailing blank lines are ignored."""
    nonblank = without_blank_end(records, lambda record: record[1] in ([], [""]))
    _, header = next(nonblank, (0, empty(name)))
    if isinstance(header, InputError):
        raise header
    return Table(name, "line", tuple(header), _delimited_rows(name, header, nonblank, way_out))


def _delimited_rows(name: str, header: Sequence[str], records: Iterator[Record], way_out: str) -> Iterator[Numbered]:
    if separated := other_separator(header):
        way_out = f"its header is {separated}"
    for number, fields in records:
        if not isinstance(fields, InputError) and len(fields) != len(header):
            fields = InputError(
                f"Expected {plural(len(header), 'field')} as in the header, but got {len(fields)} in line {number} of "
                f"{name}: {way_out}."
            )
        yield number, fields if isinstance(fields, InputError) else dict(zip(header, fields, strict=True))


def without_blank_end(records: Iterable[T], is_blank: Callable[[T], bool]) -> Iterator[T]:
    """Yield the records or lines without trailing blank ones."""
    blank: list[T] = []
    for record in records:
        if is_blank(record):
            blank.append(record)
            continue
        yield from blank
        blank.clear()
        yield record


def _json_table(name: str, lines: Iterable[Line]) -> Table:
    """Return a table of one JSON object a line. Keys may be absent from some objects."""
    nonblank = without_blank_end(lines, lambda line: not isinstance(line, LineError) and not line.strip())
    rows = (
        (number, line if isinstance(line, LineError) else _json_object(name, number, line))
        for number, line in enumerate(nonblank, start=1)
    )
    return Table(name, "line", None, rows)


TEXT_TABLES: Mapping[str, Callable[[str, Iterable[Line]], Table]] = {
    "csv": lambda name, lines: _delimited_table(name, _csv_records(name, _CsvLines(lines)), _CSV_WAY_OUT),
    "tsv": lambda name, lines: _delimited_table(name, _tsv_records(name, lines), _TSV_WAY_OUT),
    "jsonl": _json_table,
}


def _json_object(name: str, number: int, line: str) -> Cells | InputError:
    try:
        value = load_json(line, f"line {number} of {name}")
    except NotJsonError:
        value = None
    except InputError as error:
        return error
    if isinstance(value, dict):
        return value
    if not line.strip():
        return InputError(f"Expected one JSON object a line, but line {number} of {name} is blank: remove the line.")
    return InputError(
        f"Expected one JSON object a line, but got {named([line])} in line {number} of {name}: "
        "correct the line (`jq -c '.[]'` turns a JSON array into such lines)."
    )
