"""Annotation project: a folder with items to rate and the ratings of annotators."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.annotation.criteria_and_scales import CRITERIA, Criterion, Scale, parse_criteria
from textmover.annotation.items import SUFFIXES, Item, ItemColumns, read_items
from textmover.annotation.store import AnnotatorFile, Marks, Rated, Ratings, annotator_key, clean_name, inside
from textmover.types import InputError

FOLDER = "annotations"  # folder of the ratings, next to the items


class Progress(NamedTuple):
    """Progress of an annotator.

    Attributes:
        complete: Number of items with all requested ratings and marks.
        begun: Number of items with some of them.
        items: Number of all items.
    """

    complete: int
    begun: int
    items: int


class Questions(NamedTuple):
    """Criteria that annotators rate, and whether they mark errors."""

    criteria: tuple[Criterion, ...]
    errors: bool = False

    @classmethod
    def asked(cls, known: Questions | None, criteria: Sequence[Criterion] | None, errors: bool | None) -> Questions:
        """Return the given questions; ``None`` is replaced by the last known questions, else by the default."""
        if criteria is None and known is not None and (known.criteria or errors is None):
            criteria = known.criteria
        if errors is None:
            errors = known is not None and known.errors
        return cls(CRITERIA if criteria is None or not (criteria or errors) else tuple(criteria), errors)

    def __str__(self) -> str:
        return ", ".join([*(one.name for one in self.criteria), *["errors"] * self.errors])


def item_files(folder: Path) -> list[str]:
    """Return the sorted names of the files in a folder that may contain items.

    Example:
        >>> item_files(getfixture("tmp_path"))
        []
    """
    try:
        paths = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")]
        return sorted(path.name for path in paths if path.is_file() and path.resolve().is_relative_to(folder.resolve()))
    except OSError as error:
        raise InputError(f"Expected a folder at {folder}, but got: {error.strerror or error}.") from error


def open_project(
    folder: str | Path,
    items: str | Path | None = None,
    *,
    criteria: Sequence[Criterion] | None = None,
    scale: Scale | None = None,
    columns: ItemColumns | None = None,
    errors: bool | None = None,
) -> Project:
    r"""Open the project of a file of items.

    Args:
        folder: Folder of the project; no file outside of it is read or written.
        items: Path of the file in the folder; ``None`` for the only file of items there.
        criteria: Criteria to rate. ``None`` means those of the last ratings, else
            :data:`~textmover.annotation.CRITERIA`. Give an empty tuple together with ``errors`` to mark only errors.
        scale: Rating scale; ``None`` means that of existing ratings, else 1-3.
        columns: Names of the columns of the file.
        errors: Whether annotators mark errors; ``None`` means as for the last ratings.

    Raises:
        InputError: If the file is invalid, lies outside of the folder, or was rated on another scale.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "items.csv").write_text("hypothesis,reference\nA cat.,The cat.\n")
        >>> project = open_project(folder)
        >>> _ = project.rate("Ada", project.items[0].key, "fluency", 3)
        >>> project.progress("Ada")
        Progress(complete=0, begun=1, items=1)
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"Expected a folder at {folder}, but it does not exist: create it and add the items.")
    name = _only_file(folder) if items is None else str(items)
    path = inside(folder, folder / name)
    if not path.is_file():
        raise InputError(f"Expected a file of items at {path}, but it does not exist: correct the name.")
    loaded_items = read_items(path, columns)
    place = _ratings_folder(folder, name)
    current = known_scale(folder, name)
    if scale is not None and current is not None and str(scale) != str(current):
        raise InputError(
            f"Expected the scale {current}, on which {name} has been rated, but got {scale}: leave it out, or move "
            f"{place} away to begin again."
        )
    criteria, errors = Questions.asked(known_questions(folder, name), criteria, errors)
    return Project(folder, name, loaded_items, criteria, scale or current or Scale(), place, errors)


