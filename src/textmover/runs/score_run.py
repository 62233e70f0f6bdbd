"""Runs over shards that can be resumed: scores, and lines such as choices and marked errors. Score lists of pairs."""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.modules.devices import machine_of
from textmover.modules.tokens.text_flags import same_outputs
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.lines import refuse_read_once
from textmover.readers.row_streams import Row, Rows
from textmover.runs.progress import PairCount, progress_bar
from textmover.runs.score_output import Target, opened
from textmover.runs.score_summary import ShardSummary, Summary, check_any_left, summarize
from textmover.runs.shards import streaming
from textmover.runs.shards.folder import (
    MANIFEST,
    check_folder,
    check_rows,
    check_same,
    digest_file,
    has_unmerged_shards,
    locked,
    output_manifest_path,
    parts_folder_of,
    read_json,
    read_output_manifest,
)
from textmover.runs.shards.score_formats import Layout
from textmover.runs.shards.shards import (
    Shard,
    ShardFolder,
    ShardLines,
    ShardScores,
    describe,
    read_shards,
    rows_per_shard,
    texts_of,
)
from textmover.scoring.engine.threads import prefetch
from textmover.scoring.metric_set import joined_scores
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import load_scorer, take_by_language
from textmover.types import InputError

logger = logging.getLogger(__name__)

DEFAULT_SHARD_PAIRS = 4096  # pairs per shard by default


class ShardWork(NamedTuple):
    """Work of a command: what it does with each shard of its input."""

    scorer: Scorer
    shards: Iterable[Shard]
    write: Callable[..., ShardScores | ShardLines]  # takes a shard and ``on_progress``


class Written(NamedTuple):
    """Result of a run."""

    scorer: Scorer
    tallies: list[ShardSummary] | None  # of all shards; ``None`` if an earlier run had finished
    kept_shards: int | None = 0  # of an earlier run
    summary: Summary | None = None  # of all shards


def _shard_rows(options: argparse.Namespace, systems: int) -> int:
    """Return the rows per shard: from ``--shard-size``, else from the resumed run, else the default."""
    if options.shard_size is None and options.resume:
        path = Path(options.output)
        for folder in filter(has_unmerged_shards, (path, parts_folder_of(path))):
            with contextlib.suppress(ValueError, KeyError):  # a damaged manifest raises an error later
                return int(read_json(folder / MANIFEST)["rows per shard"])
    return rows_per_shard(DEFAULT_SHARD_PAIRS if options.shard_size is None else options.shard_size, systems)


def scorer_and_shards(
    options: argparse.Namespace, rows: Rows, stack: contextlib.ExitStack
) -> tuple[Scorer, Iterable[Shard]]:
    """Return the fitted scorer and the shards of the input, which can be read until ``stack`` closes."""
    size = _shard_rows(options, len(rows.systems))
    with contextlib.ExitStack() as opened:
        reading = opened.enter_context(prefetch(read_shards(rows, size)))
        first = list(itertools.islice(reading, 1))  # report invalid texts before loading the metric
        head = [row for shard in first for row in shard.rows]
        take_by_language(options, (text for row in head for text in row.hypotheses), (row.references for row in head))
        scorer = load_scorer(options)
        lenient = rows.on_error == "skip" or rows.missing_references == "leave-out"
        usable = functools.partial(streaming.usable_row, scorer.metric, rows) if lenient else None
        if not scorer.metric.fits_on_call:
            stack.enter_context(opened.pop_all())
            return scorer, _usable_shards(itertools.chain(first, reading), usable)
    refuse_read_once(
        rows.paths,
        f"for {options.model}, which fits idf weights on the scored texts",
        "name a corpus with --fit-on FILE, or a file of `textmover fit-idf` with --statistics FILE",
    )
    with errors_with_flag_names():
        streaming.fit_on_rows(scorer, rows, usable)
    return scorer, _usable_shards(stack.enter_context(prefetch(read_shards(rows, size))), usable)


