"""Named sets from their publishers: download, check, convert, and put into the folder of the sets."""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from filelock import FileLock

from textmover._version import __version__
from textmover.files import atomic_bytes, file_sha256
from textmover.readers.public_sets.catalogue import FOLDER, NamedSet, Part, data_folder, find_parts, named_sets
from textmover.readers.public_sets.layouts import LayoutError, Row, converted, paths_of
from textmover.terminal import progress_bars
from textmover.types import InputError, plural

logger = logging.getLogger(__name__)

Tell = Callable[[str], object]

DOWNLOADS = ".downloads"  # folder of published files, by host and path; they go when the set is complete
MIRROR = "TEXTMOVER_DATA_MIRROR"  # environment variable: a mirror has the files of each host in a folder of its name

HUB = "https://huggingface.co"
ATTEMPTS = 5
LARGE = 1_000_000  # bytes
NO_BARS = "HF_HUB_DISABLE_PROGRESS_BARS"  # that of the hub's library, which `--quiet` sets, too
TIMEOUT = 60.0  # seconds without a byte
FULL = (errno.ENOSPC, errno.EDQUOT)
TOO_FAR = 416  # the range begins behind the end: the file is complete


def address_of(published: str) -> str:
    """The address to ask: that of the publisher, of ``HF_ENDPOINT`` for the hub, or of a mirror."""
    if mirror := os.environ.get(MIRROR):
        return f"{mirror.rstrip('/')}/{published.partition('://')[2]}"
    endpoint = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    return endpoint + published.removeprefix(HUB) if published.startswith(f"{HUB}/") else published


def download(published: str, path: Path, sha256: str | None, by_hand: str, tell: Tell) -> None:
    """Fetch a file, which appears at ``path`` once it is complete; what an earlier attempt left is continued.

    ``by_hand`` is the way out where the file cannot be fetched, ``tell`` takes the names and sizes of large files.
    """
    if path.is_file():
        return
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON"):
        raise InputError(f"Expected to fetch {published}, but HF_HUB_OFFLINE is set: unset it, or {by_hand}.")
    part, address = path.with_name(f"{path.name}.part"), address_of(published)
    for attempt in range(1, ATTEMPTS + 1):
        before = part.stat().st_size if part.exists() else 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if _complete(address, part, tell):
                break
            reason = "the connection was cut"
        except HTTPError as error:
            raise InputError(
                f"Expected to fetch {address}, but the server answered {error.code} ({error.reason}): try again later; "
                f"if the file has moved, {by_hand}."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) in FULL:
                raise InputError(
                    f"Expected space for {path.name} in {path.parent}, but the disk is full: free some and run the "
                    "command again, which continues, or name another folder with TEXTMOVER_DATA."
                ) from error
            if isinstance(error, PermissionError):
                raise _unwritable(path.parent, error) from error
            reason = str(getattr(error, "reason", error) or type(error).__name__)
        grown = part.exists() and part.stat().st_size > before
        if attempt == ATTEMPTS or not grown:
            raise InputError(
                f"Expected to fetch {address}, but got: {reason}. Check the network and run the command again, which "
                f"continues; without a network, {by_hand}."
            )
    if sha256 is not None and (found := file_sha256(part)) != sha256.lower():
        part.unlink()
        raise InputError(
            f"Expected {address} to have the SHA-256 {sha256.lower()[:16]}…, but got {found[:16]}…: the download was "
            f"damaged or the publisher changed the file. It was removed; run the command again, or {by_hand}."
        )
    part.replace(path)


def _complete(address: str, part: Path, tell: Tell) -> bool:
    """Append what is missing; returns whether the file is complete."""
    note = part.with_name(f"{part.name}.version")  # of the file that the part is of
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"textmover/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if note.exists():
            headers["If-Range"] = note.read_text(encoding="utf-8")
    try:
        with urlopen(Request(address, headers=headers), timeout=TIMEOUT) as answer:
            version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            goes_on = answer.status == http.HTTPStatus.PARTIAL_CONTENT
            if not goes_on and version and not version.startswith("W/"):
                note.write_text(version, encoding="utf-8")
            stated = answer.headers.get("Content-Length")
            length = int(stated or 0)
            if length >= LARGE:
                already = f" after {have / 1e6:,.0f} MB that are here" if goes_on else ""
                tell(f"  {part.stem}: {length / 1e6:,.0f} MB{already}")
            shown = length >= LARGE and os.environ.get(NO_BARS) != "1"
            with part.open("ab" if goes_on else "wb") as out, progress_bars(shown=shown) as advance:
                start = out.tell()
                total = math.ceil((start + length) / LARGE)
                advance(bar := f"{part.stem}, MB", start // LARGE, total)
                while block := answer.read(LARGE):
                    out.write(block)
                    advance(bar, 1, total)
                whole = stated is None or out.tell() - start == length
    except HTTPError as error:
        if error.code != TOO_FAR or not have:
            raise
        whole = True
    if whole:
        note.unlink(missing_ok=True)
    return whole


def get_sets(names: Iterable[str], folder: Path | None, tell: Tell) -> None:
    """Fetch the missing files of sets or parts into a folder (the usual one if ``None``), and tell line by line."""
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
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"Expected to be able to write into {folder}, but got: {error.strerror}. Name another folder with {FOLDER}."
    )


def _make(one: NamedSet, part: Part, folder: Path, tell: Tell) -> set[Path]:
    """Make the file of a part; returns the downloads that it is made of."""
    by_hand = f"put {part.file} into {folder} yourself (its columns are in docs/training-data.md)"

    def published(path: str) -> Path:
        address = urlsplit(one.address + path)
        return folder / DOWNLOADS / f"{address.netloc}{address.path}"

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
