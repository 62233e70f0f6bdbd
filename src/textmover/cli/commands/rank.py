"""``textmover rank``: a table of systems with ranks that they share where no test tells them apart."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from textmover.cli.console import set_up_logging
from textmover.cli.options.systems import (
    READY,
    SYSTEMS,
    inputs_of,
    refuse_metric,
    score_pairs,
    scored_systems,
)
from textmover.files import check_output, write_output
from textmover.meta_evaluation import rank_systems, ranking_agreement
from textmover.meta_evaluation.statistics.scores import group_positions
from textmover.meta_evaluation.systems.ranking import RankTest
from textmover.readers.column_flags import flags_named
from textmover.readers.system_scores import SystemTable, read_system_table
from textmover.report.descriptions import rank_tests
from textmover.report.systems.ranking import Ranking, as_csv, as_html, as_json, as_latex, print_ranking
from textmover.report.templating import check_jinja
from textmover.scoring.scorer_options import load_scorer, take_default
from textmover.types import InputError

logger = logging.getLogger(__name__)

PART = 4096
"""Texts that are scored at a time."""

LONG = ("system_separator", "item_column", "group", "score_column", "metric_column")
"""Options that only a table with a row for each output has a use for."""

FLAGS = {
    "system": "--system-column",
    "item": "--item-column",
    "groups": "--group",
    "human": "--score-column",
    "metric": "--metric-column",
    "hypothesis": "--hypothesis-column",
    "references": "--reference-column",
}
"""The flag behind each argument of the reader of such a table."""

SUFFIXES = {".json": "json", ".tex": "latex", ".csv": "csv", ".html": "html", ".htm": "html"}
"""Formats by the suffix of the output."""


@dataclass(frozen=True, eq=False)
class _Scored:
    """Outputs with their scores.

    Attributes:
        table: What the outputs are of.
        scores: ``[n]``.
        signature: What the scores depend on.
        higher_is_better: False for distances.
    """

    table: SystemTable
    scores: NDArray[np.float64]
    signature: str
    higher_is_better: bool


OPTIONS = (
    f"""
# a table with a row for each output: With --data, instead of a column or a file for each system.
--system-column COLUMN: what produced the row's text
--system-separator TEXT: what stands between the names of systems with the same output, such as +
--item-column COLUMN: what the text is an output for; its references say so if not given
--group COLUMN (repeat): a table for each value of this column, such as a language pair; repeat it for combinations
--score-column COLUMN: human scores, higher is better, to rank by and to compare with
--metric-column COLUMN: scores that are there already, instead of texts
# options
--test {"|".join(get_args(RankTest))} (default randomisation): what sets two systems apart: paired approximate
    randomisation (%(default)s) or paired bootstrap
--fewest N (default 5, at least 2): shared segments below which two systems are not compared; 5
--format text|json|latex|csv|html: for reading, for programs, for a paper, a table, or a page; by the suffix of
    --output, else text
--output FILE: write it there instead of printing it; not text
""",
    *SYSTEMS,
)


def run(options: argparse.Namespace) -> None:
    """Score the systems that the options name, rank them, and print or write the tables."""
    set_up_logging(quiet=True)
    shape = options.format or SUFFIXES.get(Path(options.output or "").suffix.lower(), "text")
    if shape == "html":
        check_jinja()
    output = None
    if options.output is not None:
        if shape == "text":
            raise InputError(
                f"Expected `--output` to end in .json, .tex, .csv or .html, or --format to name one, but got "
                f"{options.output}: text is printed only."
            )
        output = check_output(options.output, inputs_of(options))
    ranking = _ranking(options, _long(options) if options.system_column is not None else _wide(options))
    if shape == "text":
        print_ranking(ranking, signature=not options.quiet)
        return
    text = {"json": as_json, "latex": as_latex, "csv": as_csv, "html": as_html}[shape](ranking)
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(text, output)


def _ranking(options: argparse.Namespace, given: _Scored) -> Ranking:
    """Tables of the systems by their scores, and by people's where these are known."""
    table = given.table
    numbers = {name: getattr(options, name) for name in ("test", "samples", "trials", "seed", "fewest")}
    tables = rank_systems(
        given.scores, table.systems, table.items, table.groups, higher_is_better=given.higher_is_better, **numbers
    )
    ranking = Ranking(
        tables,
        signature=given.signature,
        tests=rank_tests(options),
        test=options.test,
        fewest=options.fewest,
        command=shlex.join(["textmover", *options.command_line]),
        lone=table.lone,
    )
    if table.human is None:
        return ranking
    agreement = []
    groups = [""] * len(given.scores) if table.groups is None else table.groups
    for rows in group_positions(groups, len(given.scores)).values():
        systems, items = ([names[row] for row in rows] for names in (table.systems, table.items))
        found = ranking_agreement(
            given.scores[rows],
            table.human[rows],
            systems,
            items,
            seed=options.seed,
            higher_is_better=given.higher_is_better,
        )
        agreement.append(found)
    people = rank_systems(table.human, table.systems, table.items, table.groups, **numbers)
    return replace(ranking, people=people, agreement=agreement)


def _wide(options: argparse.Namespace) -> _Scored:
    """Systems with a file or a column each."""
    for name in LONG:
        if getattr(options, name) is not None:
            flag = name.replace("_", "-")
            raise InputError(
                f"Expected `--{flag}` together with --data and --system-column, but got it alone: name them, or leave "
                "it out."
            )
    if options.scores is None:
        take_default(options)
    found = scored_systems(options)
    count = len(next(iter(found.scores.values())))
    table = SystemTable(
        systems=[name for name in found.scores for _ in range(count)],
        items=[str(place) for _ in found.scores for place in range(count)],
        groups=None,
        hypotheses=[],
        references=[],
        scores=None,
        human=None,
    )
    return _Scored(table, np.concatenate(list(found.scores.values())), found.signature, found.higher_is_better)


def _long(options: argparse.Namespace) -> _Scored:
    """A table with a row for each output of each system."""
    if options.data is None or options.scores is not None or options.references is not None:
        raise InputError("Expected `--system-column` together with --data alone, but got other files: give one table.")
    if options.names is not None:
        raise InputError("Expected the names of the systems in their column, but got `--names`: leave it out.")
    if len(options.hypothesis_column or ()) > 1:
        raise InputError("Expected one --hypothesis-column together with --system-column, but got several: name one.")
    if options.system_separator == "":
        raise InputError("Expected `--system-separator` to be a text such as +, but got an empty one: leave it out.")
    if options.metric_column is None:
        if options.lower_is_better:
            raise InputError(
                "Expected `--lower-is-better` together with --metric-column, but got it alone: leave it out."
            )
        take_default(options)
    else:
        refuse_metric(options, "--metric-column")
    with flags_named(FLAGS):
        table = read_system_table(
            options.data,
            system=options.system_column,
            separator=options.system_separator,
            item=options.item_column,
            groups=tuple(dict.fromkeys(options.group or ())),
            human=options.score_column,
            metric=options.metric_column,
            hypothesis=(options.hypothesis_column or ["hypothesis"])[0],
            references=tuple(dict.fromkeys(options.reference_column or ["reference"])),
            format=options.data_format,
            split=options.split or "train",
        )
    if table.scores is not None:
        signature = f"{READY}:{Path(options.data).name}|column:{options.metric_column}"
        return _Scored(table, table.scores, signature, not options.lower_is_better)
    scorer = load_scorer(options)
    scores = score_pairs(scorer, table.hypotheses, table.references, parts=PART, shown=not options.quiet)
    return _Scored(table, scores, str(scorer.signature), scorer.metric.higher_is_better)
