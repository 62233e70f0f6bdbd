"""Ratings and marked errors as tables and recipes that ``train.py`` reads as they are."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.annotation.items import Item
from textmover.annotation.project import Project
from textmover.annotation.scale import RESERVED
from textmover.annotation.store import as_entry, inside
from textmover.csv_cells import CsvWriter
from textmover.data import recipe_writer
from textmover.data.split import split_held_back
from textmover.files import atomic_file
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.readers.segments import Columns, read_segments
from textmover.types import InputError

TABLE, SINGLE, RECIPE = "ratings.csv", "single_ratings.csv", "recipe.yaml"
ERROR_TABLE, ERROR_RECIPE = "errors.csv", "errors_recipe.yaml"
"""Names of the files of an export, in the folder of the ratings."""


@dataclass(frozen=True)
class Exported:
    """Files and counts of an export.

    Attributes:
        table: The mean ratings.
        single: What each annotator said of each text, with comments and times, complete or not.
        recipe: How to train on them; ``None`` where they cannot be trained on.
        rows: Items in the table.
        annotators: Whose ratings are in it.
        incomplete: Items that somebody began and nobody rated for every criterion.
        without_reference: Rated items left out since others have a reference and they have none.
        command: What trains on the table, to be typed into a terminal; empty where that cannot be.
        reason: Why that cannot be; empty where it can.
        damaged: Names of the files of ratings that could not be read, which are in neither table.
    """

    table: Path
    single: Path
    recipe: Path | None
    rows: int
    annotators: tuple[str, ...]
    incomplete: int
    without_reference: int
    command: str
    reason: str
    damaged: tuple[str, ...] = ()


def export_ratings(project: Project, *, standardise: bool = False) -> Exported:
    """Write the mean ratings of all annotators as a table and a recipe that trains on it; return what was written.

    An annotator counts for an item once it is rated for every criterion. A criterion's value is the mean over those who
    count, the score the mean over the criteria.

    Args:
        project: The project.
        standardise: Whether each annotator's ratings for a criterion are shifted and scaled to mean 0 and standard
            deviation 1 first, over the items that count. Ratings that do not differ become 0.

    Raises:
        InputError: If no item is rated for every criterion, or the files cannot be written.
    """
    names, values, begun = _complete(project)
    counts = (~np.isnan(values[0])).sum(axis=0)
    if not counts.any():
        raise InputError("Expected at least one text that is rated for every criterion, but got none: rate some first.")
    if standardise:
        known = ~np.isnan(values)
        count = np.maximum(known.sum(axis=2, keepdims=True), 1)
        centred = values - np.nansum(values, axis=2, keepdims=True) / count
        deviation = np.sqrt(np.nansum(centred**2, axis=2, keepdims=True) / count)
        values = centred / np.where(deviation > 0, deviation, 1.0)
    means = np.divide(np.nansum(values, axis=1), counts, out=np.full(values.shape[::2], np.nan), where=counts > 0)
    rated = [number for number in range(len(project.items)) if counts[number]]
    referenced = [number for number in rated if project.items[number].references]
    kept = referenced or rated
    criteria = [one.column for one in project.criteria]
    texts = TextColumns([project.items[number] for number in kept], {*RESERVED, *criteria})
    header = ["id", "hypothesis", *texts.references, "score", *criteria, "annotators", *texts.others.values()]
    rows = []
    for number in kept:
        item = project.items[number]
        references, others = texts.cells(item)
        numbers = [_number(means[:, number].mean()), *map(_number, means[:, number]), str(counts[number])]
        rows.append([item.key, item.hypothesis, *references, *numbers, *others])
    table = _written(project, TABLE, header, rows)
    single = _written(project, SINGLE, ["id", "annotator", *criteria, "comment", "time"], _single_rows(project))
    recipe, reason = _recipe(project, table, texts.references)
    taking_part = tuple(name for name, row in zip(names, values[0], strict=True) if not np.isnan(row[kept]).all())
    return Exported(
        table,
        single,
        recipe,
        rows=len(kept),
        annotators=taking_part,
        incomplete=int((begun & (counts == 0)).sum()),
        without_reference=len(rated) - len(kept),
        command=_command(recipe),
        reason=reason,
        damaged=project.damaged(),
    )


def _complete(project: Project) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.bool_]]:
    """Names, ratings ``[criteria, annotators, items]``, NaN where not every criterion is rated, and items begun."""
    found = [project.matrix(one.name) for one in project.criteria]
    values = np.stack([ratings for _, ratings in found])
    begun = np.asarray((~np.isnan(values)).any(axis=(0, 1)))
    values[:, np.isnan(values).any(axis=0)] = np.nan
    return found[0][0], values, begun


def _written(project: Project, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    path = inside(project.folder, project.place / name)
    with atomic_file(path) as stream:
        CsvWriter(stream).writerows([header, *rows])
    return path


def _single_rows(project: Project) -> Iterator[list[str]]:
    """A row for each annotator and each text of which they said something."""
    for name in project.annotators():
        said = project.said(name)
        for item in project.items:
            if item.key in said:
                one = said[item.key]
                given = [one.ratings.get(criterion.name) for criterion in project.criteria]
                numbers = ["" if value is None else _number(value) for value in given]
                yield [item.key, name, *numbers, one.comment, one.time]


class TextColumns:
    """Columns of a table for what items have beside their hypothesis; ``taken`` are names of other columns."""

    def __init__(self, items: Sequence[Item], taken: set[str]) -> None:
        count = max(len(item.references) for item in items)
        self.references = ["reference", *(f"reference_{number}" for number in range(2, 1 + count))][:count]
        names = dict.fromkeys(name for item in items for name in (*item.sources, *item.others))
        taken = {*taken, *self.references}
        self.others = {name: _free(name, taken) for name in names}

    def cells(self, item: Item) -> tuple[list[str], list[str]]:
        """Return the references of an item and its other cells."""
        given = {**item.sources, **item.others}
        blank = [""] * (len(self.references) - len(item.references))
        return [*item.references, *blank], [given.get(name, "") for name in self.others]


def _free(name: str, taken: set[str]) -> str:
    """A name that the table does not have yet."""
    while name in taken:
        name = f"given_{name}"
    taken.add(name)
    return name


def _number(value: float) -> str:
    return format(float(value), ".6g")


def _command(recipe: Path | None) -> str:
    return "" if recipe is None else f"textmover train --config {shlex.quote(str(recipe))}"


def _recipe(project: Project, table: Path, references: Sequence[str]) -> tuple[Path | None, str]:
    """Write the recipe beside the table, or say why there is nothing to train on."""
    if not references:
        return None, "the texts have no references"
    segments = read_segments(table, Columns(references=tuple(references)))
    if len({one.score for one in segments}) < 2:
        return None, "all scores are the same"
    share = recipe_writer.share_to_hold_back(segments)
    if share is None:
        return None, (
            f"too few references differ to train on some and hold back {recipe_writer.FEWEST} texts of others: "
            "rate texts with other references"
        )
    columns = {"hypothesis": "hypothesis", "references": list(references), "score": "score", "groups": []}
    data = {"columns": columns, "held_back": share}
    return _written_recipe(project, RECIPE, table, data, "", recipe_writer.template_for(len(segments))), ""


TAKEN = ("id", "annotator", "hypothesis", "spans", "rejected")
"""Columns of the table beside references and those of the texts; ``rejected`` counts suggestions."""


class ExportedErrors(NamedTuple):
    """Files and counts of an export of errors.

    Attributes:
        table: A row for each text and each annotator who is done with it, with the errors as a list in ``spans``.
        rows: Rows of the table.
        errors: Errors in it.
        suggested: Accepted suggestions among them.
        unfinished: Texts with marks of an annotator who is not done with them, which are left out.
        recipe: How to train on them; ``None`` where they cannot be trained on.
        reason: Why they cannot; empty where they can.
    """

    table: Path
    rows: int
    errors: int
    suggested: int
    unfinished: int
    recipe: Path | None
    reason: str

    @property
    def command(self) -> str:
        """Command that trains on the table; empty where nothing can."""
        return _command(self.recipe)


def export_errors(project: Project) -> ExportedErrors:
    """Write the errors that annotators marked as a table, and a recipe that trains on it.

    The table is one for :func:`~textmover.readers.error_spans.read_marked` with the columns ``spans``, ``references``
    and the groups ``id`` and ``annotator``. Rejected suggestions are no errors. Texts without words are left out.

    Raises:
        InputError: If nobody is done with the errors of any text, or the files cannot be written.
    """
    said = []
    for name in project.annotators():
        marks = {key: rated.marks for key, rated in project.said(name).items() if rated.marks is not None}
        said += [(one, name, marks[one.key]) for one in project.items if one.key in marks and one.hypothesis.strip()]
    done = [one for one in said if one[2].done]
    if not done:
        raise InputError("Expected at least one text whose errors are marked and done, but got none: mark some first.")
    texts = TextColumns([item for item, _, _ in done], set(TAKEN))
    header = [*TAKEN[:3], *texts.references, *TAKEN[3:], *texts.others.values()]
    rows = []
    for item, name, found in done:
        references, others = texts.cells(item)
        spans = json.dumps(as_entry(found)["errors"])
        rows.append([item.key, name, item.hypothesis, *references, spans, len(found.rejected), *others])
    table = _written(project, ERROR_TABLE, header, rows)
    recipe, reason = _error_recipe(project, table, texts.references)
    errors = [mark for _, _, marks in done for mark in marks.errors]
    accepted = sum(one.suggested is not None for one in errors)
    return ExportedErrors(table, len(done), len(errors), accepted, len(said) - len(done), recipe, reason)


def _error_recipe(project: Project, table: Path, references: Sequence[str]) -> tuple[Path | None, str]:
    """Write the recipe beside the table, or say why there is nothing to train on."""
    if not references:
        return None, "the texts have no references"
    columns = {"references": list(references), "spans": "spans", "groups": ["id", "annotator"]}
    left_out: list[InputError] = []  # texts without a reference
    segments = read_marked(table, MarkedColumns(references=tuple(references), spans="spans"), left_out=left_out)
    for share in recipe_writer.SHARES:
        parts = split_held_back(segments, share)
        if all(len(part) >= recipe_writer.FEWEST and any(one.errors for one in part) for part in parts):
            break
    else:
        return None, "too few texts with errors and other references to train on some and hold back others: mark more"
    data = {"columns": columns, "held_back": share, **({"unusable": "leave-out"} if left_out else {})}
    return _written_recipe(project, ERROR_RECIPE, table, data, "errors_", recipe_writer.MARKED_TEMPLATE), ""


def _written_recipe(
    project: Project, name: str, table: Path, data: Mapping[str, Any], prefix: str, template: Path
) -> Path:
    path, place = inside(project.folder, project.place / name), table.resolve().parent
    filled = {"train": [str(table.resolve())], **data}
    with atomic_file(path) as stream:
        run, metric = (str(place / f"{prefix}{name}") for name in ("run", "metric"))
        stream.write(recipe_writer.filled_recipe(filled, run, metric, template))
    return path
