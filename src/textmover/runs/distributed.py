"""Score in several processes on one or more machines. Lightning Fabric starts and connects the processes.

Every process reads the whole input, which is cheap, and scores every ``world``-th shard. The processes write shards as
files of a shared folder and wait for one another only at the start, so their numbers of shards may differ.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.lines import refuse_read_once
from textmover.readers.row_streams import Rows
from textmover.runs.exit_codes_and_signals import sigterm_as_interrupt
from textmover.runs.process_supervision import GRACE_TIME, STARTED_BY, UNUSABLE, Children, Messages, check_manual_start
from textmover.runs.progress import Advance, PairCount, progress_bar
from textmover.runs.score_output import Target, choose_target, kept_shards_message, report_kept_shards
from textmover.runs.score_run import finish, lock_parts, parts_of, score_rows, score_settings, scorer_and_shards
from textmover.runs.score_summary import Summary
from textmover.runs.shards.folder import MANIFEST, first_difference, is_parts, locked, read_json
from textmover.runs.shards.shards import Shard, ShardFolder
from textmover.runs.shards.streaming import finish_shards, score_shard
from textmover.scoring.cache.hidden_states import flush_all
from textmover.types import InputError, plural

RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Environment variables in which launchers pass the number of a process, in the order in which Lightning asks them."""

LOCK_SECONDS = 1.0  # seconds to hold the lock of a dead first process, so that only one process prints the message


