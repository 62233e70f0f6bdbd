"""Metric scores that were computed elsewhere, aligned with the texts of a judgement set."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from textmover.readers.csv_and_jsonl import named, without_blank_end
from textmover.readers.judgements.rows import CellTable, as_text, number, read_cells, says_nan
from textmover.readers.judgements.table_sets import set_name
from textmover.readers.segments import FINITE, NO_GROUP, OptionalColumn, check_columns, finite, quoted_value, read_lines
from textmover.readers.tables import is_table
from textmover.types import InputError, Judgements, plural
from textmover.types.word_splitting import folded

ROLES = ("group", "item", "system")  # columns that identify the texts of a set

NOT_SCORES = re.compile(r"hypothesis|reference(_\d+)?|source|human_.*")
"""Columns of texts and ratings in score tables of `textmover evaluate`."""

CORRECT = "correct it, or write nan where there is no score"

Key = tuple[str, ...]


def as_written(text: str) -> str:
    """Return a text as tables of `textmover evaluate` hold it: runs of tabs and line breaks are a space."""
    return re.sub(r"[\t\r\n]+", " ", text)


class ReadyScores(NamedTuple):
    """Metric scores for the texts of a judgement set.

    Attributes:
        scores: By metric name, float64 ``[n]`` in the order of the set; NaN where the file has nan.
        missing: Number of NaN scores, by metric name.
    """

    scores: dict[str, np.ndarray]
    missing: dict[str, int]


def read_scores(
    path: str | Path,
    judgements: Judgements,
    *,
    metrics: Sequence[str] | None = None,
    keys: Mapping[str, str] | None = None,
    name: str | None = None,
    format: str | None = None,
    split: str = "train",
) -> ReadyScores:
    r"""Read scores that were computed elsewhere and align them with the texts of a set.

    A plain file has one number a line, in the order of the set. A table has a column for each metric. If it has a
    column ``item`` (and ``group``, ``system``), rows are matched by these and may have any order. Otherwise they must
    be in the order of the set, and its columns ``group`` and ``system``, if any, must match the set. So must columns
    of texts and ratings, named as `textmover evaluate` writes them.

    Args:
        path: A plain file, or a table as for :func:`textmover.data.read_segments`.
        judgements: The set that was scored.
        metrics: Score columns; ``None`` for all except the keys and the columns ``hypothesis``, ``reference``,
            ``reference_2``, …, ``source`` and ``human_…`` of `textmover evaluate`. For tables only.
        keys: Columns of ``group``, ``item`` and ``system`` if they have other names. For tables only.
        name: Metric name of a plain file; default: the file name. For plain files only.
        format: ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``hub``; from the suffix if ``None``.
        split: Split of a hub or saved data set.

    Raises:
        InputError: If scores and texts do not match, or a score is neither a finite number nor the word nan.

    Example:
        >>> path = getfixture("tmp_path") / "bleu.txt"
        >>> _ = path.write_text("0.5\nnan\n")
        >>> judgements = Judgements("mine", ("a", "b"), (("c",), ("d",)), {}, ("all", "all"))
        >>> read_scores(path, judgements)
        ReadyScores(scores={'bleu': array([0.5, nan])}, missing={'bleu': 1})
    """
    if format is None and not is_table(path):
        if metrics is not None or keys is not None:
            raise InputError(f"Expected a table to take columns of, but got the plain file {path}: leave them out.")
        lines = list(without_blank_end(read_lines(path), lambda line: not line.strip()))
        _check_count(path, len(lines), judgements)
        numbers = [_score(line, f"line {place} of {path}") for place, line in enumerate(lines, start=1)]
        scores = {name or set_name(path): np.array(numbers)}
    else:
        if name is not None:
            raise InputError(f"Expected a plain file to give a `name`, but got the table {path}: use `metrics`.")
        table = read_cells(path, None, format=format, split=split)
        columns = _key_columns(path, table, keys)
        order = _order(path, table, columns, judgements)
        _check_texts(table, judgements, order, metrics or ())
        scores = _metric_scores(path, table, columns, metrics, order)
    return ReadyScores(scores, {metric: int(np.isnan(values).sum()) for metric, values in scores.items()})


def _score(value: object, place: str, way_out: str = CORRECT) -> float:
    """Return a finite number, or NaN for the word nan."""
    if says_nan(value):
        return math.nan
    return finite(value, place, way_out, expected=f"{FINITE} or nan", got=named([str(value)]))


def _check_count(path: str | Path, count: int, judgements: Judgements) -> None:
    if count != len(judgements):
        raise InputError(
            f"Expected {plural(len(judgements), 'score')} in {path}, one for each text of {judgements.name}, but got "
            f"{count}: give one a line in the order of the set, or a table with the columns item and system."
        )


def _key_columns(path: str | Path, table: CellTable, keys: Mapping[str, str] | None) -> dict[str, str]:
    if unknown := set(keys or {}) - set(ROLES):
        raise InputError(
            f"Expected `keys` to name columns of {', '.join(ROLES)}, but got {named(sorted(unknown))}: correct it."
        )
    keys = {
        role: one for role, one in (keys or {}).items() if one in table.columns or not isinstance(one, OptionalColumn)
    }
    check_columns(str(path), table.columns, [(f"keys[{role!r}]", column) for role, column in keys.items()])
    columns = {role: keys.get(role, role) for role in ROLES}
    return {role: column for role, column in columns.items() if column in table.columns}


def _metric_scores(
    path: str | Path, table: CellTable, keys: Mapping[str, str], metrics: Sequence[str] | None, order: np.ndarray
) -> dict[str, np.ndarray]:
    if metrics is not None:
        check_columns(str(path), table.columns, [("metrics", metric) for metric in metrics])
    way_out = CORRECT
    if metrics is None:
        others = {*ROLES, *keys.values()}
        metrics = [name for name in table.columns if name not in others and not NOT_SCORES.fullmatch(name)]
        way_out += "; if the column holds no scores, name those that do with `metrics`, and those of keys with `keys`"
    if not metrics:
        raise InputError(f"Expected {path} to have a column of scores, but got {named(table.columns)}: add one.")
    return {
        metric: np.array([_score(row.cells.get(metric), row.cell(metric), way_out) for row in table.rows])[order]
        for metric in metrics
    }


def text_columns(judgements: Judgements) -> dict[str, Sequence[str]]:
    """Return the texts of a set by column: hypothesis, reference (reference_2, … for further ones), any source."""
    columns: dict[str, Sequence[str]] = {"hypothesis": judgements.hypotheses}
    for place in range(max(map(len, judgements.references), default=0)):
        name = f"reference_{place + 1}" if place else "reference"
        columns[name] = [one[place] if place < len(one) else "" for one in judgements.references]
    return columns if judgements.sources is None else {**columns, "source": judgements.sources}


def _check_texts(table: CellTable, judgements: Judgements, order: np.ndarray, metrics: Sequence[str]) -> None:
    """Raise an error if a text or a rating of a row is not that of the set; Unicode form and spaces may differ."""
    size = len(judgements)
    texts = text_columns(judgements)
    ratings = {f"human_{name}": values.tolist() for name, values in judgements.ratings.items()}
    for column in (name for name in table.columns if name in {**texts, **ratings} and name not in metrics):
        for place, row in zip(range(size), (table.rows[one] for one in order), strict=True):
            if column in texts:
                expected: object = texts[column][place]
                alike = folded(as_text(row.cells.get(column))) == folded(texts[column][place])
            else:
                expected = ratings[column][place]
                rating = number(row, column, missing=True, hint="correct it")
                alike = math.isclose(rating, ratings[column][place], rel_tol=1e-5, abs_tol=1e-9)
                alike |= math.isnan(rating) or math.isnan(ratings[column][place])
            if not alike:
                raise InputError(
                    f"Expected {quoted_value(expected)} in {row.cell(column)}, as in {judgements.name}, but got "
                    f"{quoted_value(row.cells.get(column))}: put the rows in order, add a column of items, "
                    f"or rename {column}."
                )


def _order(path: str | Path, table: CellTable, columns: Mapping[str, str], judgements: Judgements) -> np.ndarray:
    columns_of_set = {"group": judgements.groups, "item": judgements.items, "system": judgements.systems}
    for role, column in columns.items():
        if columns_of_set[role] is None:
            raise InputError(
                f"Expected {path} without the column {column!r}, since {judgements.name} names no {role}s, but got it: "
                f"name the column of its {role}s, or remove this one and give the rows in the order of the set."
            )
    set_keys = list(zip(*(map(as_written, columns_of_set[role] or ()) for role in columns), strict=True))
    unnamed = {"group": NO_GROUP}  # how the set calls an empty cell
    keys = [
        tuple(as_written(row.group(column) or unnamed.get(role, "")) for role, column in columns.items())
        for row in table.rows
    ]
    if "item" in columns and keys != set_keys:  # rows in order need no unique keys
        return _places(table, columns, keys, set_keys, judgements)
    _check_count(path, len(table.rows), judgements)
    for row, key, expected in zip(table.rows, keys, set_keys, strict=False):
        if key != expected:
            raise InputError(
                f"Expected {_shown(columns, expected)} in {row.place}, the order of {judgements.name}, but got "
                f"{_shown(columns, key)}: put the rows in order, or add a column of items."
            )
    return np.arange(len(table.rows))


def _places(
    table: CellTable, columns: Mapping[str, str], keys: Sequence[Key], set_keys: Sequence[Key], judgements: Judgements
) -> np.ndarray:
    """Return the table row of each text of the set, matched by unique keys."""
    places = {key: place for place, key in enumerate(set_keys)}
    if len(places) < len(set_keys):
        key = next(key for place, key in enumerate(set_keys) if places[key] != place)
        raise InputError(
            f"Expected columns that tell the texts of {judgements.name} apart, but got {set_keys.count(key)} texts for "
            f"{_shown(columns, key)}: add a column of the group or system, or give the scores in the order of the set."
        )
    order = np.full(len(set_keys), -1)
    for place, (row, key) in enumerate(zip(table.rows, keys, strict=True)):
        if key not in places:
            raise InputError(
                f"Expected a text of {judgements.name} in {row.place}, but got {_shown(columns, key)}: correct the "
                "row or remove it."
            )
        before = order[places[key]]
        if before >= 0:
            raise InputError(
                f"Expected one row for {_shown(columns, key)}, but got {table.rows[before].place} and "
                f"{row.place}: remove one of them."
            )
        order[places[key]] = place
    if missing := [key for key, place in zip(set_keys, order, strict=True) if place < 0]:
        raise InputError(
            f"Expected a score in {table.rows[0].name} for every text of {judgements.name}, but got none for "
            f"{len(missing)}, the first {_shown(columns, missing[0])}: add them, with nan where there is no score."
        )
    return order


def _shown(columns: Mapping[str, str], key: Key) -> str:
    """Show a key; names beyond ASCII also by their code points, since equal looks can differ."""
    looks = [repr(value) if value.isascii() else f"{value!r} ({value!a})" for value in key]
    return ", ".join(f"{role} {look}" for role, look in zip(columns, looks, strict=True))
