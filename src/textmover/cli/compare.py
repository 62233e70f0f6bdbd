"""``textmover compare``: which of several systems is better, how sure that is, and where they differ."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textmover.cli.compare_report import Comparison, as_json, as_latex, print_comparison
from textmover.cli.console import set_up_logging
from textmover.cli.options import (
    add_cache_option,
    add_column_options,
    add_format_option,
    add_metric_options,
    check_output,
    flags_named,
    load_scorer,
    refuse_table_options,
    take_default,
    write_output,
)
from textmover.cli.progress import progress_bar
from textmover.data.streams import Row, TableFile, TextFiles
from textmover.meta_evaluation import compare_systems
from textmover.types import InputError

if TYPE_CHECKING:
    import numpy as np

    from textmover.scoring.scorer import Scorer

__all__ = ["add_arguments", "run"]

FEWEST = {"samples": 1, "trials": 1, "seed": 0, "segments": 0}
"""Smallest value of each number among the options."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument(
        "--hypotheses",
        nargs="+",
        metavar="FILE",
        help="text files of two or more systems, one segment a line, also compressed as .gz or .zst",
    )
    texts.add_argument(
        "--data",
        metavar="FILE",
        help="CSV, TSV, JSON Lines, Parquet or hub:owner/name instead, with --hypothesis-column for each system",
    )
    parser.add_argument("--references", nargs="+", metavar="FILE", help="references of --hypotheses")
    parser.add_argument(
        "--names", nargs="+", metavar="NAME", help="what to call the systems; after their files or columns if not given"
    )
    parser.add_argument("--samples", type=int, default=1000, metavar="N", help="bootstrap samples; %(default)s")
    parser.add_argument("--trials", type=int, default=10_000, metavar="N", help="of randomisation; %(default)s")
    parser.add_argument("--seed", type=int, default=12345, metavar="N", help="of both; %(default)s, as sacrebleu has")
    parser.add_argument(
        "--tie", type=float, default=0.0, metavar="X", help="largest difference of two scores that counts as a tie; 0"
    )
    parser.add_argument(
        "--segments", type=int, default=5, metavar="N", help="segments to show on which systems differ most; 5"
    )
    parser.add_argument(
        "--format", choices=("text", "json", "latex"), default="text", help="for reading, for programs, or for a paper"
    )
    parser.add_argument("--output", metavar="FILE", help="write it there instead of printing it; json or latex")
    add_column_options(parser, score=False, systems=True)
    add_format_option(parser)
    add_metric_options(parser)
    add_cache_option(parser)


def run(options: argparse.Namespace) -> None:
    """Score the systems that the options name, compare them, and print or write what was found.

    Raises:
        InputError: If texts, metric, numbers or output cannot be used.
    """
    set_up_logging(quiet=True)
    take_default(options)
    for name, least in FEWEST.items():
        if getattr(options, name) < least:
            raise InputError(f"Expected --{name} to be at least {least}, but got {getattr(options, name)}.")
    files = _files(options)
    names = _names(files.systems, options.names)
    output = None
    if options.output is not None:
        if options.format == "text":
            raise InputError("Expected `--output` together with --format json or latex, but got text: choose one.")
        output = check_output(options.output, [*(options.hypotheses or [options.data]), *(options.references or ())])
    with flags_named():
        rows = list(files)  # texts that cannot be used are told before the metric is loaded
    if not rows:
        raise InputError(f"Expected at least one segment to compare on, but {files.systems[0]} has none.")
    scorer = load_scorer(options)
    scores = _scores(scorer, rows, names, shown=not options.quiet)
    found = compare_systems(
        scores,
        samples=options.samples,
        trials=options.trials,
        seed=options.seed,
        tie=options.tie,
        higher_is_better=scorer.metric.higher_is_better,
    )
    comparison = Comparison(found, rows, str(scorer.signature), options.segments)
    if options.format == "text":
        print_comparison(comparison, signature=not options.quiet)
        return
    text = as_latex(comparison)
    if options.format == "json":
        text = json.dumps(as_json(comparison), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(text, output)


def _files(options: argparse.Namespace) -> TextFiles | TableFile:
    """The texts that the options name.

    Raises:
        InputError: If there are fewer than two systems, or an option has no use for what is given.
    """
    if options.data is not None:
        if options.references is not None:
            raise InputError("Expected `--references` together with --hypotheses, but got --data: leave one out.")
        columns = tuple(options.hypothesis_column or ())
        if len(columns) < 2:
            raise InputError(
                f"Expected two systems to compare, but got {len(columns) or 'no'} --hypothesis-column: name one for "
                "each system."
            )
        references = tuple(dict.fromkeys(options.reference_column or ["reference"]))
        return TableFile(options.data, columns, references, format=options.data_format, split=options.split or "train")
    refuse_table_options(options, "--hypotheses")
    if len(options.hypotheses) < 2:
        raise InputError(
            f"Expected two systems to compare, but got {options.hypotheses[0]} alone: name the file of another behind "
            "--hypotheses."
        )
    return TextFiles(tuple(options.hypotheses), tuple(options.references or ()))


def _names(systems: Sequence[str], given: Sequence[str] | None) -> tuple[str, ...]:
    """What the systems are called: the shortest of their names that tell them apart, if none are given.

    Raises:
        InputError: If there are not as many names as systems, or a name comes twice.
    """
    if given is not None:
        if len(given) != len(systems):
            raise InputError(f"Expected a name for each of the {len(systems)} systems, but got {len(given)}.")
        if len(set(given)) < len(given):
            raise InputError(f"Expected names that tell the systems apart, but got {' '.join(given)}.")
        return tuple(given)
    for short in (lambda path: Path(path).name.partition(".")[0], lambda path: Path(path).name):
        names = tuple(map(short, systems))
        if all(names) and len(set(names)) == len(names):
            return names
    return tuple(systems)


def _scores(scorer: Scorer, rows: Sequence[Row], names: Sequence[str], *, shown: bool) -> dict[str, np.ndarray]:
    """Segment scores of each system; each distinct text is encoded once."""
    references = [row.references for row in rows]
    if scorer.metric.fits_on_call:  # on the texts of all systems, so that their scores can be compared
        texts = [text for row in rows for text in row.hypotheses]
        scorer.fit_on_call(texts, [one for one, row in zip(references, rows, strict=True) for _ in row.hypotheses])
    found = {}
    finished, everything = 0, len(names) * len(rows)
    with progress_bar("scoring", shown=shown) as advance:

        def count(pairs: int) -> None:
            nonlocal finished
            finished += pairs
            advance(pairs, finished / everything, True)

        for place, name in enumerate(names):
            hypotheses = [row.hypotheses[place] for row in rows]
            found[name] = scorer.score_fitted(hypotheses, references, count).scores
    return found
