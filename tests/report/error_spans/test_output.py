"""Files of marked errors: keys, columns, counts, and texts that try to be something else."""

import json
from pathlib import Path

import pytest

from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.report.error_spans import (
    COLUMNS,
    KEYS,
    ErrorCount,
    MarkedLine,
    check_kept,
    filter_by_confidence,
    header_of,
    write_marked,
    write_page,
)
from textmover.types import InputError

TEXTS = ("A [cat|c91] sat[].", "", "No error.", "=[1\t+\n1|i50]\x1b \u202e\ud800 é")


@pytest.fixture
def lines(marked):
    kept = {"id": "a\tb"}
    return [MarkedLine(marked(one, ("empty",) if not one else ()), place, kept) for place, one in enumerate(TEXTS, 1)]


def written(lines, path: Path, form: str, columns=()):
    if form == "html":
        return write_page(path, iter(lines)), path.read_text(encoding="utf-8")
    count = ErrorCount()
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(header_of(form, columns))
        write_marked(stream, form, map(count.add, lines))
    return count, path.read_text(encoding="utf-8")


def test_json_lines_have_the_documented_keys(lines, tmp_path):
    count, text = written(lines, tmp_path / "o.jsonl", "jsonl")
    records = [json.loads(line) for line in text.splitlines()]
    assert all(set(one) == {*KEYS, "id"} for one in records)
    assert records[0] == {
        "line": 1,
        "id": "a\tb",
        "text": "A cat sat.",
        "spans": [
            {"start": 2, "end": 5, "text": "cat", "severity": "critical", "confidence": 0.91},
            {"start": 9, "end": 9, "text": "", "severity": "major", "confidence": 0.8},
        ],
        "cost": 30.0,
        "flags": [],
    }
    assert records[1] == {"line": 2, "id": "a\tb", "text": "", "spans": [], "cost": 0, "flags": ["empty"]}
    assert records[3]["spans"][0]["text"] == "1\t+\n1"
    assert (count.texts, count.clean, dict(count.severities)) == (4, 2, {"critical": 1, "major": 1, "minor": 1})


def test_training_reads_the_json_lines(lines, tmp_path):
    written([lines[0], lines[2]], tmp_path / "o.jsonl", "jsonl")
    found = read_marked(tmp_path / "o.jsonl", MarkedColumns(hypothesis="text", references=(), spans="spans"))
    assert [(one.hypothesis, [(e.start, e.end, e.severity) for e in one.errors]) for one in found] == [
        ("A cat sat.", [(2, 5, "critical"), (9, 9, "major")]),
        ("No error.", []),
    ]


def test_tsv_has_a_row_for_each_error(lines, tmp_path):
    _, text = written(lines, tmp_path / "o.tsv", "tsv", ("id",))
    rows = [line.split("\t") for line in text.split("\n")[:-1]]
    assert rows == [
        ["id", *COLUMNS],
        ["a b", "1", "2", "5", "critical", "0.91", "cat"],
        ["a b", "1", "9", "9", "major", "0.8", ""],
        ["a b", "4", "1", "6", "minor", "0.5", "1 + 1"],
    ]


def test_text_has_numbers_of_lines_and_no_trailing_space(lines, tmp_path):
    _, text = written(lines, tmp_path / "o.txt", "text")
    assert text.splitlines()[:6] == [
        "   1  A cat sat.",
        "        ~~~    ^",
        "        critical 0.91",
        "               major 0.80, missing",
        "   2  (empty text)",
        "   3  No error.",
    ]
    assert all(one == one.rstrip() for one in text.splitlines())
    assert not {"\x1b", "\u202e", "\t"} & set(text)
    single, _ = [lines[0]._replace(line=None)], None
    assert written(single, tmp_path / "p.txt", "text")[1].startswith("A cat sat.\n  ~~~    ^\n")


def test_counts_are_told(lines):
    count = ErrorCount()
    assert count.said() == ["Marked: 0 errors in 0 texts; 0 without errors"]
    for one in lines:
        count.add(one)
    assert count.said() == [
        "Marked: 3 errors in 4 texts: 1 minor (0.25 per text), 1 major (0.25 per text), 1 critical (0.25 per text); "
        "2 without errors",
        "Flagged: 1 empty or unreadable (of 4 texts)",
    ]
    assert [count.at_least(one) for one in ("minor", "major", "critical")] == [3, 2, 1]


@pytest.mark.parametrize(("least", "left"), [(0, 2), (0.8, 2), (0.81, 1), (1, 0)])
def test_unlikely_errors_are_left_out(lines, least, left):
    assert len(filter_by_confidence(lines[0], least).found) == left


@pytest.mark.parametrize(
    ("columns", "form", "said"),
    [
        (("id",), "html", "with jsonl or tsv, but got html"),
        (("text",), "jsonl", "without text"),
        (("end",), "tsv", "end"),
    ],
)
def test_columns_without_a_place_are_refused(columns, form, said):
    with pytest.raises(InputError, match=said):
        check_kept(columns, form)
    check_kept((), form)
