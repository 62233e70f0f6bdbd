"""A project: a folder with items to rate, and what annotators have said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.annotation.items import SUFFIXES, Item, ItemColumns, read_items
from textmover.annotation.scale import CRITERIA, Criterion, Scale, parse_criteria
from textmover.annotation.store import AnnotatorFile, Marks, Rated, Ratings, annotator_key, clean_name, inside
from textmover.types import InputError

FOLDER = "annotations"  # of the ratings, in that of the items


class Progress(NamedTuple):
    """Progress of an annotator.

    Attributes:
        complete: Items that are rated for every criterion and whose errors are marked, as far as asked for.
        begun: Items that are rated for some.
        items: All items.
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
        """Return the given questions; what is not given is as known, else the default."""
        if criteria is None and known is not None and (known.criteria or errors is None):
            criteria = known.criteria
        if errors is None:
            errors = known is not None and known.errors
        return cls(CRITERIA if criteria is None or not (criteria or errors) else tuple(criteria), errors)

    def __str__(self) -> str:
        return ", ".join([*(one.name for one in self.criteria), *["errors"] * self.errors])


def item_files(folder: Path) -> list[str]:
    """Names of the files in a folder that may hold items, in alphabetical order.

    Example:
        >>> item_files(getfixture("tmp_path"))
        []
    """
    try:
        found = [one for one in folder.iterdir() if one.suffix.lower() in SUFFIXES and not one.name.startswith(".")]
        return sorted(one.name for one in found if one.is_file() and one.resolve().is_relative_to(folder.resolve()))
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
        folder: Nothing outside of it is read or written.
        items: The file, as a path in the folder; the only one there if ``None``.
        criteria: What is rated; what was rated last if ``None``, and :data:`~textmover.annotation.CRITERIA` where
            nothing has been. None at all where errors alone are asked for.
        scale: How; that of the ratings that are there if ``None``, and 1-3 where there are none.
        columns: What the columns of the file are called.
        errors: Whether annotators mark errors; as last if ``None``.

    Raises:
        InputError: If the file cannot be used, lies outside of the folder, or was rated on another scale.

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
        raise InputError(f"Expected a folder at {folder}, but there is none: make it and put the items into it.")
    name = _only(folder) if items is None else str(items)
    path = inside(folder, folder / name)
    if not path.is_file():
        raise InputError(f"Expected a file of items at {path}, but there is none: correct the name.")
    found = read_items(path, columns)
    place = _place(folder, name)
    known = known_scale(folder, name)
    if scale is not None and known is not None and str(scale) != str(known):
        raise InputError(
            f"Expected the scale {known}, on which {name} has been rated, but got {scale}: leave it out, or move "
            f"{place} away to begin again."
        )
    criteria, errors = Questions.asked(known_questions(folder, name), criteria, errors)
    return Project(folder, name, found, criteria, scale or known or Scale(), place, errors)


