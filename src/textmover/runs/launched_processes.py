"""Worker processes started by Lightning: their start is bounded in time, and their failure is reported."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from textmover.types import InputError

NOTE = 10.0
"""Seconds after which a start says what it waits for."""

LIMIT = 1800.0
"""Seconds after which it ends; torch.distributed waits as long."""

LOOK = 0.2
"""Seconds between two looks at the others while all start."""

UNUSABLE = 2
"""Exit code where the others never come, or where the first process has said why all end."""

STARTED_BY = "TEXTMOVER_STARTED_BY"
"""Variable that holds the number of the process that has started this one."""

BY_HAND = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")


def check_by_hand(nodes: int, option: str = "--num-nodes") -> None:
    """Refuse a start on several machines, without a launcher, that could only wait."""
    missing = [name for name in BY_HAND if name not in os.environ]
    if nodes > 1 and missing:
        raise InputError(
            f"Expected a launcher, or {', '.join(BY_HAND)} in the environment, for {option} {nodes}, but got no "
            f"{' and no '.join(missing)}: start the command on each machine as docs/scoring-at-scale.md says."
        )


class Launched:
    """Processes started here, watched in place of Lightning, which would kill this one when another ends early."""

    def __init__(self, launcher: Any, rank: int) -> None:
        watched: list[subprocess.Popen[bytes]] = getattr(launcher, "procs", [])
        self._started = list(watched)
        self._rank = rank
        if watched:
            launcher.procs = self._started  # those that it ends after an interruption
            watched.clear()
        self._parent = int(os.environ.get(STARTED_BY, 0)) if rank else 0
        self._waiting = threading.Event()
        self._signals: tuple[int, int] | None = None

    def lost(self) -> InputError | None:
        """An error that names one that has ended early: one that was started here, or the one that started this."""
        for number, process in enumerate(self._started, self._rank + 1):
            if process.poll():
                return InputError(
                    f"Expected all processes to go on, but number {number} was ended by {_cause(process.returncode)}."
                )
        try:
            if self._parent:
                os.kill(self._parent, 0)  # asks whether it is there
        except ProcessLookupError:
            return InputError(f"Expected all processes to go on, but the one that started number {self._rank} ended.")
        return None

    def end(self, patience: float = 0.0) -> None:
        """Let them end, or end them."""
        until = time.monotonic() + patience
        while time.monotonic() < until and any(process.poll() is None for process in self._started):
            time.sleep(LOOK / 10)
        for process in self._started:
            process.kill()  # one that has ended already is left alone
            process.wait()

    def wait_for(self, wanted: str, *, noted: bool) -> None:
        """Until :meth:`arrived`, end this process where the others never come; the main thread waits in torch."""
        self._signals = os.pipe()
        for end in self._signals:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._signals[1])
        threading.Thread(target=self._watch, args=(wanted, noted, self._signals[0]), name="start", daemon=True).start()

    def arrived(self) -> None:
        """All processes have come."""
        self._waiting.set()
        if self._signals is not None:
            signal.set_wakeup_fd(-1)

    def _watch(self, wanted: str, noted: bool, signals: int) -> None:
        begun = time.monotonic()
        while not self._waiting.is_set():
            came, _, _ = select.select([signals], [], [], LOOK)
            sent = os.read(signals, 1) if came else b""
            waited = time.monotonic() - begun
            lost = self.lost()
            if self._waiting.is_set():
                return
            if sent and sent[0] in (signal.SIGINT, signal.SIGTERM):
                self._give_up("interrupted", 128 + sent[0])
            if lost is not None:
                self._give_up(str(lost), UNUSABLE)
            if waited > LIMIT:
                self._give_up(f"Expected {wanted} within {LIMIT / 60:.0f} minutes, but not all came.", UNUSABLE)
            if noted and waited > NOTE:
                noted = False
                sys.stderr.write(f"Waiting for {wanted}, for {LIMIT / 60:.0f} minutes at most.\n")

    def _give_up(self, message: str, code: int) -> None:
        self.end()
        sys.stderr.write(f"textmover: {message}\n")
        sys.stderr.flush()
        os._exit(code)


def _cause(code: int) -> str:
    """The signal or exit code that a process ended by."""
    if code > 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name  # Windows has no SIGKILL
    return f"{name}{', which may be a lack of memory' if name == 'SIGKILL' else ''}"