class Processes:
    """Processes that score together, started by a launcher (torchrun, SLURM, …) or by this class.

    Each has its texts, scorer and folder of shards, all created from the same options. It reports its errors to the
    first process; otherwise the other processes would hang or be killed silently.
    """

    def __init__(self, options: argparse.Namespace, rows: Rows) -> None:
        from lightning_fabric import Fabric  # slow, and not needed to refuse options

        for name in ("pytorch_lightning", "lightning_fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self.options, self.rows = options, rows
        devices, nodes = options.devices, options.num_nodes
        accelerator = _choose_accelerator(options.device, devices)
        try:
            fabric: Any = Fabric(accelerator=accelerator, strategy="ddp", devices=devices, num_nodes=nodes)
            self.strategy = fabric.strategy
            environment = self.strategy.cluster_environment
            self.starts_others = not environment.creates_processes_externally
            environment.validate_settings(num_devices=devices, num_nodes=nodes)
        except (ValueError, RuntimeError) as error:  # raised by Lightning if the options do not fit the environment
            raise InputError(
                f"Expected a launcher that starts --devices {devices} times --num-nodes {nodes} processes, but got: "
                f"{' '.join(str(error).split())}"
            ) from error
        if self.starts_others:
            check_manual_start(nodes)
        self.rank = int(self.strategy.global_rank)  # the first process has 0; it prints messages and writes the result
        self.children = Children(None, 0)
        self.connected = self.prepared = False
        self.failure: BaseException | None = None
        self.shards_read = self.kept = 0

    def score(self, stack: contextlib.ExitStack) -> tuple[Target, Summary, int]:
        """Score all shards and write the result; ``stack`` holds the lock. Only the first process returns."""
        total = self.options.devices * self.options.num_nodes
        shown = not self.options.quiet
        terminable = contextlib.nullcontext() if self.rank else sigterm_as_interrupt()
        try:
            with terminable, progress_bar(f"scoring, {total} processes", shown=shown) as advance:
                self._score_shards(stack, advance)
            systems = self.rows.systems
            summary = finish(self.target, self.parts, self.parts.tallies(self.shards_read), self.scorer, systems)
        except (Exception, KeyboardInterrupt) as error:
            if not self.prepared:
                raise
            with report_kept_shards(self.target, self.parts):
                raise error
        self.scorer.warn(summary.warning_counts)
        return self.target, summary, self.kept

    def _score_shards(self, stack: contextlib.ExitStack, advance: Advance) -> None:
        # Other processes end by losing the connection: hide torch's messages about it.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        if self.starts_others:
            os.environ[STARTED_BY] = str(os.getpid())
        # Ctrl-C reaches all processes, but only the first one handles it.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.strategy.launcher.launch(lambda: None)
            signal.signal(signal.SIGINT, interrupt)
            self._join()
            with self._collect_errors():
                self._prepare(stack, advance)
            self.strategy.barrier()
            with self._collect_errors():
                self._score_own_shards()
        except KeyboardInterrupt:
            self._stop()
            raise
        except RuntimeError as error:  # torch lost another process during a barrier
            self._stop()
            raise self.children.early_exit() or error from error
        finally:
            signal.signal(signal.SIGINT, interrupt)
        self._await_others()
        torch.distributed.destroy_process_group()

    def _join(self) -> None:
        """Connect to the other processes; the first operation of torch waits for all of them."""
        nodes = self.options.num_nodes
        wanted = f"all {plural(self.options.devices * nodes, 'process', 'processes')} of {plural(nodes, 'machine')}"
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        self.children = Children(self.strategy.launcher, self.rank)
        self.children.wait_for(f"{wanted} at {place}", noted=nodes > 1 and (self.rank == 0 or self.starts_others))
        self.strategy.setup_environment()
        self.children.arrived()
        self.messages = Messages(self.rank, self.strategy.world_size, self.strategy.broadcast)
        self.children.finished = self.messages.finished
        self.connected = True

    def _prepare(self, stack: contextlib.ExitStack, advance: Advance) -> None:
        """Load the scorer and start reading the texts; the first process also prepares the folder of shards."""
        options, rows = self.options, self.rows
        self.target = _target(options, rows)
        lock_parts(self.target, options, stack, first=self.rank == 0)
        options.device = str(self.strategy.root_device)
        self.scorer, self.shards = scorer_and_shards(options, rows, stack)
        self.parts = parts_of(self.target, self.scorer, options, score_settings(options, rows))
        systems = len(rows.systems)
        if self.rank:
            self.messages.before_exit = self._report_kept_shards
            self.count = PairCount(systems, lambda pairs, _total, scored: self.messages.count(pairs, scored))
            return
        self.count = PairCount(systems, advance, self.messages.counted)
        self.parts.begin(resume=options.resume, overwrite=options.overwrite)
        self.prepared = True
        self.kept = len(self.parts.kept())

    def _report_kept_shards(self) -> None:
        """Print which shards are kept if the first process died. Only the process that gets its lock prints."""
        folder = self.parts.folder
        with contextlib.suppress(InputError), locked(folder, folder, LOCK_SECONDS / 2):
            time.sleep(LOCK_SECONDS)  # other processes may finish a shard in this time
            message = kept_shards_message(self.parts)
            if message is not None:
                sys.stderr.write(f"textmover: the first process ended without an error message: {message}\n")

    def _score_own_shards(self) -> None:
        if self.failure is None:
            if self.rank:
                self._check_shared(self.parts)
            work = functools.partial(score_shard, self.scorer, systems=self.rows.systems)
            deque(finish_shards(self._shards(), work, self.parts, self.count), maxlen=0)

    def _shards(self) -> Iterator[Shard]:
        for shard in self.shards:
            self.failure = self.messages.failure()
            if self.failure is not None:
                return
            lost = self.children.early_exit()
            if lost is not None:
                raise lost
            self.shards_read += 1
            self.count.read(shard.end, shard.share)
            if shard.index % self.strategy.world_size == self.rank:
                yield shard

    def _check_shared(self, parts: ShardFolder) -> None:
        """Raise :class:`InputError` if this process has another manifest or another folder than the first one."""
        if not is_parts(parts.folder):  # or the first process has failed
            raise InputError(
                f"Expected {parts.folder} to be in a folder that all machines share, but process {self.rank} "
                "does not see it there: choose an output folder that all machines share."
            )
        if difference := first_difference(read_json(parts.folder / MANIFEST), parts.manifest):
            name, first, own = difference
            raise InputError(
                f"Expected all processes to score alike, but {name} is {first!r} in the first and {own!r} in number "
                f"{self.rank}: give all machines the same packages, files and options."
            )

    @contextlib.contextmanager
    def _collect_errors(self) -> Iterator[None]:
        """Catch an error, store it as ``failure`` and report it to the other processes."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # every error is raised later, in the first process
            self.failure = self.failure or error
            if self.rank:
                self.messages.fail(error)

    def _await_others(self) -> None:
        """Wait for all other processes; these exit here."""
        if self.rank:
            flush_all()  # `leave` skips the shutdown of the interpreter
            self.messages.leave(well=self.failure is None)
        failure = self.failure or self.messages.wait(self._check_workers)
        if failure is not None:
            self._stop()
            raise failure
        self.count.look(at_once=True)
        self.children.end(GRACE_TIME)

    def _check_workers(self) -> None:
        self.count.look()
        lost = self.children.early_exit()
        if lost is not None:
            self._stop()
            raise lost

    def _stop(self) -> None:
        """Stop the other processes; the first one reports the error."""
        if self.connected and self.rank == 0:
            self.messages.stop()
        self.children.end()


def _choose_accelerator(device: str | None, devices: int) -> str:
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind not in ("cpu", "cuda"):
        raise InputError(
            f"Expected `--device` to be cpu or cuda where several processes score, but got {kind!r}: each takes the "
            "GPU that is its own."
        )
    count = torch.cuda.device_count() if kind == "cuda" else devices
    if count < devices:
        raise InputError(
            f"Expected `--devices` to be at most the number of GPUs of a machine, but got {devices} and found {count}: "
            "give a smaller number, or --device cpu."
        )
    return "gpu" if kind == "cuda" else "cpu"


def score_in_processes(options: argparse.Namespace, rows: Rows) -> tuple[Target, Summary | None, int | None]:
    """Score the rows in several processes; only the first process returns."""
    try:
        _check_options(options, rows)
        processes = Processes(options, rows)
    except InputError:
        ranks = (os.environ[name] for name in RANKS if name in os.environ)
        lightning = sys.modules.get("lightning_fabric.utilities.rank_zero")  # once imported, it knows more
        if int(getattr(lightning.rank_zero_only, "rank", 0) if lightning else next(ranks, 0)) == 0:
            raise
        raise SystemExit(UNUSABLE) from None  # all processes have the same options, so one reports the error
    if processes.rank:
        options.quiet = True
        logging.getLogger("textmover").setLevel(logging.ERROR)  # the first process warns for all
    complete = False
    if processes.starts_others:
        # Report errors in options and input before starting other processes.
        target = _target(options, rows)
        complete = options.resume and target.complete
        if not complete:
            with contextlib.ExitStack() as stack:
                lock_parts(target, options, stack, first=processes.rank == 0)
        with errors_with_flag_names(), contextlib.closing(iter(rows)) as reading:
            next(reading, None)
    else:
        with contextlib.suppress(InputError):  # raised again later, where the other processes receive it
            target = choose_target(options, rows.systems, rows.paths)
            complete = options.resume and target.complete
    if complete:
        if processes.rank == 0:
            score_rows(options, rows, target)  # checks the result
        return target, None, None
    with contextlib.ExitStack() as stack:
        return processes.score(stack)


def _check_options(options: argparse.Namespace, rows: Rows) -> None:
    if options.output is None:
        raise InputError(
            "Expected --output FILE or FOLDER/ where several processes score, but got none: name it, in a folder that "
            "all of them see."
        )
    inputs = rows.paths if options.fit_on is None else (*rows.paths, options.fit_on)
    refuse_read_once(inputs, "where several processes score, each of which reads them", "write it to a file first")
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
