"""CSV files that people open in a spreadsheet: no cell of ours is a formula, and our readers get every text back."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import IO, Any

FORMULA = re.compile("'*[=+\\-@＝＋－＠\t\r\n].", re.DOTALL)
"""Beginning of a cell that a spreadsheet computes, and of a text that would be taken for a guarded one."""


def guarded(cell: Any) -> Any:
    """A cell; a text that a spreadsheet would compute gets an apostrophe before it.

    Example:
        >>> guarded("=1+1"), guarded("'=1+1"), guarded("'tis"), guarded("-0.5"), guarded("-0.5 or so"), guarded(-1)
        ("'=1+1", "''=1+1", "'tis", '-0.5', "'-0.5 or so", -1)
    """
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) and not _is_number(cell) else cell


def unguarded(cell: str) -> str:
    """The text that :func:`guarded` was given.

    Example:
        >>> unguarded("'=1+1"), unguarded("''=1+1"), unguarded("'tis"), unguarded("-0.5")
        ('=1+1', "'=1+1", "'tis", '-0.5')
    """
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


class CsvWriter:
    """Writes rows as CSV with guarded cells.

    Args:
        stream: Text that is written as it is, without changed line ends.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._plain = csv.writer(stream, lineterminator="\n")
        self._quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def writerow(self, cells: Iterable[Any]) -> None:
        """Write a row."""
        row = [guarded(one) for one in cells]
        # Python leaves a carriage return unquoted, at which readers end the row.
        (self._quoting if any("\r" in one for one in row if isinstance(one, str)) else self._plain).writerow(row)

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write several rows."""
        for row in rows:
            self.writerow(row)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text[-1:].isspace() and not text[:1].isspace()