@dataclass(frozen=True)
class Project:
    """Items and their ratings. Every access to ratings reads them from disk.

    Attributes:
        folder: Folder of the project; no file outside of it is read or written.
        name: Path of the file of items in the folder.
        items: Items to rate.
        criteria: Criteria to rate.
        scale: Rating scale.
        place: Folder of the ratings.
        errors: Whether annotators mark errors.
    """

    folder: Path
    name: str
    items: tuple[Item, ...]
    criteria: tuple[Criterion, ...]
    scale: Scale
    place: Path
    errors: bool = False

    def find(self, key: object) -> int:
        """Return the index of an item; raise an :class:`~textmover.types.InputError` if none has this key."""
        for number, item in enumerate(self.items):
            if item.key == key:
                return number
        raise InputError(f"Expected a text of {self.name}, but got {str(key)[:40]!r}: load the page again.")

    def annotators(self) -> tuple[str, ...]:
        """Return the sorted names of annotators with ratings."""
        return tuple(one.annotator for one in self.all_ratings())

    def all_ratings(self) -> tuple[Ratings, ...]:
        """Return the ratings of all annotators, sorted by name, without damaged files (see :meth:`damaged`)."""
        return tuple(sorted(_all_ratings(self.folder, self.place)[0], key=lambda one: one.annotator.casefold()))

    def damaged(self) -> tuple[str, ...]:
        """Return the names of rating files that cannot be read; they are ignored and never changed."""
        return tuple(_all_ratings(self.folder, self.place)[1])

    def said(self, annotator: str) -> Mapping[str, Rated]:
        """Return the valid ratings of an annotator by key of the item."""
        return self._valid_ratings(self._file(annotator).read())

    def outdated(self) -> int:
        """Return the number of ratings of all annotators whose item has changed or been removed since."""
        return sum(len(one.rated) - len(self._valid_ratings(one)) for one in self.all_ratings())

    def rate(self, annotator: str, key: str, criterion: str, value: float, *, seen: str = "") -> Rated:
        """Save a rating, replace an earlier one of the annotator, and return all that is saved for the item.

        ``seen`` is the fingerprint of the texts that the annotator saw; if it is empty, changes are not checked.

        Raises:
            InputError: If item, criterion or rating do not exist, the texts have changed since they were seen, or the
                rating cannot be saved.
        """
        if criterion not in {one.name for one in self.criteria}:
            raise InputError(f"Expected a known criterion, but got {str(criterion)[:60]!r}: load the page again.")
        item = self._seen_item(key, seen)
        ratings = {criterion: self.scale.check(value)}
        return self._file(annotator).change(item.key, item.fingerprint, ratings=ratings)

    def comment(self, annotator: str, key: str, text: str, *, seen: str = "", shown: str | None = None) -> Rated:
        """Save a comment unless another than the one ``shown`` has been saved meanwhile; see :meth:`rate`."""
        item = self._seen_item(key, seen)
        known = None if shown is None else [shown]
        return self._file(annotator).change(item.key, item.fingerprint, comment=text, shown=known)

    def mark(
        self, annotator: str, key: str, marks: Marks, *, seen: str = "", shown: Sequence[Marks] | None = None
    ) -> Rated:
        """Save the errors of a text unless others than those ``shown`` have been saved meanwhile; see :meth:`rate`.

        Raises:
            InputError: Also if this project does not ask for errors, an error lies outside of the text, or two overlap.
        """
        if not self.errors:
            raise InputError("Expected a project that asks for errors, but this one does not: load the page again.")
        item = self._seen_item(key, seen)
        return self._file(annotator).change(item.key, item.fingerprint, marks=marks.check(item.hypothesis), shown=shown)

    def _seen_item(self, key: str, seen: str) -> Item:
        """Return an item; raise an error if its texts have changed since they were seen."""
        item = self.items[self.find(key)]
        if seen and seen != item.fingerprint:
            raise InputError("Expected the text that the page shows, but its file has changed: load the page again.")
        return item

    def complete(self, rated: Rated | None) -> bool:
        """Return whether an item has all requested ratings and marks."""
        return rated is not None and not self.left(rated)

    def left(self, rated: Rated) -> list[str]:
        """Return the criteria without a rating, and ``"errors"`` if the errors are not marked yet."""
        done = not self.errors or (rated.marks is not None and rated.marks.done)
        return [one.name for one in self.criteria if one.name not in rated.ratings] + ["errors"] * (not done)

    def progress(self, annotator: str) -> Progress:
        """Return the progress of an annotator."""
        ratings = self.said(annotator)
        complete = sum(map(self.complete, ratings.values()))
        begun = sum(
            (self.errors and one.marks is not None) or any(criterion.name in one.ratings for criterion in self.criteria)
            for one in ratings.values()
        )
        return Progress(complete, begun - complete, len(self.items))

    def next_unrated(self, annotator: str, after: int = -1) -> int | None:
        """Return the index of the next incomplete item after ``after``, wrapping around; ``None`` if there is none."""
        ratings, count = self.said(annotator), len(self.items)
        order = ((after + 1 + step) % count for step in range(count))
        return next((number for number in order if not self.complete(ratings.get(self.items[number].key))), None)

    def matrices(self) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Return the annotators and all ratings, ``[criteria, annotators, items]``; NaN without rating."""
        all_ratings = self.all_ratings()
        values = np.full((len(self.criteria), len(all_ratings), len(self.items)), np.nan)
        for row, rated in enumerate(map(self._valid_ratings, all_ratings)):
            for column, item in enumerate(self.items):
                if item.key in rated:
                    given = rated[item.key].ratings
                    values[:, row, column] = [given.get(criterion.name, np.nan) for criterion in self.criteria]
        return tuple(one.annotator for one in all_ratings), values

    def matrix(self, criterion: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Return the annotators, and their ratings for a criterion, ``[annotators, items]``; NaN without rating."""
        names, values = self.matrices()
        return names, values[[one.name for one in self.criteria].index(criterion)]

    def _file(self, annotator: str) -> AnnotatorFile:
        name = clean_name(annotator)
        path = self.place / f"{annotator_key(name)}.jsonl"
        new = Ratings(name, str(self.scale), tuple(map(str, self.criteria)), errors=self.errors)
        return AnnotatorFile(self.folder, path, new)

    def _valid_ratings(self, ratings: Ratings) -> dict[str, Rated]:
        fingerprints = {item.key: item.fingerprint for item in self.items}
        return {key: rated for key, rated in ratings.rated.items() if fingerprints.get(key) == rated.fingerprint}


