"""Inputs of a run of ``textmover score``: texts, scorer, and the folder of shards."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from textmover.readers.column_flags import flags_named
from textmover.readers.lines import is_read_once, told_once
from textmover.readers.streams import TableFile, TextFiles
from textmover.runs.score_files import Target
from textmover.scoring.scorer_options import load_scorer
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.runs.score_summary import Summary
    from textmover.runs.shards.shards import Parts, Shard
    from textmover.scoring.scorer import Scorer

logger = logging.getLogger(__name__)


def texts_and_scorer(options: argparse.Namespace, rows: TextFiles | TableFile) -> tuple[Scorer, Iterable[Shard], int]:
    """The scorer, its statistics fitted, all shards of the input, and the rows of each."""
    from textmover.runs.shards.shards import rows_per_shard

    size = rows_per_shard(options.shard_size, len(rows.systems))
    scorer = load_scorer(options)
    if scorer.metric.fits_on_call:
        fit_on_input(scorer, rows, options.model)
    return scorer, shards_of(rows, size), size


def shards_of(rows: TextFiles | TableFile, size: int) -> Generator[Shard, None, None]:
    """The shards of the input, which a thread reads ahead; errors name the flags of the command line."""
    from textmover.runs.shards.shards import read_shards
    from textmover.scoring.engine.threads import read_ahead

    with flags_named(), read_ahead(read_shards(rows, size)) as reading:
        yield from reading


def fit_on_input(scorer: Scorer, rows: TextFiles | TableFile, model: str) -> None:
    """Fit the idf weights of a metric on the texts that it is to score."""
    from textmover.runs.shards.streaming import fit_on_rows

    once = next(filter(is_read_once, rows.paths), None)
    if once is not None:
        raise InputError(
            f"Expected files where {model} fits idf weights on the texts that it scores, but got {told_once(once)}, "
            "which can be read only once: fit them on a corpus with `textmover fit-idf` and give the file with "
            "--statistics FILE, or the texts themselves with --fit-on FILE."
        )
    with flags_named():
        fit_on_rows(scorer, rows)


def parts_of(target: Target, scorer: Scorer, options: argparse.Namespace, size: int) -> Parts:
    """Folder of the shards, not yet begun."""
    from textmover.modules.devices import machine_of
    from textmover.runs.shards.shards import Parts, describe

    device = scorer.metric.device
    without = ", without rows that lack references" if options.missing_references == "leave-out" else ""
    manifest = describe(
        scorer.signature,
        target.layout,
        rows_per_shard=size,
        batch_tokens=options.batch_tokens,
        device=device.type,
        references=options.reference_column,
        on_error=options.on_error + without,
    )
    return Parts(target.parts_folder, target.layout, manifest, machine_of(device))


def check_scored(summary: Summary, parts: Parts | None) -> None:
    """Refuse a result in which every row was left out; its shards, which hold nothing, are thrown away.

    Args:
        summary: Of all rows.
        parts: Where shards are kept, if they are.
    """
    from textmover.runs.score_summary import check_any_left

    try:
        check_any_left(summary.rows, summary.skipped, summary.problem)
    except InputError:
        if parts is not None:
            parts.begin(overwrite=True)
        raise


def confirm_complete(options: argparse.Namespace, rows: TextFiles | TableFile, target: Target) -> None:
    """Make sure that what is there is the result of this run, as far as can be known without scoring anything.

    What an interruption has left beside the result is cleared away.
    """
    from textmover.runs.shards.folder import locked
    from textmover.runs.shards.manifest import check_rows, check_same, digest_file, read_receipt, receipt_path
    from textmover.runs.shards.shards import texts_of

    path = target.named
    scorer, shards, size = texts_and_scorer(options, rows)
    parts = parts_of(target, scorer, options, size)
    count, texts = texts_of(shards)
    if target.folder:
        receipt, scores = parts.sealed_receipt()
        check_same(path, receipt, parts.receipt(count, texts, scores))
        if parts.untidy:
            with locked(parts.folder, path):
                parts.tidy()
        return
    kept = read_receipt(path)
    if kept is not None:
        check_same(path, kept, parts.receipt(count, texts, digest_file(path), only_mean=target.only_mean))
    else:
        if not target.only_mean or target.layout.format == "json":
            check_rows(path, target.layout, count)
            compared = "has as many rows as the input"
        else:
            compared = "holds something"
        logger.warning(
            "%s %s, but there is no %s that says which metric and texts it was made with, so these are not compared: "
            "--overwrite computes it again.",
            path,
            compared,
            receipt_path(path),
        )
    if parts.folder.is_dir():
        with locked(parts.folder, path):
            parts.remove()
