"""``textmover score``: score texts and print one number per line or a table. Input of any length is streamed."""

from __future__ import annotations

import argparse
import logging

from textmover.cli.options.input_tables import rows_of
from textmover.runs.exit_codes_and_signals import sigterm_as_interrupt
from textmover.runs.score_output import Target, choose_target, say_at_end
from textmover.runs.score_run import score_rows
from textmover.runs.score_summary import Summary
from textmover.scoring.scorer_from_options import take_default
from textmover.types import plural

logger = logging.getLogger(__name__)


def run(options: argparse.Namespace) -> None:
    """Score the texts that the options name."""
    take_default(options)
    rows = rows_of(options)
    if (options.devices, options.num_nodes) != (1, 1):
        from textmover.runs.distributed import score_in_processes

        _report(options, *score_in_processes(options, rows))
        return
    # Not for several processes: Lightning and the worker processes handle signals themselves.
    with sigterm_as_interrupt():
        target = choose_target(options, rows.systems, rows.paths)
        written = score_rows(options, rows, target)
        _report(options, target, written.summary, written.kept_shards)


def _report(options: argparse.Namespace, target: Target, summary: Summary | None, kept_shards: int | None) -> None:
    """Print the summary, signature and excluded rows; ``None`` as summary means an earlier run had finished."""
    if summary is not None and summary.skipped:
        logger.warning("No score (nan): %s; the first: %s", plural(summary.skipped, "row"), summary.problem)
    said = [] if summary is None else summary.said(signature=target.layout.format != "json")
    say_at_end(target, options, kept_shards, said)
