from collections import Counter, defaultdict

import pytest

from data_files import all_items, source_of
from textmover.data import RecordsDataModule
from textmover.data.generated.records_datamodule import load_records, record_segments
from textmover.types import InputError

BOOK = load_records()


def test_references_are_distinct():
    items = all_items(source_of(RecordsDataModule(records=300, versions=3)))
    counts = Counter(one.references for one in items)
    assert (len(counts), max(counts.values())) == (300, 3)
    assert all(0 <= one.score <= 100 for one in items)


def test_what_shares_more_facts_is_rated_higher():
    """Words in common with the reference rise with the rating, although the same facts have other words each time."""
    shared = defaultdict(list)
    for one in record_segments(BOOK, 800, 2, seed=1):
        words, wanted = (set(text.lower().strip(".?").split()) for text in (one.hypothesis, one.references[0]))
        shared[min(3, int(one.score // 25))].append(len(words & wanted) / len(words | wanted))
    means = [sum(shared[level]) / len(shared[level]) for level in range(4)]
    assert means == sorted(means)
    assert means[3] < 0.9


def test_other_words_for_the_same_facts_are_rated_100(monkeypatch):
    monkeypatch.setattr("textmover.data.generated.records.CHANGES", (0,))
    monkeypatch.setattr("textmover.data.generated.records_datamodule.UNRELATED", 0.0)
    found = record_segments(BOOK, 200, 2, seed=1)
    assert {one.score for one in found} == {100.0}
    assert sum(one.hypothesis != one.references[0] for one in found) > 0.9 * len(found)


def test_other_records_are_rated_low(monkeypatch):
    monkeypatch.setattr("textmover.data.generated.records_datamodule.UNRELATED", 1.0)
    found = record_segments(BOOK, 200, 1, seed=1)
    assert sum(one.score < 40 for one in found) > 0.95 * len(found)


def test_the_same_text_has_one_rating():
    ratings = defaultdict(set)
    for one in record_segments(BOOK, 1500, 2, seed=1):
        ratings[one.hypothesis, one.references].add(one.score)
        assert one.hypothesis != one.references[0] or one.score == 100, one
    assert {len(found) for found in ratings.values()} == {1}


def test_records_follow_from_their_numbers():
    few = record_segments(BOOK, 20, 2, seed=1)
    assert few == record_segments(BOOK, 40, 2, seed=1)[: len(few)]


def test_domains_that_are_too_few_are_told(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(
        "domains: {box: {kinds: [box], names: [A], facts: {size: {values: [[big]], says: ['is {}']}, "
        "hue: {values: [[red]], says: ['is {}']}}}}\nacts: {state: {weight: 1}}\n"
    )
    with pytest.raises(InputError, match="Expected domains for 5000 different texts"):
        RecordsDataModule(records=5000, book=str(path)).setup()