def _usable_shards(shards: Iterable[Shard], usable: Callable[[Row], Row] | None) -> Iterable[Shard]:
    return shards if usable is None else (replace(one, rows=list(map(usable, one.rows))) for one in shards)


def lock_parts(target: Target, options: argparse.Namespace, stack: contextlib.ExitStack, *, first: bool = True) -> None:
    """Lock the folder of shards in the first process; raise an error if it holds files that must not be lost."""
    if first:
        stack.enter_context(locked(target.parts_folder, target.named))
    check_folder(target.parts_folder, resume=options.resume, overwrite=options.overwrite)


def parts_of(
    target: Target, scorer: Scorer, options: argparse.Namespace, settings: Mapping[str, object]
) -> ShardFolder:
    """Return the folder of shards with its manifest, without writing to it.

    ``settings`` are what the results depend on in addition to metric, texts and format.
    """
    device = scorer.metric.device
    known = {"batch_tokens": options.batch_tokens, "device": device.type}
    manifest = describe(scorer.signature, target.layout, **{**settings, **known})
    return ShardFolder(target.parts_folder, target.layout, manifest, machine_of(device), recorded=options.resume)


def score_settings(options: argparse.Namespace, rows: Rows) -> dict[str, object]:
    """Return what scores depend on in addition to metric, texts and format, in the order of the manifest."""
    size = _shard_rows(options, len(rows.systems))
    machine = dict.fromkeys(("batch_tokens", "device"))  # filled in by `parts_of`
    return {"rows_per_shard": size, **machine, "references": options.reference_column, "on_error": bad_rows(options)}


def bad_rows(options: argparse.Namespace) -> str:
    """Return how bad rows are treated; a run that stopped at one can be resumed without it."""
    without = ", without rows that lack references" if options.missing_references == "leave-out" else ""
    return f"{options.on_error}{without}"


def write_shards(
    options: argparse.Namespace,
    target: Target,
    prepare: Callable[[contextlib.ExitStack], ShardWork],
    bar: tuple[str, str],
    settings: Mapping[str, object],
    systems: tuple[str, ...] = (),
) -> Written:
    """Do the work that ``prepare`` returns and write its results; ``bar`` is the title and unit of the progress bar.

    ``systems`` are those that are scored; commands that write lines have none. For ``settings`` see :func:`parts_of`.
    """
    complete = options.resume and target.complete
    with contextlib.ExitStack() as stack:
        if target.in_parts and not complete:
            lock_parts(target, options, stack)
        scorer, shards, write = prepare(stack)
        parts = parts_of(target, scorer, options, settings) if target.in_parts else None
        if parts is not None and complete:
            check_complete(target, parts, shards)
            return Written(scorer, None, None)
        if parts is not None:
            parts.begin(resume=options.resume, overwrite=options.overwrite)
        with opened(target, parts) as store, progress_bar(bar[0], shown=not options.quiet, unit=bar[1]) as advance:
            count = PairCount(max(1, len(systems)), advance)
            done = list(streaming.finish_shards(shards, write, store, count))
            tallies = [tally for tally, _ in done]
            summary = finish(target, store, tallies, scorer, systems)
        return Written(scorer, tallies, sum(kept for _, kept in done), summary)


def score_rows(options: argparse.Namespace, rows: Rows, target: Target) -> Written:
    """Score and write all rows in this process."""

    def prepare(stack: contextlib.ExitStack) -> ShardWork:
        scorer, shards = scorer_and_shards(options, rows, stack)
        return ShardWork(scorer, shards, functools.partial(streaming.score_shard, scorer, systems=rows.systems))

    settings = score_settings(options, rows)
    written = write_shards(options, target, prepare, ("scoring", "pairs"), settings, rows.systems)
    if written.summary is not None:
        written.scorer.warn(written.summary.warning_counts)
    return written


