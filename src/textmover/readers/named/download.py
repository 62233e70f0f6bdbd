"""Downloads that go on where they were interrupted."""

from __future__ import annotations

import errno
import hashlib
import http.client
import math
import os
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from textmover._version import __version__
from textmover.terminal import progress_bars
from textmover.types import InputError

MIRROR = "TEXTMOVER_DATA_MIRROR"
"""Environment variable: address of a mirror, which has the files of each host in a folder of its name."""

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


def download(published: str, path: Path, sha256: str | None, by_hand: str, tell: Callable[[str], object]) -> None:
    """Fetch a file; what an earlier attempt left is kept and continued.

    Args:
        published: Address of the file.
        path: Where it goes once it is complete and has the expected hash.
        sha256: Expected hash; not checked if ``None``.
        by_hand: Way out where the file cannot be fetched.
        tell: Takes the names and sizes of large files.
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
                raise InputError(
                    f"Expected to be able to write into {path.parent}, but got: {error.strerror}. Name another folder "
                    "with TEXTMOVER_DATA."
                ) from error
            reason = str(getattr(error, "reason", error) or type(error).__name__)
        grown = part.exists() and part.stat().st_size > before
        if attempt == ATTEMPTS or not grown:
            raise InputError(
                f"Expected to fetch {address}, but got: {reason}. Check the network and run the command again, which "
                f"continues; without a network, {by_hand}."
            )
    if sha256 is not None and (found := _sha256(part)) != sha256.lower():
        part.unlink()
        raise InputError(
            f"Expected {address} to have the SHA-256 {sha256.lower()[:16]}…, but got {found[:16]}…: the download was "
            f"damaged or the publisher changed the file. It was removed; run the command again, or {by_hand}."
        )
    part.replace(path)


def _complete(address: str, part: Path, tell: Callable[[str], object]) -> bool:
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
            length = answer.headers.get("Content-Length")
            if length is not None and int(length) >= LARGE:
                already = f" after {have / 1e6:,.0f} MB that are here" if goes_on else ""
                tell(f"  {part.stem}: {int(length) / 1e6:,.0f} MB{already}")
            shown = length is not None and int(length) >= LARGE and os.environ.get(NO_BARS) != "1"
            with part.open("ab" if goes_on else "wb") as out, progress_bars(shown=shown) as advance:
                start = out.tell()
                total = math.ceil((start + int(length or 0)) / LARGE)
                advance(bar := f"{part.stem}, MB", start // LARGE, total)
                while block := answer.read(LARGE):
                    out.write(block)
                    advance(bar, 1, total)
                whole = length is None or out.tell() - start == int(length)
    except HTTPError as error:
        if error.code != TOO_FAR or not have:
            raise
        whole = True
    if whole:
        note.unlink(missing_ok=True)
    return whole


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def local_name(published: str) -> str:
    """Place of a downloaded file in the folder of downloads: host and path of its address."""
    split = urlsplit(published)
    return f"{split.netloc}{split.path}"
