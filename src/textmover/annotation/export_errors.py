"""Marked errors as a table and a recipe that ``train.py`` reads as they are."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from textmover.annotation.export import free_name, most_references
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

TAKEN = ("id", "annotator", "hypothesis", "spans", "suggested", "rejected")
"""Columns of the table beside references and those of the texts."""


@dataclass(frozen=True)
class ExportedErrors:
    """Files and counts of an export of errors.

    Attributes:
        table: A row for each text and each annotator who is done with it, with the errors as a list in ``spans``.
        recipe: How to train on them; ``None`` where they cannot be trained on.
        rows: Rows of the table.
        errors: Errors in it.
        suggested: Accepted suggestions among them.
        unfinished: Texts with marks of an annotator who is not done with them, which are left out.
        command: What trains on the table; empty where nothing can.
        reason: Why nothing can; empty where something can.
    """

    table: Path
    recipe: Path | None
    rows: int
    errors: int
    suggested: int
    unfinished: int
    command: str
    reason: str


def export_errors(project: Project) -> ExportedErrors:
    """Write the errors that annotators marked as a table, and a recipe that trains on it.

    The table is one for :func:`~textmover.readers.error_spans.read_marked` with the columns ``spans``, ``references``
    and the groups ``id`` and ``annotator``. Rejected suggestions are no errors. Texts without words are left out.

    Raises:
        InputError: If nobody is done with the errors of any text, or the files cannot be written.
    """
    said = [
        (item, name, rated.marks)
        for name in project.annotators()
        for found in [project.said(name)]
        for item in project.items
        if (rated := found.get(item.key)) is not None and rated.marks is not None and item.hypothesis.strip()
    ]
    done = [one for one in said if one[2].done]
    if not done:
        raise InputError("Expected at least one text whose errors are marked and done, but got none: mark some first.")
    table = inside(project.folder, project.place / TABLE)
    references = _write(table, done)
    errors = [mark for _, _, marks in done for mark in marks.errors]
    recipe, reason = _recipe(project, table, references)
    return ExportedErrors(
        table,
        recipe,
        rows=len(done),
        errors=len(errors),
        suggested=sum(one.suggested is not None for one in errors),
        unfinished=len(said) - len(done),
        command="" if recipe is None else f"textmover train --config {shlex.quote(str(recipe))}",
        reason=reason,
    )


def _write(table: Path, done: Sequence[tuple[Item, str, Marks]]) -> list[str]:
    """Write the table; returns its columns of references."""
    items = [item for item, _, _ in done]
    count = most_references(items)
    references = ["reference", *(f"reference_{number}" for number in range(2, 1 + count))][:count]
    taken = {*TAKEN, *references}
    others = dict.fromkeys(name for item in items for name in (*item.sources, *item.others))
    given = {name: free_name(name, taken) for name in others}
    with atomic_file(table) as stream:
        writer = CsvWriter(stream)
        writer.writerow([*TAKEN[:3], *references, *TAKEN[3:], *given.values()])
        for item, name, marks in done:
            texts = [*item.references, *[""] * (count - len(item.references))]
            entry, columns = as_entry(marks), {**item.sources, **item.others}
            accepted = str(sum(one.suggested is not None for one in marks.errors))
            numbers = [json.dumps(entry["errors"]), accepted, str(len(marks.rejected))]
            writer.writerow(
                [item.key, name, item.hypothesis, *texts, *numbers, *(columns.get(one, "") for one in given)]
            )
    return references


def _recipe(project: Project, table: Path, references: Sequence[str]) -> tuple[Path | None, str]:
    """Write the recipe beside the table, or say why there is nothing to train on."""
    from textmover.data.error_spans.datamodule import split_marked

    columns = MarkedColumns(references=tuple(references), spans="spans", groups=("id", "annotator"))
    if not references:
        return None, "the texts have no references"
    left_out: list[InputError] = []
    segments = read_marked(table, columns, left_out=left_out)

    def enough(share: float) -> bool:
        return all(len(one) >= FEWEST and any(part.errors for part in one) for one in split_marked(segments, share))

    share = next(filter(enough, SHARES), None)
    if share is None:
        return None, (
            f"too few texts with errors and different references to train on some and hold back {FEWEST}: mark more"
        )
    path = inside(project.folder, project.place / RECIPE)
    place = table.resolve().parent
    named = {"references": list(references), "spans": "spans", "groups": ["id", "annotator"]}
    data = {"train": [str(table.resolve())], "columns": named, "held_back": share}
    data |= {"unusable": "leave-out"} if left_out else {}  # texts without a reference
    with atomic_file(path) as stream:
        stream.write(
            filled_recipe(data, str(place / "errors_run"), str(place / "errors_metric"), template=MARKED_TEMPLATE)
        )
    return path, ""
