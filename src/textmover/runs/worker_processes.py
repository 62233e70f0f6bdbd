"""Worker processes started by Lightning: bounds on their start, reports of their failure, and messages between them.

No process waits for another in the middle of its work, as it would in a collective operation of torch.distributed:
those deadlock where one process has less to do than another, and time out where one takes longer.
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

from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]  # its types do not name them

from textmover.types import InputError

NOTE = 10.0  # seconds after which a start says what it waits for
LIMIT = 1800.0  # seconds after which it ends; torch.distributed waits as long
LOOK = 0.2  # seconds between two looks at the others while all start
UNUSABLE = 2  # exit code where the others never come, or where the first process has said why all end
STARTED_BY = "TEXTMOVER_STARTED_BY"  # variable that holds the number of the process that has started this one

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
    if code > 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name  # Windows has no SIGKILL
    return f"{name}{', which may be a lack of memory' if name == 'SIGKILL' else ''}"


BEAT = 0.5  # seconds between two signs of life
SILENCE = 60.0  # seconds without one after which a process is taken for dead
FAREWELL = 2.0  # seconds that the others have to finish what they write where the first process ends early
SCORED, KEPT = "scored pairs", "kept pairs"  # keys under which all processes but the first add up their finished work
_OPEN: list[TCPStore] = []  # kept until the process ends, which the others know by the end of the first one's store


class Meeting:
    """Messages to the first process; others end within a second of it, after ``last_words`` if it said nothing."""

    def __init__(self, rank: int, world: int, broadcast: Callable[[int], int]) -> None:
        self.rank = rank
        self._world = world
        host = os.environ["MASTER_ADDR"]  # Lightning sets it, whoever started the processes
        if rank == 0:
            self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        port = broadcast(self._store.port if rank == 0 else 0)
        if rank:
            self._store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=SILENCE))
        _OPEN.append(self._store)
        self._seen: dict[int, tuple[int, float]] = {}
        self._over = threading.Event()
        self._explained = False
        self.last_words: Callable[[], None] = lambda: None
        self._ending = threading.Lock()
        self._counting = threading.Lock()
        self._untold = dict.fromkeys((SCORED, KEPT), 0)
        if rank:
            threading.Thread(target=self._show_life, name="sign of life", daemon=True).start()

    def _show_life(self) -> None:
        while not self._over.wait(BEAT):
            with self._ending_with_first():
                self._store.add(f"beat {self.rank}", 1)
                self._tell_counts()
                self._explained = self._explained or self._store.check(["failure"])

    def _tell_counts(self) -> None:
        with self._counting:
            for name, pairs in self._untold.items():
                if pairs:
                    self._store.add(name, pairs)
                    self._untold[name] = 0

    def count(self, pairs: int, scored: bool) -> None:
        """Send the first process, with the next sign of life, a number of further pairs that this one has finished."""
        with self._counting:
            self._untold[SCORED if scored else KEPT] += pairs

    def counted(self) -> tuple[int, int]:
        """Pairs that the others have scored, and that they found scored, as far as the first one has heard."""
        return self._store.add(SCORED, 0), self._store.add(KEPT, 0)

    @contextlib.contextmanager
    def _ending_with_first(self) -> Iterator[None]:
        """End this process where the first one is no longer there; files are whole or not there at any time."""
        try:
            yield
        except DistError:
            if self.rank == 0:
                raise
            with self._ending:  # one thread ends all
                if not (self._explained or self._over.is_set()):
                    self.last_words()
                os._exit(UNUSABLE)

    def post(self, name: str, text: str) -> None:
        """Leave a text for the others, who can read it as soon as this returns."""
        with self._ending_with_first():
            self._store.set(name, text)
            self._store.check([name])  # `set` does not wait for the answer, but no question overtakes it

    def read(self, name: str) -> str | None:
        """The text that was left under a name; ``None`` if there is none (yet)."""
        with self._ending_with_first():
            return self._store.get(name).decode() if self._store.check([name]) else None

    def fail(self, error: BaseException) -> None:
        """Tell the first process that this one cannot go on; the first to say so is heard."""
        if isinstance(error, InputError):
            said = ("input", str(error))
        elif isinstance(error, OSError):
            said = ("input", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        elif isinstance(error, KeyboardInterrupt):
            said = ("interruption", "")
        else:
            said = ("defect", "".join(traceback.format_exception(error)))
        with self._ending_with_first():
            self._store.compare_set("failure", "", json.dumps([self.rank, *said]))

    def failure(self) -> BaseException | None:
        """Why another process cannot go on, as far as the first one has heard; ``None`` if all do."""
        told = self.read("failure")
        if told is not None:
            rank, kind, text = json.loads(told)
            if kind == "interruption":
                return KeyboardInterrupt()
            return InputError(text) if kind == "input" else RuntimeError(f"process {rank} failed:\n{text}")
        silent = next((rank for rank in range(1, self._world) if self._is_silent(rank)), None)
        if self.rank or silent is None:
            return None
        return InputError(
            f"Expected all {self._world} processes to go on, but number {silent} has been silent for "
            f"{SILENCE:.0f} seconds: look what ended it, such as a lack of memory."
        )

    def _is_silent(self, rank: int) -> bool:
        if self._store.check([f"end {rank}"]):
            return False
        beats, now = self._store.add(f"beat {rank}", 0), time.monotonic()
        before, since = self._seen.get(rank, (-1, now))
        if beats != before:
            self._seen[rank] = (beats, now)
            return False
        return now - since > SILENCE

    def wait(self, meanwhile: Callable[[], None] = lambda: None) -> BaseException | None:
        """Wait, in the first process, until all others have ended well, or one has failed, and why."""
        while not self._store.check([f"end {rank}" for rank in range(1, self._world)]):
            failure = self.failure()
            if failure is not None:
                return failure
            meanwhile()
            time.sleep(BEAT / 5)
        return None

    def stop(self) -> None:
        """Let the others stop working, in the first process, and give them a moment for it."""
        self.post("failure", json.dumps([0, "defect", ""]))
        patience = time.monotonic() + FAREWELL
        while time.monotonic() < patience and not self._store.check([f"stop {rank}" for rank in range(1, self._world)]):
            time.sleep(BEAT / 5)

    def leave(self, *, well: bool) -> NoReturn:
        """End a process other than the first; after a failure only once the first has said why and ended."""
        if not well:  # torch reports the lost connection as well
            self._explained = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        self.post(f"stop {self.rank}", "")
        while not well:
            time.sleep(SILENCE)  # the thread that shows life ends the process
        self._over.set()
        with self._ending_with_first():
            self._tell_counts()
        self.post(f"end {self.rank}", "")
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads of gloo can outlive the interpreter's own end, which then aborts after all is done.
        os._exit(0)
