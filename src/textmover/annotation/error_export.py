"""Marked errors as a table and a recipe that ``train.py`` reads as they are."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from textmover.annotation.export import TextColumns
from textmover.annotation.items import Item
from textmover.annotation.marks import Marks, as_entry
from textmover.annotation.project import Project
from textmover.annotation.store import inside
from textmover.csv_cells import CsvWriter
from textmover.data.written_recipe import FEWEST, MARKED_TEMPLATE, SHARES, filled_recipe
from textmover.files import atomic_file
from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.types import InputError

TABLE = "errors.csv"
RECIPE = "errors_recipe.yaml"
"""Names of the files of an export of errors, in the folder of the ratings."""

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
        return "" if self.recipe is None else f"textmover train --config {shlex.quote(str(self.recipe))}"


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
    table = inside(project.folder, project.place / TABLE)
    recipe, reason = _recipe(project, table, _write(table, done))
    errors = [mark for _, _, marks in done for mark in marks.errors]
    accepted = sum(one.suggested is not None for one in errors)
    return ExportedErrors(table, len(done), len(errors), accepted, len(said) - len(done), recipe, reason)


def _write(table: Path, done: Sequence[tuple[Item, str, Marks]]) -> list[str]:
    """Write the table; returns its columns of references."""
    texts = TextColumns([item for item, _, _ in done], set(TAKEN))
    with atomic_file(table) as stream:
        writer = CsvWriter(stream)
        writer.writerow([*TAKEN[:3], *texts.references, *TAKEN[3:], *texts.others.values()])
        for item, name, marks in done:
            references, others = texts.cells(item)
            spans = json.dumps(as_entry(marks)["errors"])
            writer.writerow([item.key, name, item.hypothesis, *references, spans, len(marks.rejected), *others])
    return texts.references


def _recipe(project: Project, table: Path, references: Sequence[str]) -> tuple[Path | None, str]:
    """Write the recipe beside the table, or say why there is nothing to train on."""
    from textmover.data.error_spans.datamodule import split_marked

    if not references:
        return None, "the texts have no references"
    columns = {"references": list(references), "spans": "spans", "groups": ["id", "annotator"]}
    left_out: list[InputError] = []  # texts without a reference
    segments = read_marked(table, MarkedColumns(references=tuple(references), spans="spans"), left_out=left_out)
    for share in SHARES:
        parts = split_marked(segments, share)
        if all(len(part) >= FEWEST and any(one.errors for one in part) for part in parts):
            break
    else:
        return None, "too few texts with errors and other references to train on some and hold back others: mark more"
    path, place = inside(project.folder, project.place / RECIPE), table.resolve().parent
    data = {"train": [str(table.resolve())], "columns": columns, "held_back": share}
    data |= {"unusable": "leave-out"} if left_out else {}
    with atomic_file(path) as stream:
        stream.write(filled_recipe(data, str(place / "errors_run"), str(place / "errors_metric"), MARKED_TEMPLATE))
    return path, ""
