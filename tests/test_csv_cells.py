"""No cell that a spreadsheet computes, and every text back."""

import csv
import io
import re
from pathlib import Path

import pytest

from textmover.csv_cells import CsvWriter, escape_formula, unescape_formula
from textmover.readers.tables import open_tables

SOURCE = Path(__file__).resolve().parents[1] / "src" / "textmover"

FORMULAS = [
    "=cmd|' /C calc'!A0", '=HYPERLINK("http://evil.example","x")', "+1+cmd|' /C calc'!A0", "@SUM(1)",
    "\t=1+1", "\r=1+1", "\n=1+1", "--flag", "＝1+1", "-5 degrees", "'=1+1", "''=1+1", "'-5", "'@me", "-5 ",
]  # fmt: skip
OTHERS = [
    "", "-", "=", "'-", "'",
    "''", "'tis", "''quoted''", "-5", "+0.5", "-1e9", "a=b", " =1", "1-2", '"="', "a\nb", "a,b", "a\rb", "'a'",
]  # fmt: skip


@pytest.mark.parametrize("text", [*FORMULAS, *OTHERS])
def test_a_text_comes_back(text, tmp_path):
    path = tmp_path / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        CsvWriter(stream).writerows([["id", "text", "last"], ["1", text, "x"]])
    ((_, cells),) = [row for table in open_tables(path) for row in table.rows]
    assert cells["text"] == text
    assert unescape_formula(escape_formula(text)) == text


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_begins_as_a_formula(text):
    stream = io.StringIO()
    CsvWriter(stream).writerow([text, 1, -0.5, None])
    written = next(csv.reader(io.StringIO(stream.getvalue(), newline="")))
    assert written[0] == f"'{text}"
    assert written[1:] == ["1", "-0.5", ""]


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_stay(text):
    assert escape_formula(text) == text
    assert unescape_formula(text) == text


def test_everything_writes_csv_this_way():
    """Text is written as CSV here alone; numbers under checked headers may be joined."""
    found = {
        path.name
        for path in SOURCE.rglob("*.py")
        if re.search(r"csv\.(writer|DictWriter)|to_csv", path.read_text("utf-8"))
    }
    assert found == {"csv_cells.py"}
