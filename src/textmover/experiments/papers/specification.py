"""Specification classes of a paper's experiment; docs/experiments.md explains every key."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from textmover.report.evaluation.wording import STATISTIC_NAMES

MEAN = "mean"  # pseudo-group: the mean over groups


class Question(NamedTuple):
    """Agreement to compute; ``dimension`` is ``None`` for preferences or a set with one dimension.

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
    """Question and group of a table column."""

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
    """Content and source of a file that the user must provide."""

    what: str
    source: str


@dataclass(frozen=True)
class SetSpec:
    """Judgement set: its reader, files and options."""

    reader: str  # tac, darr, coco-captions, or the description of a table
    files: Mapping[str, str] = field(default_factory=dict)  # file key by reader argument
    options: Mapping[str, Any] = field(default_factory=dict)  # reader arguments, or changed description keys


@dataclass(frozen=True)
class GroupFields:
    """Metric fields changed for the groups that match a pattern such as ``*-zh``."""

    groups: tuple[str, ...]
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class MetricSpec:
    """Metric to compute: preset, checkpoint folder or hub id, with changed fields."""

    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    by_group: tuple[GroupFields, ...] = ()

    def fields_for(self, group: str) -> dict[str, Any]:
        """Return the changed fields of a group; later matching entries override earlier ones."""
        fields_of_group = dict(self.fields)
        for entry in self.by_group:
            if any(fnmatchcase(group, pattern) for pattern in entry.groups):
                fields_of_group |= entry.fields
        return fields_of_group


@dataclass(frozen=True)
class Published:
    """Published numbers for one encoder, one for each column."""

    encoder: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class TableRow:
    """Table row: published numbers, and the metric to compute or the reason why none is available."""

    name: str
    metric: str | None = None
    unavailable: str | None = None
    published: tuple[Published, ...] = ()


@dataclass(frozen=True)
class TableSpec:
    """Table; its columns are the product of sets, dimensions, groups and statistics, in this order."""

    title: str
    sets: tuple[str, ...]
    rows: tuple[TableRow, ...]
    dimensions: tuple[str, ...] = ()
    groups: tuple[str, ...] = (MEAN,)
    mean_of: tuple[str, ...] = ()  # groups of the published mean; default: ``groups``
    statistics: tuple[str, ...] = ("pearson",)
    level: str = "per-group"
    scale: float = 1.0  # divides published values
    digits: int = 3  # of published values, after division by the scale
    n: tuple[str, ...] = ()  # published size of each set and group
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """All combinations, in the order of the class docstring."""
        places = itertools.product(self.sets, self.dimensions or (None,), self.groups, self.statistics)
        return tuple(
            Column(Question(name, dimension, statistic, self.level), group)
            for name, dimension, group, statistic in places
        )

    @property
    def averaged(self) -> tuple[str, ...]:
        """Groups that the published mean is over; empty if the table does not name them."""
        return self.mean_of or tuple(group for group in self.groups if group != MEAN)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics to compute, without duplicates."""
        return tuple(dict.fromkeys(row.metric for row in self.rows if row.metric is not None))


@dataclass(frozen=True)
class FigureLine:
    """Line of a figure: name in the legend, and metric."""

    name: str
    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FigureSpec:
    """Figure of the mean agreement over the values of a field; ``name`` is the suffix of its file name."""

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
        """Table with a row for each point."""
        rows = tuple(TableRow(name, name) for name in self.metrics)
        dimensions = () if self.dimension is None else (self.dimension,)
        return TableSpec(self.title, (self.set,), rows, dimensions, statistics=(self.statistic,), level=self.level)

    def points(self, line: FigureLine) -> dict[str, MetricSpec]:
        """Return the metric of each point of a line."""
        return {
            f"{line.name} @ {value}": MetricSpec(line.model, {**line.fields, self.field: value})
            for value in self.values
        }

    @property
    def metrics(self) -> dict[str, MetricSpec]:
        """Metric of each point of all lines."""
        return {name: metric for line in self.lines for name, metric in self.points(line).items()}


@dataclass(frozen=True)
class LayerSpec:
    """Layer analysis: similarity of each layer's token vectors under each centring."""

    title: str
    name: str
    file: str
    column: str | None = None  # None: a file with one text per line
    centerings: tuple[str, ...] = ("none", "dimension", "sentence", "corpus")
    texts: int = 1000  # number of sampled texts
    pairs: int = 1000  # of each kind
    notes: tuple[str, ...] = ()
