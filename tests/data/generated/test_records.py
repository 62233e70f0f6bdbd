from dataclasses import replace
from random import Random

import pytest

from textmover.data.generated.record_ratings import load_records
from textmover.data.generated.records import Domain, Fact, Record


def drawn(n: int = 400) -> list[tuple[Record, Record]]:
    book, found = load_records(), []
    for seed in range(n):
        rng = Random(seed)
        record = book.draw(rng)
        found.append((record, book.change(record, rng)))
    return found


def test_records_hold_facts_of_their_domain():
    book = load_records()
    for pair in drawn():
        for one in pair:
            domain = book.domains[one.domain]
            assert one.name in domain.names
            assert one.facts
            assert all(value < len(domain.facts[fact].values) for fact, value in one.facts.items())


def test_the_severity_is_zero_where_nothing_changes_and_only_there():
    book, same = load_records(), 0
    for record, changed in drawn():
        same += record == changed
        severity = book.severity(record, changed)
        assert (severity == 0) == (record == changed)
        assert severity <= book.severities["most"]
    assert 50 < same < 200  # of 400, one of seven without a change, and those that could not be made


def test_the_severity_adds_up():
    book = load_records()
    record = Record("flat", "state", "Rose Court", 3, {"area": 0, "rooms": 1})

    def cost(**changes):
        return book.severity(record, replace(record, **changes))

    assert cost(facts={"area": 0}) == 0.3
    assert cost(facts={"area": 0, "rooms": 2}) == pytest.approx(1.1 / 3, abs=5e-4)
    assert cost(facts={"area": 0, "rooms": 1, "pets": 0}) == pytest.approx(0.5 / 3, abs=5e-4)
    assert cost(name="Tower House") == pytest.approx(1.1 / 3, abs=5e-4)
    assert cost(act="none") == 0.5
    assert cost(act="none", name="Tower House") == 0.5  # a name that is not told
    assert cost(count=40) == 0  # nor is a number of results
    assert cost(facts={"area": 0}, name="Tower House") == pytest.approx(2.0 / 3, abs=5e-4)
    assert cost(facts={"floor": 0}, act="none") == book.severities["most"]
    assert cost(domain="lake") == book.severities["unrelated"]


def test_the_severity_of_seeking():
    book = load_records()
    sought = Record("lake", "count", "Lake Arno", 3, {"depth": 0})
    assert book.severity(sought, replace(sought, count=40)) == book.severities["count"]
    assert book.severity(sought, replace(sought, facts={"depth": 1})) == pytest.approx(1.1 / 1.5, abs=5e-4)
    asked = Record("lake", "ask", "Lake Arno", 3, {"depth": 0})
    assert book.severity(asked, replace(asked, facts={"depth": 2})) == 0  # the value is not told
    assert book.severity(asked, replace(asked, facts={"fish": 0})) == book.severities["asked"]
    assert book.severity(asked, replace(asked, act="none")) == book.severities["act"]
    stated = replace(asked, act="state")
    costs = {book.severity(stated, replace(asked, facts=facts)) for facts in ({"depth": 0}, {"depth": 1})}
    assert costs == {0.95}  # what asks for a fact does not tell it
    free = replace(book, severities={**book.severities, "act": 0.0, "omitted": 0.0})
    assert free.severity(stated, replace(asked, facts={"fish": 0})) == 0  # nor add it


@pytest.mark.parametrize(
    ("kind", "facts", "shared"),
    [("omitted", 1, 1), ("altered", 2, 1), ("added", 3, 2), ("name", 2, 2), ("act", 2, 2)],
)
def test_each_change_changes_one_thing(kind, facts, shared):
    record = Record("flat", "state", "Rose Court", 3, {"area": 0, "rooms": 1})
    changed = load_records()._changed(record, kind, Random(1))
    assert changed is not None
    assert len(changed.facts) == facts
    assert sum(changed.facts.get(fact) == value for fact, value in record.facts.items()) == shared
    assert (changed.name != record.name) == (kind == "name")
    assert (changed.act != record.act) == (kind == "act")
    assert load_records().severity(record, changed) > 0


def test_what_cannot_be_changed_is_left():
    facts = {
        "day": Fact((("Mondays",),), ("is closed on {}",), asked="day off"),
        "ticket": Fact((("free",), ("12 euros",)), ("costs {}",)),
    }
    museum = Domain(("museum",), ("Old Mill", "House of Clocks"), facts, "that", "it")
    book = replace(load_records(), domains={"museum": museum})
    record = Record("museum", "none", "Old Mill", 2, {"day": 0})
    assert book._changed(record, "omitted", Random(1)) is None  # nothing would be told
    assert book._changed(record, "altered", Random(1)) is None  # there is one day alone
    assert book._changed(record, "name", Random(1)) is None  # not told
    full = Record("museum", "state", "Old Mill", 2, {"day": 0, "ticket": 0})
    assert book._changed(full, "added", Random(1)) is None
