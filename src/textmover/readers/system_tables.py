"""Tables with a row for each output of each system, as shared tasks publish them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textmover.readers.judgements.cells import place_of
from textmover.readers.segments import TableRow, read_rows
from textmover.types import InputError

BETWEEN = " / "
"""What stands between the values of several group columns."""


@dataclass(frozen=True, eq=False)
class SystemTable:
    """The outputs of a table; a row that stands for several systems is one output of each.

    Attributes:
        systems: System of each.
        items: What each is an output for.
        groups: Group of each; ``None`` where no column was named.
        hypotheses: Texts; empty where scores were read instead.
        references: References of each text; likewise.
        scores: Scores that the table holds, float64 ``[n]``; ``None`` where texts were read.
        human: Human scores, float64 ``[n]``; ``None`` where no column was named.
        lone: Groups that were left out, since they hold one system alone.
    """

    systems: list[str]
    items: list[str]
    groups: list[str] | None
    hypotheses: list[str]
    references: list[tuple[str, ...]]
    scores: NDArray[np.float64] | None
    human: NDArray[np.float64] | None
    lone: tuple[str, ...] = ()


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
    format: str | None = None,
    split: str = "train",
) -> SystemTable:
    r"""Read a table with a row for each output.

    Args:
        path: As for :func:`textmover.data.read_segments`.
        system: Column of the systems.
        separator: What stands between the names of several systems with the same output, such as ``+``.
        item: Column of what each row is an output for; the references say so if ``None``.
        groups: Columns of the groups; of several, each combination is a group.
        human: Column of human scores, if there are any.
        metric: Column of scores that are there already; texts are read if ``None``.
        hypothesis: Column of the texts.
        references: Columns of their references.
        format: ``csv``, ``tsv``, ``jsonl`` or ``parquet``; from the suffix if ``None``.
        split: Split of a hub or saved data set.

    Raises:
        InputError: If the file, a column or a cell cannot be used, rows have neither item nor references, a system has
            two rows for an item, or there is one system alone.

    Example:
        >>> path = getfixture("tmp_path") / "outputs.tsv"
        >>> _ = path.write_text("system\thypothesis\treference\nA+B\ta cat\tthe cat\nB\ta dog\tthe dog\n")
        >>> found = read_system_table(str(path), system="system", separator="+")
        >>> list(zip(found.systems, found.hypotheses))
        [('A', 'a cat'), ('B', 'a cat'), ('B', 'a dog')]
    """
    texts = metric is None
    if not texts and item is None:
        raise InputError("Expected `item` together with `metric`, since no references are read: name its column.")
    wanted = [("system", system), ("item", item), *(("groups", one) for one in groups), ("human", human)]
    wanted += [("metric", metric)]
    if texts:
        wanted += [("hypothesis", hypothesis), *(("references", one) for one in references)]
    fields = [(what, name) for what, name in wanted if name is not None]
    rows: list[TableRow] = []
    with contextlib.closing(read_rows(path, fields, format=format, split=split)) as found:
        for _, row in found:
            if isinstance(row, InputError):
                raise row
            rows.append(row)
    named = [(row, name) for row in rows for name in _systems(row, system, separator)]
    read = {id(row): row.references(references) for row in rows} if texts else {}
    items = [row.group(item) if item is not None else "\x1f".join(read[id(row)]) for row, _ in named]
    group = [BETWEEN.join(row.group(one) for one in groups) for row, _ in named]
    kept, lone = _kept(group, [name for _, name in named], path)
    _check_once(named, items, group, item)
    return SystemTable(
        systems=[named[place][1] for place in kept],
        items=[items[place] for place in kept],
        groups=[group[place] for place in kept] if groups else None,
        hypotheses=[named[place][0].text(hypothesis) for place in kept] if texts else [],
        references=[read[id(named[place][0])] for place in kept] if texts else [],
        scores=None if metric is None else np.array([named[place][0].score(metric) for place in kept]),
        human=None if human is None else np.array([named[place][0].score(human) for place in kept]),
        lone=lone,
    )


def _systems(row: TableRow, column: str, separator: str | None) -> list[str]:
    """The systems of a row."""
    value = row.group(column)
    names = [value] if separator is None else value.split(separator)
    if not all(names):
        raise InputError(
            f"Expected the name of a system in column {column!r} of {place_of(row)}, but got {value!r}: name it, or "
            "remove the row."
        )
    return names


def _kept(groups: Sequence[str], systems: Sequence[str], path: str) -> tuple[list[int], tuple[str, ...]]:
    """Places of the outputs whose group has several systems, and the groups that have but one."""
    of: dict[str, set[str]] = {}
    for group, system in zip(groups, systems, strict=True):
        of.setdefault(group, set()).add(system)
    lone = tuple(group for group, names in of.items() if len(names) < 2)
    if len(lone) == len(of):
        name = next(iter(of[lone[0]]))
        raise InputError(
            f"Expected at least two systems to rank, but got {name!r} alone in {path}: give the outputs of another."
        )
    return [place for place, group in enumerate(groups) if group not in lone], lone


def _check_once(
    named: Sequence[tuple[TableRow, str]], items: Sequence[str], groups: Sequence[str], item: str | None
) -> None:
    """Make sure that no system has two outputs for an item."""
    keys = [(group, name, one) for group, (_, name), one in zip(groups, named, items, strict=True)]
    twice = next((key for key, count in Counter(keys).items() if count > 1), None)
    if twice is None:
        return
    first, second = [row for (row, _), key in zip(named, keys, strict=True) if key == twice][:2]
    way_out = "name the column that tells them apart with `item`" if item is None else "remove one of them"
    raise InputError(
        f"Expected one output of a system for each item, but got two of {twice[1]!r} in {place_of(first)} and "
        f"{place_of(second)}: {way_out}, or name further columns with `groups`."
    )
