"""What processes tell one another, with two of them played by one."""

import json
import time

import pytest

from textmover.runs import launched_processes as meeting
from textmover.runs.launched_processes import Meeting
from textmover.types import InputError


@pytest.fixture
def both(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setattr(meeting, "BEAT", 0.02)
    ports = []
    first = Meeting(0, 2, lambda port: ports.append(port) or port)
    second = Meeting(1, 2, lambda _: ports[0])
    yield first, second
    second._over.set()


def test_a_text_is_read_by_the_others(both):
    first, second = both
    assert second.read("manifest") is None
    first.post("manifest", "…")
    assert second.read("manifest") == "…"


@pytest.mark.parametrize(
    ("error", "heard", "said"),
    [
        (InputError("line 3 is bad."), InputError, "line 3 is bad."),
        (OSError(28, "No space left on device", "x"), InputError, "x: No space left on device"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
        (ZeroDivisionError("a defect"), RuntimeError, "process 1 failed:\nZeroDivisionError: a defect\n"),
    ],
)
def test_what_one_cannot_do_is_heard_by_the_first(both, error, heard, said):
    first, second = both
    assert first.failure() is None
    second.fail(error)
    second.fail(InputError("what comes of it"))
    assert type(first.wait()) is heard
    assert str(first.failure()) == said


def test_the_first_hears_what_the_others_have_counted(both):
    first, second = both
    assert first.counted() == (0, 0)
    for pairs in (3, 4):
        second.count(pairs, True)
    second.count(5, False)
    until = time.monotonic() + 20
    while first.counted() != (7, 5):
        assert time.monotonic() < until, first.counted()
        time.sleep(0.01)
    second.count(1, True)
    second._over.set()
    second._tell_counts()  # as at the end
    assert first.counted() == (8, 5)


def test_what_goes_on_meanwhile_goes_on(both):
    first, second = both
    waited = []

    def end_the_second_time():
        waited.append(first.counted())
        if len(waited) == 2:
            second.post("end 1", "")

    assert first.wait(end_the_second_time) is None
    assert len(waited) >= 2


def test_a_process_that_shows_no_life_is_not_waited_for(both, monkeypatch):
    first, second = both
    monkeypatch.setattr(meeting, "SILENCE", 0.5)
    second._over.set()
    failure = first.wait()
    assert isinstance(failure, InputError)
    assert "Expected all 2 processes to go on, but number 1 has been silent" in str(failure)


def test_a_stop_reaches_the_others(both, monkeypatch):
    first, second = both
    monkeypatch.setattr(meeting, "FAREWELL", 0.1)
    first.stop()
    assert second.failure() is not None
    assert json.loads(second.read("failure"))[0] == 0
