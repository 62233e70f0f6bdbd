import re
from collections import Counter

import pytest

from textmover.data.generated.events import BOOKS, FIGURES, SLOT, event_segments, event_templates


def slots(wording: str) -> set[str]:
    return {name for name, _ in SLOT.findall(wording)}


@pytest.mark.parametrize("name", BOOKS)
def test_every_wording_of_an_event_tells_the_same_slots(name):
    for event in event_templates(name)["events"]:
        first, *others = event["ways"]
        wordings = [one for version in event.values() for one in version]
        assert others, first
        assert len(set(wordings)) == len(wordings), first
        assert {frozenset(slots(one)) for one in wordings} == {frozenset(slots(first))}, first
        assert {kind for _, kind in SLOT.findall(first)} <= event_templates(name)["slots"].keys(), first
        assert {len(version) for version in event.values()} == {len(event["ways"])}, first


@pytest.mark.parametrize("name", BOOKS)
def test_frames_and_values_are_what_wordings_need(name):
    for frame in event_templates(name)["frames"]:
        assert all(one.count("{}") == 1 for one in frame)
        assert len({frozenset(slots(one)) for one in frame}) == 1
    for kind, values in event_templates(name)["slots"].items():
        words = [word for one in values for word in one]
        assert len(set(words)) == len(words)
        assert all(isinstance(word, str) for word in words)
        assert kind == "month" or (kind in FIGURES) == any(re.search(r"\d|day$", word) for word in words)


def test_each_kind_of_copy_changes_what_it_says():
    by_reference: dict[str, dict[str, str]] = {}
    for one in event_segments(600, seed=3):
        by_reference.setdefault(one.references[0], {})[one.groups["contrast"]] = one.hypothesis
        assert one.hypothesis != one.references[0]
    for reference, texts in by_reference.items():
        words = Counter(re.findall(r"\w+", reference.lower()))
        if "roles" in texts:
            assert Counter(re.findall(r"\w+", texts["roles"].lower())) == words
        if "insert" in texts:
            assert Counter(re.findall(r"\w+", texts["insert"].lower())) > words
        assert "paraphrase" in texts


@pytest.mark.parametrize("books", [["events"], ["stories"], ["events", "stories", "reports"]])
def test_wrong_copies_are_rated_below_rewordings_and_the_seed_decides(books):
    found = event_segments(200, seed=1, books=books)
    assert found == event_segments(200, seed=1, books=books) != event_segments(200, seed=2, books=books)
    best = max(one.score for one in found if one.groups["contrast"] not in ("paraphrase", "notation"))
    assert best < 93.0 == min(one.score for one in found if one.groups["contrast"] == "paraphrase")


def test_kinds_of_wrong_facts_follow_their_weights():
    found = event_segments(200, 1, {"roles": 3.0, "antonym": 1.0, "insert": 0.0})
    assert {one.groups["contrast"] for one in found} == {"paraphrase", "notation", "roles", "antonym"}
    assert [one for one in found if one.groups["contrast"] == "paraphrase"] == [
        one for one in event_segments(200, 1) if one.groups["contrast"] == "paraphrase"
    ]


def test_events_to_judge_with_are_not_trained_on():
    def told(trained: bool) -> set[str]:
        return {one.references[0] for one in event_segments(400, seed=1, trained=trained)}

    assert any("won against" in text or "lost to" in text for text in told(False))
    assert not any("won against" in text or "lost to" in text for text in told(True))
