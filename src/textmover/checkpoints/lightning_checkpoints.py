"""Checkpoints of training runs: written with a checksum, read only as tensors and plain values."""

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

COMMENT_START = b"textmover sha256 "  # start of the zip comment; the hash of all bytes before the comment follows
COMMENT_LENGTH = len(COMMENT_START) + 2 * hashlib.sha256().digest_size  # length of the comment in bytes

RESUME_ENTRIES = {"state_dict": Mapping, "pytorch-lightning_version": str, "loops": Mapping}
"""Entries that Lightning needs to resume, with their types."""


def write_run_checkpoint(content: Mapping[str, Any], path: Path) -> bytes:
    """Write a checkpoint to a temporary file and rename it, so that a kill or a full disk keeps the earlier one.

    The zip archive of ``torch.save`` gets a comment with its SHA-256, which is returned.
    """
    try:
        with hidden_folder(path) as temporary:
            with (temporary / path.name).open("w+b") as stream:
                torch.save(content, stream)
                stream.seek(-2, os.SEEK_END)  # the last field of a zip archive: the length of its comment
                stream.write(COMMENT_LENGTH.to_bytes(2, "little"))
                size = stream.tell()
                comment = _comment(stream, size)
                stream.write(comment)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary / path.name, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
        raise InputError(
            f"Expected to be able to write the checkpoint {path}, but got: {reason}. Free some space, or "
            "choose another `dirpath`."
        ) from error
    return comment


def checksum_of(path: Path) -> bytes | None:
    """Return the checksum comment at the end of a file, or ``None``."""
    with path.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - COMMENT_LENGTH))
        comment = stream.read()
    return comment if comment.startswith(COMMENT_START) else None


def read_run_checkpoint(
    path: str | Path, *, resume: bool = False, mmap: bool = False, map_location: Any = "cpu"
) -> dict[str, Any]:
    """Load a checkpoint from a local file without executing pickled code.

    ``resume`` also checks the entries that Lightning needs to resume. ``mmap`` reads tensors lazily.
    """
    path, name = Path(path), str(path)
    if not path.is_file():
        reason = "only local files are read: download it first" if "://" in name else "there is no such file"
        if name.startswith("file:"):
            reason = f"only paths are read: give {url2pathname(urlsplit(name).path)}"
        raise InputError(f"Expected {name} to be the checkpoint of a training run, but {reason}.")
    _verify_checksum(path)
    try:
        content = torch.load(path, map_location=map_location, weights_only=True, mmap=mmap)
    except OSError:
        raise
    except Exception as error:  # invalid files raise arbitrary errors in the unpickler
        if map_location == "cpu":
            raise _unreadable(path, error) from error
        read_run_checkpoint(path, resume=resume, mmap=mmap)  # raises if the file itself is invalid
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(f"Expected `map_location` to give available devices, but got: {reason}.") from error
    state = content.get("state_dict") if isinstance(content, Mapping) else None
    if not isinstance(content, dict) or not isinstance(state, Mapping):
        raise InputError(
            f"Expected {path} to be a Lightning checkpoint, but it holds no `state_dict`: give a .ckpt file of "
            "`textmover train`."
        )
    missing = [key for key, kind in RESUME_ENTRIES.items() if not isinstance(content.get(key), kind)]
    if resume and missing:
        raise InputError(
            f"Expected {path} to be a Lightning checkpoint to resume from, but it has no `{missing[0]}`: give a .ckpt "
            "file of `textmover train`."
        )
    return content


def metric_entry(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the entry that describes a run checkpoint's metric; error messages call the checkpoint ``name``."""
    about = content.get("textmover")
    if not isinstance(about, Mapping) or not isinstance(about.get("config"), Mapping) or "start" not in about:
        raise InputError(
            f"Expected {name} to be a checkpoint of `textmover train`, but its entry `textmover` names no metric: give "
            "a .ckpt file of a run that trained a metric."
        )
    return about


def _verify_checksum(path: Path) -> None:
    """Verify a file's checksum; for files of earlier versions without one, verify the zip archive's CRCs."""
    comment = checksum_of(path)
    if comment is None:
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
        except Exception as error:  # a damaged zip directory raises arbitrary errors
            raise _unreadable(path, error) from error
        if damaged is not None:
            raise _unreadable(path, zipfile.BadZipFile(damaged))
        return
    with path.open("rb") as stream:
        expected = _comment(stream, path.stat().st_size - COMMENT_LENGTH)
    if comment != expected:
        raise InputError(
            f"Expected {path} to have the checksum that training wrote, but it differs: the file is damaged. Copy it "
            "again, or give another checkpoint of the run."
        )


def _comment(stream: IO[bytes], size: int) -> bytes:
    """Return the zip comment with the checksum of the first ``size`` bytes."""
    stream.seek(0)
    return COMMENT_START + digest_of(stream, hashlib.sha256(), size).encode()


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"Expected {path} to be the checkpoint of a training run, but torch cannot read it as tensors and plain "
        f"values ({type(error).__name__}): it is damaged, of another kind, or runs code on "
        "loading."
    )
