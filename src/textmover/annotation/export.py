"""Export ratings and marked errors as tables, with recipes for ``train.py``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.annotation.criteria_and_scales import RESERVED
from textmover.annotation.items import Item
from textmover.annotation.project import Project
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
        table: Path of the mean ratings.
        single: Path of the ratings by annotator and text, with comments and times, including incomplete ones.
        recipe: Path of the training recipe; ``None`` if training is impossible.
        rows: Number of items in the table.
        annotators: Annotators whose ratings are in the table.
        incomplete: Number of items with ratings that nobody rated for every criterion.
        without_reference: Number of rated items excluded because they have no reference but others do.
        command: Shell command that trains on the table; empty if training is impossible.
        reason: Reason why training is impossible; empty otherwise.
        damaged: Names of rating files that could not be read; neither table includes them.
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
    """Write the mean ratings of all annotators as a table, with a recipe that trains on it.

    Ratings of an annotator count for an item if the annotator has rated it for every criterion. The value of a
    criterion is the mean over these annotators, the score is the mean over the criteria. With ``standardise``, each
    annotator's ratings of a criterion first get mean 0 and standard deviation 1 over the items that count; constant
    ratings become 0.

    Raises:
        InputError: If no item is rated for every criterion, or the files cannot be written.
    """
    if not project.criteria:
        raise InputError("Expected a project with criteria to rate, but this one asks for errors alone: export those.")
    names, values, begun = _complete_ratings(project)
    counts = (~np.isnan(values[0])).sum(axis=0)
    if not counts.any():
        raise InputError("Expected at least one text that is rated for every criterion, but got none: rate some first.")
    if standardise:
        is_rated = ~np.isnan(values)
        count = np.maximum(is_rated.sum(axis=2, keepdims=True), 1)
        centred = values - np.nansum(values, axis=2, keepdims=True) / count
        deviation = np.sqrt(np.nansum(centred**2, axis=2, keepdims=True) / count)
        values = centred / np.where(deviation > 0, deviation, 1.0)
    means = np.divide(np.nansum(values, axis=1), counts, out=np.full(values.shape[::2], np.nan), where=counts > 0)
    rated = [number for number in range(len(project.items)) if counts[number]]
    referenced = [number for number in rated if project.items[number].references]
    exported = referenced or rated
    criteria = [one.column for one in project.criteria]
    texts = TextColumns([project.items[number] for number in exported], {*RESERVED, *criteria})
    header = ["id", "hypothesis", *texts.references, "score", *criteria, "annotators", *texts.others.values()]
    rows = []
    for number in exported:
        item = project.items[number]
        references, others = texts.cells(item)
        numbers = [_number(means[:, number].mean()), *map(_number, means[:, number]), str(counts[number])]
        rows.append([item.key, item.hypothesis, *references, *numbers, *others])
    table = _write_table(project, TABLE, header, rows)
    single = _write_table(project, SINGLE, ["id", "annotator", *criteria, "comment", "time"], _single_rows(project))
    recipe, reason = _write_recipe(project, table, texts.references)
    contributors = tuple(name for name, row in zip(names, values[0], strict=True) if not np.isnan(row[exported]).all())
    return Exported(
        table,
        single,
        recipe,
        rows=len(exported),
        annotators=contributors,
        incomplete=int((begun & (counts == 0)).sum()),
        without_reference=len(rated) - len(exported),
        command=_command(recipe),
        reason=reason,
        damaged=project.damaged(),
    )


def _complete_ratings(project: Project) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.bool_]]:
    """Return annotators, ratings ``[criteria, annotators, items]`` (NaN if incomplete), and a mask of rated items."""
    names, values = project.matrices()
    any_rating = np.asarray((~np.isnan(values)).any(axis=(0, 1)))
    values[:, np.isnan(values).any(axis=0)] = np.nan
    return names, values, any_rating


def _write_table(project: Project, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    path = inside(project.folder, project.place / name)
    with atomic_file(path) as stream:
        # Readers refuse a zero byte, which texts may hold; every other character keeps its place.
        CsvWriter(stream).writerows([[str(cell).replace("\0", "\ufffd") for cell in row] for row in (header, *rows)])
    return path


def _single_rows(project: Project) -> Iterator[list[str]]:
    """Yield a row for each annotator and each text with ratings or a comment."""
    for name in project.annotators():
        ratings = project.said(name)
        for item in project.items:
            if item.key in ratings:
                rated = ratings[item.key]
                values = [rated.ratings.get(criterion.name) for criterion in project.criteria]
                numbers = ["" if value is None else _number(value) for value in values]
                yield [item.key, name, *numbers, rated.comment, rated.time]


class TextColumns:
    """Columns of a table for references and other cells of items; ``taken`` are names of existing columns."""

    def __init__(self, items: Sequence[Item], taken: set[str]) -> None:
        count = max(len(item.references) for item in items)
        self.references = ["reference", *(f"reference_{number}" for number in range(2, 1 + count))][:count]
        taken = {*taken, *self.references}
        self.others: dict[str, str] = {}  # columns by name
        for name in dict.fromkeys(name for item in items for name in (*item.sources, *item.others)):
            column = name
            while column in taken:
                column = f"given_{column}"
            taken.add(column)
            self.others[name] = column

    def cells(self, item: Item) -> tuple[list[str], list[str]]:
        """Return the references of an item and its other cells."""
        others = {**item.sources, **item.others}
        padding = [""] * (len(self.references) - len(item.references))
        return [*item.references, *padding], [others.get(name, "") for name in self.others]


def _number(value: float) -> str:
    return format(float(value), ".6g")


def _command(recipe: Path | None) -> str:
    return "" if recipe is None else f"textmover train --config {shlex.quote(str(recipe))}"


def _write_recipe(project: Project, table: Path, references: Sequence[str]) -> tuple[Path | None, str]:
    """Write the recipe next to the table; return its path, or ``None`` and the reason why training is impossible."""
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
    return _fill_recipe(project, RECIPE, table, data, "", recipe_writer.template_for(len(segments))), ""


FIXED_COLUMNS = ("id", "annotator", "hypothesis", "spans", "rejected")
"""Fixed columns of the table of errors; ``rejected`` is the number of rejected suggestions."""


class ExportedErrors(NamedTuple):
    """Files and counts of an export of errors.

    Attributes:
        table: Path of the table, with one row per text and annotator who has finished it; ``spans`` lists the errors.
        rows: Number of rows of the table.
        errors: Number of errors in the table.
        suggested: Number of accepted suggestions among them.
        unfinished: Number of excluded pairs of text and annotator, with marks that are not finished.
        recipe: Path of the training recipe; ``None`` if training is impossible.
        reason: Reason why training is impossible; empty otherwise.
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
        """Shell command that trains on the table; empty if training is impossible."""
        return _command(self.recipe)


