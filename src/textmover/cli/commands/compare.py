"""``textmover compare``: which of several systems is better, how sure that is, and where they differ."""

from __future__ import annotations

import argparse
import shlex
import sys

from textmover.cli.options.systems import chosen_output, scored_systems, write
from textmover.meta_evaluation import compare_systems
from textmover.report.systems.comparison import Comparison, as_html, as_json, as_latex, print_comparison
from textmover.scoring.scorer_options import take_default

SUFFIXES = {".json": "json", ".tex": "latex", ".html": "html", ".htm": "html"}  # formats by the suffix of the output


def run(options: argparse.Namespace) -> int:
    """Score the systems that the options name, compare them, and print or write what was found; the exit code."""
    if options.scores is None:
        take_default(options)
    form, output = chosen_output(options, SUFFIXES)
    given = scored_systems(options)
    settings = {name: getattr(options, name) for name in ("samples", "trials", "seed", "tie")}
    found = compare_systems(given.scores, higher_is_better=given.higher_is_better, **settings)
    command = shlex.join(["textmover", *options.command_line])
    comparison = Comparison(found, given.rows, given.lines, given.signature, options.segments, command)
    if form == "text":
        print_comparison(comparison, signature=not options.quiet)
    else:
        write({"json": as_json, "latex": as_latex, "html": as_html}[form](comparison), output)
    if options.fail_if_worse and found.worse:
        sys.stderr.write(f"Worse than {found.systems[0]}: {', '.join(found.worse)}\n")
        return 1
    return 0
