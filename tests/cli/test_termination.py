"""SIGTERM is heeded as Ctrl-C is where one process scores, and left to whoever sees to several processes."""

import signal
import threading

import pytest
from tests.cli.shared import SIGNALS, send

from textmover.report import error_spans
from textmover.runs import distributed
from textmover.runs.exit_codes_and_signals import Terminated, exit_code_context, sigterm_as_interrupt
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
def test_finished_marks_are_told_and_taken_up(run, texts, tiny_encoder, tmp_path, monkeypatch, sent, code):
    command = ("errors", "-i", *texts, "--encoder", tiny_encoder, "--device", "cpu", "--output")
    whole = run(*command, "whole.jsonl").ok()
    mark, lines = error_spans.text_record, list[int]()

    def record(one):
        lines.append(one.line)
        if lines == [1, 2]:
            send(sent)
        return mark(one)

    monkeypatch.setattr(error_spans, "text_record", record)
    monkeypatch.setattr("textmover.cli.commands.errors.CHUNK", 1)
    said = "textmover: interrupted: 1 finished shard is kept in m.jsonl.parts, continue with --resume\n"
    assert run(*command, "m.jsonl") == (code, "", said)
    assert "it holds 1 finished shard of an earlier run" in run(*command, "m.jsonl").complaint()
    told = run(*command, "m.jsonl", "--resume").ok().err
    assert lines == [1, 2, 2, 3, 4]
    assert (tmp_path / "m.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert told.startswith("Kept: 1 shard of an earlier run\n")
    assert whole.err.partition("Written")[0] in told
    assert sorted(path.name for path in tmp_path.glob("*m.jsonl*")) == [".m.jsonl.textmover.json", "m.jsonl"]
    assert (
        run(*command, "m.jsonl", "--resume").ok().err == "Complete already: m.jsonl (--overwrite computes it again)\n"
    )
    assert "m.jsonl is complete" in run(*command, "m.jsonl", "--resume", "--fail-on", "minor").complaint()


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


def test_an_interrupt_that_a_library_swallows_is_still_one(capsys):
    with exit_code_context() as outcome:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise AttributeError("half imported") from None
    assert (outcome.code, capsys.readouterr().err) == (130, "textmover: interrupted\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(AttributeError), exit_code_context():
        raise AttributeError("an error of ours")