def _only_file(folder: Path) -> str:
    names = item_files(folder)
    if len(names) == 1:
        return names[0]
    listed = f"{len(names)} ({', '.join(names[:5])})" if names else "none"
    raise InputError(
        f"Expected one file of items (.json, .jsonl, .csv or .tsv) in {folder}, but got {listed}: name it with --items."
    )


def _all_ratings(folder: Path, place: Path) -> tuple[list[Ratings], list[str]]:
    """Return the ratings of all readable files, and the names of damaged files."""
    inside(folder, place)
    try:
        paths = sorted(place.glob("*.jsonl"))
    except OSError as error:
        raise InputError(f"Expected a folder at {place}, but got: {error.strerror or error}.") from error
    ratings, damaged = [], []
    for path in paths:
        if path.name.startswith("."):
            continue
        inside(folder, path)
        found: Ratings | None = None
        with contextlib.suppress(InputError):
            found = AnnotatorFile(folder, path).read()
        if found is not None and path.stem == annotator_key(found.annotator):
            ratings.append(found)
        else:  # also a copied or renamed file, which would count its annotator twice
            damaged.append(path.name)
    return ratings, damaged


def _ratings_folder(folder: Path, items: str | Path) -> Path:
    """Return the folder of the ratings of a file of items; raise an error if another file has the same."""
    path = inside(folder, folder / items)
    name = "__".join(path.resolve().relative_to(folder.resolve()).parts)
    for other in (folder / name, folder.joinpath(*name.split("__"))):
        if other.is_file() and other.resolve() != path.resolve():
            raise InputError(
                f"Expected files of items whose ratings have different folders, but {path} and {other} share {name}: "
                "rename one."
            )
    return folder / FOLDER / name


def known_scale(folder: str | Path, items: str | Path) -> Scale | None:
    """Return the scale of the existing ratings of a file of items in a folder; ``None`` without ratings.

    Raises:
        InputError: If the file lies outside of the folder, or its ratings have several scales.
    """
    place = _ratings_folder(Path(folder), items)
    scales = sorted({one.scale for one in _all_ratings(Path(folder), place)[0]})
    if len(scales) > 1:
        raise InputError(f"Expected ratings on one scale in {place}, but got {' and '.join(scales)}: move some away.")
    return Scale.parse(scales[0]) if scales else None


def known_criteria(folder: str | Path, items: str | Path) -> tuple[Criterion, ...]:
    """Return the criteria of the last ratings of a file of items in a folder; empty without ratings.

    Raises:
        InputError: If the file lies outside of the folder.
    """
    known = known_questions(folder, items)
    return () if known is None else known.criteria


def known_questions(folder: str | Path, items: str | Path) -> Questions | None:
    """Return the questions of the last ratings of a file of items; ``None`` without ratings."""
    ratings = _all_ratings(Path(folder), _ratings_folder(Path(folder), items))[0]
    last = max((one for one in ratings if one.criteria or one.errors), key=lambda one: one.last, default=None)
    return None if last is None else Questions(parse_criteria(last.criteria) if last.criteria else (), last.errors)
