"""The progress bar of streaming: on a terminal only, with the time left where the length is known."""

import io
import sys

import pytest

from textmover.readers.streams import Row
from textmover.runs.progress import Pace, ShardProgress, progress_bar
from textmover.runs.score_summary import Tally
from textmover.runs.shards.shards import Shard
from textmover.runs.shards.streaming import Done


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def paced(*seconds: float) -> Pace:
    clock = iter(seconds)
    return Pace(clock=lambda: next(clock))


def test_rate_and_time_left():
    pace = paced(0, 2, 4)
    assert pace.text() == "0 pairs"
    pace.advance(1000, 0.25, scored=True)
    assert pace.text() == "1,000 pairs, 500 a second, 0:00:06 left"
    pace.advance(1000, 0.5, scored=True)
    assert pace.text() == "2,000 pairs, 500 a second, 0:00:04 left"


def test_no_time_left_where_the_length_is_unknown():
    pace = paced(0, 2)
    pace.advance(1000, None, scored=True)
    assert (pace.text(), pace.share) == ("1,000 pairs, 500 a second", None)


def test_kept_shards_do_not_count_as_fast():
    pace = paced(0, 1, 3)
    pace.advance(5000, 0.5, scored=False)
    assert pace.text() == "5,000 pairs"
    pace.advance(1000, 0.6, scored=True)
    assert pace.text() == "6,000 pairs, 500 a second, 0:00:08 left"


def test_kept_shards_between_others_do_not_count_as_fast_either():
    pace = paced(0, 2, 2, 4)
    pace.advance(1000, 0.1, scored=True)
    pace.advance(7000, 0.8, scored=False)
    pace.advance(1000, 0.9, scored=True)
    assert pace.text() == "9,000 pairs, 500 a second, 0:00:02 left"


@pytest.mark.parametrize(
    ("terminal", "shown", "seen"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_bar_is_shown_on_a_terminal_only(monkeypatch, terminal, shown, seen):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("scoring", shown=shown) as advance:
        advance(1234, 0.5, True)
    assert ("1,234 pairs" in stream.getvalue()) == seen
    assert bool(stream.getvalue()) == seen


def test_shards_advance_while_they_are_scored():
    told = []
    progress = ShardProgress(lambda *step: told.append(step), systems=2)
    rows = [Row(number, ("a", "b"), ("c",)) for number in range(1, 11)]
    shards = [Shard(index, 1, rows, share) for index, share in enumerate((0.4, 0.8, None))]
    done = [Done(shard, Tally(10, 0, "", (0.0, 0.0), {}, ("score",)), None) for shard in shards]
    progress.within(shards[0], 5)
    progress.within(shards[0], 10)
    progress.finished(done[0])
    progress.within(shards[1], 10)
    progress.finished(done[1])
    progress.within(shards[2], 1)
    pairs, shares, _ = zip(*told, strict=True)
    assert pairs == (5, 10, 5, 10, 10, 1)
    assert shares[:5] == pytest.approx((0.1, 0.3, 0.4, 0.6, 0.8))
    assert shares[5] is None
