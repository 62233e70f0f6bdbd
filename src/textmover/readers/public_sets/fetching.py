"""Download, check and convert named data sets into the data folder."""

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

from textmover._version import __version__
from textmover.files import atomic_bytes, file_sha256, held_lock
from textmover.readers.public_sets.catalogue import FOLDER, NamedSet, Part, data_folder, find_parts, named_sets
from textmover.readers.public_sets.dataset_conversion import LayoutError, Row, converted, paths_of
from textmover.terminal import progress_bars
from textmover.types import InputError, plural

logger = logging.getLogger(__name__)

Tell = Callable[[str], object]

DOWNLOADS = ".downloads"  # folder of published files by host and path, deleted when the set is complete
MIRROR = "TEXTMOVER_DATA_MIRROR"  # environment variable: base of a mirror with a folder per host

HUB = "https://huggingface.co"
ATTEMPTS = 5
LARGE = 1_000_000  # bytes
NO_BARS = "HF_HUB_DISABLE_PROGRESS_BARS"  # variable of the hub library, also set by `--quiet`
TIMEOUT = 60.0  # seconds without a byte
FULL = (errno.ENOSPC, errno.EDQUOT)
TOO_FAR = 416  # HTTP status: the range starts at the end of the file, so it is complete


def address_of(published: str) -> str:
    """Return the URL to request: the publisher's, the ``HF_ENDPOINT`` for the hub, or a mirror's."""
    if mirror := os.environ.get(MIRROR):
        return f"{mirror.rstrip('/')}/{published.partition('://')[2]}"
    endpoint = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    return endpoint + published.removeprefix(HUB) if published.startswith(f"{HUB}/") else published


def download(published: str, path: Path, sha256: str | None, by_hand: str, tell: Tell) -> None:
    """Download a file to ``path``. It appears there once complete; an interrupted download is resumed.

    ``by_hand`` is the advice in errors if the download fails. ``tell`` receives names and sizes of large files.
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
    if sha256 is not None and (actual := file_sha256(part)) != sha256.lower():
        part.unlink()
        raise InputError(
            f"Expected {address} to have the SHA-256 {sha256.lower()[:16]}…, but got {actual[:16]}…: the download was "
            f"damaged or the publisher changed the file. It was removed; run the command again, or {by_hand}."
        )
    part.replace(path)


def _complete(address: str, part: Path, tell: Tell) -> bool:
    """Download the missing rest of a file; return whether it is complete."""
    note = part.with_name(f"{part.name}.version")  # version of the partial file
    offset = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"textmover/{__version__}", "Accept-Encoding": "identity"}
    if offset and note.exists():  # otherwise the rest may be of another version
        headers |= {"Range": f"bytes={offset}-", "If-Range": note.read_text(encoding="utf-8")}
    try:
        with urlopen(Request(address, headers=headers), timeout=TIMEOUT) as response:
            tag, date = response.headers.get("ETag", "W/"), response.headers.get("Last-Modified")
            version = date if tag.startswith("W/") else tag  # a weak tag does not tell versions apart
            resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
            if not resumed and version:
                note.write_text(version, encoding="utf-8")
            content_length = response.headers.get("Content-Length")
            length = int(content_length or 0)
            if length >= LARGE:
                already = f" after {offset / 1e6:,.0f} MB that are here" if resumed else ""
                tell(f"  {part.stem}: {length / 1e6:,.0f} MB{already}")
            show_bar = length >= LARGE and os.environ.get(NO_BARS) != "1"
            with part.open("ab" if resumed else "wb") as out, progress_bars(shown=show_bar) as advance:
                start = out.tell()
                total = math.ceil((start + length) / LARGE)
                advance(bar := f"{part.stem}, MB", start // LARGE, total)
                while block := response.read(LARGE):
                    out.write(block)
                    advance(bar, 1, total)
                complete = content_length is None or out.tell() - start == length
    except HTTPError as error:
        if error.code != TOO_FAR or not offset:
            raise
        complete = True
    if complete:
        note.unlink(missing_ok=True)
    return complete


def get_sets(names: Iterable[str], folder: Path | None, tell: Tell) -> None:
    """Download missing files of sets or parts into a folder (default: the data folder) and report progress lines."""
    place = data_folder() if folder is None else folder.absolute()
    _fetch([find_parts(name) for name in dict.fromkeys(names)], place, tell)
    if folder is not None:
        tell(f"Recipes find these files where {FOLDER}={place}.")


def fetch_for_recipe(entry: NamedSet, key: str) -> None:
    """Download a file that a recipe names. Other processes that need it wait for the lock."""
    _fetch([(entry, [key])], data_folder(), logger.warning)


def listing() -> list[dict[str, str]]:
    """Return a description of every set, including which of its files exist."""
    folder, rows = data_folder(), []
    for entry in named_sets().values():
        present = [key for key, part in entry.parts.items() if (folder / part.file).exists()]
        state = "yes" if len(present) == len(entry.parts) else ", ".join(present) or "no"
        names = ", ".join(f"{entry.name}-{key}" if key else entry.name for key in entry.parts)
        parts = ", ".join(filter(None, entry.parts))
        more = {"licence": entry.licence, "citation": entry.citation, "address": entry.address}
        rows.append({"name": entry.name, "parts": parts, "here": state, "about": entry.about, "files": names, **more})
    return rows


def _fetch(sets: Sequence[tuple[NamedSet, list[str]]], folder: Path, tell: Tell) -> None:
    used: set[Path] = set()
    try:
        with held_lock(folder / ".lock", -1):  # only one process downloads at a time
            for one, keys in sets:
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
            for path in used:  # deleted last, since several parts may share a file
                path.unlink(missing_ok=True)
            if not any(path.is_file() for path in (folder / DOWNLOADS).rglob("*")):
                shutil.rmtree(folder / DOWNLOADS, ignore_errors=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"Expected to be able to write into {folder}, but got: {error.strerror}. Name another folder with {FOLDER}."
    )


def _make(entry: NamedSet, part: Part, folder: Path, tell: Tell) -> set[Path]:
    """Convert the downloads of a part to its file; return the paths of the downloads."""
    by_hand = f"put {part.file} into {folder} yourself (its columns are in docs/training-data.md)"

    def published(path: str) -> Path:
        address = urlsplit(entry.address + path)
        return folder / DOWNLOADS / f"{address.netloc}{address.path}"

    paths = paths_of(part, entry.layout)
    tell(f"  {part.file} is made of {len(paths)} published file{'' if len(paths) == 1 else 's'}")
    for path in paths:
        download(entry.address + path, published(path), entry.sha256.get(path), by_hand, tell)
    try:
        count, digest = _write(converted(entry.layout, published, part), folder / part.file, part.rows)
    except LayoutError as error:
        for path in paths:  # so that the next attempt downloads them again
            published(path).unlink(missing_ok=True)
        raise InputError(
            f"{error}: {entry.address} has changed since {entry.checked}. Update textmover, or {by_hand}."
        ) from error
    tell(f"  {folder / part.file}: {plural(count, 'row')}")
    if part.sha256 not in (None, digest):
        tell(f"  note: {part.file} differs from the file that the published figures were computed on")
    return {published(path) for path in paths}


def _write(rows: Iterator[Row], path: Path, expected: int | None) -> tuple[int, str]:
    """Write a table in the format of its suffix. The file appears once complete, with the expected number of rows."""
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
