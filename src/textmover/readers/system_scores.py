"""Segment scores of systems that were computed elsewhere: tables with a column for each system, or a file for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.readers.judgements.cells import CellTable, place_of, read_cells
from textmover.readers.segments import FINITE, TableRow, as_number, check_equal_lengths, read_lines
from textmover.readers.streams import check_distinct
from textmover.readers.tables import is_table
from textmover.readers.text_tables import named
from textmover.types import InputError

SCORE, SCORES, SYSTEMS = "score", "scores", "systems"
"""What ``textmover score`` calls a system's score in a row, its scores in one JSON object, and the systems there."""

Vector = NDArray[np.float64]


class SystemScores(NamedTuple):
    """Segment scores of systems.

    Attributes:
        scores: By the name of the column or file, float64 ``[n]`` each.
        lines: Line or row of each segment, ``n`` of them.
        signature: Of the metric, where the file says it.
    """

    scores: dict[str, Vector]
    lines: tuple[int, ...]
    signature: str = ""


def read_system_scores(
    paths: Sequence[str], columns: Sequence[str] | None = None, *, format: str | None = None, split: str = "train"
) -> SystemScores:
    r"""Read the segment scores of systems.

    A single file has a column for each system, as ``textmover score`` writes it for several systems in any of its
    formats. Several files are those of a system each: one score a line, or a table with a column ``score``.

    Args:
        paths: One file of all systems, or one for each.
        columns: The columns to read, of several tables the same one; if ``None``, the column ``score`` where there is
            one, else all.
        format: ``csv``, ``tsv``, ``jsonl`` or ``parquet`` of every file; from the suffix if ``None``.
        split: Split of a hub or saved data set.

    Raises:
        InputError: If a file cannot be read, a column is missing, a score is no finite number, or systems have
            different numbers of scores.

    Example:
        >>> path = getfixture("tmp_path") / "scores.tsv"
        >>> _ = path.write_text("ours\ttheirs\n0.5\t0.25\n1\t0\n", encoding="utf-8")
        >>> read_system_scores([str(path)])
        SystemScores(scores={'ours': array([0.5, 1. ]), 'theirs': array([0.25, 0.  ])}, lines=(2, 3), signature='')
    """
    check_distinct(paths)
    if columns is not None:
        check_distinct(columns)
    found = [_read(path, columns, format, split) for path in paths]
    if len(found) == 1:
        return found[0]
    scores = {}
    for path, one in zip(paths, found, strict=True):
        if len(one.scores) > 1:
            raise InputError(
                f"Expected the scores of one system in each of {len(paths)} files, but got {named(list(one.scores))} "
                f"in {path}: name one of them with `columns`, or give that file alone."
            )
        scores[path] = next(iter(one.scores.values()))
    check_equal_lengths(scores)
    signatures = {one.signature for one in found}
    return SystemScores(scores, found[0].lines, signatures.pop() if len(signatures) == 1 else "")


def _read(path: str, columns: Sequence[str] | None, format: str | None, split: str) -> SystemScores:
    """The scores of a file; a plain one is named after itself."""
    if format is None and not is_table(path):
        lines = read_lines(path)
        while lines and not lines[-1].strip():
            lines.pop()
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
        format = "tsv"  # as `textmover score` writes text of several systems
    # The systems of one JSON object are no columns, so all is read first.
    table = read_cells(path, None, format=format, split=split)
    if len(table.rows) == 1:
        whole = _whole_object(table.rows[0], columns)
        if whole is not None:
            return whole
    return _columns(path, table, columns)


def _columns(path: str, table: CellTable, columns: Sequence[str] | None) -> SystemScores:
    """The scores of a table, a row for each segment."""
    unknown = [name for name in columns or () if name not in table.columns]
    if unknown:
        raise InputError(
            f"Expected a column {unknown[0]!r} in {path}, but got {named(table.columns)}: set `columns` to the names "
            "of the right ones."
        )
    lines = tuple(row.number for row in table.rows)
    names = tuple(columns or ([SCORE] if SCORE in table.columns else table.columns))
    cells = table.rows[0].cells.get(names[0])
    if len(names) == 1 and isinstance(cells, list):  # JSON Lines of several systems
        return SystemScores(_listed(table.rows, names[0], len(cells)), lines)
    way_out = "correct it" if columns is not None else "correct it, or name the columns that hold scores with `columns`"
    scores = {
        name: np.array([
            _score(row.cells.get(name), f"column {name!r} of {row.name}, {row.unit} {row.number}", way_out)
            for row in table.rows
        ])
        for name in names
    }  # fmt: skip
    return SystemScores(scores, lines)


def _listed(rows: Sequence[TableRow], column: str, count: int) -> dict[str, Vector]:
    """Scores of systems that stand in a list, where they have no names."""
    table = []
    for row in rows:
        cells = row.cells.get(column)
        if not isinstance(cells, list) or len(cells) != count:
            got = f"{len(cells)}" if isinstance(cells, list) else "no list"
            raise InputError(
                f"Expected {count} scores in column {column!r} as in the first row, but got {got} in {place_of(row)}: "
                "correct it."
            )
        place = f"column {column!r} of {row.name}, {row.unit} {row.number}"
        table.append([_score(cell, place) for cell in cells])
    return {f"system {place}": values for place, values in enumerate(np.array(table).T, start=1)}


def _whole_object(row: TableRow, columns: Sequence[str] | None) -> SystemScores | None:
    """The scores of one JSON object as ``textmover score --format json`` writes it; ``None`` where it is no such."""
    cells = row.cells
    systems = cells.get(SYSTEMS)
    if isinstance(systems, dict):
        lists = {name: values.get(SCORES) if isinstance(values, dict) else None for name, values in systems.items()}
    elif isinstance(cells.get(SCORES), list):
        lists = {SCORE: cells[SCORES]}
    else:
        return None
    unknown = [name for name in columns or () if name not in lists]
    if unknown:
        raise InputError(
            f"Expected a system {unknown[0]!r} in {row.name}, but got {named(list(lists))}: set `columns` to the names "
            "of the right ones."
        )
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
    signature = cells.get("signature")
    return SystemScores(scores, tuple(range(1, count + 1)), signature if isinstance(signature, str) else "")


def _is_number(text: str) -> bool:
    return not math.isnan(as_number(text)) or text.strip().lower() == "nan"


def _score(value: object, place: str, way_out: str = "correct it") -> float:
    """A finite number."""
    found = as_number(value)
    if not math.isfinite(found):
        shown = "nothing" if value is None or value == "" else named([str(value)])
        lacking = shown == "nothing" or str(value).strip().lower() == "nan"
        if lacking:
            way_out = (
                "systems are compared on segments that all have a score, so leave that segment out of every system"
            )
        raise InputError(f"Expected {FINITE} in {place}, but got {shown}: {way_out}.")
    return found
