import re
from dataclasses import replace
from random import Random

import pytest

from textmover.data.generated.records import STYLES, Domain, Fact, Record, in_style, verbalise
from textmover.data.generated.records_datamodule import load_records

BOOK = load_records()


def drawn(n: int = 400) -> list[tuple[Record, Record]]:
    found = []
    for seed in range(n):
        rng = Random(seed)
        record = BOOK.draw(rng)
        found.append((record, BOOK.change(record, rng)))
    return found


def test_records_hold_facts_of_their_domain():
    for pair in drawn():
        for one in pair:
            domain = BOOK.domains[one.domain]
            assert one.name in domain.names
            assert one.facts
            assert all(value < len(domain.facts[fact].values) for fact, value in one.facts.items())


def test_the_severity_is_zero_where_nothing_changes_and_only_there():
    same = 0
    for record, changed in drawn():
        same += record == changed
        severity = BOOK.severity(record, changed)
        assert (severity == 0) == (record == changed)
        assert severity <= BOOK.severities["most"]
    assert 50 < same < 200  # of 400, one of seven without a change, and those that could not be made


def test_the_severity_adds_up():
    record = Record("flat", "state", "Rose Court", 3, {"area": 0, "rooms": 1})

    def cost(**changes):
        return BOOK.severity(record, replace(record, **changes))

    assert cost(facts={"area": 0}) == 0.3
    assert cost(facts={"area": 0, "rooms": 2}) == pytest.approx(1.1 / 3, abs=5e-4)
    assert cost(facts={"area": 0, "rooms": 1, "pets": 0}) == pytest.approx(0.5 / 3, abs=5e-4)
    assert cost(name="Tower House") == pytest.approx(1.1 / 3, abs=5e-4)
    assert cost(act="none") == 0.5
    assert cost(act="none", name="Tower House") == 0.5  # a name that is not told
    assert cost(count=40) == 0  # nor is a number of results
    assert cost(facts={"area": 0}, name="Tower House") == pytest.approx(2.0 / 3, abs=5e-4)
    assert cost(facts={"floor": 0}, act="none") == BOOK.severities["most"]
    assert cost(domain="lake") == BOOK.severities["unrelated"]


def test_the_severity_of_seeking():
    sought = Record("lake", "count", "Lake Arno", 3, {"depth": 0})
    assert BOOK.severity(sought, replace(sought, count=40)) == BOOK.severities["count"]
    assert BOOK.severity(sought, replace(sought, facts={"depth": 1})) == pytest.approx(1.1 / 1.5, abs=5e-4)
    asked = Record("lake", "ask", "Lake Arno", 3, {"depth": 0})
    assert BOOK.severity(asked, replace(asked, facts={"depth": 2})) == 0  # the value is not told
    assert BOOK.severity(asked, replace(asked, facts={"fish": 0})) == BOOK.severities["asked"]
    assert BOOK.severity(asked, replace(asked, act="none")) == BOOK.severities["act"]
    stated = replace(asked, act="state")
    costs = {BOOK.severity(stated, replace(asked, facts=facts)) for facts in ({"depth": 0}, {"depth": 1})}
    assert costs == {0.95}  # what asks for a fact does not tell it
    free = replace(BOOK, severities={**BOOK.severities, "act": 0.0, "omitted": 0.0})
    assert free.severity(stated, replace(asked, facts={"fish": 0})) == 0  # nor add it


@pytest.mark.parametrize(
    ("kind", "facts", "shared"),
    [("omitted", 1, 1), ("altered", 2, 1), ("added", 3, 2), ("name", 2, 2), ("act", 2, 2)],
)
def test_each_change_changes_one_thing(kind, facts, shared):
    record = Record("flat", "state", "Rose Court", 3, {"area": 0, "rooms": 1})
    changed = BOOK._changed(record, kind, Random(1))
    assert changed is not None
    assert len(changed.facts) == facts
    assert sum(changed.facts.get(fact) == value for fact, value in record.facts.items()) == shared
    assert (changed.name != record.name) == (kind == "name")
    assert (changed.act != record.act) == (kind == "act")
    assert BOOK.severity(record, changed) > 0


def test_what_cannot_be_changed_is_left():
    facts = {
        "day": Fact((("Mondays",),), ("is closed on {}",), asked="day off"),
        "ticket": Fact((("free",), ("12 euros",)), ("costs {}",)),
    }
    museum = Domain(("museum",), ("Old Mill", "House of Clocks"), facts, "that", "it")
    book = replace(BOOK, domains={"museum": museum})
    record = Record("museum", "none", "Old Mill", 2, {"day": 0})
    assert book._changed(record, "omitted", Random(1)) is None  # nothing would be told
    assert book._changed(record, "altered", Random(1)) is None  # there is one day alone
    assert book._changed(record, "name", Random(1)) is None  # not told
    full = Record("museum", "state", "Old Mill", 2, {"day": 0, "ticket": 0})
    assert book._changed(full, "added", Random(1)) is None


# --- words ------------------------------------------------------------------------------------------------------------


def texts(record: Record, n: int = 60) -> set[str]:
    return {verbalise(record, BOOK, Random(seed)) for seed in range(n)}


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
        text = verbalise(BOOK.draw(rng), BOOK, rng)
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
