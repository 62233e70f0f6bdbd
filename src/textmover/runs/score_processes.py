"""``textmover score --devices N --num-nodes M``: the same files, made by several processes."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from textmover.readers.column_flags import flags_named
from textmover.readers.lines import is_read_once, told_once
from textmover.readers.streams import TableFile, TextFiles
from textmover.runs.progress import progress_bar
from textmover.runs.score_files import Target, choose_target, keeping, kept_words, open_sink
from textmover.runs.score_inputs import check_scored, confirm_complete, parts_of, texts_and_scorer
from textmover.runs.termination import heeding_termination
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.runs.distributed import Processes, Work
    from textmover.runs.score_summary import Summary
    from textmover.runs.shards.shards import Parts

UNUSABLE = 2
"""Exit code of a process that leaves it to the first one to say what is wrong."""

HELD = 1.0
"""Seconds for which one of the others holds the lock of the first one, so that no second one speaks."""


def add_process_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how many processes score."""
    parser.add_argument(
        "--devices",
        type=int,
        default=1,
        metavar="N",
        help="processes on each machine that share the work, each on a GPU of its own or on its part of the processor; "
        "with --output",
    )
    parser.add_argument(
        "--num-nodes",
        type=int,
        default=1,
        metavar="M",
        help="machines that share the work and a file system; start the command on each of them, see "
        "docs/distributed.md",
    )


def several(options: argparse.Namespace) -> bool:
    """Return whether the options ask for more than this process."""
    return bool((options.devices, options.num_nodes) != (1, 1))


def score_in_processes(options: argparse.Namespace, rows: TextFiles | TableFile) -> tuple[Target, Summary | None, int]:
    """Score the rows in several processes; returns in the first one alone.

    Args:
        options: The command's options.
        rows: The input, which each process reads.

    Returns:
        Where the scores are, their summary (``None`` if an earlier run has finished them) and how many shards an
        earlier run had finished.
    """
    from textmover.runs.distributed import Processes, is_first

    with _said_once(first=is_first()):
        _check_options(options, rows)
        processes = Processes(options.devices, options.num_nodes, options.device)
    if not processes.first:
        options.quiet = True
        logging.getLogger("textmover").setLevel(logging.ERROR)  # the first process warns for all
    complete = False
    if processes.starts_others:
        # What can be known beforehand is said before there are other processes.
        target = _target(options, rows)
        complete = options.resume and target.complete
        if not complete:
            with _locked(target, processes):
                _check_folder(target, options)
        _check_readable(rows)
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


def _locked(target: Target, processes: Processes) -> contextlib.AbstractContextManager[None]:
    """The lock of the folder of shards, which the first process holds for all."""
    from textmover.runs.shards.folder import locked

    return locked(target.parts_folder, target.named) if processes.first else contextlib.nullcontext()


def _check_folder(target: Target, options: argparse.Namespace) -> None:
    from textmover.runs.shards.folder import check_folder

    check_folder(target.parts_folder, resume=options.resume, overwrite=options.overwrite)


@contextlib.contextmanager
def _said_once(*, first: bool) -> Iterator[None]:
    """Let the first process alone say what is wrong with the options, which all of them have."""
    try:
        yield
    except InputError:
        if first:
            raise
        raise SystemExit(UNUSABLE) from None


def _say_kept(parts: Parts) -> None:
    """Say what is kept in place of the first process; of several that can, the one that gets its lock does."""
    from textmover.runs.shards.folder import locked

    with contextlib.suppress(InputError), locked(parts.folder, parts.folder, HELD / 2):
        time.sleep(HELD)  # in which a shard may be finished
        kept = kept_words(parts)
        if kept is not None:
            sys.stderr.write(f"textmover: the first process has ended without a word: {kept}\n")


def _check_options(options: argparse.Namespace, rows: TextFiles | TableFile) -> None:
    if options.output is None:
        raise InputError(
            "Expected --output FILE or FOLDER/ where several processes score, but got none: name it, in a folder that "
            "all of them see."
        )
    read = rows.paths if options.fit_on is None else (*rows.paths, options.fit_on)
    once = next(filter(is_read_once, read), None)
    if once is not None:
        raise InputError(
            f"Expected files where several processes score, each of which reads them, but got {told_once(once)}: write "
            "it to a file first."
        )
    if options.precision == "auto":
        raise InputError(
            "Expected --precision to be named where several processes score, but got auto, which each of them might "
            "answer differently: give exact, fast or int8."
        )


def _target(options: argparse.Namespace, rows: TextFiles | TableFile) -> Target:
    target = choose_target(options, rows.systems, rows.paths)
    if not target.in_parts:
        raise InputError(
            f"Expected a file or folder where several processes score, but got the device or pipe {target.path}: give "
            "another."
        )
    return target


def _check_readable(rows: TextFiles | TableFile) -> None:
    with flags_named(), contextlib.closing(iter(rows)) as reading:
        next(reading, None)


def _scored(
    processes: Processes,
    options: argparse.Namespace,
    rows: TextFiles | TableFile,
    held: contextlib.ExitStack,
) -> tuple[Target, Summary, int]:
    from textmover.runs.distributed import Work
    from textmover.runs.score_summary import summarize

    targets: list[Target] = []
    begun: list[tuple[Target, Parts]] = []

    def prepare(device: str) -> Work:
        target = _target(options, rows)
        held.enter_context(_locked(target, processes))
        _check_folder(target, options)
        targets.append(target)
        options.device = device
        scorer, shards, size = texts_and_scorer(options, rows)
        return Work(scorer, shards, rows.systems, parts_of(target, scorer, options, size))

    def begin(parts: Parts) -> None:
        parts.begin(resume=options.resume, overwrite=options.overwrite)
        begun.append((targets[0], parts))

    total = options.devices * options.num_nodes
    terminable = heeding_termination() if processes.first else contextlib.nullcontext()
    try:
        with terminable, progress_bar(f"scoring, {total} processes", shown=not options.quiet) as advance:
            outcome = processes.score(prepare, begin, advance, _say_kept)
        target, parts = begun[0]
        summary = summarize(parts.tallies(outcome.shards), rows.systems, str(outcome.work.scorer.signature))
        check_scored(summary, parts)
        with open_sink(target, parts) as sink:
            sink.finish(outcome.shards, summary)
    except (Exception, KeyboardInterrupt) as error:
        if not begun:
            raise
        with keeping(*begun[0]):
            raise error
    outcome.work.scorer.warn(summary.counts)
    return target, summary, outcome.kept
