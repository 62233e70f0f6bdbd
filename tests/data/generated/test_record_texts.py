import re
from random import Random

import pytest

from textmover.data.generated.record_ratings import load_records
from textmover.data.generated.records import STYLES, Record, in_style, tell

BOOK = load_records()


def texts(record: Record, n: int = 60) -> set[str]:
    return {tell(record, BOOK, Random(seed)) for seed in range(n)}


def test_a_record_is_told_in_many_ways_and_each_tells_all_of_it():
    record = Record("flat", "state", "Rose Court", 3, {"rooms": 0, "rent": 1, "floor": 1})
    found = texts(record)
    assert len(found) > 40
    for text in found:
        assert "Rose Court" in text
        assert "two rooms" in text
        assert re.search(r"1,200 euros (a|per) month", text)
        assert "the third floor" in text
        assert "{" not in text


@pytest.mark.parametrize("act", ["confirm", "none", "count"])
def test_every_act_tells_the_facts(act):
    record = Record("lake", act, "Lake Arno", 12, {"depth": 0, "country": 3})
    for text in texts(record):
        assert "Chile" in text
        assert re.search(r"40 m(etres)?\b", text)
        assert ("12" in text) == (act == "count")
        assert "Arno" not in text


def test_what_is_asked_for_is_named_and_its_value_is_not():
    for text in texts(Record("lake", "ask", "Lake Arno", 12, {"country": 3})):
        assert "country" in text
        assert "Chile" not in text


def test_articles_fit_and_sentences_begin_with_capitals():
    for seed in range(2000):
        rng = Random(seed)
        text = tell(BOOK.draw(rng), BOOK, rng)
        assert not re.search(r"\b[Aa] (?!one\b|uni)[aeiou]|\b[Aa]n (?![aeiouAEIOU]|hour)", text), text
        assert re.match(r"[A-Z0-9]", text), text
        assert not re.search(r"[.?] [a-z]", text), text
        assert text[-1] in ".?", text
        assert "  " not in text


def test_people_are_who_and_never_it():
    record = Record("scientist", "state", "Mei Tanaka", 2, {"field": 0, "birthplace": 1, "spouse": 0, "award": 1})
    for text in texts(record):
        assert not re.search(r"\b(It|it|that)\b", text), text


def test_styles():
    text = "Rose Court costs 1,200 euros, is it close to Mr. Hall?"
    assert in_style(text, "written") == text
    assert in_style(text, "spaced") == "Rose Court costs 1,200 euros , is it close to Mr . Hall ?"
    assert in_style("It is old. It is red.", "lower case") == "it is old. it is red"
    assert in_style("It is old.", "spaced, lower case") == "it is old ."
    assert len({in_style(text, style) for style in STYLES}) == len(set(STYLES))


def test_a_name_that_says_the_kind_does_not_follow_it():
    for name in ("the Blue Lake", "Lake Arno"):
        for text in texts(Record("lake", "state", name, 2, {"depth": 0, "fish": 1})):
            assert not re.search(r"\blake (the|lake)\b", text, re.I), text


def test_additions_come_before_relative_clauses():
    for text in texts(Record("flat", "none", "Rose Court", 2, {"pets": 0, "near": 1, "rooms": 2})):
        assert not re.search(r" (?<!afraid )that .* and (near|with|close|of) ", text), text
