"""``textmover errors``: mark wrong words of texts and places where words are missing."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence

from textmover.cli.options.input_tables import rows_of
from textmover.readers.lines import check_once
from textmover.readers.row_streams import GivenTexts
from textmover.report.error_spans.output import SUFFIXES, check_kept, write_marked
from textmover.report.error_spans.records import MarkedLine, filter_by_confidence
from textmover.report.explanation.output import choose_target
from textmover.runs.progress import Advance, progress_bar
from textmover.runs.score_run import scorer_and_shards
from textmover.runs.shards.shards import Shard
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
    target = choose_target(options, rows.paths, SUFFIXES, ())
    columns = tuple(dict.fromkeys(options.keep_columns or ()))
    check_kept(columns, target.format)
    check_once([*rows.paths, options.fit_on])
    options.shard_size, left_out = CHUNK, list[str]()
    with contextlib.ExitStack() as stack:
        scorer, shards = scorer_and_shards(options, rows, stack)
        advance = stack.enter_context(progress_bar("marking", shown=not options.quiet, unit="texts"))
        lines = _marked(scorer, shards, columns, left_out, advance)
        if isinstance(rows, GivenTexts):
            lines = (one._replace(line=None) for one in lines)
        count = write_marked(target, (filter_by_confidence(one, options.least_confidence) for one in lines), columns)
    if left_out:
        logger.warning("Left out: %s; the first: %s", plural(len(left_out), "row"), left_out[0])
    warned = {name: one for name, one in count.flags.items() if name != "unreferenced" or not options.quiet}
    marking.warn_marked(scorer, warned)
    if not options.quiet:
        sys.stderr.write("".join(f"{one}\n" for one in count.said()))
    severe = count.at_least(options.fail_on) if options.fail_on else 0
    if severe:
        sys.stderr.write(f"Failed: {plural(severe, 'error')} of severity {options.fail_on} or above (--fail-on).\n")
    return int(severe > 0)


def _marked(
    scorer: Scorer, shards: Iterable[Shard], columns: Sequence[str], left_out: list[str], advance: Advance
) -> Iterator[MarkedLine]:
    for shard in shards:
        rows = [row for row in shard.rows if row.hypotheses]
        left_out += [row.problem for row in shard.rows if not row.hypotheses]
        texts = [row.hypotheses[0] for row in rows], [row.references for row in rows]
        marked = marking.mark_fitted(scorer, *texts, warn=False)
        for row, text_marks in zip(rows, marked, strict=True):
            kept_cells = dict(zip(columns, row.kept, strict=True))
            yield MarkedLine(text_marks, row.line, kept_cells, str(marked.signature))
        advance(len(shard.rows), shard.share, True)
