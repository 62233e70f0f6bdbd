"""Commands that write lines for each row, such as choices and marked errors: their runs can be resumed."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from textmover.modules.devices import machine_of
from textmover.runs.progress import PairCount, progress_bar
from textmover.runs.score_output import Target, open_sink, report_kept_shards
from textmover.runs.score_run import check_complete, lock_parts
from textmover.runs.score_summary import ShardSummary, summarize
from textmover.runs.shards.shards import Shard, ShardFolder, ShardLines, describe
from textmover.runs.shards.streaming import finish_shards
from textmover.scoring.scorer import Scorer


@dataclass(frozen=True)
class LineWork:
    """Work of a command: what it does with each shard of its input."""

    scorer: Scorer
    shards: Iterable[Shard]
    write: Callable[[Any, Callable[[int], None]], ShardLines]  # takes a shard and a function to call with progress


class Written(NamedTuple):
    """Result of a run that writes lines."""

    scorer: Scorer
    tallies: list[ShardSummary] | None  # of all shards; ``None`` if an earlier run had finished
    kept_shards: int | None  # of an earlier run


def write_lines(
    options: argparse.Namespace,
    target: Target,
    prepare: Callable[[contextlib.ExitStack], LineWork],
    bar: tuple[str, str],
    **settings: object,
) -> Written:
    """Do the work that ``prepare`` returns and write its lines; ``bar`` is the title and unit of the progress bar.

    ``settings`` are the options that the lines depend on in addition to metric, texts and format.
    """
    complete = options.resume and target.complete
    with contextlib.ExitStack() as stack:
        if target.in_parts and not complete:
            lock_parts(target, options, stack)
        work = prepare(stack)
        scorer, parts = work.scorer, None
        if target.in_parts:
            device = scorer.metric.device
            settings |= {"batch_tokens": options.batch_tokens, "device": device.type}
            manifest = describe(scorer.signature, target.layout, **settings)
            parts = ShardFolder(
                target.parts_folder, target.layout, manifest, machine_of(device), recorded=options.resume
            )
            if complete:
                check_complete(target, parts, work.shards)
                return Written(scorer, None, None)
            parts.begin(resume=options.resume, overwrite=options.overwrite)
        stack.enter_context(report_kept_shards(target, parts))
        tallies, kept_shards = [], 0
        with (
            open_sink(target, parts) as sink,
            progress_bar(bar[0], shown=not options.quiet, unit=bar[1]) as advance,
        ):
            count = PairCount(1, advance)

            def write(shard: Shard) -> ShardLines:
                scorer.clear_cache()  # lines do not depend on shards that an earlier run finished
                return work.write(shard, count.within)

            for done in finish_shards(work.shards, write, parts, count):
                sink.take(done)
                tallies.append(done.tally)
                kept_shards += done.scores is None
            sink.finish(len(tallies), summarize(tallies, (), scorer.signature))
    return Written(scorer, tallies, kept_shards)
