"""The parts of an experiment of a paper; docs/experiments.md explains every key."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from textmover.report.evaluation.wording import STATISTIC_NAMES

MEAN = "mean"  # the group that stands for the mean over groups


class Question(NamedTuple):
    """An agreement to compute; a set with one dimension, or with preferences, names no dimension.

    Example:
        >>> str(Question("SFHOTEL", "quality", "spearman", "per-group"))
        "SFHOTEL, quality, Spearman's ρ"
    """

    set: str
    dimension: str | None
    statistic: str
    level: str

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.set, self.dimension, STATISTIC_NAMES[self.statistic])))


class Column(NamedTuple):
    """Subject of a table's column."""

    asked: Question
    group: str


@dataclass(frozen=True)
class Paper:
    """Source of the published numbers."""

    name: str
    authors: str
    year: int
    where: str  # its tables or figures

    def __str__(self) -> str:
        return f"{self.authors} {self.year} ({self.name}), {self.where}"


@dataclass(frozen=True)
class NeededFile:
    """Content and source of a file that the user has to give."""

    what: str
    source: str


@dataclass(frozen=True)
class SetSpec:
    """A judgement set."""

    reader: str  # tac, darr, coco-captions, or the description of a table
    files: Mapping[str, str] = field(default_factory=dict)  # key of a file for each argument of the reader
    options: Mapping[str, Any] = field(default_factory=dict)  # further arguments, or changed keys of the description


@dataclass(frozen=True)
class GroupFields:
    """Fields that are changed for the groups that fit a pattern such as ``*-zh``."""

    groups: tuple[str, ...]
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class MetricSpec:
    """A metric that is computed: preset, checkpoint folder or hub id, and the fields that are changed."""

    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    by_group: tuple[GroupFields, ...] = ()

    def fields_for(self, group: str) -> dict[str, Any]:
        """The fields that are changed for a group; the last entry that fits counts."""
        found = dict(self.fields)
        for one in self.by_group:
            if any(fnmatchcase(group, pattern) for pattern in one.groups):
                found |= one.fields
        return found


@dataclass(frozen=True)
class Published:
    """Numbers that a paper printed with one encoder, one for each column."""

    encoder: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class TableRow:
    """A row: what the paper printed, and the metric that is computed beside it or the reason why none is."""

    name: str
    metric: str | None = None
    unavailable: str | None = None
    published: tuple[Published, ...] = ()


@dataclass(frozen=True)
class TableSpec:
    """A table. Its columns are all combinations, in this order: sets, dimensions, groups, statistics."""

    title: str
    sets: tuple[str, ...]
    rows: tuple[TableRow, ...]
    dimensions: tuple[str, ...] = ()
    groups: tuple[str, ...] = (MEAN,)
    mean_of: tuple[str, ...] = ()  # groups of the published mean that have no columns
    statistics: tuple[str, ...] = ("pearson",)
    level: str = "per-group"
    scale: float = 1.0  # divides published values
    digits: int = 3  # of published values, once they have been divided
    n: tuple[str, ...] = ()  # published size of each set and group
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """All combinations, in order."""
        dimensions: Sequence[str | None] = self.dimensions or (None,)
        return tuple(
            Column(Question(name, dimension, statistic, self.level), group)
            for name, dimension, group, statistic in itertools.product(
                self.sets, dimensions, self.groups, self.statistics
            )
        )

    @property
    def averaged(self) -> tuple[str, ...]:
        """Groups that the mean should be over; nothing where the table does not name them."""
        return self.mean_of or tuple(group for group in self.groups if group != MEAN)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are computed, each once."""
        return tuple(dict.fromkeys(row.metric for row in self.rows if row.metric is not None))


@dataclass(frozen=True)
class FigureLine:
    """A line of a figure: its name in the legend, and the metric."""

    name: str
    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FigureSpec:
    """Mean agreement over the values of a field; ``name`` stands in the file's name behind that of the page."""

    title: str
    name: str
    set: str
    field: str
    values: tuple[Any, ...]
    lines: tuple[FigureLine, ...]
    dimension: str | None = None
    statistic: str = "pearson"
    level: str = "per-group"
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> TableSpec:
        """The table of its points, a row for each."""
        rows = tuple(TableRow(name, name) for name in self.metrics)
        dimensions = () if self.dimension is None else (self.dimension,)
        return TableSpec(self.title, (self.set,), rows, dimensions, statistics=(self.statistic,), level=self.level)

    def points(self, line: FigureLine) -> dict[str, MetricSpec]:
        """The metric behind each point of a line."""
        return {
            f"{line.name} @ {value}": MetricSpec(line.model, {**line.fields, self.field: value})
            for value in self.values
        }

    @property
    def metrics(self) -> dict[str, MetricSpec]:
        """The metric behind each point."""
        return {name: metric for line in self.lines for name, metric in self.points(line).items()}


@dataclass(frozen=True)
class LayerSpec:
    """Layer analysis: similarity of each layer's token vectors under each centring."""

    title: str
    name: str
    file: str
    column: str | None = None  # a file without has one text a line
    centerings: tuple[str, ...] = ("none", "dimension", "sentence", "corpus")
    texts: int = 1000  # random choice of the file's
    pairs: int = 1000  # of each kind
    notes: tuple[str, ...] = ()
