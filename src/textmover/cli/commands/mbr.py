"""``textmover mbr``: choose the candidate of each segment with the best average score against all candidates."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator

from textmover.cli.options.input_tables import refuse_table_options, source_of
from textmover.readers.candidates import CandidateFiles, Candidates, CandidateSets, CandidateTable
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.lines import check_once
from textmover.runs.mbr_output import choose_output, open_output, refuse_breaks
from textmover.runs.progress import Advance, progress_bar
from textmover.scoring.mbr import Choice, choose_each, fit_on_candidates, mbr_signature
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import load_scorer, read_before, take_by_language, take_default
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
    check_once([*paths, options.fit_on])
    paths += [] if options.sources is None else [options.sources]
    output = choose_output(options.format, options.output, paths)
    if options.include_self is not None and options.references_column is not None:
        raise InputError(
            "Expected `--include-self` only where candidates are compared with one another, but got "
            "--references-column: leave one out."
        )
    reading = _reading(sets, output.format)
    first = list(itertools.islice(reading, read_before(options)))
    take_by_language(options, (text for one in first for text in one.texts), [one.compared for one in first])
    scorer = load_scorer(options)
    segments: Iterable[Candidates] = itertools.chain(first, reading)
    if scorer.metric.fits_on_call:
        loaded = list(segments)
        fit_on_candidates(scorer, loaded)
        segments = loaded
    counts: Counter[str] = Counter()
    sourced = False
    with open_output(output) as write, progress_bar("choosing", shown=not options.quiet, unit="segments") as advance:
        for one, choice in _choices(scorer, segments, sets, options.include_self, counts, advance):
            write(one, choice)
            sourced |= one.source is not None
    scorer.warn(counts)
    if not options.quiet:
        columns = {name: getattr(options, f"{name}_column") is not None for name in ("references", "weights")}
        signature = mbr_signature(scorer, include_self=options.include_self, sources=sourced, **columns)
        sys.stderr.write(f"Signature: {signature}\n")


def _choices(
    scorer: Scorer,
    candidates: Iterable[Candidates],
    sets: CandidateSets,
    include_self: bool | None,
    counts: Counter[str],
    advance: Advance,
) -> Iterator[tuple[Candidates, Choice]]:
    """Yield each segment with the chosen candidate, and update the progress bar."""
    read = finished = 0

    def count_read(candidates: Iterable[Candidates]) -> Iterator[Candidates]:
        nonlocal read
        for segment in candidates:
            read += 1
            yield segment

    def count(new: int) -> None:
        nonlocal finished
        finished += new
        share = sets.share  # share of the input read so far, which is ahead of the finished share
        advance(new, None if share is None else share * finished / read, True)

    segments, segments_again = itertools.tee(count_read(candidates))  # buffers only the segments of one batch
    choices = choose_each(scorer, segments, include_self=include_self, on_progress=count, counts=counts)
    yield from zip(segments_again, choices, strict=True)


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
