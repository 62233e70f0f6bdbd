"""Scoring in several processes, on one machine or many, which Lightning Fabric starts and connects.

Every process reads the whole input, which is cheap, and scores each ``world``-th shard of it. Shards are the files of a
folder that all processes see, so that processes wait for one another at the beginning alone: one may have more shards
than another, or none.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.utilities.rank_zero import rank_zero_only

from textmover.runs.launched_processes import STARTED_BY, Launched, check_by_hand
from textmover.runs.process_messages import FAREWELL, Meeting
from textmover.runs.progress import Advance, PairCount
from textmover.runs.score_files import Target
from textmover.runs.shards.folder import is_parts
from textmover.runs.shards.shards import Parts, Shard
from textmover.runs.shards.streaming import score_shards
from textmover.scoring.cache.hidden_states import flush_all
from textmover.scoring.scorer import Scorer
from textmover.types import InputError

LIGHTNING = ("pytorch_lightning", "lightning_fabric")


@dataclass(frozen=True)
class Work:
    """Objects that each process makes for itself, from the same texts and options."""

    scorer: Scorer
    shards: Iterable[Shard]
    systems: tuple[str, ...]
    target: Target
    parts: Parts
    """Folder of finished shards, not yet begun."""


@dataclass(frozen=True)
class Outcome:
    """Result that the first process has when all shards are there."""

    work: Work
    shards: int
    kept: int
    """Shards that an earlier run had finished."""


class Processes:
    """Processes that score together: one of a launcher's (torchrun, SLURM, …), or it starts the others itself."""

    def __init__(self, devices: int, nodes: int, device: str | None = None) -> None:
        for name in LIGHTNING:
            logging.getLogger(name).setLevel(logging.ERROR)
        for name, value in (("devices", devices), ("num-nodes", nodes)):
            if value < 1:
                raise InputError(f"Expected `--{name}` to be at least 1, but got {value}: give a larger number.")
        accelerator = _accelerator(device, devices)
        self._devices, self._nodes = devices, nodes
        try:
            fabric: Any = Fabric(accelerator=accelerator, strategy="ddp", devices=devices, num_nodes=nodes)
            self._strategy = fabric.strategy
            environment = self._strategy.cluster_environment
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
        return bool(self._strategy.is_global_zero)

    def score(
        self,
        prepare: Callable[[str], Work],
        begin: Callable[[Work], None],
        advance: Advance,
        orphaned: Callable[[Parts], None] = lambda _: None,
    ) -> Outcome:
        """Score all shards; only the first process returns from it, the others end."""
        # Lost connections are what ends the other processes: not worth a word of theirs.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        if self.starts_others:
            os.environ[STARTED_BY] = str(os.getpid())
        member = _Member(self._strategy)
        # An interruption from the keyboard reaches all processes; the first one alone has to answer it.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._strategy.launcher.launch(lambda: None)
            signal.signal(signal.SIGINT, interrupt)
            wanted = f"all {self._devices * self._nodes} processes of {self._nodes} machines"
            member.join(wanted, noted=self._nodes > 1 and (self.first or self.starts_others))
            with member.kept_errors():
                member.prepare(prepare, begin, advance, orphaned)
            self._strategy.barrier()
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
    """One of the processes; it keeps and tells errors, since the others would wait or be killed without a word."""

    meeting: Meeting
    work: Work
    count: PairCount

    def __init__(self, strategy: Any) -> None:
        self.strategy, self.rank = strategy, int(strategy.global_rank)
        self.launched = Launched(None, 0)
        self.met = False
        self.failure: BaseException | None = None
        self.shards = self.kept = 0

    def join(self, wanted: str, *, noted: bool) -> None:
        """Connect to the other processes, for which the first operation of torch waits."""
        self.launched = Launched(self.strategy.launcher, self.rank)
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        self.launched.wait_for(f"{wanted} at {place}", noted=noted)
        self.strategy.setup_environment()
        self.launched.arrived()
        self.meeting = Meeting(self.rank, self.strategy.world_size, self.strategy.broadcast)
        self.met = True

    def prepare(
        self,
        prepare: Callable[[str], Work],
        begin: Callable[[Work], None],
        advance: Advance,
        orphaned: Callable[[Parts], None],
    ) -> None:
        """Load what this process needs; the first one makes the folder of the shards ready."""
        work = self.work = prepare(str(self.strategy.root_device))
        systems = len(work.systems)
        if self.rank:
            self.meeting.last_words = lambda: orphaned(work.parts)
            self.count = PairCount(systems, lambda pairs, _share, scored: self.meeting.count(pairs, scored))
            return
        self.count = PairCount(systems, advance, self.meeting.counted)
        begin(work)
        self.kept = len(work.parts.kept())
        self.meeting.post("manifest", json.dumps(work.parts.manifest))

    def score(self) -> None:
        """Score the shards of this process and write them, unless an earlier run has."""
        if self.failure is None:
            if self.rank:
                self._check_shared(self.work.parts)
            for _ in score_shards(self.work.scorer, self._shards(), self.work.systems, self.work.parts, self.count):
                pass

    def _shards(self) -> Iterator[Shard]:
        for shard in self.work.shards:
            self.failure = self.meeting.failure()
            if self.failure is not None:
                return
            lost = self.launched.lost()
            if lost is not None:
                raise lost
            self.shards += 1
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

    def outcome(self) -> Outcome:
        """Result when all other processes have ended; they end here."""
        if self.rank:
            flush_all()  # this process ends without the interpreter's leave
            self.meeting.leave(well=self.failure is None)
        failure = self.failure or self.meeting.wait(self._look)
        if failure is not None:
            self.stop()
            raise failure
        self.count.look(at_once=True)
        self.launched.end(FAREWELL)
        return Outcome(self.work, self.shards, self.kept)

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
    """Lightning's name for what each process computes on."""
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


def is_first() -> bool:
    """Return whether this process is the first, as far as what has started it says."""
    return getattr(rank_zero_only, "rank", 0) == 0
