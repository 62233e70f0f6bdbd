"""SIGTERM, treated like Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


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
