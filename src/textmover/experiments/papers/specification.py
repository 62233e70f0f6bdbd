"""The parts of an experiment: files, sets, metrics, tables with what a paper printed, and figures."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

MEAN = "mean"
"""The group that stands for the mean over groups."""


class Column(NamedTuple):
    """Subject of a table's column.

    Attributes:
        set: Name of the set.
        dimension: Of its ratings; ``None`` where it has one alone, or preferences.
        group: Of the set, or :data:`MEAN`.
        statistic: Of agreement.
    """

    set: str
    dimension: str | None
    group: str
    statistic: str


@dataclass(frozen=True)
class Paper:
    """Source of the published numbers.

    Attributes:
        name: What the paper is called here, such as ``MoverScore``.
        authors: Its authors, in short.
        year: When it appeared.
        where: Its tables or figures.
    """

    name: str
    authors: str
    year: int
    where: str

    def __str__(self) -> str:
        return f"{self.authors} {self.year} ({self.name}), {self.where}"


@dataclass(frozen=True)
class NeededFile:
    """A file that the user has to give.

    Attributes:
        what: What it holds.
        source: Where it comes from.
    """

    what: str
    source: str


@dataclass(frozen=True)
class SetSpec:
    """A judgement set and who reads it.

    Attributes:
        reader: ``tac``, ``darr``, ``coco-captions``, or the description of a table: a built-in one, or a YAML file in
            the folder of the experiment.
        files: For each argument of the reader the key of a file; a single file needs none.
        options: Further arguments of the reader; of a table, keys of its description that are changed.
    """

    reader: str
    files: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupFields:
    """Fields that are changed for some groups.

    Attributes:
        groups: Names of groups, ``*`` standing for any characters, as in ``*-zh``.
        fields: The fields.
    """

    groups: tuple[str, ...]
    fields: Mapping[str, Any]

    def holds(self, group: str) -> bool:
        """Return whether the fields are for this group."""
        return any(fnmatchcase(group, one) for one in self.groups)


@dataclass(frozen=True)
class MetricSpec:
    """A metric that is computed.

    Attributes:
        model: Preset, checkpoint folder or hub id.
        fields: Fields of its configuration that are changed.
        by_group: Fields that are changed for some groups; of several that hold for a group, the last one counts.
    """

    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    by_group: tuple[GroupFields, ...] = ()

    def fields_for(self, group: str) -> dict[str, Any]:
        """The fields that are changed for a group."""
        found = dict(self.fields)
        for one in self.by_group:
            if one.holds(group):
                found |= one.fields
        return found


@dataclass(frozen=True)
class Published:
    """Numbers that a paper printed.

    Attributes:
        encoder: What its vectors come from; ``-`` where it has none.
        values: One for each column, as printed; null where there is none.
    """

    encoder: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class TableRow:
    """A row: what the paper printed, and what is computed beside it.

    Attributes:
        name: What the paper calls the metric.
        metric: Which of the metrics or baselines is computed.
        unavailable: Why none is; one of the two is given.
        published: What the paper printed, once for each of its encoders.
    """

    name: str
    metric: str | None = None
    unavailable: str | None = None
    published: tuple[Published, ...] = ()


@dataclass(frozen=True)
class TableSpec:
    """A table. Its columns are all combinations, in this order: sets, dimensions, groups, statistics.

    Attributes:
        title: Its heading.
        sets: Names of the sets.
        rows: Its rows.
        dimensions: Of the ratings; none where there is one alone.
        groups: Groups that have a column, and ``mean``.
        mean_of: Groups that the published mean is over, where they have no columns.
        statistics: Of agreement.
        level: What the statistics are computed over.
        scale: What published values are divided by: 100 where they were printed in percent.
        digits: Behind the point of published values, once they have been divided.
        n: Sizes of each set and group in the paper, in the order of the columns.
        notes: What has to be known to read it.
    """

    title: str
    sets: tuple[str, ...]
    rows: tuple[TableRow, ...]
    dimensions: tuple[str, ...] = ()
    groups: tuple[str, ...] = (MEAN,)
    mean_of: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ("pearson",)
    level: str = "per-group"
    scale: float = 1.0
    digits: int = 3
    n: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """All combinations, in order."""
        dimensions: Sequence[str | None] = self.dimensions or (None,)
        return tuple(itertools.starmap(Column, itertools.product(self.sets, dimensions, self.groups, self.statistics)))

    @property
    def averaged(self) -> tuple[str, ...]:
        """Groups that the mean should be over; nothing where the table does not name them."""
        return self.mean_of or tuple(group for group in self.groups if group != MEAN)


@dataclass(frozen=True)
class FigureLine:
    """A line of a figure.

    Attributes:
        name: What the legend calls it.
        model: Preset, checkpoint folder or hub id.
        fields: Fields of its configuration that are changed.
    """

    name: str
    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FigureSpec:
    """Agreement over the values of a field.

    Attributes:
        title: Its heading.
        name: What its file is called, behind the name of the page.
        set: Name of the set.
        field: Field of the metrics' configuration.
        values: The values that it takes.
        lines: Metrics.
        dimension: Of the ratings; ``None`` where there is one alone.
        statistic: Of agreement; the mean over groups is drawn.
        level: What it is computed over.
        notes: What has to be known to read it.
    """

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
    def columns(self) -> tuple[Column]:
        """Column that the vertical axis shows."""
        return (Column(self.set, self.dimension, MEAN, self.statistic),)


@dataclass(frozen=True)
class LayerSpec:
    """Layer analysis: similarity of each layer's token vectors under each centring.

    Attributes:
        title: Its heading.
        name: What its file is called, behind the name of the page.
        file: Key of the file that holds the texts.
        column: Column of the texts; ``None`` where the file has one text a line.
        centerings: Means that are subtracted.
        texts: How many texts are read, a random choice of the file's.
        pairs: How many pairs of each kind are drawn.
        notes: What has to be known to read it.
    """

    title: str
    name: str
    file: str
    column: str | None = None
    centerings: tuple[str, ...] = ("none", "dimension", "sentence", "corpus")
    texts: int = 1000
    pairs: int = 1000
    notes: tuple[str, ...] = ()