def export_errors(project: Project) -> ExportedErrors:
    """Write the marked errors of all annotators as a table, with a recipe that trains on it.

    :func:`~textmover.readers.error_spans.read_marked` reads the table, with the columns ``spans``, ``references`` and
    the groups ``id`` and ``annotator``. Rejected suggestions are not errors. Texts without words are excluded.

    Raises:
        InputError: If no annotator has finished the errors of any text, or the files cannot be written.
    """
    marked = []
    for name in project.annotators():
        marks = {key: rated.marks for key, rated in project.said(name).items() if rated.marks is not None}
        marked += [(one, name, marks[one.key]) for one in project.items if one.key in marks and one.hypothesis.strip()]
    done = [one for one in marked if one[2].done]
    if not done:
        raise InputError("Expected at least one text whose errors are marked and done, but got none: mark some first.")
    texts = TextColumns([item for item, _, _ in done], set(FIXED_COLUMNS))
    header = [*FIXED_COLUMNS[:3], *texts.references, *FIXED_COLUMNS[3:], *texts.others.values()]
    rows = []
    for item, name, item_marks in done:
        references, others = texts.cells(item)
        spans = json.dumps(as_entry(item_marks)["errors"])
        rows.append([item.key, name, item.hypothesis, *references, spans, len(item_marks.rejected), *others])
    table = _write_table(project, ERROR_TABLE, header, rows)
    recipe, reason = _write_error_recipe(project, table, texts.references)
    errors = [mark for _, _, marks in done for mark in marks.errors]
    accepted = sum(one.suggested is not None for one in errors)
    return ExportedErrors(table, len(done), len(errors), accepted, len(marked) - len(done), recipe, reason)


def _write_error_recipe(project: Project, table: Path, references: Sequence[str]) -> tuple[Path | None, str]:
    """Write the recipe next to the table; return its path, or ``None`` and the reason why training is impossible."""
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
    return _fill_recipe(project, ERROR_RECIPE, table, data, "errors_", recipe_writer.MARKED_TEMPLATE), ""


def _fill_recipe(
    project: Project, name: str, table: Path, data: Mapping[str, Any], prefix: str, template: Path
) -> Path:
    path, place = inside(project.folder, project.place / name), table.resolve().parent
    filled = {"train": [str(table.resolve())], **data}
    with atomic_file(path) as stream:
        run, metric = (str(place / f"{prefix}{name}") for name in ("run", "metric"))
        stream.write(recipe_writer.filled_recipe(filled, run, metric, template))
    return path
