"""``textmover rank``: a table of systems with ranks that they share where no test tells them apart."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from textmover.cli.options.columns import first_given, source_of
from textmover.cli.options.systems import chosen_output, refuse_metric, score_texts, scored_systems, write
from textmover.meta_evaluation import rank_systems, ranking_agreement
from textmover.meta_evaluation.statistics.scores import Vector, group_positions
from textmover.readers.column_options import COLUMN_FLAGS, flags_named
from textmover.readers.system_outputs import READY, SystemTable, read_system_table, table_of_systems
from textmover.report.descriptions import rank_tests
from textmover.report.systems.ranking import Ranking, as_csv, as_html, as_json, as_latex, print_ranking
from textmover.scoring.scorer_options import references_of, take_default
from textmover.types import InputError

PART = 4096  # texts that are scored at a time

LONG = ("system_separator", "item_column", "group", "score_column", "metric_column")
"""Options that only a table with a row for each output has a use for."""

FLAGS = {**COLUMN_FLAGS, "human": "--score-column", **{one: f"--{one}-column" for one in ("system", "item", "metric")}}
"""The flag behind each argument of the reader of such a table."""

SUFFIXES = {".json": "json", ".tex": "latex", ".csv": "csv", ".html": "html", ".htm": "html"}
"""Formats by the suffix of the output."""


def run(options: argparse.Namespace) -> None:
    """Score the systems that the options name, rank them, and print or write the tables."""
    form, output = chosen_output(options, SUFFIXES)
    given = _long(options) if options.system_column is not None else _wide(options)
    table = given.table
    settings = {name: getattr(options, name) for name in ("test", "samples", "trials", "seed", "fewest")}
    columns = (table.systems, table.items, table.groups)
    ranking = Ranking(
        rank_systems(given.scores, *columns, higher_is_better=given.higher_is_better, **settings),
        signature=given.signature,
        tests=rank_tests(options),
        test=options.test,
        fewest=options.fewest,
        command=shlex.join(["textmover", *options.command_line]),
        lone=table.lone,
    )
    if table.human is not None:
        people = rank_systems(table.human, *columns, **settings)
        ranking = replace(ranking, people=people, agreement=_agreement(given, table.human, options.seed))
    if form == "text":
        print_ranking(ranking, signature=not options.quiet)
    else:
        write({"json": as_json, "latex": as_latex, "csv": as_csv, "html": as_html}[form](ranking), output)


class _Scored(NamedTuple):
    """Outputs with their scores, ``[n]``, and what these depend on."""

    table: SystemTable
    scores: Vector
    signature: str
    higher_is_better: bool


def _agreement(given: _Scored, human: Vector, seed: int) -> list[dict[str, float]]:
    groups = given.table.groups or [""] * len(given.scores)
    found = []
    for rows in group_positions(groups, len(given.scores)).values():
        names = ([column[row] for row in rows] for column in (given.table.systems, given.table.items))
        scores, direction = given.scores[rows], given.higher_is_better
        found.append(ranking_agreement(scores, human[rows], *names, seed=seed, higher_is_better=direction))
    return found


def _wide(options: argparse.Namespace) -> _Scored:
    """Systems with a file or a column each."""
    if alone := first_given(options, *LONG):
        raise InputError(
            f"Expected `{alone}` together with --data and --system-column, but got it alone: name them, or leave it "
            "out."
        )
    if options.scores is None:
        take_default(options)
    found = scored_systems(options)
    table = table_of_systems(found.scores)
    assert table.scores is not None
    return _Scored(table, table.scores, found.signature, found.higher_is_better)


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
            references=references_of(options),
            source=source_of(options),
            format=options.data_format,
            split=options.split or "train",
        )
    if table.scores is not None:
        signature = f"{READY}:{Path(options.data).name}|column:{options.metric_column}"
        return _Scored(table, table.scores, signature, not options.lower_is_better)
    return _Scored(table, *score_texts(options, table.hypotheses, table.references, table.systems, PART))
