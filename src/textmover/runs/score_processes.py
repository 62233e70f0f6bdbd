"""``textmover score --devices N --num-nodes M``: the same files, made by several processes."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time

from textmover.readers.column_flags import flags_named
from textmover.readers.lines import is_read_once, told_once
from textmover.readers.streams import TableFile, TextFiles
from textmover.runs.distributed import Processes, Work, is_first
from textmover.runs.progress import progress_bar
from textmover.runs.score_files import Target, choose_target, keeping, kept_words, open_sink
from textmover.runs.score_inputs import confirm_complete, finish, lock_parts, parts_of, texts_and_scorer
from textmover.runs.score_summary import Summary
from textmover.runs.shards.folder import locked
from textmover.runs.shards.shards import Parts
from textmover.runs.termination import heeding_termination
from textmover.types import InputError

UNUSABLE = 2
"""Exit code of a process that leaves it to the first one to say what is wrong."""

HELD = 1.0
"""Seconds for which one of the others holds the lock of the first one, so that no second one speaks."""


def score_in_processes(options: argparse.Namespace, rows: TextFiles | TableFile) -> tuple[Target, Summary | None, int]:
    """Score the rows in several processes; returns in the first one alone."""
    try:
        _check_options(options, rows)
        processes = Processes(options.devices, options.num_nodes, options.device)
    except InputError:
        if is_first():
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


def _say_kept(parts: Parts) -> None:
    """Say what is kept in place of the first process; of several that can, the one that gets its lock does."""
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


def _scored(
    processes: Processes, options: argparse.Namespace, rows: TextFiles | TableFile, held: contextlib.ExitStack
) -> tuple[Target, Summary, int]:
    begun: list[Work] = []

    def prepare(device: str) -> Work:
        target = _target(options, rows)
        lock_parts(target, options, held, first=processes.first)
        options.device = device
        scorer, shards = texts_and_scorer(options, rows, held)
        return Work(scorer, shards, rows.systems, target, parts_of(target, scorer, options, rows))

    def begin(work: Work) -> None:
        work.parts.begin(resume=options.resume, overwrite=options.overwrite)
        begun.append(work)

    total = options.devices * options.num_nodes
    terminable = heeding_termination() if processes.first else contextlib.nullcontext()
    try:
        with terminable, progress_bar(f"scoring, {total} processes", shown=not options.quiet) as advance:
            outcome = processes.score(prepare, begin, advance, _say_kept)
        work = outcome.work
        with open_sink(work.target, work.parts) as sink:
            summary = finish(sink, work.parts.tallies(outcome.shards), work.scorer, rows.systems, work.parts)
    except (Exception, KeyboardInterrupt) as error:
        if not begun:
            raise
        with keeping(begun[0].target, begun[0].parts):
            raise error
    work.scorer.warn(summary.counts)
    return work.target, summary, outcome.kept
