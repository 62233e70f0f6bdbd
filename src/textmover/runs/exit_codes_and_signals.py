"""Streams, logging, SIGTERM and exit codes of all commands."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

DEVICES, TABLES = "textmover.modules.devices", "textmover.readers.csv_and_jsonl"
"""Loggers whose repeated messages are dropped: devices of metrics, and tables, which are read several times."""

LONGEST_SENTENCE = 4_000  # characters; the middle of a longer error message is cut out


UNJUDGED = "Expected the output to be read until the exit code is known, but its reader stopped: use --output FILE."


@dataclass
class ExitStatus:
    """Exit code of a command: 0 success, 2 unusable input, 130 interrupted, 143 terminated."""

    code: int = 0
    judges: bool = False  # whether the code is still to be found by the command


def set_up_logging(*, quiet: bool = False, devices: bool = False) -> None:
    """Log warnings to standard error, and also info messages of this project unless ``quiet``.

    With ``devices``, messages about metrics that run on a device other than the CPU are logged even if ``quiet``.
    """
    handler = _StandardError()
    handler.addFilter(_repeat_filter())
    handler.addFilter(lambda record: not logging.getLogger(record.name.partition(".")[0]).handlers)  # has its own
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("textmover").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger(DEVICES).setLevel(logging.INFO if devices else logging.NOTSET)


def _repeat_filter() -> Callable[[logging.LogRecord], bool]:
    """Return a filter that drops repeated messages about devices and tables, and messages about the CPU."""
    seen = set[str]()

    def wanted(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        repeated = message in seen or (record.name == DEVICES and message.endswith(" on cpu."))
        seen.update([message] if record.name in (DEVICES, TABLES) else [])
        return not repeated

    return wanted


def open_streams() -> None:
    """Replace closed standard streams (``>&-``), which Python sets to ``None``."""
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    if sys.stderr is None:  # nobody can read messages: discard them
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (open until the process ends)


@contextlib.contextmanager
def exit_code_context() -> Iterator[ExitStatus]:
    """Print user errors as one line on standard error with exit code 2; internal errors keep their traceback."""
    outcome = ExitStatus()
    try:
        with _interrupts_kept():
            yield outcome
        sys.stdout.flush()  # flush here, so that a closed pipe is handled below instead of at interpreter exit
    except BrokenPipeError:  # the reader of our output has stopped: discard the buffer
        with contextlib.suppress(OSError, ValueError):  # in tests, standard output may have no file descriptor
            descriptor = sys.stdout.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
        if outcome.judges:
            with contextlib.suppress(OSError):  # standard error may be the one that is closed
                _report_error(UNJUDGED, outcome, 2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _report_error(f"{where}{error.strerror or error}", outcome, 2)
    except KeyboardInterrupt as interruption:
        _report_error(str(interruption) or "interrupted", outcome, 143 if isinstance(interruption, Terminated) else 130)
    except ValueError as error:
        from textmover.types import InputError  # late: imports torch, which `--help` does not need

        # jsonargparse wraps errors of constructors in its own error.
        unusable = next((one for one in causes(error) if isinstance(one, InputError)), None)
        if unusable is None:
            raise
        _report_error(str(unusable), outcome, 2)


@contextlib.contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Raise :class:`KeyboardInterrupt` for errors after a Ctrl-C that a library swallowed, as NumPy's import does."""
    before, received = signal.getsignal(signal.SIGINT), list[int]()
    ours = threading.current_thread() is threading.main_thread() and before is signal.default_int_handler

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.default_int_handler(number, frame)

    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if received:
            raise KeyboardInterrupt from error
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and the chain of its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class _ClosedOutput(io.TextIOBase):
    """Replacement for a closed standard output; raises an error on the first write."""

    def write(self, _: str) -> int:
        raise OSError(errno.EBADF, "it is closed, so that nothing can be written there", "standard output")


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]  # generic only from Python 3.11 on
    """Handler that looks up ``sys.stderr`` for every message, since it may be replaced after the set-up."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _report_error(message: str, outcome: ExitStatus, code: int) -> None:
    outcome.code = code
    sentence = " ".join(message.splitlines())
    if len(sentence) > LONGEST_SENTENCE:  # it quotes a very long value
        sentence = f"{sentence[: LONGEST_SENTENCE // 2]} … {sentence[-LONGEST_SENTENCE // 2 :]}"
    sys.stderr.write(f"textmover: {sentence}\n")


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, the signal of `kill`, SLURM and Docker. Handled like Ctrl-C except for the exit code."""


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM inside the block, unless SIGTERM already has a handler or is ignored."""
    in_main_thread = threading.current_thread() is threading.main_thread()  # only it may set signal handlers
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second SIGTERM kills the process at once
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
