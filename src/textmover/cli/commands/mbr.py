"""``textmover mbr``: choose the candidate of each segment with the best average score against all candidates."""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from functools import partial

from textmover.checkpoints.hub import AUTO
from textmover.cli.options.input_tables import refuse_table_options, source_of
from textmover.readers.candidates import CandidateFiles, Candidates, CandidateSets, CandidateTable
from textmover.readers.column_flags import errors_with_flag_names
from textmover.runs.mbr_output import CandidateShard, candidate_shards, choice_line, choose_output, refuse_breaks
from textmover.runs.score_output import say_at_end
from textmover.runs.score_run import ShardWork, write_shards
from textmover.runs.score_summary import ShardSummary
from textmover.runs.shards.shards import ShardLines
from textmover.scoring.mbr import choose_each, mbr_signature, texts_of
from textmover.scoring.scorer_from_options import load_scorer, take_by_language, take_default
from textmover.types import InputError

COLUMNS = {
    "candidates": "--candidates-column",
    "references": "--references-column",
    "weights": "--weights-column",
    "source": "--source-column",
    "name": "--id-column",
}
"""Flag by column of a table of candidates."""

FLAGS = {**COLUMNS, "number": "--num-candidates", "format": "--data-format"}


def run(options: argparse.Namespace) -> None:
    """Choose among the candidates that the options name."""
    take_default(options)
    with errors_with_flag_names(FLAGS):
        sets = _sets(options)
    paths = [sets.path] if isinstance(sets, CandidateTable) else list(sets.paths)
    paths += [] if options.sources is None else [options.sources]
    target = choose_output(options, paths)
    if {"--include-self", "--no-include-self"} <= {*options.command_line}:
        raise InputError("Expected `--include-self` or `--no-include-self`, but got both: leave one out.")
    if options.include_self is not None and options.references_column is not None:
        raise InputError(
            "Expected `--include-self` only where candidates are compared with one another, but got "
            "--references-column: leave one out."
        )
    settings = {name: getattr(options, f"{name}_column") is not None for name in ("references", "weights")}
    settings["include_self"] = options.include_self
    prepare = partial(_prepare, options, sets, target.layout.format)
    bar = "choosing", "segments"
    scorer, tallies, kept_shards, summary = write_shards(options, target, prepare, bar, settings)
    scorer.warn(summary.counts if summary else {})
    sources = any(tally.extras["sources"] for tally in tallies or ())
    signature = f"Signature: {mbr_signature(scorer, sources=sources, **settings)}"
    say_at_end(target, options, kept_shards, [signature])


def _prepare(options: argparse.Namespace, sets: CandidateSets, format: str, stack: contextlib.ExitStack) -> ShardWork:
    reading = stack.enter_context(contextlib.closing(_reading(sets, format)))
    first = list(itertools.islice(reading, 256 if options.model == AUTO else 1))  # errors, and the language, come early
    take_by_language(options, (text for one in first for text in one.texts), [one.compared for one in first])
    scorer = load_scorer(options)
    segments: Iterable[Candidates] = itertools.chain(first, reading)
    if scorer.metric.fits_on_call:
        loaded = list(segments)
        scorer.fit_on_call(*texts_of(loaded))
        segments = loaded

    def write(shard: CandidateShard, on_progress: Callable[[int], None]) -> ShardLines:
        scorer.clear_cache()  # choices do not depend on shards that an earlier run finished
        counts: Counter[str] = Counter()
        choices = choose_each(
            scorer, shard.candidates, include_self=options.include_self, on_progress=on_progress, counts=counts
        )
        lines = [choice_line(format, *one) for one in zip(shard.candidates, choices, strict=True)]
        extras = {"sources": any(one.source is not None for one in shard.candidates)}
        tally = ShardSummary(len(lines), skipped=0, problem="", sums=(), counts=dict(counts), extras=extras)
        return ShardLines(lambda stream: stream.writelines(lines), tally)

    return ShardWork(scorer, candidate_shards(segments, sets), write)


def _sets(options: argparse.Namespace) -> CandidateFiles | CandidateTable:
    names = {name: flag[2:].replace("-", "_") for name, flag in COLUMNS.items()}
    if options.data is None:
        refuse_table_options(options, "-i", tuple(names.values()))
        return CandidateFiles(tuple(options.input), options.num_candidates, options.sources)
    source = source_of(options)
    if options.num_candidates is not None:
        raise InputError(
            "Expected `--num-candidates` together with -i, but got --data, whose rows hold lists: leave it out."
        )
    columns = {name: getattr(options, option) for name, option in names.items()} | {"source": source}
    columns["candidates"] = columns["candidates"] or "candidates"
    return CandidateTable(options.data, **columns, format=options.data_format, split=options.split or "train")


def _reading(sets: CandidateSets, format: str) -> Generator[Candidates, None, None]:
    """Yield the segments; raise an error for texts that would break lines of the output."""
    with errors_with_flag_names(FLAGS):
        for candidates in sets:
            refuse_breaks(candidates, format)
            yield candidates
