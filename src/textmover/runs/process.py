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

DEVICES, TABLES = "textmover.modules.devices", "textmover.readers.csv_and_jsonl"
"""Loggers of the devices that metrics compute on, and of tables, which are read several times: each message once."""

LONGEST_SENTENCE = 4_000  # characters of an error at most; its middle is left out beyond them


@dataclass
class Outcome:
    """Exit code of a command: 0 success, 2 unusable input, 130 interrupted, 143 terminated."""

    code: int = 0


def set_up_logging(*, quiet: bool = False, devices: bool = False) -> None:
    """Log warnings to standard error, and other messages of this project unless ``quiet``.

    With ``devices``, messages on metrics that compute on another device than the processor are logged all the same.
    """
    handler = _StandardError()
    handler.addFilter(_first_of_each())
    handler.addFilter(lambda record: not logging.getLogger(record.name.partition(".")[0]).handlers)  # prints it itself
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("textmover").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger(DEVICES).setLevel(logging.INFO if devices else logging.NOTSET)


def _first_of_each() -> Callable[[logging.LogRecord], bool]:
    """A filter that takes each message on a device or table once, and none on the processor."""
    said = set[str]()

    def wanted(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        repeated = message in said or (record.name == DEVICES and message.endswith(" on cpu."))
        said.update([message] if record.name in (DEVICES, TABLES) else [])
        return not repeated

    return wanted


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
    except BrokenPipeError:  # whoever read our output has stopped: what is still buffered goes nowhere
        with contextlib.suppress(OSError, ValueError):  # in a test, standard output may have no descriptor
            descriptor = sys.stdout.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
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


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class _ClosedOutput(io.TextIOBase):
    """Stands for a closed standard output: results cannot be written there, which is an error once there are any."""

    def write(self, _: str) -> int:
        raise OSError(errno.EBADF, "it is closed, so that nothing can be written there", "standard output")


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]  # takes one from Python 3.11 on
    """Writes to what is standard error at the time of the message, not at the time of the set-up."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _complain(message: str, outcome: Outcome, code: int) -> None:
    sentence = " ".join(message.splitlines())
    if len(sentence) > LONGEST_SENTENCE:  # it quotes something without end
        sentence = f"{sentence[: LONGEST_SENTENCE // 2]} … {sentence[-LONGEST_SENTENCE // 2 :]}"
    sys.stderr.write(f"textmover: {sentence}\n")
    outcome.code = code


class Terminated(KeyboardInterrupt):
    """SIGTERM, which `kill`, SLURM and Docker end a process by: heeded as Ctrl-C is, but for the exit code."""


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
