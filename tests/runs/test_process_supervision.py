"""Processes beside this one: their early end, a start that would wait for ever, and what they tell one another."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from textmover.runs import process_supervision as launched
from textmover.runs.process_supervision import Children, Messages, check_manual_start
from textmover.types import InputError

SLEEP = ["sleep", "60"]


@pytest.fixture
def started():
    """Processes as Lightning starts them."""
    running = []

    def started(*commands):
        running.extend(subprocess.Popen(one) for one in commands)
        return SimpleNamespace(procs=running)

    yield started
    for process in running:
        process.kill()
        process.wait()


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("command", "sent", "cause"),
    [
        (["false"], None, "exit code 1"),
        (["true"], None, "exit code 0"),
        (SLEEP, signal.SIGKILL, "SIGKILL, possibly out of memory"),
        (SLEEP, signal.SIGTERM, "SIGTERM"),
        (SLEEP, 40, "signal 40"),
    ],
)
def test_one_that_ends_early_is_named(started, command, sent, cause):
    launcher = started(SLEEP, command)
    watched = launcher.procs
    others = Children(launcher, 4)
    assert watched == [], "Lightning would kill this process without a word"
    if sent is None:
        launcher.procs[1].wait()
    else:
        assert others.early_exit() is None
        launcher.procs[1].send_signal(sent)
    until(others.early_exit)
    assert str(others.early_exit()) == f"Expected all processes to go on, but number 6 was ended by {cause}."
    others.end()
    assert launcher.procs[0].poll() == -signal.SIGKILL


def test_those_that_end_well_are_not_lost(started):
    others = Children(started(["true"]), 0)
    others.finished = [1].__contains__
    others.end(patience=30)
    assert others.early_exit() is None


def test_one_whose_starter_has_ended(started, monkeypatch, given_up):
    launcher = started(SLEEP)
    monkeypatch.setenv(launched.STARTED_BY, str(launcher.procs[0].pid))
    one = Children(None, 3)
    assert one.early_exit() is None
    one.wait_for("all", noted=False)
    launcher.procs[0].kill()
    launcher.procs[0].wait()
    until(lambda: given_up)
    assert given_up == [("Expected all processes to go on, but the one that started number 3 ended.", 2)]
    assert Children(None, 0).early_exit() is None


def test_a_launcher_that_starts_nothing():
    others = Children(SimpleNamespace(), 0)
    others.end()
    assert others.early_exit() is None


@pytest.fixture
def given_up(monkeypatch):
    """How a start was given up."""
    found = []

    def give_up(self, message, code):
        found.append((message, code))
        self._waiting.set()

    monkeypatch.setattr(Children, "_give_up", give_up)
    monkeypatch.setattr(launched, "START_POLL", 0.01)
    yield found
    signal.set_wakeup_fd(-1)


@pytest.mark.parametrize(
    ("commands", "said", "error"),
    [
        ([], "Waiting for all, for 0 minutes at most.\n", "Expected all within 0 minutes, but not all came."),
        ([["false"]], "", "Expected all processes to go on, but number 1 was ended by exit code 1."),
    ],
)
def test_a_start_says_what_it_waits_for_and_ends(started, monkeypatch, given_up, capsys, commands, said, error):
    if not commands:
        monkeypatch.setattr(launched, "NOTICE_DELAY", 0.0)
        monkeypatch.setattr(launched, "START_TIMEOUT", 0.1)
    Children(started(*commands), 0).wait_for("all", noted=True)
    until(lambda: given_up)
    assert (given_up, capsys.readouterr().err) == ([(error, 2)], said)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_start_can_be_interrupted(given_up, sent, code):
    """The main thread waits in torch, where no handler of Python is called."""
    before = signal.signal(sent, lambda *_: None)
    try:
        Children(None, 0).wait_for("all", noted=True)
        os.kill(os.getpid(), sent)
        until(lambda: given_up)
    finally:
        signal.signal(sent, before)
    assert given_up == [("interrupted", code)]


def test_all_have_arrived(given_up, monkeypatch):
    monkeypatch.setattr(launched, "START_TIMEOUT", 0.05)
    others = Children(None, 0)
    others.wait_for("all", noted=True)
    others.arrived()
    time.sleep(0.2)
    assert given_up == []


def test_giving_up_ends_this_process_and_those_that_it_has_started(started, monkeypatch, capsys):
    launcher = started(SLEEP)
    monkeypatch.setattr(launched.os, "_exit", sys.exit)
    with pytest.raises(SystemExit, match="130"):
        Children(launcher, 0)._give_up("interrupted", 130)
    assert capsys.readouterr().err == "textmover: interrupted\n"
    assert launcher.procs[0].poll() == -signal.SIGKILL


def test_machines_without_a_launcher_have_to_be_told_apart(monkeypatch):
    for name in launched.MANUAL_START:
        monkeypatch.delenv(name, raising=False)
    check_manual_start(1)
    with pytest.raises(InputError, match="got no MASTER_ADDR and no MASTER_PORT and no NODE_RANK: start the command"):
        check_manual_start(2)
    for name in launched.MANUAL_START:
        monkeypatch.setenv(name, "1")
    check_manual_start(2)


# --- messages, with two processes played by one -----------------------------------------------------------------------


@pytest.fixture
def both(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setattr(launched, "HEARTBEAT_INTERVAL", 0.02)
    ports = []
    first = Messages(0, 2, lambda port: ports.append(port) or port)
    second = Messages(1, 2, lambda _: ports[0])
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
    second._send_counts()  # as at the end
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
    monkeypatch.setattr(launched, "HEARTBEAT_TIMEOUT", 0.5)
    second._over.set()
    failure = first.wait()
    assert isinstance(failure, InputError)
    assert "Expected all 2 processes to go on, but number 1 has been silent" in str(failure)


def test_a_stop_reaches_the_others(both, monkeypatch):
    first, second = both
    monkeypatch.setattr(launched, "GRACE_TIME", 0.1)
    first.stop()
    assert second.failure() is not None
    assert json.loads(second.read("failure"))[0] == 0
