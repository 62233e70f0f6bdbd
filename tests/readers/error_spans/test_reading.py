"""Tables of marked errors: each kind of table, and rows that cannot be used."""

import json
import re

import pytest
from tests.readers.shared import write_lines, write_records

from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.readers.tables import named_tables
from textmover.types import InputError
from textmover.types.error_spans import ErrorSpan, MarkedSegment

TAGGED = ("hypothesis", "reference", "hypothesis_tokens", "tags", "lp")
RATED = ("system", "doc", "doc_id", "seg_id", "rater", "source", "target", "category", "severity")
MQM = MarkedColumns(marked="target", references=(), source="source", groups=("system", "rater"))
LISTED = MarkedColumns(spans="spans")


def table(tmp_path, *rows):
    return write_lines(tmp_path / "marked.tsv", *map("\t".join, rows))


def rated(system, seg, rater, target, severity, source="Eine Katze."):
    return (system, "d", "1", seg, rater, source, target, "Accuracy", severity)


def test_tags_are_read(tmp_path):
    path = table(
        tmp_path,
        TAGGED,
        ("A big cat.", "A cat.", "A big cat .", "OK OK OK BAD BAD BAD OK OK OK", "de-en"),
        ("Ja.", "Yes.", "Ja .", "BAD BAD OK OK OK", "en-de"),
    )
    columns = MarkedColumns(groups=("lp",))
    first, second = read_marked(path, columns)
    words = ((0, 1), (2, 5), (6, 9), (9, 10))
    errors = (ErrorSpan(2, 5), ErrorSpan(5, 5), ErrorSpan(6, 9))
    assert first == MarkedSegment("A big cat.", errors, ("A cat.",), None, words, False, {"lp": "de-en"})
    assert second.errors == (ErrorSpan(0, 0), ErrorSpan(0, 2))
    assert read_marked(path, where={"lp": ["en-de"]}) == [second]
    with pytest.raises(InputError, match="whose 'lp' is 'x', but got none: it holds de-en, en-de"):
        read_marked(path, where={"lp": ["x"]})
    with pytest.raises(InputError, match=r"Expected a column 'year' .*set `where` to the name"):
        read_marked(path, where={"year": ["x"]})


def test_the_rows_of_a_segment_are_gathered(tmp_path):
    path = table(
        tmp_path,
        RATED,
        rated("a", "1", "r1", "A <v>dog</v> sat.", "Major"),
        rated("a", "1", "r2", "A dog sat.", "No-error"),
        rated("b", "1", "r1", "The <v>cat</v>.", "Neutral"),
        rated("a", "1", "r1", "A dog <v>sat</v>.", "minor"),
        rated("a", "1", "r1", "A dog sat.", "Critical", source="Eine <v>Katze</v>."),
        rated("a", "2", "r1", "A <v>do", "HOTW-test"),
        rated("b", "2", "r1", "It is<v></v>.", "Major", source=""),
    )
    found = read_marked(path, MQM)
    assert [(one.hypothesis, one.source, one.groups["system"], one.groups["rater"]) for one in found] == [
        ("A dog sat.", "Eine Katze.", "a", "r1"),
        ("A dog sat.", "Eine Katze.", "a", "r2"),
        ("The cat.", "Eine Katze.", "b", "r1"),
        ("It is.", None, "b", "r1"),
    ]
    assert [one.errors for one in found] == [
        (ErrorSpan(2, 5, "major"), ErrorSpan(6, 9, "minor"), ErrorSpan(10, 10, "critical")),
        (),
        (),
        (ErrorSpan(5, 5, "major"),),
    ]
    assert all(one.graded and one.words is None and one.references == () for one in found)


def test_lists_are_read_from_lines_and_from_memory(tmp_path):
    spans = [{"start": 2, "end": 5, "severity": "critical"}]
    record = {"hypothesis": "A 👩‍👧 我", "reference": "A", "spans": spans}
    path = write_records(tmp_path / "marked.jsonl", [record, {**record, "spans": []}])
    marked, clean = read_marked(path, LISTED)
    assert marked.errors == (ErrorSpan(2, 5, "critical"),)
    assert marked.hypothesis[2:5] == "👩‍👧"
    assert marked.graded
    assert clean.errors == ()
    (in_memory,) = named_tables([{**record, "spans": json.dumps(spans)}], "train").values()
    assert read_marked(in_memory, LISTED) == [marked]


