"""``textmover rank``: rank systems; systems that do not differ significantly share a rank."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from textmover.cli.options.input_tables import first_set_flag, source_of
from textmover.cli.options.scored_systems import chosen_output, printed_to, refuse_metric, score_texts, scored_systems
from textmover.meta_evaluation import rank_systems, ranking_agreement
from textmover.meta_evaluation.statistics.score_arrays import Vector, group_positions
from textmover.readers.column_flags import COLUMN_FLAGS, errors_with_flag_names
from textmover.readers.system_scores import READY, SystemTable, read_system_table, table_of_systems
from textmover.report.paper_sentences import rank_tests
from textmover.report.systems.ranking import Ranking, as_csv, as_html, as_json, as_latex, print_ranking
from textmover.scoring.scorer_from_options import references_of, take_default
from textmover.types import InputError

CHUNK = 4096  # texts scored in one call

LONG_TABLE_OPTIONS = ("system_separator", "item_column", "group", "score_column", "metric_column")
"""Options that need a table with one row per output."""

FLAGS = {**COLUMN_FLAGS, "human": "--score-column", **{one: f"--{one}-column" for one in ("system", "item", "metric")}}
"""Flag by argument of the reader of such a table."""

SUFFIXES = {".txt": "text", ".json": "json", ".tex": "latex", ".csv": "csv", ".html": "html", ".htm": "html"}
"""Format by suffix of the output."""


def run(options: argparse.Namespace) -> None:
    """Score and rank the systems that the options name, and print or write the tables."""
    form, output = chosen_output(options, SUFFIXES)
    scored = _read_long_table(options) if options.system_column is not None else _score_systems(options)
    table = scored.table
    settings = {name: getattr(options, name) for name in ("test", "samples", "trials", "seed", "fewest")}
    columns = (table.systems, table.items, table.groups)
    ranking = Ranking(
        rank_systems(scored.scores, *columns, higher_is_better=scored.higher_is_better, **settings),
        signature=scored.signature,
        tests=rank_tests(options),
        test=options.test,
        fewest=options.fewest,
        command=shlex.join(["textmover", *options.command_line]),
        warnings=scored.warnings,
        lone=table.lone,
    )
    if table.human is not None:
        people = rank_systems(table.human, *columns, **settings)
        ranking = replace(ranking, people=people, agreement=_agreement(scored, table.human, options.seed))
    with printed_to(output):
        if form == "text":
            print_ranking(ranking, signature=not options.quiet)
        else:
            sys.stdout.write({"json": as_json, "latex": as_latex, "csv": as_csv, "html": as_html}[form](ranking))


class _Scored(NamedTuple):
    """Outputs with their scores, ``[n]``, and the signature of the scores."""

    table: SystemTable
    scores: Vector
    signature: str
    higher_is_better: bool
    warnings: list[str]


def _agreement(scored: _Scored, human: Vector, seed: int) -> list[dict[str, float]]:
    groups = scored.table.groups or [""] * len(scored.scores)
    agreements = []
    for rows in group_positions(groups, len(scored.scores)).values():
        names = ([column[row] for row in rows] for column in (scored.table.systems, scored.table.items))
        scores, direction = scored.scores[rows], scored.higher_is_better
        agreements.append(ranking_agreement(scores, human[rows], *names, seed=seed, higher_is_better=direction))
    return agreements


def _score_systems(options: argparse.Namespace) -> _Scored:
    """Score systems that have one file or column each."""
    if flag := first_set_flag(options, *LONG_TABLE_OPTIONS):
        raise InputError(
            f"Expected `{flag}` together with --data and --system-column, but got it alone: name them, or leave it out."
        )
    if options.scores is None:
        take_default(options)
    systems = scored_systems(options)
    table = table_of_systems(systems.scores)
    assert table.scores is not None
    return _Scored(table, table.scores, systems.signature, systems.higher_is_better, systems.warnings)


def _read_long_table(options: argparse.Namespace) -> _Scored:
    """Read, and score if necessary, a table with one row per output of each system."""
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
    with errors_with_flag_names(FLAGS):
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
        return _Scored(table, table.scores, signature, not options.lower_is_better, [])
    return _Scored(table, *score_texts(options, table.hypotheses, table.references, table.systems, CHUNK))
