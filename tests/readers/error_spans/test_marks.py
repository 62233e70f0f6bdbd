"""Marks in texts and lists of spans."""

import pytest

from textmover.readers.error_spans.reading import as_severity, errors_of_list, joined, split_marks
from textmover.types import InputError
from textmover.types.error_spans import ErrorSpan


@pytest.mark.parametrize(
    ("marked", "text", "parts"),
    [
        ("A <v>cat</v> sat.", "A cat sat.", ["cat"]),
        ("<v>A</v><v> cat</v>", "A cat", ["A", " cat"]),
        ("A cat<v></v>.", "A cat.", [""]),
        ("<v>👩‍👧 我</v>爱", "👩‍👧 我爱", ["👩‍👧 我"]),
        ("<b>A</b> < v>", "<b>A</b> < v>", []),
    ],
)
def test_marks_are_taken_out(marked, text, parts):
    plain, spans = split_marks(marked, "line 2")
    assert plain == text
    assert [plain[start:stop] for start, stop in spans] == parts


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("A <v>cat sat.", "one that is not closed"),
        ("A <v>cat <v>sat</v></v>", "one inside another"),
        ("A cat</v>", "the end of one that was not begun"),
        ("<v>A</v> cat</v>", "the end of one that was not begun"),
    ],
)
def test_marks_without_their_other_end_are_named(marked, message):
    with pytest.raises(InputError, match=f"one after the other in line 2, but got {message}: correct it"):
        split_marks(marked, "line 2")


@pytest.mark.parametrize(
    ("written", "severity"),
    [("Major", "major"), (" minor ", "minor"), ("CRITICAL", "critical"), ("Neutral", None), ("No-error", None)],
)
def test_severities_are_read_as_they_are_published(written, severity):
    assert as_severity(written, "line 2") == severity


@pytest.mark.parametrize("value", ["Huge", "", None, 3])
def test_unknown_severities_are_named(value):
    with pytest.raises(InputError, match="severities minor, major, critical, neutral and no-error in line 2, but got"):
        as_severity(value, "line 2")


def test_overlapping_marks_become_one_of_the_worst_severity():
    spans = [
        ErrorSpan(4, 8, "minor"),
        ErrorSpan(0, 5, "major"),
        ErrorSpan(8, 9),
        ErrorSpan(9, 9),
        ErrorSpan(9, 9, "minor"),
    ]
    assert joined(spans) == (ErrorSpan(0, 8, "major"), ErrorSpan(8, 9), ErrorSpan(9, 9))


TEXT = "A cat sat."


def test_lists_are_read_by_place():
    value = '[{"start": 6, "end": 6}, {"start": 2, "end": 5, "severity": "Minor", "category": "x"}]'
    assert errors_of_list(value, TEXT, "line 2") == ((ErrorSpan(2, 5, "minor"), ErrorSpan(6, 6)), False)
    taste = [{"start": 2, "end": 5, "severity": "neutral"}]
    assert errors_of_list(taste, TEXT, "line 2") == ((), True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[2, 5]", "Expected a JSON list of spans .* in line 2, but got 2: correct it"),
        ("2 to 5", "Expected a JSON list of spans .* but got '2 to 5'"),
        ("", "Expected a JSON list of spans .* but got ''"),
        ('{"start": 2, "end": 5}', "Expected a JSON list of spans .* but got {'start': 2, 'end': 5}"),
        ([{"start": 2}], "Expected a JSON list of spans .* but got {'start': 2}"),
        ([{"start": True, "end": 2}], "Expected a JSON list of spans"),
        ([{"start": "2", "end": "5"}], "Expected a JSON list of spans"),
        (None, "Expected a JSON list of spans .* but got nothing"),
        ([{"start": 5, "end": 2}], "within the 10 of the text, in line 2, but got 5 to 2"),
        ([{"start": 2, "end": 11}], "but got 2 to 11"),
        ([{"start": -1, "end": 2}], "but got -1 to 2"),
        ([{"start": 0, "end": 4}, {"start": 3, "end": 5}], "that do not overlap in line 2, but got 0 to 4 and 3 to 5"),
        ([{"start": 2, "end": 5}, {"start": 3, "end": 3}], "but got 2 to 5 and 3 to 3"),
        ([{"start": 5, "end": 5}, {"start": 5, "end": 5}], "but got 5 to 5 and 5 to 5"),
        ([{"start": 2, "end": 5, "severity": "bad"}], "Expected one of the severities .* but got 'bad'"),
        ('[{"start": 2, "start": 3, "end": 5}]', "hold each key once"),
    ],
)
def test_lists_that_cannot_be_used_are_named(value, message):
    with pytest.raises(InputError, match=message):
        errors_of_list(value, TEXT, "line 2")
