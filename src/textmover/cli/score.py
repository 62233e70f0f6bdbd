"""``textmover score``: texts in, one number a line or JSON out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textmover.cli.console import set_up_logging
from textmover.cli.options import (
    COLUMN_OPTIONS,
    add_column_options,
    add_metric_options,
    check_output,
    load_scorer,
    read_tables,
    write_output,
)
from textmover.data.readers import check_equal_lengths, read_lines
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.types import SegmentScores

__all__ = ["add_arguments", "run"]

STANDARD_INPUT = "standard input"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument(
        "-i",
        "--input",
        nargs="+",
        metavar=("HYPOTHESES", "REFERENCES"),
        help="text files of one segment a line, hypotheses first; '-' is standard input. Of several references, empty "
        "lines are left out as long as another reference remains",
    )
    texts.add_argument("--data", metavar="FILE", help="CSV, TSV, JSON Lines, Parquet or hub:owner/name instead")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text: one score a line with nine significant digits, which tell any two float32 values apart, and the "
        "signature on standard error; json: one object with everything",
    )
    parser.add_argument("--only-mean", action="store_true", help="the mean alone, instead of one score a segment")
    parser.add_argument("--output", metavar="FILE", help="write there instead of to standard output")
    add_column_options(parser, score=False)
    add_metric_options(parser)


def run(options: argparse.Namespace) -> None:
    """Score the texts that the options name.

    Raises:
        InputError: If texts or metric cannot be used.
    """
    set_up_logging(quiet=True)
    hypotheses, references = _texts(options)
    output = None if options.output is None else check_output(options.output, options.input or [options.data])
    scorer = load_scorer(options)
    if scorer.metric.fits_on_call and "-" in (options.input or ()):
        raise InputError(
            f"Expected files where {options.model} fits idf weights on the texts that it scores, but got standard "
            "input (-), which can be read only once: fit them on a corpus with `textmover fit-idf` and give the file "
            "with --statistics FILE, or the texts themselves with --fit-on FILE."
        )
    result = scorer.score(hypotheses, references)
    text = _as_json(result, options.only_mean) if options.format == "json" else _as_text(result, options.only_mean)
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(text, output)
    if not options.quiet:
        if options.format == "text":
            sys.stderr.write(f"Signature: {result.signature}\n")
        if output is not None:
            sys.stderr.write(f"Scores: {output}\n")


def _texts(options: argparse.Namespace) -> tuple[list[str], list[tuple[str, ...]]]:
    """Hypotheses and the references of each."""
    if options.data is not None:
        (segments,) = read_tables([options.data], options, score=False)
        return [one.hypothesis for one in segments], [one.references for one in segments]
    given = [name for name in COLUMN_OPTIONS if getattr(options, name, None) is not None]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        raise InputError(f"Expected `{flag}` together with --data, but got -i: lines have no columns, so leave it out.")
    return _parallel_lines(options.input)


def _parallel_lines(paths: Sequence[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """The lines of the first file, and for each those of the others that are not empty (or one empty one)."""
    if len(paths) < 2:
        raise InputError(f"Expected hypotheses and references behind -i, but got {paths[0]} alone: add a second file.")
    if paths.count("-") > 1:
        raise InputError("Expected standard input (-) once, but got it twice: it can be read only once.")
    read = [(STANDARD_INPUT if path == "-" else path, read_lines(path)) for path in paths]
    check_equal_lengths(dict(read))
    (_, hypotheses), *others = read
    rows = zip(*(lines for _, lines in others), strict=True)
    return hypotheses, [tuple(text for text in row if text) or ("",) for row in rows]


def _as_text(result: SegmentScores, only_mean: bool) -> str:
    values = [result.mean] if only_mean else list(result)
    return "".join(f"{value:.9g}\n" for value in values)


def _as_json(result: SegmentScores, only_mean: bool) -> str:
    arrays = {name: getattr(result, name) for name in ("scores", "precision", "recall", "f")} | dict(result.components)
    values = {name: array.tolist() for name, array in arrays.items() if array is not None}
    summary = {
        "mean": result.mean,
        "n": len(result),
        "counts": dict(result.counts),
        "signature": str(result.signature),
    }
    return json.dumps(summary if only_mean else {**values, **summary}) + "\n"
