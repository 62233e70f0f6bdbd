"""``textmover compare``: compare systems with significance tests, and show where they differ."""

from __future__ import annotations

import argparse
import shlex
import sys

from textmover.cli.options.scored_systems import chosen_output, printed_to, scored_systems
from textmover.meta_evaluation import compare_systems
from textmover.report.systems.comparison import Comparison, as_html, as_json, as_latex, print_comparison
from textmover.scoring.scorer_from_options import take_default

SUFFIXES = {".txt": "text", ".json": "json", ".tex": "latex", ".html": "html", ".htm": "html"}  # by suffix


def run(options: argparse.Namespace) -> int:
    """Score and compare the systems that the options name, print or write the result, and return the exit code."""
    if options.scores is None:
        take_default(options)
    form, output = chosen_output(options, SUFFIXES)
    systems = scored_systems(options)
    settings = {name: getattr(options, name) for name in ("samples", "trials", "seed", "tie")}
    result = compare_systems(systems.scores, higher_is_better=systems.higher_is_better, **settings)
    command = shlex.join(["textmover", *options.command_line])
    about = systems.signature, options.segments, command, systems.warnings
    comparison = Comparison(result, systems.rows, systems.lines, *about)
    with printed_to(output):
        if form == "text":
            print_comparison(comparison, signature=not options.quiet)
        else:
            sys.stdout.write({"json": as_json, "latex": as_latex, "html": as_html}[form](comparison))
    if options.fail_if_worse and result.worse:
        sys.stderr.write(f"Worse than {result.systems[0]}: {', '.join(result.worse)}\n")
        return 1
    return 0
