"""Named sets from their publishers: download, check, convert, and put into the folder of the sets."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from filelock import FileLock

from textmover.files import atomic_bytes
from textmover.readers.named.catalogue import FOLDER, NamedSet, Part, data_folder, find_parts, named_sets
from textmover.readers.named.download import download, local_name
from textmover.readers.named.layouts import LayoutError, Row, converted, paths_of
from textmover.types import InputError, plural

logger = logging.getLogger(__name__)

DOWNLOADS = ".downloads"
"""Folder of published files, in that of the sets; they go when their set is complete."""

Tell = Callable[[str], object]


def get_sets(names: Iterable[str], folder: Path | None, tell: Tell) -> None:
    """Fetch the missing files of sets, after their licence and citation were printed.

    Args:
        names: Names of sets, or of their parts.
        folder: Where the files go; :func:`~textmover.readers.named.catalogue.data_folder` if ``None``.
        tell: Takes each line of the report.
    """
    place = data_folder() if folder is None else folder.absolute()
    _fetch([find_parts(name) for name in dict.fromkeys(names)], place, tell)
    if folder is not None:
        tell(f"Recipes find these files where {FOLDER}={place}.")


def fetch_for_recipe(one: NamedSet, key: str) -> None:
    """Fetch a file that a recipe names; other processes that want it wait."""
    _fetch([(one, [key])], data_folder(), logger.warning)


def listing() -> list[dict[str, str]]:
    """Describe every set, and say which of its files are there."""
    folder, found = data_folder(), []
    for one in named_sets().values():
        here = [key for key, part in one.parts.items() if (folder / part.file).exists()]
        state = "yes" if len(here) == len(one.parts) else ", ".join(here) or "no"
        names = ", ".join(f"{one.name}-{key}" if key else one.name for key in one.parts)
        parts = ", ".join(filter(None, one.parts))
        told = {"licence": one.licence, "citation": one.citation, "address": one.address}
        found.append({"name": one.name, "parts": parts, "here": state, "about": one.about, "files": names, **told})
    return found


def _fetch(wanted: Sequence[tuple[NamedSet, list[str]]], folder: Path, tell: Tell) -> None:
    used: set[Path] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # one process at a time downloads
            for one, keys in wanted:
                missing = [one.parts[key] for key in keys if not (folder / one.parts[key].file).exists()]
                if missing:
                    tell(
                        f"{one.name}: {one.about}\n  licence: {one.licence}\n  cite: {one.citation}\n"
                        f"  from: {one.address}"
                    )
                else:
                    tell(f"{one.name} is there already: {', '.join(str(folder / one.parts[key].file) for key in keys)}")
                for part in missing:
                    used |= _make(one, part, folder, tell)
            for path in used:  # several sets may be made of one file
                path.unlink(missing_ok=True)
            if not any(path.is_file() for path in (folder / DOWNLOADS).rglob("*")):
                shutil.rmtree(folder / DOWNLOADS, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"Expected to be able to write into {folder}, but got: {error.strerror}. Name another folder with {FOLDER}."
        ) from error


def _make(one: NamedSet, part: Part, folder: Path, tell: Tell) -> set[Path]:
    """Make the file of a part; returns the downloads that it is made of."""
    by_hand = f"put {part.file} into {folder} yourself (its columns are in docs/training-data.md)"

    def published(path: str) -> Path:
        return folder / DOWNLOADS / local_name(one.address + path)

    paths = paths_of(part, one.layout)
    tell(f"  {part.file} is made of {len(paths)} published file{'' if len(paths) == 1 else 's'}")
    for path in paths:
        download(one.address + path, published(path), one.sha256.get(path), by_hand, tell)
    try:
        count, digest = _write(converted(one.layout, published, part), folder / part.file, part.rows)
    except LayoutError as error:
        for path in paths:  # fetched again next time
            published(path).unlink(missing_ok=True)
        raise InputError(
            f"{error}: {one.address} has changed since {one.checked}. Update textmover, or {by_hand}."
        ) from error
    tell(f"  {folder / part.file}: {plural(count, 'row')}")
    if part.sha256 not in (None, digest):
        tell(f"  note: {part.file} differs from the file that the published figures were computed on")
    return {published(path) for path in paths}


def _write(rows: Iterator[Row], path: Path, expected: int | None) -> tuple[int, str]:
    """Write a table as its suffix says; it appears when it is complete and has as many rows as expected."""
    count, digest = 0, hashlib.sha256()
    with atomic_bytes(path) as stream:
        for count, row in enumerate(rows, start=1):
            header = "\t".join(row) + "\n" if path.suffix == ".tsv" and count == 1 else ""
            raw = f"{header}{_line(row, path.suffix)}\n".encode()
            digest.update(raw)
            stream.write(raw)
        if not count or count != (expected or count):
            raise LayoutError(f"Expected {expected or 'some'} rows for {path.name}, but got {count}")
    return count, digest.hexdigest()


def _line(row: Row, suffix: str) -> str:
    if suffix == ".jsonl":
        return json.dumps(row, ensure_ascii=False)
    return "\t".join(re.sub(r"[\t\r\n]+", " ", str(value)) if suffix == ".tsv" else value for value in row.values())
