"""``textmover errors``: mark wrong words of texts and places where words are missing."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from textmover.cli.options.input_tables import rows_of
from textmover.readers.row_streams import GivenTexts, Rows
from textmover.report import error_spans
from textmover.report.explanation.output import choose_target
from textmover.runs.progress import PairCount, progress_bar
from textmover.runs.score_output import line_target, refuse_resuming, say_at_end
from textmover.runs.score_run import ShardWork, Written, bad_rows, scorer_and_shards, write_shards
from textmover.runs.score_summary import ShardSummary
from textmover.runs.shards.score_formats import LineLayout
from textmover.runs.shards.shards import Shard, ShardLines
from textmover.scoring.error_spans import marking
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import take_default
from textmover.types import InputError, plural

logger = logging.getLogger(__name__)

CHUNK = 1024  # texts per shard


def run(options: argparse.Namespace) -> int:
    """Mark the errors of the texts that the options name; return 1 if ``--fail-on`` applies, else 0."""
    take_default(options)
    if not 0 <= options.least_confidence <= 1:
        raise InputError(f"Expected `--least-confidence` to be from 0 to 1, but got {options.least_confidence:g}.")
    rows = rows_of(options)
    if len(rows.systems) > 1:
        raise InputError(f"Expected the texts of one system, but got {len(rows.systems)}: name one file or column.")
    format, path = choose_target(options, rows.paths, error_spans.SUFFIXES, ())
    columns = tuple(dict.fromkeys(options.keep_columns or ()))
    error_spans.check_kept(columns, format)
    options.shard_size = CHUNK
    marks = functools.partial(_marks, columns, options.least_confidence, isinstance(rows, GivenTexts))
    target = line_target(options, LineLayout(format, error_spans.header_of(format, columns)), path)
    if format == "html":
        refuse_resuming(options, "a page, which is written as a whole: leave that option out")
        written = _write_page(options, rows, path, marks)
    else:
        settings = {name: getattr(options, name) for name in ("least_confidence", "reference_column", "keep_columns")}
        settings["on_error"] = bad_rows(options)
        prepare = functools.partial(_prepare, options, rows, marks, format)
        written = write_shards(options, target, prepare, ("marking", "texts"), settings)
    scorer, tallies, kept_shards, _ = written
    if tallies is None and options.fail_on:
        raise InputError(
            f"Expected `--fail-on` with texts to mark, but {path} is complete: give --overwrite in place of --resume."
        )
    count = error_spans.ErrorCount()
    for tally in tallies or ():
        count.include(tally.extras)
    left_out = [tally for tally in tallies or () if tally.skipped]
    if left_out:
        number = plural(sum(tally.skipped for tally in left_out), "row")
        logger.warning("Left out: %s; the first: %s", number, left_out[0].problem)
    warned = {name: one for name, one in count.flags.items() if name != "unreferenced" or not options.quiet}
    marking.warn_marked(scorer, warned)
    say_at_end(target, options, kept_shards, count.said())
    severe = count.at_least(options.fail_on) if options.fail_on else 0
    if severe:
        sys.stderr.write(f"Failed: {plural(severe, 'error')} of severity {options.fail_on} or above (--fail-on).\n")
    return int(severe > 0)


Marks = Callable[[Scorer, Shard], tuple[list[error_spans.MarkedLine], ShardSummary]]


def _prepare(
    options: argparse.Namespace, rows: Rows, marks: Marks, format: str, stack: contextlib.ExitStack
) -> ShardWork:
    scorer, shards = scorer_and_shards(options, rows, stack)

    def write(shard: Shard, on_progress: object) -> ShardLines:
        scorer.clear_cache()  # marks do not depend on shards that an earlier run finished
        lines, tally = marks(scorer, shard)
        return ShardLines(functools.partial(error_spans.write_marked, format=format, lines=lines), tally)

    if not isinstance(rows, GivenTexts):  # keep the lines, so that a resumed run compares them
        shards = (
            replace(shard, rows=[row._replace(kept=(*row.kept, str(row.line))) for row in shard.rows])
            for shard in shards
        )
    return ShardWork(scorer, shards, write)


def _write_page(options: argparse.Namespace, rows: Rows, path: Path | None, marks: Marks) -> Written:
    tallies = list[ShardSummary]()

    def lines() -> Iterator[error_spans.MarkedLine]:
        for shard in shards:
            marked, tally = marks(scorer, shard)
            tallies.append(tally)
            yield from marked
            count.read(shard.end, shard.share)
            count.finished(len(shard.rows), scored=True)

    with contextlib.ExitStack() as stack:
        scorer, shards = scorer_and_shards(options, rows, stack)
        count = PairCount(1, stack.enter_context(progress_bar("marking", shown=not options.quiet, unit="texts")))
        error_spans.write_page(path, lines())
    return Written(scorer, tallies)


def _marks(
    columns: Sequence[str], least: float, given: bool, scorer: Scorer, shard: Shard
) -> tuple[list[error_spans.MarkedLine], ShardSummary]:
    """Return the marked texts of a shard, and what to count."""
    rows = [row for row in shard.rows if row.hypotheses]
    marked = marking.mark_fitted(
        scorer, [row.hypotheses[0] for row in rows], [row.references for row in rows], warn=False
    )
    count, lines = error_spans.ErrorCount(), list[error_spans.MarkedLine]()
    for row, found in zip(rows, marked, strict=True):
        cells = dict(zip(columns, row.kept, strict=False))  # its line may follow
        line = error_spans.MarkedLine(found, None if given else row.line, cells, str(marked.signature))
        lines.append(count.add(error_spans.filter_by_confidence(line, least)))
    problem = next((row.problem for row in shard.rows if row.problem), "")
    skipped = len(shard.rows) - len(rows)
    return lines, ShardSummary(len(shard.rows), skipped, problem, (), dict(count.flags), extras=count.record())
