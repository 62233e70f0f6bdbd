"""Scoring in several processes, on one machine or many, through Lightning's predict loop.

Every process reads the whole input, which is cheap, and scores each ``world``-th shard of it. Shards are the files of a
folder that all processes see, so that nothing but the beginning is ever waited for together: a process may have more
shards than another, or none.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_only

from textmover.runs.launched_processes import STARTED_BY, Launched, check_by_hand
from textmover.runs.process_messages import FAREWELL, AllPairs, Meeting, ShardCount
from textmover.runs.shards.folder import is_parts
from textmover.runs.shards.shards import Parts, Shard
from textmover.runs.shards.streaming import score_shards
from textmover.scoring.cache.hidden_states import flush_all
from textmover.scoring.scorer import Scorer
from textmover.types import InputError

LIGHTNING = ("pytorch_lightning", "lightning_fabric")


@dataclass(frozen=True)
class Work:
    """Objects that each process makes for itself, from the same texts and options.

    Attributes:
        scorer: The scorer, its statistics fitted.
        shards: All shards of the input.
        systems: What the systems are called.
        parts: Where finished shards are written, not yet begun.
    """

    scorer: Scorer
    shards: Iterable[Shard]
    systems: tuple[str, ...]
    parts: Parts


@dataclass(frozen=True)
class Outcome:
    """Result that the first process has when all shards are there.

    Attributes:
        work: Its own work.
        shards: How many shards the input has.
        kept: How many of them an earlier run had finished.
    """

    work: Work
    shards: int
    kept: int


class Processes:
    """A number of processes that score together.

    If a launcher (torchrun, SLURM, or any other that Lightning knows) has started them, this is one of them; else it
    starts the others on its machine, as copies of the command that it was started with.

    Args:
        devices: Processes on each machine, on a GPU of its own each or on the processor.
        nodes: Machines.
        device: ``"cpu"``, ``"cuda"``, or ``None`` for GPUs if there are any.

    Attributes:
        first: Whether this process is the one that speaks for all.

    Raises:
        InputError: If the machine has not as many GPUs, or the launcher has started another number of processes.
    """

    def __init__(self, devices: int, nodes: int, device: str | None = None) -> None:
        for name in LIGHTNING:
            logging.getLogger(name).setLevel(logging.ERROR)
        for name, value in (("devices", devices), ("num-nodes", nodes)):
            if value < 1:
                raise InputError(f"Expected `--{name}` to be at least 1, but got {value}: give a larger number.")
        accelerator = _accelerator(device, devices)
        self._devices, self._nodes = devices, nodes
        try:
            self._trainer = pl.Trainer(
                accelerator=accelerator,
                devices=devices,
                num_nodes=nodes,
                strategy="ddp",
                use_distributed_sampler=False,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                inference_mode=True,
            )
            environment: Any = self._trainer.strategy.cluster_environment
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
        """Whether this process speaks for all."""
        return self._trainer.is_global_zero

    def score(
        self,
        prepare: Callable[[str], Work],
        begin: Callable[[Parts], None],
        advance: Callable[[int, float | None, bool], None] = lambda _pairs, _share, _scored: None,
        orphaned: Callable[[Parts], None] = lambda _: None,
    ) -> Outcome:
        """Score all shards; only the first process returns from it, the others end.

        Args:
            prepare: Makes the work; called in every process with the name of its device.
            begin: Makes the folder of the shards ready; called in the first process.
            advance: Called in the first process with the pairs that any of them has finished since the last call, the
                share of the input that is finished (``None`` where its length is unknown), and whether they were scored
                just now.
            orphaned: Called in the others where the first process has ended without a word.

        Returns:
            What the first process knows when all shards are there.

        Raises:
            InputError: If the work cannot be done, whichever process has met the reason.
            KeyboardInterrupt: If one has been interrupted.
        """
        interrupt, terminate = (signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM))
        module = _ScoringModule(prepare, begin, advance, orphaned, terminate)
        # Lost connections are what ends the other processes: not worth a word of theirs.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

        def started() -> None:
            signal.signal(signal.SIGINT, interrupt)
            launched = module.launched = Launched(self._trainer.strategy.launcher, self._trainer.global_rank)
            place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
            wanted = f"all {self._devices * self._nodes} processes of {self._nodes} machines at {place}"
            launched.wait_for(wanted, noted=self._nodes > 1 and (self.first or self.starts_others))

        module.on_started = started
        if self.starts_others:
            os.environ[STARTED_BY] = str(os.getpid())
        # An interruption from the keyboard reaches all processes; the first one alone has to answer it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # of Lightning's own code
                self._trainer.predict(module, return_predictions=False)
        except SystemExit as stop:  # how Lightning ends after an interruption
            module.stop()
            cause = stop.__context__
            raise cause if isinstance(cause, KeyboardInterrupt) else KeyboardInterrupt from stop
        except RuntimeError as error:  # what torch says where another process is lost while all wait for one another
            module.stop()
            raise module.launched.lost() or error from error
        finally:
            signal.signal(signal.SIGINT, interrupt)
        outcome = module.outcome()
        torch.distributed.destroy_process_group()
        return outcome


class _ScoringModule(pl.LightningModule):
    """Scores the shards of one process.

    What goes wrong is kept and told rather than raised: the others would wait for this process, or be killed without a
    word.
    """

    def __init__(
        self,
        prepare: Callable[[str], Work],
        begin: Callable[[Parts], None],
        advance: Callable[[int, float | None, bool], None],
        orphaned: Callable[[Parts], None],
        terminate: Any,
    ) -> None:
        super().__init__()
        self.on_started: Callable[[], object] = lambda: None
        self.launched = Launched(None, 0)
        self._orphaned = orphaned
        self._terminate = terminate
        self._prepare = prepare
        self._begin = begin
        self._advance = advance
        self._meeting: Meeting | None = None
        self._work: Work | None = None
        self._failure: BaseException | None = None
        self._shards = self._kept = 0
        self._count: ShardCount | None = None
        self._all: AllPairs | None = None

    def configure_callbacks(self) -> list[Any]:
        """The first hook behind the start of the processes; there are no callbacks."""
        self.on_started()
        return []

    def setup(self, stage: str) -> None:
        """Load what this process needs; the first one makes the folder of the shards ready."""
        self.launched.arrived()
        self._meeting = Meeting(self.global_rank, self.trainer.world_size, self.trainer.strategy.broadcast)
        with self._kept_errors():
            self._work = self._prepare(str(self.trainer.strategy.root_device))
            parts, systems = self._work.parts, len(self._work.systems)
            if self.global_rank:
                self.meeting.last_words = lambda: self._orphaned(parts)
                self._count = ShardCount(systems, self.meeting.count)
            else:
                self._all = AllPairs(systems, self.meeting.counted, self._advance)
                self._count = ShardCount(systems, self._all.own)
                self._begin(parts)
                self._kept = len(parts.kept())
                self.meeting.post("manifest", json.dumps(parts.manifest))

    def on_predict_start(self) -> None:
        """Let a signal that asks for the end end this process again; in Lightning's hands it would do nothing."""
        signal.signal(signal.SIGTERM, self._terminate)

    def predict_dataloader(self) -> Iterator[Shard]:
        """The shards of this process, behind the barrier that follows ``setup``."""
        return self._own_shards()

    def transfer_batch_to_device(self, batch: Shard, device: torch.device, dataloader_idx: int) -> Shard:
        """A shard is text: the engine moves what it makes of it."""
        return batch

    def predict_step(self, batch: Shard, batch_idx: int) -> int:
        """Score a shard and write it, unless an earlier run has."""
        with self._kept_errors():
            if self._work is not None and self._count is not None and self._failure is None:
                work = self._work
                for done in score_shards(work.scorer, [batch], work.systems, work.parts, self._count.within):
                    self._count.finished(done)
        return batch.index

    @property
    def meeting(self) -> Meeting:
        """Folder in which the processes exchange messages."""
        if self._meeting is None:
            raise RuntimeError("Expected processes that have been started, but they have not.")
        return self._meeting

    def _own_shards(self) -> Iterator[Shard]:
        with self._kept_errors():
            if self._work is None:
                return
            if self.global_rank:
                self._check_shared(self._work.parts)
            for shard in self._work.shards:
                self._failure = self._failure or self.meeting.failure()
                lost = self.launched.lost()
                if lost is not None and self._failure is None:
                    raise lost
                if self._failure is not None:
                    return
                self._shards += 1
                if self._all is not None:
                    self._all.read(shard)
                if shard.index % self.trainer.world_size == self.global_rank:
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
                    f"{parts.manifest.get(name)!r} in number {self.global_rank}: give all machines the same packages, "
                    "files and options."
                )
        if not is_parts(parts.folder):
            raise InputError(
                f"Expected {parts.folder} to be in a folder that all machines share, but process {self.global_rank} "
                "does not see it there: give such a place for the output."
            )

    @contextlib.contextmanager
    def _kept_errors(self) -> Iterator[None]:
        """Remember why this process cannot go on and tell the others, rather than raise it."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # whatever it is, it is raised in the first process
            if self._failure is None:
                self._failure = error
                if self.global_rank:
                    self.meeting.fail(error)

    def outcome(self) -> Outcome:
        """Result when all other processes have ended; they end here."""
        if self.global_rank:
            flush_all()  # this process ends without the interpreter's leave
            self.meeting.leave(well=self._failure is None)
        failure = self._failure or self.meeting.wait(self._look)
        if failure is not None:
            self.stop()
            raise failure
        if self._work is None:
            raise RuntimeError("Expected work that has been prepared, but there is none.")
        if self._all is not None:
            self._all.look(at_once=True)
        self.launched.end(FAREWELL)
        return Outcome(self._work, self._shards, self._kept)

    def _look(self) -> None:
        if self._all is not None:
            self._all.look()
        lost = self.launched.lost()
        if lost is not None:
            self.stop()
            raise lost

    def stop(self) -> None:
        """Let the other processes know that the first one says why all end."""
        if self._meeting is not None and self.global_rank == 0:
            self._meeting.stop()
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
    return rank_zero_only.rank == 0
