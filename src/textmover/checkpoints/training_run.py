"""Checkpoints of training runs: written with a checksum, read from local files as tensors and plain values alone."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import torch

from textmover.files import digest_of, hidden_folder
from textmover.types import InputError

MARK = b"textmover sha256 "  # start of the comment behind the zip archive; the hash of all bytes before it follows
COMMENT = len(MARK) + 2 * hashlib.sha256().digest_size  # length of the comment in bytes

LIGHTNING = {"state_dict": Mapping, "pytorch-lightning_version": str, "loops": Mapping}
"""Entries that Lightning resumes from, with their types."""


def write_run_checkpoint(content: Mapping[str, Any], path: Path) -> bytes:
    """Write a checkpoint beside its place and rename it, so that a kill or a full disk leaves the earlier one.

    The archive that ``torch.save`` writes gets a comment with its SHA-256, which moves and is copied with it, and which
    is returned.
    """
    try:
        with hidden_folder(path) as beside:
            with (beside / path.name).open("w+b") as stream:
                torch.save(content, stream)
                stream.seek(-2, os.SEEK_END)  # the last field of a zip archive: the length of its comment
                stream.write(COMMENT.to_bytes(2, "little"))
                size = stream.tell()
                comment = _comment(stream, size)
                stream.write(comment)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside / path.name, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
        raise InputError(
            f"Expected to be able to write the checkpoint {path}, but got: {reason}. Free some space."
        ) from error
    return comment


def checksum_of(path: Path) -> bytes | None:
    """The checksum at the end of a file; ``None`` where there is none."""
    with path.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - COMMENT))
        comment = stream.read()
    return comment if comment.startswith(MARK) else None


def read_run_checkpoint(
    path: str | Path, *, resume: bool = False, mmap: bool = False, map_location: Any = "cpu"
) -> dict[str, Any]:
    """Read the ``state_dict`` and whatever else a local file holds, without running any code in it.

    To ``resume``, it must hold what Lightning goes on from; ``mmap`` reads a tensor when it is used.
    """
    path, name = Path(path), str(path)
    if not path.is_file():
        reason = "only local files are read: download it first" if "://" in name else "there is no such file"
        if name.startswith("file:"):
            reason = f"only paths are read: give {url2pathname(urlsplit(name).path)}"
        raise InputError(f"Expected {name} to be the checkpoint of a training run, but {reason}.")
    _check_bytes(path)
    try:
        content = torch.load(path, map_location=map_location, weights_only=True, mmap=mmap)
    except OSError:
        raise
    except Exception as error:  # bytes that are no checkpoint fail in the unpickler in any way
        if map_location == "cpu":
            raise _unreadable(path, error) from error
        read_run_checkpoint(path, resume=resume, mmap=mmap)  # where the file is at fault
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(f"Expected `map_location` to give devices that are here, but got: {reason}.") from error
    state = content.get("state_dict") if isinstance(content, Mapping) else None
    if not isinstance(content, dict) or not isinstance(state, Mapping):
        raise InputError(
            f"Expected {path} to be a Lightning checkpoint, but it holds no `state_dict`: give a .ckpt file of "
            "`textmover train`."
        )
    missing = [key for key, kind in LIGHTNING.items() if not isinstance(content.get(key), kind)]
    if resume and missing:
        raise InputError(
            f"Expected {path} to be a Lightning checkpoint to go on from, but it holds no `{missing[0]}`: give a .ckpt "
            "file of `textmover train`."
        )
    return content


def metric_entry(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The part of a checkpoint that says which metric it holds; errors call the checkpoint by a name."""
    about = content.get("textmover")
    if not isinstance(about, Mapping) or not isinstance(about.get("config"), Mapping) or "start" not in about:
        raise InputError(
            f"Expected {name} to be of `textmover train`, but it does not say (under `textmover`) which metric it "
            "holds: give a .ckpt file of a run that trained a metric."
        )
    return about


def _check_bytes(path: Path) -> None:
    """Compare a file with its checksum; one without it, of an earlier version, with those of its archive."""
    comment = checksum_of(path)
    if comment is None:
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
        except Exception as error:  # a damaged directory fails in zipfile in any way
            raise _unreadable(path, error) from error
        if damaged is not None:
            raise _unreadable(path, zipfile.BadZipFile(damaged))
        return
    with path.open("rb") as stream:
        expected = _comment(stream, path.stat().st_size - COMMENT)
    if comment != expected:
        raise InputError(
            f"Expected {path} to have the checksum that training wrote, but it differs: the file is damaged. Copy it "
            "again, or give another checkpoint of the run."
        )


def _comment(stream: IO[bytes], size: int) -> bytes:
    """The comment that belongs behind the first bytes of a file."""
    stream.seek(0)
    return MARK + digest_of(stream, hashlib.sha256(), size).encode()


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"Expected {path} to be the checkpoint of a training run, but torch cannot read it as tensors and plain "
        f"values ({type(error).__name__}): it is damaged, of another kind, or runs code on "
        "loading."
    )