def finish(
    target: Target,
    store: ShardFolder | streaming.ShardStream,
    tallies: Sequence[ShardSummary],
    scorer: Scorer,
    systems: tuple[str, ...],
) -> Summary:
    """Write the result of all shards and return its summary; delete the shards if no row of the systems was scored."""
    summary = summarize(tallies, systems, scorer.signature)
    try:
        if systems:
            check_any_left(summary.rows, summary.skipped, summary.problem)
    except InputError:
        if isinstance(store, ShardFolder):
            store.begin(overwrite=True)
        raise
    if isinstance(store, streaming.ShardStream):
        store.finish(len(tallies), summary)
    elif target.folder:
        store.seal(len(tallies), summary)
    else:
        store.merge(target.named, len(tallies), summary)
    return summary


def check_complete(target: Target, parts: ShardFolder, shards: Iterable[Shard]) -> None:
    """Raise an error unless a result was made from these shards; delete leftovers of an interrupted run."""
    path, layout = target.named, target.layout
    count, texts = texts_of(shards)
    if target.folder:
        saved, scores = parts.sealed_output_manifest()
        check_same(path, saved, parts.output_manifest(count, texts, scores))
        if parts.untidy:
            with locked(parts.folder, path):
                parts.tidy()
        return
    found = read_output_manifest(path)
    if found is not None:
        check_same(path, found, parts.output_manifest(count, texts, digest_file(path)))
    else:
        if not isinstance(layout, Layout):
            raise InputError(
                f"Expected {output_manifest_path(path)}, which a run with --resume writes beside its result, but got "
                f"{path} alone: --overwrite computes it again."
            )
        checked = "holds something"
        if not layout.only_mean or layout.format == "json":
            check_rows(path, layout, count)
            checked = "has as many rows as the input"
        logger.warning(
            "%s %s. Metric and texts are not compared, since there is no %s, which a run with --resume writes: "
            "--overwrite computes it again.",
            path,
            checked,
            output_manifest_path(path),
        )
    if parts.folder.is_dir():
        with locked(parts.folder, path):
            parts.remove()


def score_pairs(
    scorer: Scorer,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    systems: Sequence[str],
    *,
    parts: int,
    shown: bool,
) -> tuple[NDArray[np.float64], list[str]]:
    """Score texts with a progress bar; return scores and warnings. Duplicate pairs are scored once: equal outputs tie.

    ``systems`` names the system of each text, for warnings; ``parts`` is the number of texts scored at a time.
    """
    scorer = scorer.for_call(hypotheses, references)  # idf weights of all systems, so that scores are comparable
    pairs = zip(hypotheses, references, strict=True)
    keys = [(text, tuple(several), getattr(several, "source", None)) for text, several in pairs]
    first_rows = dict(reversed([(key, row) for row, key in enumerate(keys)]))
    places = {key: place for place, key in enumerate(first_rows)}
    places_of_rows = [places[key] for key in keys]
    texts, text_references = [key[0] for key in first_rows], [references[row] for row in first_rows.values()]
    slices = [slice(start, start + parts) for start in range(0, len(texts), parts)]
    with progress_bar("scoring", shown=shown) as advance:
        count = PairCount(1, advance)
        count.read(len(texts), 1.0)
        results = [scorer.score_fitted(texts[one], text_references[one], count.within, warn=False) for one in slices]
    scores = joined_scores(results)
    flags = {name: mask[places_of_rows] for name, mask in scores.flags.items()}
    counts, names = dict[str, Counter[str]](), np.array(systems)
    repeated = np.zeros(len(names), dtype=bool)
    for system in dict.fromkeys(systems):
        rows = np.flatnonzero(names == system).tolist()
        repeated[rows] = same_outputs([hypotheses[row] for row in rows], [references[row] for row in rows])
    for name, mask in {**flags, "same output": repeated}.items():
        if mask.any():
            counts[name] = Counter(names[mask].tolist())
    warnings = scorer.warn(counts, {"same output": [hypotheses[row] for row in np.flatnonzero(repeated).tolist()]})
    return scores.scores[places_of_rows], warnings
