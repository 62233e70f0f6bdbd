"""System outputs and segment scores: tables with a column or a row for each system, or one file for each system."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.readers.csv_and_jsonl import named, other_separator, without_blank_end
from textmover.readers.judgements.rows import CellTable, as_text, check_names, read_cells
from textmover.readers.lines import check_equal_lengths, usable
from textmover.readers.row_streams import check_distinct
from textmover.readers.segments import TableRow, as_number, finite, joined_groups, named_fields, read_lines, read_rows
from textmover.readers.tables import is_table
from textmover.types import InputError, plural

SCORE, SCORES, SYSTEMS, FLAGS = "score", "scores", "systems", "flags"
"""Keys of ``textmover score``: score of a row, list of scores, systems of a JSON object, and flags."""

KEYS = re.compile(r"((item|seg|segment|doc|document|sentence|line|row)_?)?id|item|line|segment|source|reference(_\d+)?")
"""Columns that say which segment a row is, and are no scores."""

READY = "scores of a file"  # prefix of the signature of scores that were computed elsewhere

Vector = NDArray[np.float64]


class SystemScores(NamedTuple):
    """Segment scores of systems."""

    scores: dict[str, Vector]  # by column or file name, float64 ``[n]`` each
    lines: tuple[int, ...]  # line or row number of each segment, ``n`` of them
    signature: str = ""  # metric signature, if the file contains it
    rows: Sequence[TableRow] = ()  # rows of the table, in the order of the scores


def read_system_scores(
    paths: Sequence[str], columns: Sequence[str] | None = None, *, format: str | None = None, split: str = "train"
) -> SystemScores:
    """Read segment scores of systems from one file with a column for each system, or from one file for each system."""
    check_distinct(paths)
    check_distinct(columns or ())
    tables = [_read(path, columns, format, split) for path in paths]
    if len(tables) == 1:
        return tables[0]
    scores = {}
    for path, table in zip(paths, tables, strict=True):
        if len(table.scores) > 1:
            raise InputError(
                f"Expected the scores of one system in each of {len(paths)} files, but got {named(list(table.scores))} "
                f"in {path}: name one of them with `columns`, or give that file alone."
            )
        scores[path] = next(iter(table.scores.values()))
    check_equal_lengths(scores)
    for table in tables[1:]:
        check_same_segments(tables[0], table)
    signatures = {table.signature for table in tables}
    return SystemScores(scores, tables[0].lines, signatures.pop() if len(signatures) == 1 else "")


def check_same_segments(first: SystemScores, second: SystemScores) -> None:
    """Raise an error if a column that both tables have tells that their rows are not of the same segments."""
    present = [dict.fromkeys(name for row in table.rows for name in row.cells) for table in (first, second)]
    for column in (name for name in present[0] if name in present[1] and name not in (*first.scores, *second.scores)):
        one, other = ([as_text(row.cells.get(column)) for row in table.rows] for table in (first, second))
        keys = KEYS.fullmatch(column) or (len(set(one)) == len(one) and sorted(one) == sorted(other))
        place = next((place for place, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), None)
        if keys and place is not None:
            raise InputError(
                f"Expected rows of the same segments, but got {column} {one[place]!r} in {first.rows[place].place} and "
                f"{other[place]!r} in {second.rows[place].place}: sort both files alike, or give one table that "
                "holds both."
            )


def digest_signature(paths: Sequence[str], scores: SystemScores) -> str:
    """Return a signature for scores without a metric signature: file names and the start of a digest."""
    digest = hashlib.sha256(np.stack(list(scores.scores.values())).astype("<f8").tobytes()).hexdigest()[:12]
    return f"{READY}:{','.join(Path(path).name for path in paths)}|sha256:{digest}"


def _read(path: str, columns: Sequence[str] | None, format: str | None, split: str) -> SystemScores:
    if format is None and not is_table(path):
        lines = list(without_blank_end(read_lines(path), lambda line: not line.strip()))
        if not lines:
            raise InputError(f"Expected {path} to hold a score a line, but it holds none: give another file.")
        headed = "\t" in lines[0] or (len(lines) > 1 and not _is_number(lines[0]) and _is_number(lines[1]))
        if not headed:
            if columns is not None:
                raise InputError(
                    f"Expected `columns` of a table, but got {path}, which has one score a line: leave them out."
                )
            numbers = [_score(line, f"line {number} of {path}") for number, line in enumerate(lines, start=1)]
            return SystemScores({path: np.array(numbers)}, tuple(range(1, len(lines) + 1)))
        if path == "-":
            raise InputError(
                "Expected a file, or the format of standard input (-), but got a table without either: name its format."
            )
        format = "tsv"  # format of `textmover score` for several systems
    # The systems of one JSON object are not columns, so read all columns first.
    table = read_cells(path, None, format=format, split=split)
    if len(table.rows) == 1:
        whole = _whole_object(table.rows[0], columns)
        if whole is not None:
            return whole
    return _columns(path, table, columns)


def _columns(path: str, table: CellTable, columns: Sequence[str] | None) -> SystemScores:
    _check_known("column", columns, table.columns, path)
    if columns is None:
        _check_header(path, table.columns)
    lines = tuple(row.number for row in table.rows)
    others = [one for one in table.columns if one != FLAGS and not KEYS.fullmatch(one)]
    names = tuple(columns or ([SCORE] if SCORE in table.columns else others or table.columns))
    first_cell = table.rows[0].cells.get(names[0])
    if len(names) == 1 and isinstance(first_cell, list):  # JSON Lines of several systems
        return SystemScores(_listed(table.rows, names[0], len(first_cell)), lines, rows=table.rows)
    way_out = "correct it" if columns is not None else "correct it, or name the columns that hold scores with `columns`"
    if separated := other_separator(table.columns):
        way_out = f"its header is {separated}"
    scores = {
        name: np.array([_score(row.cells.get(name), row.cell(name), way_out) for row in table.rows]) for name in names
    }
    return SystemScores(scores, lines, rows=table.rows)


def _check_header(path: str, names: Sequence[str]) -> None:
    """Raise an error if the first line holds scores; numbers from 0 or 1 on are names, as pandas writes them."""
    numbers = list(map(as_number, names))
    if not any(map(math.isnan, numbers)) and numbers not in [[*range(one, len(names) + one)] for one in (0, 1)]:
        raise InputError(
            f"Expected {path} to begin with the names of its columns, but got {named(names)}: add such a line, let the "
            "name of a file with one score a line end in .txt, or name the columns with `columns` if these are names."
        )


def _listed(rows: Sequence[TableRow], column: str, count: int) -> dict[str, Vector]:
    """Return scores of unnamed systems, which stand in a list in each row."""
    rows_of_scores = []
    for row in rows:
        cells = row.cells.get(column)
        if not isinstance(cells, list) or len(cells) != count:
            got = f"{len(cells)}" if isinstance(cells, list) else "no list"
            raise InputError(
                f"Expected {plural(count, 'score')} in column {column!r} as in the first row, but got {got} in "
                f"{row.place}: correct it."
            )
        rows_of_scores.append([_score(cell, row.cell(column)) for cell in cells])
    return {f"system {place}": values for place, values in enumerate(np.array(rows_of_scores).T, start=1)}


def _whole_object(row: TableRow, columns: Sequence[str] | None) -> SystemScores | None:
    """Return the scores of a JSON object of ``textmover score --format json``; ``None`` if the row is not one."""
    systems, score_list = row.cells.get(SYSTEMS), row.cells.get(SCORES)
    if isinstance(systems, dict):
        lists = {name: values.get(SCORES) if isinstance(values, dict) else None for name, values in systems.items()}
    elif isinstance(score_list, list):
        lists = {SCORE: score_list}
    else:
        return None
    _check_known("system", columns, lists, row.name)
    scores = {}
    for name in columns or lists:
        values = lists[name]
        if not isinstance(values, list):
            raise InputError(f"Expected a list of scores of {name!r} in {row.name}, but got none: correct the file.")
        place = f"the scores of {name!r} in {row.name}, number"
        scores[name] = np.array([_score(value, f"{place} {number}") for number, value in enumerate(values, start=1)])
    check_equal_lengths(scores)
    count = len(next(iter(scores.values()))) if scores else 0
    if not count:
        raise InputError(f"Expected scores in {row.name}, but it holds none: give another file.")
    signature = row.cells.get("signature")
    return SystemScores(scores, tuple(range(1, count + 1)), signature if isinstance(signature, str) else "")


def _check_known(what: str, names: Sequence[str] | None, valid: Collection[str], place: str) -> None:
    unknown = [name for name in names or () if name not in valid]
    if unknown:
        separated = other_separator(tuple(valid))
        way_out = f", {separated}" if separated else ": set `columns` to the names of the right ones"
        raise InputError(f"Expected a {what} {unknown[0]!r} in {place}, but got {named(valid)}{way_out}.")


def _is_number(text: str) -> bool:
    return not math.isnan(as_number(text)) or text.strip().lower() == "nan"


def _score(value: object, place: str, way_out: str = "correct it") -> float:
    nothing = value is None or value == ""
    if nothing or str(value).strip().lower() == "nan":
        way_out = "systems are compared on segments that all have a score, so leave that segment out of every system"
    return finite(value, place, way_out, got="nothing" if nothing else named([str(value)]))


@dataclass(frozen=True, eq=False)
class SystemTable:
    """Outputs of a table; a row that lists several systems gives one output for each."""

    systems: list[str]  # system of each output
    items: list[str]  # item of each output
    scores: Vector | None  # scores from the table, float64 ``[n]``; ``None`` if texts were read
    hypotheses: Sequence[str] = ()  # texts; empty if scores were read
    references: Sequence[tuple[str, ...]] = ()  # references of each text; empty if scores were read
    groups: list[str] | None = None  # group of each output; ``None`` without group columns
    human: Vector | None = None  # human scores, float64 ``[n]``; ``None`` without their column
    lone: tuple[str, ...] = ()  # groups that were excluded because they hold a single system


def table_of_systems(scores: Mapping[str, Vector]) -> SystemTable:
    """Return the scores of systems on the same segments as a table with a row for each output."""
    return SystemTable(
        systems=[name for name, values in scores.items() for _ in values],
        items=[str(place) for values in scores.values() for place in range(len(values))],
        scores=np.concatenate(list(scores.values())),
    )


def read_system_table(
    path: str,
    *,
    system: str,
    separator: str | None = None,
    item: str | None = None,
    groups: Sequence[str] = (),
    human: str | None = None,
    metric: str | None = None,
    hypothesis: str = "hypothesis",
    references: Sequence[str] = ("reference",),
    source: str | None = None,
    format: str | None = None,
    split: str = "train",
) -> SystemTable:
    """Read a table with a row for each output."""
    texts = metric is None
    if not texts and item is None:
        raise InputError("Expected `item` together with `metric`, since no references are read: name its column.")
    fields = named_fields(system=system, item=item, groups=groups, human=human, metric=metric)
    if texts:
        fields += named_fields(hypothesis=hypothesis, references=references, source=source)
    with contextlib.closing(read_rows(path, fields, format=format, split=split)) as numbered:
        rows = list(usable(row for _, row in numbered))
    pairs = [(row, name) for row in rows for name in _names(row, system, "a system", separator)]
    references_of = {id(row): row.compared(references, source) for row in rows} if texts else {}
    items = [
        _names(row, item, "an item")[0] if item is not None else "\x1f".join(references_of[id(row)].texts)
        for row, _ in pairs
    ]
    row_groups = [joined_groups([row.group(column) for column in groups]) for row, _ in pairs]
    check_names("system", (name for _, name in pairs))
    check_names("group", row_groups)
    indices, lone = _comparable(row_groups, [name for _, name in pairs], path)
    _check_once(pairs, items, row_groups, item)
    outputs = [pairs[index][0] for index in indices]
    return SystemTable(
        systems=[pairs[index][1] for index in indices],
        items=[items[index] for index in indices],
        groups=[row_groups[index] for index in indices] if groups else None,
        hypotheses=[row.text(hypothesis) for row in outputs] if texts else [],
        references=[references_of[id(row)] for row in outputs] if texts else [],
        scores=None if metric is None else np.array([row.score(metric) for row in outputs]),
        human=None if human is None else np.array([row.score(human) for row in outputs]),
        lone=lone,
    )


def _names(row: TableRow, column: str, what: str, separator: str | None = None) -> list[str]:
    value = row.group(column)
    names = [value] if separator is None else value.split(separator)
    if not all(name.strip() for name in names):
        raise InputError(
            f"Expected the name of {what} in column {column!r} of {row.place}, but got {value!r}: name it, or "
            "remove the row."
        )
    return names


def _comparable(groups: Sequence[str], systems: Sequence[str], path: str) -> tuple[list[int], tuple[str, ...]]:
    """Return the indices of outputs in groups with several systems, and the groups with only one system."""
    systems_of: dict[str, set[str]] = {}
    for group, system in zip(groups, systems, strict=True):
        systems_of.setdefault(group, set()).add(system)
    lone = tuple(group for group, members in systems_of.items() if len(members) < 2)
    if len(lone) == len(systems_of):
        name = next(iter(systems_of[lone[0]]))
        raise InputError(
            f"Expected at least two systems to rank, but got {name!r} alone in {path}: give the outputs of another."
        )
    return [index for index, group in enumerate(groups) if group not in lone], lone


def _check_once(
    pairs: Sequence[tuple[TableRow, str]], items: Sequence[str], groups: Sequence[str], item: str | None
) -> None:
    keys = [(group, name, row_item) for group, (_, name), row_item in zip(groups, pairs, items, strict=True)]
    twice = next((key for key, count in Counter(keys).items() if count > 1), None)
    if twice is None:
        return
    first, second = [row for (row, _), key in zip(pairs, keys, strict=True) if key == twice][:2]
    way_out = "name the column that tells them apart with `item`" if item is None else "remove one of them"
    raise InputError(
        f"Expected one output of a system for each item, but got two of {twice[1]!r} in {first.place} and "
        f"{second.place}: {way_out}, or name further columns with `groups`."
    )
