"""Scoring in several processes, on one machine or many, which Lightning Fabric starts and connects.

Every process reads the whole input, which is cheap, and scores each ``world``-th shard of it. Shards are the files of a
folder that all processes see, so that processes wait for one another at the beginning alone: one may have more shards
than another, or none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.utilities.rank_zero import rank_zero_only

from textmover.readers.column_options import flags_named
from textmover.readers.lines import refuse_read_once
from textmover.readers.row_streams import Rows
from textmover.runs.process import heeding_termination
from textmover.runs.progress import Advance, PairCount, progress_bar
from textmover.runs.score_output import Target, choose_target, keeping, kept_words, open_sink
from textmover.runs.score_run import confirm_complete, finish, lock_parts, parts_of, texts_and_scorer
from textmover.runs.score_summary import Summary
from textmover.runs.shards.folder import is_parts, locked
from textmover.runs.shards.shards import Parts, Shard
from textmover.runs.shards.streaming import score_shards
from textmover.runs.worker_processes import FAREWELL, STARTED_BY, UNUSABLE, Launched, Meeting, check_by_hand
from textmover.scoring.cache.hidden_states import flush_all
from textmover.types import InputError, plural

HELD = 1.0  # seconds for which one of the others holds the lock of the first one, so that no second one speaks


class Processes:
    """Processes that score together: one of a launcher's (torchrun, SLURM, …), or it starts the others itself."""

    def __init__(self, devices: int, nodes: int, device: str | None = None) -> None:
        for name in ("pytorch_lightning", "lightning_fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        for name, value in (("devices", devices), ("num-nodes", nodes)):
            if value < 1:
                raise InputError(f"Expected `--{name}` to be at least 1, but got {value}: give a larger number.")
        accelerator = _accelerator(device, devices)
        self._devices, self._nodes = devices, nodes
        try:
            fabric: Any = Fabric(accelerator=accelerator, strategy="ddp", devices=devices, num_nodes=nodes)
            self.strategy = fabric.strategy
            environment = self.strategy.cluster_environment
            self.starts_others = not environment.creates_processes_externally
            environment.validate_settings(num_devices=devices, num_nodes=nodes)
        except (ValueError, RuntimeError) as error:  # raised by Lightning for an environment that does not fit
            raise InputError(
                f"Expected a launcher that starts --devices {devices} times --num-nodes {nodes} processes, but got: "
                f"{' '.join(str(error).split())}"
            ) from error
        if self.starts_others:
            check_by_hand(nodes)

    @property
    def first(self) -> bool:
        """Return whether this process speaks for all."""
        return bool(self.strategy.is_global_zero)

    def score(self, member: _Member, advance: Advance) -> tuple[int, int]:
        """Score all shards; the first process alone returns, with the numbers of shards and of those kept."""
        # Lost connections are what ends the other processes: not worth a word of theirs.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        if self.starts_others:
            os.environ[STARTED_BY] = str(os.getpid())
        # An interruption from the keyboard reaches all processes; the first one alone has to answer it.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.strategy.launcher.launch(lambda: None)
            signal.signal(signal.SIGINT, interrupt)
            number = self._devices * self._nodes
            wanted = f"all {plural(number, 'process', 'processes')} of {plural(self._nodes, 'machine')}"
            member.join(wanted, noted=self._nodes > 1 and (self.first or self.starts_others))
            with member.kept_errors():
                member.prepare(advance)
            self.strategy.barrier()
            with member.kept_errors():
                member.score()
        except KeyboardInterrupt:
            member.stop()
            raise
        except RuntimeError as error:  # what torch says where another process is lost while all wait for one another
            member.stop()
            raise member.launched.lost() or error from error
        finally:
            signal.signal(signal.SIGINT, interrupt)
        outcome = member.outcome()
        torch.distributed.destroy_process_group()
        return outcome


class _Member:
    """One of the processes, with texts, scorer and folder of shards, which each makes from the same options.

    It keeps and tells errors, since the others would wait or be killed without a word.
    """

    def __init__(self, strategy: Any, options: argparse.Namespace, rows: Rows, held: contextlib.ExitStack) -> None:
        self.strategy, self.rank = strategy, int(strategy.global_rank)
        self.options, self.rows, self.held = options, rows, held
        self.launched = Launched(None, 0)
        self.met = self.begun = False
        self.failure: BaseException | None = None
        self.passed = self.kept = 0

    def join(self, wanted: str, *, noted: bool) -> None:
        """Connect to the other processes, for which the first operation of torch waits."""
        self.launched = Launched(self.strategy.launcher, self.rank)
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        self.launched.wait_for(f"{wanted} at {place}", noted=noted)
        self.strategy.setup_environment()
        self.launched.arrived()
        self.meeting = Meeting(self.rank, self.strategy.world_size, self.strategy.broadcast)
        self.met = True

    def prepare(self, advance: Advance) -> None:
        """Load the scorer and begin to read the texts; the first process makes the folder of the shards ready."""
        options, rows = self.options, self.rows
        self.target = _target(options, rows)
        lock_parts(self.target, options, self.held, first=self.rank == 0)
        options.device = str(self.strategy.root_device)
        self.scorer, self.shards = texts_and_scorer(options, rows, self.held)
        self.parts = parts_of(self.target, self.scorer, options, rows)
        systems = len(rows.systems)
        if self.rank:
            self.meeting.last_words = self._say_kept
            self.count = PairCount(systems, lambda pairs, _share, scored: self.meeting.count(pairs, scored))
            return
        self.count = PairCount(systems, advance, self.meeting.counted)
        self.parts.begin(resume=options.resume, overwrite=options.overwrite)
        self.begun = True
        self.kept = len(self.parts.kept())
        self.meeting.post("manifest", json.dumps(self.parts.manifest))

    def _say_kept(self) -> None:
        """Say what is kept in place of the first process; of several that can, the one that gets its lock does."""
        folder = self.parts.folder
        with contextlib.suppress(InputError), locked(folder, folder, HELD / 2):
            time.sleep(HELD)  # in which a shard may be finished
            kept = kept_words(self.parts)
            if kept is not None:
                sys.stderr.write(f"textmover: the first process has ended without a word: {kept}\n")

    def score(self) -> None:
        if self.failure is None:
            if self.rank:
                self._check_shared(self.parts)
            deque(score_shards(self.scorer, self._shards(), self.rows.systems, self.parts, self.count), maxlen=0)

    def _shards(self) -> Iterator[Shard]:
        for shard in self.shards:
            self.failure = self.meeting.failure()
            if self.failure is not None:
                return
            lost = self.launched.lost()
            if lost is not None:
                raise lost
            self.passed += 1
            self.count.read(shard.end, shard.share)
            if shard.index % self.strategy.world_size == self.rank:
                yield shard

    def _check_shared(self, parts: Parts) -> None:
        """Make sure that this process does the same work as the first one, and in the same place."""
        told = self.meeting.read("manifest")
        if told is None:
            return  # the first process has failed
        first = json.loads(told)
        for name in {**first, **parts.manifest}:
            if first.get(name) != parts.manifest.get(name):
                raise InputError(
                    f"Expected all processes to score alike, but {name} is {first.get(name)!r} in the first and "
                    f"{parts.manifest.get(name)!r} in number {self.rank}: give all machines the same packages, "
                    "files and options."
                )
        if not is_parts(parts.folder):
            raise InputError(
                f"Expected {parts.folder} to be in a folder that all machines share, but process {self.rank} "
                "does not see it there: give such a place for the output."
            )

    @contextlib.contextmanager
    def kept_errors(self) -> Iterator[None]:
        """Remember why this process cannot go on and tell the others, rather than raise it."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # whatever it is, it is raised in the first process
            self.failure = self.failure or error
            if self.rank:
                self.meeting.fail(error)

    def outcome(self) -> tuple[int, int]:
        """Numbers of shards, and of those kept, when all other processes have ended; they end here."""
        if self.rank:
            flush_all()  # this process ends without the interpreter's leave
            self.meeting.leave(well=self.failure is None)
        failure = self.failure or self.meeting.wait(self._look)
        if failure is not None:
            self.stop()
            raise failure
        self.count.look(at_once=True)
        self.launched.end(FAREWELL)
        return self.passed, self.kept

    def _look(self) -> None:
        self.count.look()
        lost = self.launched.lost()
        if lost is not None:
            self.stop()
            raise lost

    def stop(self) -> None:
        """Let the other processes know that the first one says why all end."""
        if self.met and self.rank == 0:
            self.meeting.stop()
        self.launched.end()


def _accelerator(device: str | None, devices: int) -> str:
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind not in ("cpu", "cuda"):
        raise InputError(
            f"Expected `--device` to be cpu or cuda where several processes score, but got {kind!r}: each takes the "
            "GPU that is its own."
        )
    found = torch.cuda.device_count() if kind == "cuda" else devices
    if found < devices:
        raise InputError(
            f"Expected `--devices` to be at most the number of GPUs of a machine, but got {devices} and found {found}: "
            "give a smaller number, or --device cpu."
        )
    return "gpu" if kind == "cuda" else "cpu"


def score_in_processes(options: argparse.Namespace, rows: Rows) -> tuple[Target, Summary | None, int]:
    """Score the rows in several processes; returns in the first one alone."""
    try:
        _check_options(options, rows)
        processes = Processes(options.devices, options.num_nodes, options.device)
    except InputError:
        if getattr(rank_zero_only, "rank", 0) == 0:
            raise
        raise SystemExit(UNUSABLE) from None  # all of them have these options: one says what is wrong
    if not processes.first:
        options.quiet = True
        logging.getLogger("textmover").setLevel(logging.ERROR)  # the first process warns for all
    complete = False
    if processes.starts_others:
        # What can be known beforehand is said before there are other processes.
        target = _target(options, rows)
        complete = options.resume and target.complete
        if not complete:
            with contextlib.ExitStack() as held:
                lock_parts(target, options, held, first=processes.first)
        with flags_named(), contextlib.closing(iter(rows)) as reading:
            next(reading, None)
    else:
        with contextlib.suppress(InputError):  # it is met again where the other processes hear of it
            target = choose_target(options, rows.systems, rows.paths)
            complete = options.resume and target.complete
    if complete:
        if processes.first:
            confirm_complete(options, rows, target)
        return target, None, 0
    with contextlib.ExitStack() as held:
        return _scored(processes, options, rows, held)


def _check_options(options: argparse.Namespace, rows: Rows) -> None:
    if options.output is None:
        raise InputError(
            "Expected --output FILE or FOLDER/ where several processes score, but got none: name it, in a folder that "
            "all of them see."
        )
    read = rows.paths if options.fit_on is None else (*rows.paths, options.fit_on)
    refuse_read_once(read, "where several processes score, each of which reads them", "write it to a file first")
    if options.precision == "auto":
        raise InputError(
            "Expected --precision to be named where several processes score, but got auto: each of them might choose "
            "another one, so give exact, fast or int8."
        )


def _target(options: argparse.Namespace, rows: Rows) -> Target:
    target = choose_target(options, rows.systems, rows.paths)
    if not target.in_parts:
        raise InputError(
            f"Expected a file or folder where several processes score, but got the device or pipe {target.path}: give "
            "another."
        )
    return target


def _scored(
    processes: Processes, options: argparse.Namespace, rows: Rows, held: contextlib.ExitStack
) -> tuple[Target, Summary, int]:
    member = _Member(processes.strategy, options, rows, held)
    total = options.devices * options.num_nodes
    terminable = heeding_termination() if processes.first else contextlib.nullcontext()
    try:
        with terminable, progress_bar(f"scoring, {total} processes", shown=not options.quiet) as advance:
            shards, kept = processes.score(member, advance)
        with open_sink(member.target, member.parts) as sink:
            summary = finish(sink, member.parts.tallies(shards), member.scorer, rows.systems, member.parts)
    except (Exception, KeyboardInterrupt) as error:
        if not member.begun:
            raise
        with keeping(member.target, member.parts):
            raise error
    member.scorer.warn(summary.told_counts)
    return member.target, summary, kept
