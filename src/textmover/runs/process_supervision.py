"""Worker processes started by Lightning: bounds on their start, reports of their failure, and messages between them.

The work uses no collective operations of torch.distributed: these deadlock if one process has less to do than another,
and time out if one takes longer.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NoReturn

from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]  # missing from torch's type stubs

from textmover.types import InputError

NOTICE_DELAY = 10.0  # seconds before a waiting start prints what it waits for
START_TIMEOUT = 1800.0  # seconds before a start times out; the default timeout of torch.distributed
START_POLL = 0.2  # seconds between two checks of the other processes during the start
UNUSABLE = 2  # exit code if other processes never connect, or if the first process reports the error for all
STARTED_BY = "TEXTMOVER_STARTED_BY"  # environment variable with the id of the parent process

MANUAL_START = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")


def check_manual_start(nodes: int, option: str = "--num-nodes") -> None:
    """Raise :class:`InputError` if a start on several machines has neither a launcher nor the variables to connect."""
    missing = [name for name in MANUAL_START if name not in os.environ]
    if nodes > 1 and missing:
        raise InputError(
            f"Expected a launcher, or {', '.join(MANUAL_START)} in the environment, for {option} {nodes}, but got no "
            f"{' and no '.join(missing)}: start the command on each machine as docs/scoring-at-scale.md says."
        )


class Children:
    """Child processes of this one. Lightning must not watch them: it kills this process if one of them fails."""

    def __init__(self, launcher: Any, rank: int) -> None:
        watched: list[subprocess.Popen[bytes]] = getattr(launcher, "procs", [])
        self._started = list(watched)
        self._rank = rank
        if watched:
            launcher.procs = self._started  # the launcher ends these after an interruption
            watched.clear()
        self._parent = int(os.environ.get(STARTED_BY, 0)) if rank else 0
        self._waiting = threading.Event()
        self._signals: tuple[int, int] | None = None
        self.finished: Callable[[int], bool] = lambda rank: False  # whether a process has done all its work

    def early_exit(self) -> InputError | None:
        """Return an error that names a failed child or a missing parent process; ``None`` if there is none."""
        for number, process in enumerate(self._started, self._rank + 1):
            code = process.poll()
            if code or (code == 0 and not self.finished(number)):
                return InputError(
                    f"Expected all processes to go on, but number {number} was ended by {_cause(process.returncode)}."
                )
        try:
            if self._parent:
                os.kill(self._parent, 0)  # signal 0 only tests whether the process exists
        except ProcessLookupError:
            return InputError(f"Expected all processes to go on, but the one that started number {self._rank} ended.")
        return None

    def end(self, patience: float = 0.0) -> None:
        """Wait up to ``patience`` seconds for the started processes to end, then kill the rest."""
        until = time.monotonic() + patience
        while time.monotonic() < until and any(process.poll() is None for process in self._started):
            time.sleep(START_POLL / 10)
        for process in self._started:
            process.kill()  # no effect on a process that has ended
            process.wait()

    def wait_for(self, wanted: str, *, noted: bool) -> None:
        """Watch the start in a thread until :meth:`arrived`; exit on failure. The main thread blocks in torch."""
        self._signals = os.pipe()
        for end in self._signals:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._signals[1])
        threading.Thread(target=self._watch, args=(wanted, noted, self._signals[0]), name="start", daemon=True).start()

    def arrived(self) -> None:
        """Stop watching: all processes have connected."""
        self._waiting.set()
        if self._signals is not None:
            signal.set_wakeup_fd(-1)

    def _watch(self, wanted: str, noted: bool, signals: int) -> None:
        start = time.monotonic()
        while not self._waiting.is_set():
            readable, _, _ = select.select([signals], [], [], START_POLL)
            received = os.read(signals, 1) if readable else b""
            waited = time.monotonic() - start
            lost = self.early_exit()
            if self._waiting.is_set():
                return
            if received and received[0] in (signal.SIGINT, signal.SIGTERM):
                self._give_up("interrupted", 128 + received[0])
            if lost is not None:
                self._give_up(str(lost), UNUSABLE)
            if waited > START_TIMEOUT:
                self._give_up(f"Expected {wanted} within {START_TIMEOUT / 60:.0f} minutes, but not all came.", UNUSABLE)
            if noted and waited > NOTICE_DELAY:
                noted = False
                sys.stderr.write(f"Waiting for {wanted}, for {START_TIMEOUT / 60:.0f} minutes at most.\n")

    def _give_up(self, message: str, code: int) -> None:
        self.end()
        sys.stderr.write(f"textmover: {message}\n")
        sys.stderr.flush()
        os._exit(code)


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = next((one.name for one in signal.Signals if one == -code), f"signal {-code}")  # Windows has no SIGKILL
    return f"{name}{', possibly out of memory' if name == 'SIGKILL' else ''}"


HEARTBEAT_INTERVAL = 0.5  # seconds between two heartbeats
HEARTBEAT_TIMEOUT = 60.0  # seconds without a heartbeat before a process counts as dead
GRACE_TIME = 2.0  # seconds for the other processes to finish writing if the first process ends early
SCORED, KEPT = "scored pairs", "kept pairs"  # keys of the shared counters, to which all but the first process add
_OPEN_STORES: list[TCPStore] = []  # kept open until exit: the others detect the end of the first process by its store


class Messages:
    """Messages between the processes. If the first one dies unexpectedly, the others run ``before_exit`` and exit."""

    def __init__(self, rank: int, world: int, broadcast: Callable[[int], int]) -> None:
        self.rank = rank
        self._world = world
        host = os.environ["MASTER_ADDR"]  # always set by Lightning
        if rank == 0:
            self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        port = broadcast(self._store.port if rank == 0 else 0)
        if rank:
            self._store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=HEARTBEAT_TIMEOUT))
        _OPEN_STORES.append(self._store)
        self._seen: dict[int, tuple[int, float]] = {}
        self._over = threading.Event()
        self._error_reported = False
        self.before_exit: Callable[[], None] = lambda: None
        self._exit_lock = threading.Lock()
        self._count_lock = threading.Lock()
        self._unsent = dict.fromkeys((SCORED, KEPT), 0)
        if rank:
            threading.Thread(target=self._send_heartbeats, name="sign of life", daemon=True).start()

    def _send_heartbeats(self) -> None:
        while not self._over.wait(HEARTBEAT_INTERVAL):
            with self._exit_without_first():
                self._store.add(f"beat {self.rank}", 1)
                self._send_counts()
                self._error_reported = self._error_reported or self._store.check(["failure"])

    def _send_counts(self) -> None:
        with self._count_lock:
            for name, pairs in self._unsent.items():
                if pairs:
                    self._store.add(name, pairs)
                    self._unsent[name] = 0

    def count(self, pairs: int, scored: bool) -> None:
        """Add finished pairs to the counts that the next heartbeat sends to the first process."""
        with self._count_lock:
            self._unsent[SCORED if scored else KEPT] += pairs

    def counted(self) -> tuple[int, int]:
        """Return how many pairs the other processes have reported as scored and as kept from an earlier run."""
        return self._store.add(SCORED, 0), self._store.add(KEPT, 0)

    @contextlib.contextmanager
    def _exit_without_first(self) -> Iterator[None]:
        """Exit if the connection to the first process is lost; safe, since files are written atomically."""
        try:
            yield
        except DistError:
            if self.rank == 0:
                raise
            with self._exit_lock:  # only one thread ends the process
                if not (self._error_reported or self._over.is_set()):
                    self.before_exit()
                os._exit(UNUSABLE)

    def post(self, name: str, text: str) -> None:
        """Store a text for the other processes, which can read it once this returns."""
        with self._exit_without_first():
            self._store.set(name, text)
            self._store.check([name])  # wait for the server: `set` does not, and requests are answered in order

    def read(self, name: str) -> str | None:
        """Return the text stored under a name; ``None`` if it has not been stored yet."""
        with self._exit_without_first():
            return self._store.get(name).decode() if self._store.check([name]) else None

    def finished(self, rank: int) -> bool:
        """Return whether a process has done all its work."""
        return self.read(f"end {rank}") is not None

    def fail(self, error: BaseException) -> None:
        """Report an error of this process. Only the first error of all processes is stored."""
        if isinstance(error, InputError):
            report = ("input", str(error))
        elif isinstance(error, OSError):
            report = ("input", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        elif isinstance(error, KeyboardInterrupt):
            report = ("interruption", "")
        else:
            report = ("defect", "".join(traceback.format_exception(error)))
        with self._exit_without_first():
            self._store.compare_set("failure", "", json.dumps([self.rank, *report]))

    def failure(self) -> BaseException | None:
        """Return the stored error of a process, or an error for missing heartbeats; ``None`` if all processes work."""
        report = self.read("failure")
        if report is not None:
            rank, kind, text = json.loads(report)
            if kind == "interruption":
                return KeyboardInterrupt()
            return InputError(text) if kind == "input" else RuntimeError(f"process {rank} failed:\n{text}")
        silent = next((rank for rank in range(1, self._world) if self._is_silent(rank)), None)
        if self.rank or silent is None:
            return None
        return InputError(
            f"Expected all {self._world} processes to go on, but number {silent} has been silent for "
            f"{HEARTBEAT_TIMEOUT:.0f} seconds: check why it ended, for example out of memory."
        )

    def _is_silent(self, rank: int) -> bool:
        if self.finished(rank):
            return False
        beats, now = self._store.add(f"beat {rank}", 0), time.monotonic()
        last_beats, since = self._seen.get(rank, (-1, now))
        if beats != last_beats:
            self._seen[rank] = (beats, now)
            return False
        return now - since > HEARTBEAT_TIMEOUT

    def wait(self, meanwhile: Callable[[], None] = lambda: None) -> BaseException | None:
        """Wait in the first process until all others have finished; return the error if one failed."""
        while not self._store.check([f"end {rank}" for rank in range(1, self._world)]):
            failure = self.failure()
            if failure is not None:
                return failure
            meanwhile()
            time.sleep(HEARTBEAT_INTERVAL / 5)
        return None

    def stop(self) -> None:
        """Tell the other processes to stop, and wait a moment for them. Call it in the first process."""
        self.post("failure", json.dumps([0, "defect", ""]))
        patience = time.monotonic() + GRACE_TIME
        while time.monotonic() < patience and not self._store.check([f"stop {rank}" for rank in range(1, self._world)]):
            time.sleep(HEARTBEAT_INTERVAL / 5)

    def leave(self, *, well: bool) -> NoReturn:
        """End a process other than the first; after a failure, wait until the first process has reported it."""
        if not well:  # hide torch's message about the lost connection
            self._error_reported = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        self.post(f"stop {self.rank}", "")
        while not well:
            time.sleep(HEARTBEAT_TIMEOUT)  # the heartbeat thread ends the process
        self._over.set()
        with self._exit_without_first():
            self._send_counts()
        self.post(f"end {self.rank}", "")
        sys.stdout.flush()
        sys.stderr.flush()
        # Skip interpreter shutdown: threads of gloo can outlive it and abort the process.
        os._exit(0)
