"""Tables on terminals of any width: no name and no number is ever cut."""

import contextlib
import os
import sys

import pytest
from rich.console import Console

from textmover import terminal as module

HEADERS = ("system", "rank", "mean", "95 % interval")
ROWS = [("a-system-with-a-name", "1", "0.6012", "0.5155 to 0.7025"), ("b", "2", "0.5000", "0.4000 to 0.6000")]


@pytest.fixture
def terminal(monkeypatch):
    """A function that prints the table on a terminal of a width."""

    def printed(width, capsys):
        monkeypatch.setattr(module, "console", lambda: Console(force_terminal=True, width=width, color_system=None))
        module.print_table(HEADERS, ROWS, numbers=HEADERS[1:], narrow=HEADERS[1:])
        return capsys.readouterr().out

    return printed


@pytest.mark.parametrize("width", [20, 40, 55, 60, 80, 120])
def test_everything_stands_there_at_any_width(terminal, capsys, width):
    out = terminal(width, capsys)
    for _, *numbers in ROWS:
        for number in numbers:
            assert number in out
    folded = "".join(line[:21].strip() for line in out.splitlines())
    assert "a-system-with-a-name" in out or "a-system-with-a-name" in folded.replace(" ", "")
    fits = max(map(len, out.splitlines())) <= width
    assert fits == (width >= 55), "where there is room the table keeps within the terminal, else lines are whole"


def test_a_pipe_has_lines_without_ends_of_blanks(capsys):
    module.print_table(HEADERS, ROWS, numbers=HEADERS[1:])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line == line.rstrip() for line in lines)


def test_a_closed_pipe_is_the_error_of_other_output(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    stream.write("what stands before")
    with pytest.raises(BrokenPipeError):
        module.print_line(module.console(), "a line")
    with contextlib.suppress(BrokenPipeError):
        stream.close()
