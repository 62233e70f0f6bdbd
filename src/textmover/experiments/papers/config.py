"""Experiments of papers as YAML files: which data, which metrics, which table, and what the paper printed there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textmover.experiments.papers.specification import (
    FigureSpec,
    LayerSpec,
    MetricSpec,
    NeededFile,
    Paper,
    SetSpec,
    TableSpec,
)
from textmover.experiments.papers.yaml_values import Place
from textmover.meta_evaluation import Protocol
from textmover.presets import preset_config
from textmover.scoring.lexical import LEXICAL
from textmover.types import InputError


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes:
        title: Its heading.
        paper: Where the published numbers come from.
        files: Files that the user has to give, by the keys that ``--data KEY=FILE`` names.
        sets: Judgement sets by name.
        metrics: Metrics that are computed, by name.
        baselines: Metrics of surface overlap that are computed.
        idf_by_group: Whether idf weights of a call's own texts are those of each group rather than of the whole set.
        tables: Tables with what the paper printed.
        figures: Agreement over the values of a field.
        layers: Similarities of the layers, or nothing.
        notes: Where what is computed differs from the paper.
        origin: File of the experiment.

    Raises:
        InputError: If a name leads nowhere, numbers of values differ, or a metric or protocol does not exist.
    """

    title: str
    paper: Paper
    files: Mapping[str, NeededFile]
    sets: Mapping[str, SetSpec] = field(default_factory=dict)
    metrics: Mapping[str, MetricSpec] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()
    idf_by_group: bool = False
    tables: tuple[TableSpec, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    layers: LayerSpec | None = None
    notes: tuple[str, ...] = ()
    origin: str = "the experiment"

    def __post_init__(self) -> None:
        place = Place(self.origin)
        if not self.files:
            raise InputError(f"Expected {place.inner('files')} to name a file, but got none: name what is read.")
        if not (self.tables or self.figures or self.layers):
            raise InputError(f"Expected {place} to have tables, figures or layers, but got none: add what is wanted.")
        for name, one in self.sets.items():
            self._check_set(one, place.inner("sets").inner(name))
        for name in self.baselines:
            _check_known(name, LEXICAL, place.inner("baselines"))
            if name in self.metrics:
                raise InputError(
                    f"Expected {place.inner('metrics')} to have other names than the baselines, but got {name!r}: "
                    "rename it."
                )
        for name, metric in self.metrics.items():
            _check_metric(metric, place.inner("metrics").inner(name))
        for index, table in enumerate(self.tables):
            self._check_table(table, place.inner("tables").inner(index))
        for index, figure in enumerate(self.figures):
            self._check_figure(figure, place.inner("figures").inner(index))
        if self.layers is not None:
            _check_known(self.layers.file, self.files, place.inner("layers.file"))

    def needed(self, name: str) -> dict[str, str]:
        """The key of the file behind each argument of a set's reader."""
        spec = self.sets[name]
        return dict(spec.files) or {"path": next(iter(self.files))}

    def _check_set(self, one: SetSpec, place: Place) -> None:
        if not one.files and len(self.files) > 1:
            raise InputError(
                f"Expected {place} to say which of the files it reads, but got none: add `files: {{path: KEY}}` with "
                f"one of {', '.join(self.files)}."
            )
        for argument, key in one.files.items():
            _check_known(key, self.files, place.inner("files").inner(argument))

    def _check_table(self, table: TableSpec, place: Place) -> None:
        for name in table.sets:
            _check_known(name, self.sets, place.inner("sets"))
        for statistic in table.statistics:
            _check_protocol(statistic, table.level, place)
        sizes = len(table.sets) * len(table.groups)
        if table.n and len(table.n) != sizes:
            raise _other_number(place.inner("n"), sizes, len(table.n), "set and group")
        if not table.rows:
            raise InputError(f"Expected {place.inner('rows')} to hold a row, but got none: add one.")
        for index, row in enumerate(table.rows):
            inside = place.inner("rows").inner(index)
            if (row.metric is None) == (row.unavailable is None):
                raise InputError(
                    f"Expected {inside} to have `metric` or else `unavailable`, but got "
                    f"{'neither' if row.metric is None else 'both'}: name a metric, or say why none is computed."
                )
            if row.metric is not None:
                _check_known(row.metric, (*self.metrics, *self.baselines), inside.inner("metric"))
            for number, one in enumerate(row.published):
                if len(one.values) != len(table.columns):
                    values = inside.inner("published").inner(number).inner("values")
                    raise _other_number(values, len(table.columns), len(one.values), "column")

    def _check_figure(self, figure: FigureSpec, place: Place) -> None:
        _check_known(figure.set, self.sets, place.inner("set"))
        _check_protocol(figure.statistic, figure.level, place)
        for key, entries in (("values", figure.values), ("lines", figure.lines)):
            if not entries:
                raise InputError(f"Expected {place.inner(key)} to hold something, but got none: add one.")
        for index, line in enumerate(figure.lines):
            for value in figure.values:
                fields = {**line.fields, figure.field: value}
                _check_metric(MetricSpec(line.model, fields), place.inner("lines").inner(index))


def _check_known(name: str, known: Collection[str] | Mapping[str, Any], place: Place) -> None:
    if name not in known:
        listed = ", ".join(known) or "nothing"
        raise InputError(f"Expected {place} to be one of {listed}, but got {name!r}: choose one of them.")


def _check_protocol(statistic: str, level: str, place: Place) -> None:
    try:
        Protocol(statistic, level)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _check_metric(metric: MetricSpec, place: Place) -> None:
    """Refuse fields that the preset does not have; a checkpoint's fields are not known yet."""
    if "/" in metric.model or Path(metric.model).is_dir():
        return
    try:
        for fields in ({}, *(one.fields for one in metric.by_group)):
            preset_config(metric.model, **{**metric.fields, **fields})
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _other_number(place: Place, expected: int, got: int, unit: str) -> InputError:
    return InputError(
        f"Expected {place} to hold {expected} values, one for each {unit}, but got {got}: write null where there is "
        "none."
    )
