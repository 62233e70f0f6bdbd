from collections import Counter

import pytest

from data_files import all_items, source_of, write_table
from textmover.data import ContrastsDataModule, PairFile, RewordedFile
from textmover.data.generated.contrasts import contrast_segments
from textmover.data.generated.events import WRONG_EVENTS
from textmover.types import InputError, Segment

ROWS = 60


@pytest.fixture
def table(tmp_path) -> str:
    rows = [
        f"Petra {place} sold {place + 20} goats to Ivan near the river.\tNear the river Ivan bought {place + 20} goats "
        f"of Petra {place}.\t{place % 6}\t{'train' if place % 2 else 'dev'}"
        for place in range(ROWS)
    ]
    return write_table(tmp_path / "pairs.tsv", "text\trewording\tscore\tpart", rows)


def read(*files: RewordedFile, **options):
    return source_of(ContrastsDataModule(list(files), **{"held_back": 0.2, **options}))


def file(table: str, **options) -> RewordedFile:
    return RewordedFile(table, ("text", "rewording"), **options)


def test_a_rewording_is_rated_above_every_copy_with_a_wrong_fact(table):
    by_text: dict[str, dict[str, float]] = {}
    for one in all_items(read(file(table))):
        by_text.setdefault(one.references[0], {})[one.groups["contrast"]] = one.score
    assert len(by_text) == ROWS
    for ratings in by_text.values():
        equal, rewording = ratings.pop("notation", 98.0), ratings.pop("paraphrase")
        (wrong,) = ratings.values()
        assert wrong + 20 < rewording < equal


def test_kinds_come_by_their_weights(table):
    kinds = Counter(one.groups["contrast"] for one in read(file(table), types={"number": 1.0}).items)
    assert set(kinds) <= {"number", "paraphrase", "notation"}
    assert kinds["number"] == kinds["paraphrase"]


@pytest.mark.parametrize(
    ("options", "left"),
    [({"least": {"score": 4}}, 20), ({"where": {"part": ["dev"]}}, 30), ({"most": 12}, 12),
     ({"least": {"score": 2}, "where": {"part": ["dev"]}}, 20)],
)  # fmt: skip
def test_rows_that_count(table, options, left):
    assert len({one.references for one in all_items(read(file(table, **options)))}) == left


def test_the_source_stands_beside_each_version_of_its_text(table):
    source = read(file(table, source="score"))
    place = {one.references: int(one.references[0].split()[1]) for one in source.items}
    assert {one.groups["contrast"] for one in source.items} > {"paraphrase", "notation"}
    assert all(one.source == str(place[one.references] % 6) for one in source.items)


def test_pairs_of_a_test_set_are_left_out(table):
    without = PairFile(table, ("rewording", "text"), {"part": ["dev"]})
    assert len({one.references for one in all_items(read(file(table), without=[without]))}) == ROWS // 2


def test_wrong_facts_cost_a_share_of_their_severity_and_unrelated_texts_all_of_it(table):
    by_reference = {}
    for strictness in (1.0, 0.5):
        for one in all_items(read(file(table), types={"number": 1.0}, strictness=strictness, unrelated=1.0)):
            by_reference.setdefault((one.references, one.groups["contrast"]), []).append(one.score)
    assert {tuple(found) for (_, kind), found in by_reference.items() if kind == "unrelated"} == {(0.0, 0.0)}
    assert sum(kind == "unrelated" for _, kind in by_reference) == ROWS
    for (_, kind), (strict, mild) in by_reference.items():
        assert kind == "unrelated" or mild == pytest.approx(100 - (100 - strict) / 2)


def test_events_stand_beside_the_files(table):
    source = read(file(table), types={"number": 1.0}, events=300)
    kinds = Counter(one.groups["contrast"] for one in source.items)
    assert source.about["events"] == "300 of events"
    assert min(kinds["roles"], kinds["antonym"], kinds["insert"], kinds["grammar"]) > 10
    assert set(WRONG_EVENTS) - kinds.keys() == {"replace"}
    both = read(file(table), types={"number": 1.0}, events=300, event_books=("events", "stories"))
    assert both.about["events"] == "300 of events, stories"
    assert {one.groups["contrast"] for one in both.items}.issuperset(WRONG_EVENTS)
    weighted = read(file(table), types={"number": 1.0}, events=300, event_types={"roles": 9.0, "insert": 1.0})
    found = Counter(one.groups["contrast"] for one in weighted.items)
    assert found.keys() & WRONG_EVENTS == {"number", "roles", "insert"}  # the first of the files' texts
    assert found["roles"] > 1.5 * kinds["roles"]


def test_a_text_with_nothing_to_make_wrong_is_left_out():
    found = contrast_segments([Segment("So it goes.", ("It is so.",))], {"number": 1.0}, 0)
    assert found == []


@pytest.mark.parametrize(
    ("of_file", "options", "sentence"),
    [
        ({"least": {"part": 1.0}}, {}, "Expected the column 'part' of .* to hold numbers, but got 'dev'"),
        ({"least": {"rating": 1.0}}, {}, "rating"),
        ({"where": {"part": ["test"]}}, {}, "whose 'part' is 'test'"),
        ({"most": 1}, {}, "Expected at least 3 segments in the .* part.*: give more rewordings"),
        ({"most": -3}, {}, "Expected `most` to be a whole number from 1 to 1,000,000,000, but got -3"),
        ({"most": "x"}, {}, r"Expected `pairs\[0\]\.most` to be int, but got 'x'"),
        ({}, {"types": {"nonsense": 1.0}}, "Expected `types` to give weights"),
        ({}, {"event_types": {"negate": 1.0}}, "Expected `event_types` to give weights .* to number"),
        ({}, {"event_books": ["tales"]}, "one of 'events', 'stories', 'reports', but got 'tales'"),
        ({}, {"event_books": []}, "Expected `event_books` to be one of .*, but got None"),
        ({}, {"strictness": 1.5}, "Expected `strictness` to be between 0 and 1, but got 1.5"),
        ({}, {"unrelated": -0.1}, "Expected `unrelated` to be between 0 and 1, but got -0.1"),
        ({}, {"events": -1}, "Expected `events` to be a whole number from 0 to 1,000,000, but got -1"),
        ({}, {"words": (9, 3)}, "Expected `words` in ascending order"),
        (None, {}, "Expected `pairs` to name at least one file"),
    ],
)
def test_files_and_options_that_do_not_fit_are_one_sentence(table, of_file, options, sentence):
    with pytest.raises(InputError, match=sentence):
        read(*([] if of_file is None else [file(table, **of_file)]), **options)
