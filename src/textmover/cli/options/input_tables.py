"""Read texts and tables from the options that name files and columns."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from textmover.readers.column_flags import COLUMN_OPTIONS, errors_with_flag_names, files_of
from textmover.readers.row_streams import GivenTexts, Rows, TableFile, TextFiles
from textmover.readers.segments import Columns, read_segments
from textmover.scoring.scorer_from_options import references_of, source_column
from textmover.types import InputError, Segment


def source_of(options: argparse.Namespace) -> str | None:
    """Return the column of sources, or their file without a table."""
    if options.data is None:
        return options.sources
    if options.sources is not None:
        raise InputError("Expected `--source-column` together with --data, but got --sources: name a column.")
    return source_column(options)


def rows_of(options: argparse.Namespace) -> Rows:
    """Return the rows of the texts, the text files or the table that the options name."""
    if options.input is None and options.hypotheses is None and options.data is None and options.references is None:
        refuse_table_options(options, "two texts")
        return GivenTexts(tuple(options.texts), options.sources)
    if options.texts:
        raise InputError("Expected either two texts or files, but got both: leave one out.")
    files = files_of(options)
    policies: tuple[Any, Any] = options.on_error, options.missing_references or "error"
    if options.data is None:
        refuse_table_options(options, "--hypotheses" if options.input is None else "-i")
        return TextFiles(*files, *policies, options.sources)
    return TableFile(
        options.data,
        tuple(options.hypothesis_column or ["hypothesis"]),
        references_of(options),
        options.data_format,
        options.split or "train",
        *policies,
        source=source_of(options),
        keep=tuple(dict.fromkeys(options.keep_columns or ())),
    )


def first_set_flag(options: argparse.Namespace, *names: str) -> str | None:
    """Return the flag of the first of these options that was set; ``None`` if none was."""
    values = {name: getattr(options, name, None) for name in names}
    set_names = [name for name, value in values.items() if value is not None and value is not False]  # 0 counts as set
    return f"--{set_names[0].replace('_', '-')}" if set_names else None


def refuse_table_options(options: argparse.Namespace, flag: str, names: Sequence[str] = COLUMN_OPTIONS) -> None:
    """Raise :class:`InputError` for options that need a table; ``flag`` names the input that was given instead."""
    if option := first_set_flag(options, *names, "split", "data_format", "keep_columns"):
        raise InputError(
            f"Expected `{option}` together with --data, but got {flag}: lines have no columns, so leave it out."
        )


def read_tables(paths: Sequence[str], options: argparse.Namespace) -> list[list[Segment]]:
    """Read the rated segments of each file from the columns that the options name."""
    columns = Columns(
        hypothesis=options.hypothesis_column or "hypothesis",
        references=references_of(options),
        source=source_column(options),
        score=options.score_column or "score",
        groups=tuple(dict.fromkeys(getattr(options, "group", None) or ())),
    )
    with errors_with_flag_names():
        return [read_segments(path, columns, split=options.split or "train") for path in paths]
