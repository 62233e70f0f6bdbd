"""``textmover compare``: which of several systems is better, how sure that is, and where they differ."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from textmover.cli.console import set_up_logging
from textmover.cli.options.systems import SYSTEMS, inputs_of, scored_systems
from textmover.files import check_output, write_output
from textmover.meta_evaluation import compare_systems
from textmover.report.systems.comparison import Comparison, as_json, as_latex, print_comparison
from textmover.report.systems.comparison_page import as_html
from textmover.report.templating import check_jinja
from textmover.scoring.scorer_options import take_default
from textmover.types import InputError

SUFFIXES = {".json": "json", ".tex": "latex", ".html": "html", ".htm": "html"}
"""Formats by the suffix of the output."""


OPTIONS = (
    """
--tie X (default 0): largest difference of two scores that counts as a tie; 0
--segments N (default 5, at least 0): segments to show on which systems differ most; 5
--format text|json|latex|html: for reading, for programs, for a paper, or a page; by the suffix of --output, else text
--output FILE: write it there instead of printing it; json, latex or html
""",
    *SYSTEMS,
)


def run(options: argparse.Namespace) -> None:
    """Score the systems that the options name, compare them, and print or write what was found."""
    set_up_logging(quiet=True)
    if options.scores is None:
        take_default(options)
    shape = options.format or SUFFIXES.get(Path(options.output or "").suffix.lower(), "text")
    output = None
    if shape == "html":
        check_jinja()
    if options.output is not None:
        if shape == "text":
            raise InputError(
                f"Expected `--output` to end in .json, .tex or .html, or --format to name one, but got "
                f"{options.output}: text is printed only."
            )
        output = check_output(options.output, inputs_of(options))
    given = scored_systems(options)
    found = compare_systems(
        given.scores,
        samples=options.samples,
        trials=options.trials,
        seed=options.seed,
        tie=options.tie,
        higher_is_better=given.higher_is_better,
    )
    comparison = Comparison(found, given.rows, given.lines, given.signature, options.segments, _command(options))
    if shape == "text":
        print_comparison(comparison, signature=not options.quiet)
        return
    text = {"json": as_json, "latex": as_latex, "html": as_html}[shape](comparison)
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(text, output)


def _command(options: argparse.Namespace) -> str:
    return shlex.join(["textmover", *options.command_line])
