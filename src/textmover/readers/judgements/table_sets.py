"""Judgement tables, read according to their description."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import numpy as np

from textmover.readers.csv_and_jsonl import named
from textmover.readers.judgements.description import SetDescription, load_description
from textmover.readers.judgements.rows import (
    ALL,
    JudgedText,
    as_text,
    assembled,
    check_unique,
    is_missing,
    number,
    read_cells,
    says_nan,
)
from textmover.readers.lines import COMPRESSIONS
from textmover.readers.public_sets.catalogue import place_of
from textmover.readers.segments import TableRow, joined_groups
from textmover.types import InputError, Judgements, NoReferenceError, plural
from textmover.types.segments import reworded_errors


def read_judgements(
    path: str | Path,
    description: str | Path | SetDescription = "table",
    *,
    name: str | None = None,
    format: str | None = None,
    split: str = "train",
) -> Judgements:
    r"""Read a set of human judgements.

    Args:
        path: A table as for :func:`textmover.data.read_segments`: CSV, TSV, JSON Lines, Parquet or a hub data set.
        description: Column roles: a built-in name, a YAML file or a :class:`SetDescription`.
        name: Name of the set in reports; default: the name in the description, else the file name.
        format: ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``.
        split: Split of a hub or saved data set.

    Returns:
        The judged texts in file order with ratings in float64; excluded rows are counted by reason.

    Raises:
        InputError: If a column is missing, a row is unusable or a duplicate, or no row remains.

    Example:
        >>> path = getfixture("tmp_path") / "ratings.tsv"
        >>> _ = path.write_text("lp\thypothesis\treference\tscore\nde-en\ta cat\tthe cat\t0.5\n")
        >>> judgements = read_judgements(path, SetDescription(groups=("lp",)))
        >>> judgements.groups, judgements.ratings
        (('de-en',), {'score': array([0.5])})
    """
    spec = description if isinstance(description, SetDescription) else load_description(description)
    key = re.compile(r"set `(\w+)` to the name")  # in errors of missing columns: name the place to change the column
    with reworded_errors(lambda said: key.sub(lambda match: f"set {spec.place(match[1])} to the name", said)):
        table = read_cells(path, spec.columns, optional=spec.optional, format=format, split=split)
    texts: list[JudgedText] = []
    left_out: Counter[str] = Counter()
    for row in table.rows:
        reason = _unwanted(row, spec)
        references = () if reason else _references(row, spec)
        if reason or references is None:
            left_out[reason or "no reference"] += 1
        else:
            texts.append(_judged(row, spec, references, table.columns))
    if not texts:
        reasons = ", ".join(f"{count} since {reason}" for reason, count in left_out.items())
        raise InputError(
            f"Expected a row of {path} that {spec.origin} keeps, but got none of {len(table.rows)} ({reasons}): "
            "correct the table or the description."
        )
    if spec.duplicates == "error":
        systems = "" if spec.system is not None else f"name the column of systems with {spec.place('system')}, or "
        check_unique(texts, f"{systems}allow it with {spec.place('duplicates', 'keep')}")
    metrics = [metric for metric, column in spec.scores.items() if column in table.columns]
    judgements = assembled(
        name or spec.name or set_name(path), texts, list(spec.ratings), metrics=metrics, left_out=left_out
    )
    for dimension, ratings in judgements.ratings.items():
        if np.isnan(ratings).all():  # such as a path that does not exist in any row
            raise InputError(
                f"Expected ratings in column {spec.ratings[dimension]!r} of {path}, but got none in "
                f"{plural(len(judgements), 'row')}: correct {spec.place('ratings')}."
            )
    return judgements


def set_name(path: str | Path) -> str:
    """Return the default name of a set: its file name without suffixes."""
    last = Path(place_of(path).removeprefix("hub:"))
    return last.with_suffix("").stem if last.suffix.lower() in COMPRESSIONS else last.stem


def _unwanted(row: TableRow, description: SetDescription) -> str | None:
    for column, values in description.where.items():
        if as_text(row.cells.get(column)) not in values:
            return f"{column} is {'not' if len(values) == 1 else 'none of'} {named(values)}"
    for column, values in description.leave_out.items():
        value = as_text(row.cells.get(column))
        if value in values:
            return f"{column} is {value!r}" if value else f"{column} is empty"
    return None


def _references(row: TableRow, description: SetDescription) -> tuple[str, ...] | None:
    """Return the non-empty references of a row, possibly none if it has a source; ``None`` excludes the row."""
    if not description.references:
        return ()
    try:
        return row.references(description.references)
    except NoReferenceError as error:
        if description.missing_references == "leave out":
            return None
        if description.source and row.optional_text(description.source):
            return ()
        way_out = f"leave out such rows with {description.place('missing_references', 'leave out')}"
        columns = f"column{'s' if len(description.references) > 1 else ''} {named(description.references)}"
        raise InputError(
            f"Expected a reference in {columns} of {row.name}, {row.unit} {row.number}, but got none: add one, or "
            f"{way_out}."
        ) from error


def _judged(
    row: TableRow, description: SetDescription, references: tuple[str, ...], present: Collection[str]
) -> JudgedText:
    def text(column: str | None) -> str:
        return row.group(column) if column is not None and column in present else ""

    groups = [row.group(column) for column in description.groups if column in present]
    return JudgedText(
        place=row.place,
        hypothesis=row.text(description.hypothesis),
        references=references,
        ratings=tuple(_rating(row, description, dimension) for dimension in description.ratings),
        group=joined_groups(groups) if groups else ALL,
        item=text(description.item),
        system=text(description.system),
        source=(description.source and row.optional_text(description.source)) or "",
        scores=tuple(_score(row, column) for column in description.scores.values() if column in present),
    )


def _rating(row: TableRow, description: SetDescription, dimension: str) -> float:
    allow_missing, column = description.missing_ratings == "keep", description.ratings[dimension]
    value = row.cells.get(column)
    steps = [] if is_missing(value) else ["leave the cell empty"]
    if not allow_missing:
        steps.append(f"allow missing ratings with {description.place('missing_ratings', 'keep')}")
    hint = " and ".join(steps)
    if isinstance(value, str) and re.match(r"(?!inf)[^\W\d]", value.strip()) and not is_missing(value):
        hint = f"write words as numbers, name another column of ratings with {description.place('ratings')}, or {hint}"
    rating = number(row, column, missing=allow_missing, hint=hint)
    # Subtract instead of negating, to avoid negative zeros.
    return 0.0 - rating if dimension in description.lower_is_better else rating


def _score(row: TableRow, column: str) -> float:
    """Return a score from the file; NaN for the word nan."""
    value = row.cells.get(column)
    return math.nan if says_nan(value) else number(row, column, missing=False, hint="write nan where there is none")