BAD = [
    (TAGGED, ("A cat.", "x", "A cat .", "OK OK OK", "l"), None, r"7 tags .* 3 words in column 'tags' .*, but got 3"),
    (TAGGED, ("A.", "x", "A .", "OK OK ok OK OK", "l"), None, r"the tags OK and BAD in .*, but got 'ok'"),
    (TAGGED, ("A.", "x", "A !", "OK OK OK OK OK", "l"), None, r"the Moses tokens of 'A\.', but got '!' as word 2"),
    (TAGGED, (" ", "x", "A .", "OK OK OK OK OK", "l"), None, r"Expected words in column 'hypothesis' "),
    (TAGGED, ("A.", "x", "", "OK", "l"), None, r"Expected words in column 'hypothesis_tokens'"),
    (TAGGED, ("A.", "", "A .", "OK OK OK OK OK", "l"), None, r"Expected a reference in column 'reference'"),
    (RATED, rated("a", "1", "r", "A <v>dog sat.", "Major"), MQM, "one that is not closed"),
    (RATED, rated("a", "1", "r", "A dog.", "Major"), MQM, "but got none for a major error"),
    (RATED, rated("a", "1", "r", "A <v>dog</v>.", "Huge"), MQM, r"severities .* in column 'severity' .*'Huge'"),
    (RATED, rated("a", "1", "r", "<v></v>", "Major"), MQM, "Expected words in column 'target'"),
    (RATED, rated("a", "1", "r", "A.", "Major", source="<v>B"), MQM, "in column 'source' .*, but got one that is not"),
    (("hypothesis", "reference", "spans"), ("A.", "x", "2"), LISTED, "Expected a JSON list .* 'spans'"),
    (("hypothesis", "reference", "spans"), (" ", "x", "[]"), LISTED, "Expected words in column 'hypothesis'"),
]


@pytest.mark.parametrize(("header", "row", "columns", "message"), BAD)
def test_rows_that_cannot_be_used_are_named_or_left_out(tmp_path, header, row, columns, message):
    path = table(tmp_path, header, row)
    columns = columns or MarkedColumns()
    with pytest.raises(InputError, match=message) as caught:
        read_marked(path, columns)
    assert f"{path}, line 2" in str(caught.value)
    assert re.search(r": (correct it|add one) or remove the row\.$", str(caught.value))
    left_out: list[InputError] = []
    assert read_marked(path, columns, left_out=left_out) == []
    assert list(map(str, left_out)) == [str(caught.value)]


def test_a_segment_goes_with_its_bad_row(tmp_path):
    path = table(
        tmp_path,
        RATED,
        rated("a", "1", "r", "A <v>dog</v>.", "Major"),
        rated("a", "1", "r", "A <v>dog.", "Major"),
        rated("b", "1", "r", "A cat.", "No-error"),
        rated("b", "1", "r", "A hat.", "No-error"),
        rated("c", "1", "r", "A bat.", "No-error"),
    )
    left_out: list[InputError] = []
    (kept,) = read_marked(path, MQM, left_out=left_out)
    assert kept.hypothesis == "A bat."
    assert "line 3" in str(left_out[0])
    assert "line 4 and line 5, which share system, doc, seg_id, rater, but they differ" in str(left_out[1])


def test_rows_of_a_segment_have_one_source(tmp_path):
    one = rated("a", "1", "r", "A <v>dog</v>.", "Major")
    other = rated("a", "1", "r", "A dog.", "No-error", source="Ein Hund.")
    with pytest.raises(InputError, match=r"the same text in column 'source' of .*, line 2 and line 3, which share"):
        read_marked(table(tmp_path, RATED, one, other), MQM)


@pytest.mark.parametrize("field", ["hypothesis", "words", "tags", "references", "source", "groups"])
def test_columns_have_names(field):
    with pytest.raises(InputError, match=f"Expected `{field}` to be the name of a column, but got ''"):
        MarkedColumns(**{field: ("",) if field in ("references", "groups") else ""})


def test_a_column_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"Expected a column 'tags' .*set `tags` to the name"):
        read_marked(table(tmp_path, TAGGED[:3], ("A.", "x", "A .")))


def test_marks_without_a_column_of_severities_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"Expected a column 'severity' .*set `severity` to the name"):
        read_marked(table(tmp_path, RATED[:-1], rated("a", "1", "r", "A <v>dog</v>.", "")[:-1]), MQM)


def test_spans_without_a_severity_count_as_major_and_are_counted(tmp_path, caplog):
    graded, bare = ({"start": 2, "end": 5, **one} for one in ({"severity": "minor"}, {}))
    lists = [[graded], [bare], [], [bare, {"start": 0, "end": 1, "severity": "minor"}]]
    records = [{"hypothesis": "A cat.", "reference": "A", "spans": one} for one in lists]
    path = write_records(tmp_path / "marked.jsonl", records)
    found = read_marked(path, LISTED)
    assert [[error.severity for error in one.errors] for one in found] == [["minor"], ["major"], [], ["minor", "major"]]
    assert [one.getMessage() for one in caplog.records] == [
        f"2 texts of {path} had spans without a severity, which count as major."
    ]
