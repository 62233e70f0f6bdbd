"""Captions of the COCO challenge of 2015 with what people thought of each system."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from textmover.readers.judgements.cells import number, read_cells
from textmover.readers.judgements.json_documents import part, read_document
from textmover.readers.judgements.rows import JudgedText, assembled
from textmover.readers.segments import TableRow
from textmover.readers.text_tables import named
from textmover.types import InputError, Judgements

RESULTS = "captions_val2014*_results.json"
"""The file of a system's captions in its folder."""

NOT_ASKED_FOR, NOT_RATED = "image not asked for", "system without a human rating"


def read_coco_captions(
    captions: str | Path,
    references: str | Path,
    ratings: str | Path,
    *,
    dimensions: Sequence[str] = ("M1", "M2"),
    system: str = "system",
    images: Collection[int] | None = None,
    name: str | None = None,
) -> Judgements:
    """Read captions of several systems and people's rating of each *system*.

    Every caption of a system carries the rating of the system, so that system-level statistics (the mean over a
    system's captions) are right. Statistics over single captions would say nothing: nobody rated a caption.

    Args:
        captions: Folder with one folder per system, called like the system, that holds one file
            ``captions_val2014*_results.json``: a list of objects with ``image_id`` and ``caption``.
        references: The annotation file ``captions_val2014.json``: an object with ``annotations``, a list of objects
            with ``image_id`` and ``caption``.
        ratings: Table with a row per system: its name, and a column for each dimension.
        dimensions: Columns of the ratings, higher is better.
        system: Column of the systems' names; they must be those of the folders.
        images: Numbers of the images to read; ``None`` for all.
        name: What tables call the set.

    Returns:
        One row per caption, in one group; items are the numbers of the images.

    Raises:
        InputError: If a file is not of this shape, a system that was rated has no captions, a system captions an image
            twice, or an image is without references.

    Reference:
        Zhao et al. 2019, MoverScore, section 4.4 and table 4.
    """
    rated = _rated(ratings, dimensions, system)
    files = _files(Path(captions))
    if missing := [one for one in rated if one not in files]:
        raise InputError(
            f"Expected a folder with {RESULTS} in {captions} for every system of {ratings}, but got none for "
            f"{named(missing)}: the folders have to be called {named(files) or 'like the systems'} there."
        )
    known = _references(references)
    asked_for = None if images is None else set(images)
    left_out: Counter[str] = Counter()
    texts: list[JudgedText] = []
    for one, path in files.items():
        found = _captions(path)
        wanted = [image for image in found if asked_for is None or image in asked_for]
        if one not in rated:
            left_out[NOT_RATED] += len(found)
            continue
        left_out[NOT_ASKED_FOR] += len(found) - len(wanted)
        for image in wanted:
            if image not in known:
                raise InputError(
                    f"Expected references of image {image} of {path} in {references}, but got none: give the "
                    "annotations of the same images, or name those to read with `images`."
                )
            texts.append(
                JudgedText(
                    f"image {image} of {path}", found[image], known[image], rated[one], item=str(image), system=one
                )
            )
    if not texts:
        raise InputError(f"Expected {captions} to hold a caption to read, but got none: check `images` and the files.")
    counts = {reason: count for reason, count in left_out.items() if count}
    return assembled(name or "COCO captions", texts, list(dimensions), left_out=counts)


def _rated(path: str | Path, dimensions: Sequence[str], system: str) -> dict[str, tuple[float, ...]]:
    """The ratings of each system."""
    if not dimensions:
        raise InputError("Expected `dimensions` to name columns, but got none: name one.")
    wanted = {system: "system"} | dict.fromkeys(dimensions, "dimensions")
    first: dict[str, TableRow] = {}
    for row in read_cells(path, wanted).rows:
        one = row.group(system)
        if one in first:
            raise InputError(
                f"Expected one row for system {one!r} in {path}, but got {row.unit}s {first[one].number} and "
                f"{row.number}: remove one of them."
            )
        first[one] = row
    return {
        one: tuple(number(row, column, missing=False, hint="remove the system") for column in dimensions)
        for one, row in first.items()
    }


def _files(folder: Path) -> dict[str, Path]:
    """The file of each system's captions, by the name of the system."""
    if not folder.is_dir():
        raise InputError(f"Expected a folder of systems at {folder}, but there is none: correct the path.")
    found: dict[str, Path] = {}
    for one in sorted(path for path in folder.iterdir() if path.is_dir()):
        paths = sorted(one.glob(RESULTS))
        if len(paths) > 1:
            raise InputError(
                f"Expected one {RESULTS} in {one}, but got {named([path.name for path in paths])}: remove all but one."
            )
        if paths:
            found[one.name] = paths[0]
    return found


class _Caption(NamedTuple):
    image: int
    text: str


def _caption(entry: object, place: str) -> _Caption:
    return _Caption(part(entry, "image_id", int, place), part(entry, "caption", str, place))


def _captions(path: Path) -> dict[int, str]:
    """The caption of each image."""
    found: dict[int, str] = {}
    for place, entry in enumerate(part(read_document(path), None, list, str(path)), start=1):
        one = _caption(entry, f"entry {place} of {path}")
        if one.image in found:
            raise InputError(
                f"Expected one caption of image {one.image} in {path}, but got another in entry {place}: remove one."
            )
        found[one.image] = one.text
    return found


def _references(path: str | Path) -> dict[int, tuple[str, ...]]:
    """The captions that people wrote for each image; empty ones are left out."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    annotations = part(read_document(path), "annotations", list, str(path))
    for place, entry in enumerate(annotations, start=1):
        one = _caption(entry, f"annotation {place} of {path}")
        if one.text:
            found[one.image].append(one.text)
    return {image: tuple(texts) for image, texts in found.items()}