@dataclass(frozen=True)
class Project:
    """Items and their ratings. Ratings are read from disk whenever they are asked for.

    Attributes:
        folder: Nothing outside of it is read or written.
        name: Of the file of items, as a path in the folder.
        items: What is rated.
        criteria: For what.
        scale: How.
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
        """Number of an item, from 0.

        Raises:
            InputError: If there is none with this key.
        """
        for number, item in enumerate(self.items):
            if item.key == key:
                return number
        raise InputError(f"Expected a text of {self.name}, but got {str(key)[:40]!r}: load the page again.")

    def annotators(self) -> tuple[str, ...]:
        """Names of those who have rated something, in alphabetical order."""
        return tuple(one.annotator for one in self.all_ratings())

    def all_ratings(self) -> tuple[Ratings, ...]:
        """Ratings by annotator; damaged files are left out, see :meth:`damaged`."""
        return tuple(sorted(_all_ratings(self.folder, self.place)[0], key=lambda one: one.annotator.casefold()))

    def damaged(self) -> tuple[str, ...]:
        """Names of the files of ratings that cannot be read: they stay as they are, and count nowhere."""
        return tuple(_all_ratings(self.folder, self.place)[1])

    def said(self, annotator: str) -> Mapping[str, Rated]:
        """Ratings of an annotator for the present items, by key."""
        return self._valid(self._file(annotator).read())

    def outdated(self) -> int:
        """Number of ratings, over all annotators, of items that have changed or left the file since."""
        return sum(len(one.rated) - len(self._valid(one)) for one in self.all_ratings())

    def rate(self, annotator: str, key: str, criterion: str, value: float, *, seen: str = "") -> Rated:
        """Save a rating in place of an earlier one of the same annotator; return what is saved of the item now.

        Args:
            annotator: Who rates.
            key: Of the item.
            criterion: For what.
            value: The rating.
            seen: Fingerprint of the texts that the annotator saw; empty where they are those of :attr:`items`.

        Raises:
            InputError: If there is no such item, criterion or rating, its texts have changed since they were seen, or
                it cannot be saved.
        """
        if criterion not in {one.name for one in self.criteria}:
            raise InputError(f"Expected a criterion of this project, but got {str(criterion)[:60]!r}: load it again.")
        item = self._seen(key, seen)
        ratings = {criterion: self.scale.check(value)}
        return self._file(annotator).change(item.key, item.fingerprint, ratings=ratings)

    def comment(self, annotator: str, key: str, text: str, *, seen: str = "") -> Rated:
        """Save a comment; see :meth:`rate`."""
        item = self._seen(key, seen)
        return self._file(annotator).change(item.key, item.fingerprint, comment=text)

    def mark(self, annotator: str, key: str, marks: Marks, *, seen: str = "") -> Rated:
        """Save the errors of a text in place of those that the annotator marked before; see :meth:`rate`.

        Raises:
            InputError: Also if this project does not ask for errors, one lies outside of the text, or two overlap.
        """
        if not self.errors:
            raise InputError("Expected a project that asks for errors, but this one does not: load the page again.")
        item = self._seen(key, seen)
        return self._file(annotator).change(item.key, item.fingerprint, marks=marks.check(item.hypothesis))

    def _seen(self, key: str, seen: str) -> Item:
        """An item, which has to be the one that somebody saw."""
        item = self.items[self.find(key)]
        if seen and seen != item.fingerprint:
            raise InputError("Expected the text as it was shown, but it has changed since: read it as it is now.")
        return item

    def complete(self, rated: Rated | None) -> bool:
        """Return whether an item is rated for every criterion, and its errors are marked, as far as asked for."""
        return rated is not None and not self.left(rated)

    def left(self, rated: Rated) -> list[str]:
        """Return what an item is not rated for yet; ``"errors"`` where they are not marked."""
        done = not self.errors or (rated.marks is not None and rated.marks.done)
        return [one.name for one in self.criteria if one.name not in rated.ratings] + ["errors"] * (not done)

    def progress(self, annotator: str) -> Progress:
        """Progress of an annotator."""
        said = self.said(annotator)
        complete = sum(map(self.complete, said.values()))
        begun = sum(
            (self.errors and one.marks is not None) or any(criterion.name in one.ratings for criterion in self.criteria)
            for one in said.values()
        )
        return Progress(complete, begun - complete, len(self.items))

    def next_unrated(self, annotator: str, after: int = -1) -> int | None:
        """Number of the next item that is not complete, behind the last from the beginning; ``None`` if none is left.

        Args:
            annotator: Who rates.
            after: Number of the item to begin behind.
        """
        said, count = self.said(annotator), len(self.items)
        turn = ((after + 1 + step) % count for step in range(count))
        return next((number for number in turn if not self.complete(said.get(self.items[number].key))), None)

    def matrix(self, criterion: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Names of the annotators, and their ratings for a criterion, ``[annotators, items]`` with NaN for none."""
        everyone = self.all_ratings()
        found = np.full((len(everyone), len(self.items)), np.nan)
        for row, said in enumerate(map(self._valid, everyone)):
            for column, item in enumerate(self.items):
                if item.key in said:
                    found[row, column] = said[item.key].ratings.get(criterion, np.nan)
        return tuple(one.annotator for one in everyone), found

    def _file(self, annotator: str) -> AnnotatorFile:
        name = clean_name(annotator)
        path = self.place / f"{annotator_key(name)}.jsonl"
        new = Ratings(name, str(self.scale), tuple(map(str, self.criteria)), errors=self.errors)
        return AnnotatorFile(self.folder, path, new)

    def _valid(self, ratings: Ratings) -> dict[str, Rated]:
        now = {item.key: item.fingerprint for item in self.items}
        return {key: one for key, one in ratings.rated.items() if now.get(key) == one.fingerprint}


def _only(folder: Path) -> str:
    names = item_files(folder)
    if len(names) == 1:
        return names[0]
    found = f"{len(names)} ({', '.join(names[:5])})" if names else "none"
    raise InputError(
        f"Expected one file of items (.json, .jsonl, .csv or .tsv) in {folder}, but got {found}: name it with --items."
    )


def _all_ratings(folder: Path, place: Path) -> tuple[list[Ratings], list[str]]:
    """Ratings of all readable files, and the names of the damaged ones."""
    inside(folder, place)
    try:
        paths = sorted(place.glob("*.jsonl"))
    except OSError as error:
        raise InputError(f"Expected a folder at {place}, but got: {error.strerror or error}.") from error
    found, damaged = [], []
    for path in paths:
        if path.name.startswith("."):
            continue
        inside(folder, path)
        try:
            found.append(AnnotatorFile(folder, path).read())
        except InputError:
            damaged.append(path.name)
    return found, damaged


def _place(folder: Path, items: str | Path) -> Path:
    """Folder of the ratings of a file of items."""
    path = inside(folder, folder / items)
    return folder / FOLDER / "__".join(path.resolve().relative_to(folder.resolve()).parts)


def known_scale(folder: str | Path, items: str | Path) -> Scale | None:
    """The scale on which the items of a file have been rated; ``None`` if nobody has rated anything.

    Args:
        folder: That of the project.
        items: The file, as a path in it.

    Raises:
        InputError: If the file lies outside of the folder, or ratings are on several scales.
    """
    place = _place(Path(folder), items)
    scales = sorted({one.scale for one in _all_ratings(Path(folder), place)[0]})
    if len(scales) > 1:
        raise InputError(f"Expected ratings on one scale in {place}, but got {' and '.join(scales)}: move some away.")
    return Scale.parse(scales[0]) if scales else None


def known_criteria(folder: str | Path, items: str | Path) -> tuple[Criterion, ...]:
    """Return the criteria that a file's items were last rated for; none if nobody has rated anything.

    Args:
        folder: That of the project.
        items: The file, as a path in it.

    Raises:
        InputError: If the file lies outside of the folder.
    """
    known = known_questions(folder, items)
    return () if known is None else known.criteria


def known_questions(folder: str | Path, items: str | Path) -> Questions | None:
    """Return what annotators were last asked about a file's items; ``None`` if nobody has answered."""
    said = _all_ratings(Path(folder), _place(Path(folder), items))[0]
    last = max((one for one in said if one.criteria or one.errors), key=lambda one: one.last, default=None)
    return None if last is None else Questions(parse_criteria(last.criteria) if last.criteria else (), last.errors)
