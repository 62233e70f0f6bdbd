"""What the first of several processes tells of the pairs that all have finished."""

import pytest

from textmover.readers.streams import Row
from textmover.runs.process_messages import EVERY, AllPairs, ShardCount
from textmover.runs.score_summary import Tally
from textmover.runs.shards.shards import Shard, ShardScores
from textmover.runs.shards.streaming import Done

ROWS = [Row(number, ("a", "b"), ("c",)) for number in range(1, 11)]
TALLY = Tally(10, 1, "", (0.0, 0.0), {}, ("score",))


def shard(index: int, share: float | None) -> Shard:
    return Shard(index, 10 * index + 1, ROWS, share)


class Others:
    """What the other processes have counted, and the time."""

    def __init__(self) -> None:
        self.pairs, self.now, self.looks = (0, 0), 0.0, 0
        self.told: list[tuple[int, float | None, bool]] = []
        self.all = AllPairs(2, self.counted, lambda *step: self.told.append(step), lambda: self.now)

    def counted(self) -> tuple[int, int]:
        self.looks += 1
        return self.pairs


def test_pairs_of_a_shard_are_counted_within_it_and_at_its_end():
    told = []
    count = ShardCount(2, lambda *step: told.append(step))
    count.within(shard(0, 0.5), 7)
    count.within(shard(0, 0.5), 11)
    count.finished(Done(shard(0, 0.5), TALLY, ShardScores({}, TALLY)))  # with the row that was left out
    count.finished(Done(shard(1, 1.0), TALLY, None))
    assert told == [(7, True), (11, True), (2, True), (20, False)]


def test_pairs_of_all_processes_are_told_with_their_share_of_the_input():
    others = Others()
    others.all.read(shard(0, 0.25))  # so that there are 80 pairs
    others.pairs = (12, 20)
    others.all.own(8, True)
    assert others.told == [(8, 0.1, True), (20, 0.35, False), (12, 0.5, True)]
    others.all.read(shard(2, 0.5))  # there are 120
    others.pairs = (16, 20)
    others.now += EVERY
    others.all.look()
    assert others.told[3:] == [(4, pytest.approx(44 / 120), True)]


def test_the_others_are_looked_at_now_and_then_and_at_the_end():
    others = Others()
    for _ in range(10):
        others.all.own(1, True)
    assert others.looks == 1
    others.pairs = (5, 0)
    others.all.look(at_once=True)
    assert others.told == [(1, None, True)] * 10 + [(5, None, True)]


def test_more_pairs_than_expected_are_no_more_than_all():
    others = Others()
    others.all.read(shard(0, 1.0))
    others.pairs = (30, 0)
    others.all.look()
    assert others.told == [(30, 1.0, True)]
    others.all.read(shard(1, None))
    others.all.own(1, True)
    assert others.told[-1] == (1, None, True)
