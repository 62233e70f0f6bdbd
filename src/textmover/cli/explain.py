"""``textmover explain``: why a text got its score."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
from typing import TYPE_CHECKING

from textmover.cli.console import set_up_logging
from textmover.cli.explain_text import print_explanation
from textmover.cli.options import add_metric_options, load_scorer, take_default
from textmover.data.streams import Row, TextFiles
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="the hypothesis and its reference, or several references; behind '--' where one begins with a dash",
    )
    parser.add_argument(
        "-i",
        "--input",
        nargs="+",
        metavar=("HYPOTHESES", "REFERENCES"),
        help="text files of one segment a line instead, as `textmover score` reads them; weights that a metric fits on "
        "the texts of a call are those of the whole files",
    )
    parser.add_argument("--line", type=int, metavar="N", help="line of the files to explain, from 1; 1 if not given")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="for reading, or everything that is known as JSON"
    )
    add_metric_options(parser)


def run(options: argparse.Namespace) -> None:
    """Explain the score of the pair that the options name.

    Raises:
        InputError: If texts or metric cannot be used, or the metric cannot be explained.
    """
    set_up_logging(quiet=True)
    take_default(options)
    files = _files(options)
    row = _given(options) if files is None else _line(files, options)
    # Not before it is known that the options make sense: these bring torch along.
    from textmover.scoring.explain import explain_fitted
    from textmover.scoring.scorer import normalize_references

    normalize_references(row.hypotheses, [row.references])  # says what is wrong before the metric is loaded
    scorer = load_scorer(options)
    if scorer.metric.fits_on_call:
        _fit(scorer, row, files)
    found = explain_fitted(scorer, row.hypotheses[0], list(row.references))
    if options.format == "json":
        sys.stdout.write(json.dumps(found.to_dict(), ensure_ascii=False) + "\n")
        return
    print_explanation(found)
    if not options.quiet:
        sys.stderr.write(f"Signature: {found.signature}\n")


def _files(options: argparse.Namespace) -> TextFiles | None:
    """The files that the options name; ``None`` where the texts themselves are given."""
    if options.input is None:
        if options.line is not None:
            raise InputError("Expected `--line` together with -i, but got it alone: name the files.")
        return None
    if options.texts:
        raise InputError("Expected either two texts or -i with files, but got both: leave one out.")
    if len(options.input) < 2:
        raise InputError(
            f"Expected hypotheses and references behind -i, but got {options.input[0]} alone: add a second file."
        )
    if options.fit_on == "-" and "-" in options.input:
        raise InputError("Expected standard input (-) once, but got it twice: it can be read only once.")
    return TextFiles((options.input[0],), tuple(options.input[1:]))


def _given(options: argparse.Namespace) -> Row:
    if len(options.texts) < 2:
        raise InputError(
            f"Expected a hypothesis and a reference, but got {len(options.texts) or 'no'} "
            f"text{'' if len(options.texts) == 1 else 's'}: put each into quotation marks, or name files with -i."
        )
    return Row(1, (options.texts[0],), tuple(options.texts[1:]))


def _line(files: TextFiles, options: argparse.Namespace) -> Row:
    """The line that is asked for."""
    wanted = 1 if options.line is None else options.line
    if wanted < 1:
        raise InputError(f"Expected `--line` to be 1 or above, but got {wanted}: lines are counted from 1.")
    last = 0
    with contextlib.closing(iter(files)) as rows:
        for row in itertools.islice(rows, wanted):
            last = row.line
            if row.line == wanted:
                return row
    raise InputError(f"Expected `--line` to be a line of the files, but got {wanted}: they have {last}.")


def _fit(scorer: Scorer, row: Row, files: TextFiles | None) -> None:
    """Fit the weights of a metric that fits them on each call, as ``textmover score`` would on these texts."""
    if files is None:
        scorer.fit_on_call(row.hypotheses, [row.references])
        return
    if "-" in (*files.hypotheses, *files.references):
        raise InputError(
            "Expected files where the metric fits idf weights on the texts, but got standard input (-), which can be "
            "read only once: give a file, or statistics with --statistics FILE."
        )
    rows = list(files)
    scorer.fit_on_call([one.hypotheses[0] for one in rows], [one.references for one in rows])
