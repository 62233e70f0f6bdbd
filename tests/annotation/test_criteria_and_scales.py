"""Scales and criteria as they are written."""

import pytest

from textmover.annotation import CRITERIA, Scale, parse_criteria
from textmover.types import InputError


def test_scales():
    assert [str(Scale.parse(text)) for text in ("1-3", " 0 - 100 ", "1–5")] == ["1-3", "0-100", "1-5"]
    assert [Scale.parse(text).slider for text in ("1-3", "1-9", "0-9", "0-100")] == [False, False, True, True]
    assert Scale(1, 3).points == (1, 2, 3)


@pytest.mark.parametrize("text", ["", "3", "3-1", "1-1", "a-b", "-1-3", "1-10000", "1-2-3", "1.5-3", "٣-٥"])
def test_what_is_no_scale_is_refused(text):
    with pytest.raises(InputError, match="Expected a scale"):
        Scale.parse(text)


def test_a_known_criterion_keeps_its_hint():
    found = parse_criteria(["fluency", "adequacy: Does it say all?", "fluency of  speech:"])
    assert found[0] == CRITERIA[0]
    assert (found[1].name, found[1].hint, found[2].column) == ("adequacy", "Does it say all?", "fluency_of_speech")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "at least one"),
        (["fluency", "Fluency"], "'Fluency' twice|'fluency' twice"),
        ([": hint"], "a name of 1 to 60"),
        (["score"], "column of the export"),
        (["reference 2"], "column of the export"),
        (["x" * 61], "a name of 1 to 60"),
        (["…"], "a name of 1 to 60"),
    ],
)
def test_what_is_no_criterion_is_refused(names, message):
    with pytest.raises(InputError, match=message):
        parse_criteria(names)


@pytest.mark.parametrize("value", [0, 4, 1.5, float("nan"), float("inf"), -(10**400), 10**400, True, "2", None, [1]])
def test_a_rating_is_a_whole_number_of_the_scale(value):
    assert Scale(1, 3).check(2.0) == 2
    with pytest.raises(InputError, match="a whole number from 1 to 3"):
        Scale(1, 3).check(value)
