"""Spreadsheet-safe CSV cells: texts that look like formulas are escaped when written, and restored when read."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import IO, Any

FORMULA = re.compile("'*[=+\\-@＝＋－＠\t\r\n].", re.DOTALL)
"""Start of a cell that a spreadsheet evaluates, or of a text that looks like an escaped one."""


def escape_formula(cell: Any) -> Any:
    """Return the cell; text that a spreadsheet would evaluate gets a leading apostrophe.

    Example:
        >>> [escape_formula(cell) for cell in ("=1+1", "'=1+1", "'tis", "-0.5", "-0.5 or so", -1)]
        ["'=1+1", "''=1+1", "'tis", '-0.5', "'-0.5 or so", -1]
    """
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) and not _is_number(cell) else cell


def unescape_formula(cell: str) -> str:
    """Return the text that was passed to :func:`escape_formula`.

    Example:
        >>> unescape_formula("'=1+1"), unescape_formula("''=1+1"), unescape_formula("'tis"), unescape_formula("-0.5")
        ('=1+1', "'=1+1", "'tis", '-0.5')
    """
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


class CsvWriter:
    """CSV writer that escapes formulas with :func:`escape_formula`.

    Args:
        stream: Text stream that does not translate newlines.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._plain = csv.writer(stream, lineterminator="\n")
        self._quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def writerow(self, cells: Iterable[Any]) -> None:
        """Write a row."""
        row = [escape_formula(cell) for cell in cells]
        # Python does not quote a carriage return, at which readers end the row.
        (self._quoting if any("\r" in cell for cell in row if isinstance(cell, str)) else self._plain).writerow(row)

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
