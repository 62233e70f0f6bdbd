"""Options that say what the columns of a table mean, tables read by them, and flags in the place of arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from textmover.readers.column_flags import COLUMN_OPTIONS, flags_named
from textmover.readers.segments import Columns, read_segments
from textmover.types import InputError, Segment


def add_column_options(parser: argparse.ArgumentParser, *, score: bool, systems: bool = False) -> None:
    """Add the options that say what the columns of a table mean.

    Args:
        parser: The command's parser.
        score: Whether human scores are wanted.
        systems: Whether there may be several columns of texts to judge.
    """
    parser.add_argument(
        "--hypothesis-column",
        action="append" if systems else "store",
        metavar="COLUMN",
        help="texts to judge; 'hypothesis' if not given" + ("; repeat it for several systems" if systems else ""),
    )
    parser.add_argument(
        "--reference-column",
        action="append",
        metavar="COLUMN",
        help="references; 'reference' if not given; repeat it for several columns",
    )
    if score:
        parser.add_argument("--score-column", metavar="COLUMN", help="human scores; 'score' if not given")
    add_split_option(parser)


def add_split_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which part of a data set of the hub is meant."""
    parser.add_argument("--split", metavar="NAME", help="split of a hub data set; 'train' if not given")


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what a table is whose name does not."""
    parser.add_argument(
        "--data-format",
        choices=("csv", "tsv", "jsonl", "parquet"),
        help="what --data is; from its suffix if not given",
    )


def refuse_table_options(options: argparse.Namespace, flag: str) -> None:
    """Refuse options that only a table has a use for, where text files are given by ``flag``."""
    given = [
        name
        for name in (*COLUMN_OPTIONS, "data_format", "missing_references")
        if getattr(options, name, None) is not None
    ]
    if given:
        raise InputError(
            f"Expected `--{given[0].replace('_', '-')}` together with --data, but got {flag}: lines have no columns, "
            "so leave it out."
        )


def read_tables(paths: Sequence[str], options: argparse.Namespace, *, score: bool) -> list[list[Segment]]:
    """The segments of each file, by the columns that the options name."""
    columns = Columns(
        hypothesis=options.hypothesis_column or "hypothesis",
        references=tuple(dict.fromkeys(options.reference_column or ["reference"])),
        score=(options.score_column or "score") if score else None,
        groups=tuple(dict.fromkeys(getattr(options, "group", None) or ())),
    )
    with flags_named():
        return [read_segments(path, columns, split=options.split or "train") for path in paths]
