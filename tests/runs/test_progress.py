"""The progress bar of streaming: on a terminal only, with the time left where the length is known."""

import io
import sys

import pytest

from textmover.runs.progress import POLL_INTERVAL, PairCount, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch):
    """What a terminal, or another stream, shows of steps, each with its time."""

    def shown(steps, stream, **options):
        now = [0.0]
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("scoring", **{"shown": True, **options}) as advance:
            for now[0], *step in steps:
                advance(*step)
        return stream.getvalue()

    return shown


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([(0, 1000, 4000, True)], "1,000 pairs\n"),
        ([(0, 1000, 4000, True), (2, 1000, 4000, True)], "2,000 pairs, 500 a second, 0:00:04 left"),
        ([(0, 1000, None, True), (2, 1000, None, True)], "2,000 pairs, 500 a second\n"),  # of unknown length
        # Kept shards do not count as fast, nor do those between others.
        ([(0, 1, 7, True), (1, 5000, 7000, False), (2, 1, 7000, True), (4, 998, 7000, True)], "6,000 pairs, 499 a sec"),
        ([(0, 1000, 1500, True), (2, 1000, 1500, True)], "2,000 pairs, 500 a second, 0:00:00 left"),  # than expected
    ],
)
def test_rate_and_time_left(shown, steps, said):
    assert said in shown(steps, Terminal(), unit="pairs")


@pytest.mark.parametrize(("stream", "wanted"), [(Terminal(), False), (io.StringIO(), True)])
def test_a_bar_is_shown_on_a_terminal_only(shown, stream, wanted):
    assert shown([(0, 1234, 2000, True)], stream, shown=wanted) == ""


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
    pairs, totals, scored = zip(*counted.steps, strict=True)
    assert pairs == (5, 10, 5) * 3
    assert totals == (50,) * 6 + (None,) * 3
    assert scored == (True,) * 5 + (False,) + (True,) * 3


def test_pairs_of_all_processes_are_counted():
    counted = Counted()
    counted.read(0, 0.25)
    counted.pairs = (12, 20)
    counted.count.within(8)
    assert counted.steps == [(8, 80, True), (20, 80, False), (12, 80, True)]
    counted.read(2, 0.5)
    counted.pairs = (16, 20)
    counted.now += POLL_INTERVAL
    counted.count.look()
    assert counted.steps[3:] == [(4, 120, True)]


def test_the_others_are_looked_at_now_and_then_and_at_the_end():
    counted = Counted()
    for _ in range(10):
        counted.count.within(1)
    assert counted.looks == 1
    counted.pairs = (5, 0)
    counted.count.look(at_once=True)
    assert counted.steps == [(1, None, True)] * 10 + [(5, None, True)]
