"""The progress bar of streaming: on a terminal only, with the time left where the length is known."""

import io
import sys

import pytest

from textmover.runs.progress import POLL_INTERVAL, PairCount, ScoringSpeed, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "steps", "said"),
    [
        (
            (0, 2, 4),
            [(1000, 0.25, True), (1000, 0.5, True)],
            ["1,000 pairs, 500 a second, 0:00:06 left", "2,000 pairs, 500 a second, 0:00:04 left"],
        ),
        ((0, 2), [(1000, None, True)], ["1,000 pairs, 500 a second"]),  # of an input of unknown length
        # Kept shards do not count as fast, nor do those between others.
        (
            (0, 1, 3),
            [(5000, 0.5, False), (1000, 0.6, True)],
            ["5,000 pairs", "6,000 pairs, 500 a second, 0:00:08 left"],
        ),
        (
            (0, 2, 2, 4),
            [(1000, 0.1, True), (7000, 0.8, False), (1000, 0.9, True)],
            [..., ..., "9,000 pairs, 500 a second, 0:00:02 left"],
        ),
    ],
)
def test_rate_and_time_left(seconds, steps, said):
    clock = iter(seconds)
    pace = ScoringSpeed(clock=lambda: next(clock))
    assert pace.text() == "0 pairs"
    for (pairs, share, scored), text in zip(steps, said, strict=True):
        pace.advance(pairs, share, scored=scored)
        assert text is ... or pace.text() == text
        assert pace.share == share


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


class Counted:
    """A count of pairs of two systems, its steps, what other processes have counted, and the time."""

    def __init__(self) -> None:
        self.pairs, self.now, self.looks = (0, 0), 0.0, 0
        self.steps: list[tuple[int, float | None, bool]] = []
        self.count = PairCount(2, lambda *step: self.steps.append(step), self.others, lambda: self.now)

    def others(self) -> tuple[int, int]:
        self.looks += 1
        return self.pairs

    def read(self, index: int, share: float | None) -> None:
        self.count.read(10 * index + 10, share)


def test_shards_advance_while_they_are_scored_and_at_their_end():
    counted = Counted()
    for index, share in enumerate((0.4, 0.8, None)):
        counted.read(index, share)
        counted.count.within(5)
        counted.count.within(10)
        counted.count.finished(10, scored=index != 1)  # with the rows that were left out
    pairs, shares, scored = zip(*counted.steps, strict=True)
    assert pairs == (5, 10, 5) * 3
    assert shares[:6] == pytest.approx((0.1, 0.3, 0.4, 0.5, 0.7, 0.8))
    assert shares[6:] == (None,) * 3
    assert scored == (True,) * 5 + (False,) + (True,) * 3


def test_pairs_of_all_processes_are_counted_with_their_share_of_the_input():
    counted = Counted()
    counted.read(0, 0.25)  # so that there are 80 pairs
    counted.pairs = (12, 20)
    counted.count.within(8)
    assert counted.steps == [(8, 0.1, True), (20, 0.35, False), (12, 0.5, True)]
    counted.read(2, 0.5)  # there are 120
    counted.pairs = (16, 20)
    counted.now += POLL_INTERVAL
    counted.count.look()
    assert counted.steps[3:] == [(4, pytest.approx(44 / 120), True)]


def test_the_others_are_looked_at_now_and_then_and_at_the_end():
    counted = Counted()
    for _ in range(10):
        counted.count.within(1)
    assert counted.looks == 1
    counted.pairs = (5, 0)
    counted.count.look(at_once=True)
    assert counted.steps == [(1, None, True)] * 10 + [(5, None, True)]


def test_more_pairs_than_expected_are_no_more_than_all():
    counted = Counted()
    counted.read(0, 1.0)
    counted.pairs = (30, 0)
    counted.count.look()
    assert counted.steps == [(30, 1.0, True)]
    counted.read(1, None)
    counted.count.within(1)
    assert counted.steps[-1] == (1, None, True)
