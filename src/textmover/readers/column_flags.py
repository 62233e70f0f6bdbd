"""Command-line options for files and columns, and error messages that name flags instead of arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager

from textmover.types.segments import InputError, reworded_errors

COLUMN_OPTIONS = ("hypothesis_column", "reference_column", "source_column", "score_column", "split")  # of a table

COLUMN_FLAGS = {
    "hypothesis": "--hypothesis-column",
    "references": "--reference-column",
    "source": "--source-column",
    "score": "--score-column",
    "groups": "--group",
    "annotator": "--annotator-column",
    "missing_references": "--missing-references",
    "keep": "--keep-columns",
    "format": "--data-format",
}
"""Flag of each field of :class:`~textmover.readers.segments.Columns`."""

INPUTS = ("input", "hypotheses", "references", "sources", "data", "scores", "parses", "fit_on")  # options with files


def check_inputs(options: argparse.Namespace) -> None:
    """Raise an error for an input that can be read once but is named twice, and for a split of tables without any."""
    from textmover.readers.lines import check_once

    values = [getattr(options, name, None) for name in INPUTS if name != "sources" or not getattr(options, "texts", ())]
    check_once([path for value in values for path in ([value] if isinstance(value, str) else value or ())])
    if getattr(options, "split", None) is not None:
        from textmover.readers.tables import check_split

        given = (getattr(options, name, None) for name in ("data", "scores", "input", "hypotheses"))
        if tables := next(filter(None, given), None):
            check_split("--split", options.split, [tables] if isinstance(tables, str) else tables)


def errors_with_flag_names(flags: Mapping[str, str] = COLUMN_FLAGS) -> AbstractContextManager[None]:
    """Name command-line flags in errors in place of the column fields or arguments behind them."""

    def reword(said: str) -> str:
        said = re.sub(r"`([^`]+)`", lambda name: f"`{flags.get(name[1], name[1])}`", said)
        written = re.compile(r"\b([a-z_]+)='([^']*)'")  # as in Python
        return written.sub(lambda one: f"`{flags[one[1]]} {one[2]}`" if one[1] in flags else one[0], said)

    return reworded_errors(reword)


def files_of(options: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return files of hypotheses and of references from -i or from --hypotheses and --references; empty for a table."""
    if options.references is not None and options.hypotheses is None:
        raise InputError("Expected hypotheses with `--references`, but got none: add -t FILE.")
    if options.input is None:
        return tuple(options.hypotheses or ()), tuple(options.references or ())
    if len(options.input) < 2 and options.sources is None:
        from textmover.readers.tables import is_table

        way_out = "give a table with --data" if is_table(options.input[0]) else "add a second file"
        raise InputError(f"Expected hypotheses and references after -i, but got {options.input[0]} alone: {way_out}.")
    return (options.input[0],), tuple(options.input[1:])
