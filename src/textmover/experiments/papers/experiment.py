"""Checked configuration of a paper's experiment and its required files."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from textmover.checkpoints.hub import local_folder
from textmover.experiments.papers import specification
from textmover.meta_evaluation import Protocol
from textmover.presets import preset_config
from textmover.readers import judgements
from textmover.readers.judgements.description import FIELDS, built_in_files, read_field
from textmover.safe_reading import YamlPosition, check_filled
from textmover.scoring.lexical import LEXICAL
from textmover.types import InputError, Judgements, plural
from textmover.types.segments import reworded_errors


@dataclass(frozen=True)
class Experiment:
    """Experiment of a paper; unknown names and wrong numbers of values raise an error."""

    title: str
    paper: specification.Paper
    files: Mapping[str, specification.NeededFile]  # by key of ``--data KEY=FILE``
    sets: Mapping[str, specification.SetSpec] = field(default_factory=dict)
    metrics: Mapping[str, specification.MetricSpec] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()
    idf_by_group: bool = False  # fit idf weights on each group, not on the whole set
    tables: tuple[specification.TableSpec, ...] = ()
    figures: tuple[specification.FigureSpec, ...] = ()
    layers: specification.LayerSpec | None = None
    notes: tuple[str, ...] = ()
    origin: str = "the experiment"

    def __post_init__(self) -> None:
        place = YamlPosition(self.origin)
        check_filled({"files": self.files}, place)
        if not (self.tables or self.figures or self.layers):
            raise InputError(f"Expected {place} to have tables, figures or layers, but got none: add what is wanted.")
        for name, one in self.sets.items():
            inside = place.inner("sets", name)
            if not one.files and len(self.files) > 1:
                raise InputError(
                    f"Expected {inside} to say which of the files it reads, but got none: add `files: {{path: KEY}}` "
                    f"with one of {', '.join(self.files)}."
                )
            for argument, key in one.files.items():
                _check_known(key, self.files, inside.inner("files", argument))
        for name in self.baselines:
            _check_known(name, LEXICAL, place.inner("baselines"))
            if name in self.metrics:
                raise InputError(
                    f"Expected {place.inner('metrics')} to have other names than the baselines, but got {name!r}: "
                    "rename it."
                )
        for name, metric in self.metrics.items():
            _check_metric(metric, place.inner("metrics", name))
        for index, table in enumerate(self.tables):
            self._check_table(table, place.inner("tables", index))
        for index, figure in enumerate(self.figures):
            self._check_figure(figure, place.inner("figures", index))
        if self.layers is not None:
            _check_known(self.layers.file, self.files, place.inner("layers.file"))
        for name, one in self.sets.items():
            self._check_reader(name, one, place.inner("sets", name))

    @property
    def all_tables(self) -> tuple[specification.TableSpec, ...]:
        """The tables, and the tables of figure points."""
        return (*self.tables, *(one.table for one in self.figures))

    @property
    def judged_sets(self) -> list[str]:
        """Names of the sets that tables and figures use."""
        used = {name for one in self.all_tables for name in one.sets}
        return [name for name in self.sets if name in used]

    @property
    def all_metrics(self) -> dict[str, specification.MetricSpec]:
        """The metrics, and the metrics of figure points."""
        return {**self.metrics, **{name: one for figure in self.figures for name, one in figure.metrics.items()}}

    def metrics_of_set(self, name: str) -> list[str]:
        """Return the names of the metrics and baselines to score a set with, without duplicates."""
        return list(dict.fromkeys(metric for one in self.all_tables if name in one.sets for metric in one.metrics))

    # --- files --------------------------------------------------------------------------------------------------------

    def given_files(self, data: Sequence[str]) -> dict[str, str]:
        """Parse ``--data`` entries into paths by file key."""
        paths: dict[str, str] = {}
        for entry in data:
            key, path = self._split(entry)
            if key in paths:
                raise InputError(f"Expected each file of --data once, but got {key} twice: leave one out.")
            if not path.startswith(("hub:", "data:")) and not Path(path).exists():
                raise InputError(f"Expected {key} of --data at {path}, but there is no such file: correct the path.")
            paths[key] = path
        if not paths:
            raise InputError(f"Expected the data of {self.title}, but got none: {self._how_to_give(self.files)}.")
        for name in self.sets:
            missing = self.absent_files(name, paths)
            if missing and any(key in paths for key in self._needed(name).values()):
                raise InputError(f"Expected all files of {name}, but some are missing: {missing}.")
        return paths

    def absent_files(self, name: str, files: Mapping[str, str]) -> str:
        """Describe the missing files of a set; empty if none is missing."""
        missing = [key for key in self._needed(name).values() if key not in files]
        return self._how_to_give(missing) if missing else ""

    def read_set(self, name: str, files: Mapping[str, str]) -> Judgements:
        """Read a judgement set."""
        spec = self.sets[name]
        places: dict[str, Any] = {argument: files[key] for argument, key in self._needed(name).items()}
        if spec.reader in judgements.READERS:
            return judgements.READERS[spec.reader][0](**places, **spec.options, name=name)
        return judgements.read_judgements(places["path"], self._description(name), name=name)

    def _needed(self, name: str) -> dict[str, str]:
        """Return the file key of each argument of a set's reader."""
        return dict(self.sets[name].files) or {"path": next(iter(self.files))}

    def _split(self, entry: str) -> tuple[str, str]:
        keys = list(self.files)
        match = re.fullmatch(r"([\w-]+)=(.+)", entry, flags=re.DOTALL)
        if match and match[1] in keys:
            return match[1], match[2]
        if len(keys) == 1 and (not match or Path(entry).exists()):
            return keys[0], entry
        got = f"the key {match[1]!r}" if match else repr(entry)
        raise InputError(
            f"Expected --data KEY=FILE with a key of {', '.join(keys)}, but got {got}: choose one of them."
        )

    def _how_to_give(self, keys: Iterable[str]) -> str:
        alone = len(self.files) == 1
        needed = {key: self.files[key] for key in keys}
        arguments = " ".join("FILE" if alone else f"{key}=PLACE" for key in needed)
        listed = (f"{'FILE' if alone else key} is {one.what} (from {one.source})" for key, one in needed.items())
        return f"give --data {arguments}, where {'; '.join(listed)}"

    def _description(self, name: str) -> judgements.SetDescription:
        """Return the table description of a set, with the changes from its options."""
        spec = self.sets[name]
        beside = Path(self.origin).parent / spec.reader
        built_in = spec.reader in built_in_files()
        description = judgements.load_description(spec.reader if built_in or not beside.is_file() else beside)
        changes = {}
        for key, value in spec.options.items():
            place = f"`sets.{name}.options.{key}` of {self.origin}"
            if key not in FIELDS:
                raise InputError(f"Expected {place} to be among {', '.join(FIELDS)}, but got {key!r}: remove it.")
            changes[key] = read_field(key, value, place)
        return replace(description, **changes, origin=self.origin) if changes else description

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_reader(self, name: str, spec: specification.SetSpec, place: YamlPosition) -> None:
        reader, arguments = judgements.READERS.get(spec.reader, (None, ("path",)))
        if set(self._needed(name)) != set(arguments):
            raise InputError(
                f"Expected `files` of {place} to name {' and '.join(arguments)}, which {spec.reader} reads, but got "
                f"{', '.join(spec.files) or 'none'}: name a key of a file for each."
            )
        if reader is None:
            self._description(name)
            return
        allowed = [one for one in inspect.signature(reader).parameters if one not in (*arguments, "name")]
        for key in spec.options:
            if key not in allowed:
                raise InputError(
                    f"Expected `options` of {place} to be among {', '.join(allowed)}, but got {key!r}: remove it."
                )

    def _check_table(self, table: specification.TableSpec, place: YamlPosition) -> None:
        for name in table.sets:
            _check_known(name, self.sets, place.inner("sets"))
        with reworded_errors(lambda said: f"{place}: {said}"):
            for statistic in table.statistics:
                Protocol(statistic, table.level)
        sizes = len(table.sets) * len(table.groups)
        if table.n:
            _check_number(table.n, sizes, place.inner("n"), "set and group")
        check_filled({"rows": table.rows}, place)
        for index, row in enumerate(table.rows):
            inside = place.inner("rows", index)
            if (row.metric is None) == (row.unavailable is None):
                raise InputError(
                    f"Expected {inside} to have `metric` or else `unavailable`, but got "
                    f"{'neither' if row.metric is None else 'both'}: name a metric, or say why none is computed."
                )
            if row.metric is not None:
                _check_known(row.metric, (*self.metrics, *self.baselines), inside.inner("metric"))
            for number, entry in enumerate(row.published):
                _check_number(entry.values, len(table.columns), inside.inner("published", number, "values"), "column")

    def _check_figure(self, figure: specification.FigureSpec, place: YamlPosition) -> None:
        _check_known(figure.set, self.sets, place.inner("set"))
        with reworded_errors(lambda said: f"{place}: {said}"):
            Protocol(figure.statistic, figure.level)
        check_filled({"values": figure.values, "lines": figure.lines}, place)
        for index, line in enumerate(figure.lines):
            for metric in figure.points(line).values():
                _check_metric(metric, place.inner("lines", index))


def _check_known(name: str, known: Collection[str] | Mapping[str, Any], place: YamlPosition) -> None:
    if name not in known:
        listed = ", ".join(known) or "nothing"
        raise InputError(f"Expected {place} to be one of {listed}, but got {name!r}: choose one of them.")


def _check_metric(metric: specification.MetricSpec, place: YamlPosition) -> None:
    """Raise an error for fields that a preset does not have; the fields of checkpoints are not known yet."""
    if "/" in metric.model or local_folder(metric.model):
        return
    with reworded_errors(lambda said: f"{place}: {said}"):
        for fields in ({}, *(one.fields for one in metric.by_group)):
            preset_config(metric.model, **{**metric.fields, **fields})


def _check_number(values: Collection[object], expected: int, place: YamlPosition, unit: str) -> None:
    if len(values) != expected:
        raise InputError(
            f"Expected {place} to hold {plural(expected, 'value')}, one for each {unit}, but got {len(values)}: write "
            "null for a missing value."
        )
