"""What all commands share: where they print, how they log, and how they end."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

__all__ = [
    "Outcome",
    "Terminated",
    "causes",
    "console",
    "guarded",
    "heeding_termination",
    "open_streams",
    "print_table",
    "set_up_logging",
]

UNWRAPPED = 100_000
"""Width of a file or pipe in characters: no line is ever broken or cut there."""

LEGIBLE = 12
"""Width below which a column of text is not folded further."""


LONGEST_SENTENCE = 4_000
"""Characters of an error at most; its middle is left out beyond them."""


@dataclass
class Outcome:
    """How a command ended: 0 well, 2 unusable input, 130 interrupted, 143 terminated."""

    code: int = 0


class Terminated(KeyboardInterrupt):
    """SIGTERM, which `kill`, SLURM and Docker end a process by: heeded as Ctrl-C is, but for the exit code."""


def console(*, stderr: bool = False) -> Console:
    """A console that draws boxes on a terminal and writes plain, unwrapped lines into a file or pipe."""
    stream = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not stream.is_terminal:
        stream = Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=UNWRAPPED, color_system=None)
    return stream


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str] = (),
    narrow: Sequence[str] = (),
) -> None:
    """Print aligned columns on standard output: with a rule below the header on a terminal, without one in a pipe.

    Args:
        headers: Names of the columns.
        rows: Cells, as many as there are headers.
        numbers: Headers of the columns that are aligned on the right.
        narrow: Headers of the columns that never wrap, so that the others do where the terminal is narrow.
    """
    stream = console()
    table = Table(box=box.SIMPLE_HEAD if stream.is_terminal else None, pad_edge=False)
    for header in headers:
        justify: Literal["left", "right"] = "right" if header in numbers else "left"
        table.add_column(header, justify=justify, overflow="fold", no_wrap=header in narrow)
    rows = list(rows)
    for row in rows:
        table.add_row(*row)
    for column, header in zip(table.columns, headers, strict=True):
        longest = max(cell_len(line) for one in (header, *column.cells) for line in (str(one).splitlines() or [""]))
        column.min_width = longest if column.no_wrap else min(longest, LEGIBLE)
    anywhere = stream.options.update(max_width=UNWRAPPED)
    if stream.is_terminal and Measurement.get(stream, anywhere, table).minimum <= stream.width:
        stream.print(table)
        return
    # Too narrow for that: the terminal wraps whole lines, and no name or number is cut.
    table.box = None
    stream = Console(highlight=False, markup=False, emoji=False, width=UNWRAPPED, color_system=None)
    with stream.capture() as captured:
        stream.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def set_up_logging(*, quiet: bool = False) -> None:
    """Log to standard error: messages of this project (only its warnings where ``quiet``), and warnings of others."""
    handler = _StandardError()
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("textmover").setLevel(logging.WARNING if quiet else logging.INFO)


def open_streams() -> None:
    """Put something in the place of standard streams that are closed (``>&-``), which Python leaves as ``None``."""
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    if sys.stderr is None:  # what is said there is for whom it may concern: nobody
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (open until the process ends)


@contextlib.contextmanager
def guarded() -> Iterator[Outcome]:
    """Turn unusable input into one sentence on standard error and exit code 2; defects keep their traceback."""
    outcome = Outcome()
    try:
        yield outcome
        sys.stdout.flush()  # here, where a closed pipe is nobody's fault, rather than when the interpreter ends
    except BrokenPipeError:
        _drop_output()  # whoever read our output has stopped: nothing is wrong, and nobody is left to tell
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}", outcome, 2)
    except KeyboardInterrupt as interruption:
        _complain(str(interruption) or "interrupted", outcome, 143 if isinstance(interruption, Terminated) else 130)
    except ValueError as error:
        from textmover.types import InputError  # brings torch along, which `--help` can do without

        # jsonargparse wraps what a constructor raises into an error of its own.
        unusable = next((one for one in causes(error) if isinstance(one, InputError)), None)
        if unusable is None:
            raise
        _complain(str(unusable), outcome, 2)


@contextlib.contextmanager
def heeding_termination() -> Iterator[None]:
    """Let SIGTERM end the work inside as Ctrl-C does, unless somebody else heeds or ignores it."""
    heeded = threading.current_thread() is threading.main_thread()  # no other may say what a signal does
    if not heeded or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whoever sends it again does not want to wait
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class _ClosedOutput(io.TextIOBase):
    """Stands for a closed standard output: results cannot be written there, which is an error once there are any."""

    def write(self, _: str) -> int:
        raise OSError(errno.EBADF, "it is closed, so that nothing can be written there", "standard output")


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at the time of the message, not at the time of the set-up."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        pass


def _complain(message: str, outcome: Outcome, code: int) -> None:
    sentence = " ".join(message.splitlines())
    if len(sentence) > LONGEST_SENTENCE:  # it quotes something without end
        sentence = f"{sentence[: LONGEST_SENTENCE // 2]} … {sentence[-LONGEST_SENTENCE // 2 :]}"
    sys.stderr.write(f"textmover: {sentence}\n")
    outcome.code = code


def _drop_output() -> None:
    """Let what is still buffered for standard output go nowhere."""
    with contextlib.suppress(OSError, ValueError):  # in a test, standard output may have no descriptor
        descriptor = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
