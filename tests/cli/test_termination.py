"""SIGTERM is heeded as Ctrl-C is where one process scores, and left to whoever sees to several processes."""

import signal
import threading

import pytest
from tests.cli.shared import SIGNALS, send

from textmover.report.error_spans import output
from textmover.runs import distributed
from textmover.runs.exit_codes_and_signals import Terminated, sigterm_as_interrupt
from textmover.types import InputError


@pytest.fixture
def command(texts, tiny_encoder):
    options = ("--encoder", tiny_encoder, "--device", "cpu", "--shard-size", 1, "--output", "s.txt")
    return ("score", "-i", *texts, *options)


@SIGNALS
def test_finished_shards_are_told_and_taken_up(run, command, after_shards, sent, code):
    after_shards(2, lambda: send(sent))
    ended = run(*command)
    said = "textmover: interrupted: 2 finished shards are kept in s.txt.parts, continue with --resume\n"
    assert ended == (code, "", said)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    place = command.index("--shard-size")
    ended = run(*command[:place], *command[place + 2 :], "--resume").ok()  # shards are as large as the first
    assert ended.err.startswith("Kept: 2 shards of an earlier run\n")


@SIGNALS
def test_nothing_is_left_of_a_run_without_a_shard(run, command, tmp_path, after_shards, sent, code):
    after_shards(0, lambda: send(sent))
    before = sorted(tmp_path.iterdir())
    assert run(*command) == (code, "", "textmover: interrupted\n")
    assert sorted(tmp_path.iterdir()) == before


@SIGNALS
def test_finished_marks_are_told(run, texts, tiny_encoder, tmp_path, monkeypatch, sent, code):
    def record(one):
        if one.line == 2:
            send(sent)
        return {"line": one.line}

    monkeypatch.setattr(output, "text_record", record)
    ended = run("errors", "-i", *texts, "--encoder", tiny_encoder, "--device", "cpu", "--output", "m.jsonl")
    said = "textmover: interrupted: the marks of the first 1 text are in m.jsonl.partial\n"
    assert ended == (code, "", said)
    assert (tmp_path / "m.jsonl.partial").read_text() == '{"line": 1}\n'


def test_several_processes_see_to_it_themselves(run, command, monkeypatch):
    found = []

    def look(*_):
        found.append(signal.getsignal(signal.SIGTERM))
        raise InputError("Expected nothing.")

    monkeypatch.setattr(distributed, "score_in_processes", look)
    assert run(*command, "--devices", 2).code == 2
    assert found == [signal.SIG_DFL]


def test_whoever_sends_it_again_is_not_kept_waiting():
    found = []

    def work():
        with sigterm_as_interrupt():
            try:
                send(signal.SIGTERM)
            finally:
                found.append(signal.getsignal(signal.SIGTERM))

    with pytest.raises(Terminated):
        work()
    assert found == [signal.SIG_DFL]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_what_others_do_with_it_stays(handler):
    signal.signal(signal.SIGTERM, handler)
    try:
        with sigterm_as_interrupt():
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_other_threads_leave_it_alone():
    found = []

    def look():
        with sigterm_as_interrupt():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(10)
    assert found == [signal.SIG_DFL]
