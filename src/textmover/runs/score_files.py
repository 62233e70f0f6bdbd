"""Output of ``textmover score``: a stream to standard output, or parts in a file or folder."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from textmover.files import atomic_file, check_output
from textmover.runs.shards.score_formats import FORMATS, SUFFIXES, Layout, compressed, is_compressed, split_suffix
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.runs.score_summary import Summary
    from textmover.runs.shards.shards import Parts
    from textmover.runs.shards.streaming import Done

logger = logging.getLogger(__name__)

MEAN_FORMATS = ("text", "json")


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is written where."""
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        help="text: one score a line with nine significant digits, which tell any two float32 values apart, and the "
        "signature on standard error; json: one object with everything; jsonl: one object a row; tsv, csv, parquet: "
        "one row a row; from the suffix of --output if not given, else text",
    )
    parser.add_argument("--only-mean", action="store_true", help="the mean alone, instead of one score a segment")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write there instead of to standard output; .gz or .zst at its end compresses it; FOLDER/ takes one "
        "Parquet file for each shard",
    )
    parser.add_argument(
        "--shard-size",
        type=int,
        default=4096,
        metavar="N",
        help="pairs that are scored and written together: what an interruption may cost",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with what an interrupted run has left of --output")
    again.add_argument("--overwrite", action="store_true", help="throw away what an earlier run has left of --output")


@dataclass(frozen=True)
class Target:
    """Path and format of the scores.

    Attributes:
        layout: How they are written.
        only_mean: Whether the mean stands for all of them.
        path: A file or folder; ``None`` is standard output.
        folder: Whether it is a folder that keeps the shards.
        in_parts: Whether shards are kept until all are finished; a device or pipe takes them as they come.
    """

    layout: Layout
    only_mean: bool
    path: Path | None = None
    folder: bool = False
    in_parts: bool = False

    @property
    def named(self) -> Path:
        """The file or folder, where it is known that there is one."""
        if self.path is None:
            raise RuntimeError("Expected a file or folder, but got standard output.")
        return self.path

    @property
    def parts_folder(self) -> Path:
        """Folder of the shards."""
        return self.named if self.folder else self.named.with_name(f"{self.named.name}.parts")

    @property
    def complete(self) -> bool:
        """Whether there is something that looks like the result of an earlier run, and nothing left to be done."""
        from textmover.runs.shards.folder import is_parts, is_sealed

        if self.path is None or not self.in_parts:
            return False
        if self.folder:
            return is_sealed(self.path)
        return self.path.is_file() and self.path.stat().st_size > 0 and not is_parts(self.parts_folder)


def choose_target(options: argparse.Namespace, systems: tuple[str, ...], inputs: Sequence[str]) -> Target:
    """Target that the options ask for."""
    if options.output is None:
        for name in ("resume", "overwrite"):
            if getattr(options, name):
                raise InputError(f"Expected --{name} together with --output FILE, but got no file: name it.")
        format = options.format or "text"
        if format == "parquet":
            raise InputError("Expected --format parquet together with --output FILE, but got no file: name it.")
        return _checked(Target(Layout(format, systems), options.only_mean))
    path = Path(options.output)
    folder = _is_folder(options.output)
    if folder:
        if options.format not in (None, "parquet"):
            raise InputError(
                f"Expected Parquet in the folder {path}, but got --format {options.format}: leave it out, or give the "
                "name of a file."
            )
        if any(Path(one).is_dir() and path.resolve() == Path(one).resolve() for one in inputs):
            raise InputError(f"Expected `--output` to be a new folder, but got the input {path}: give another name.")
        return _checked(Target(Layout("parquet", systems), options.only_mean, path, folder=True, in_parts=True))
    check_output(path, inputs)
    format = options.format or SUFFIXES.get(split_suffix(path), "text")
    if format == "parquet" and is_compressed(path):
        raise InputError(
            f"Expected a Parquet file, which compresses its own columns, but got {path}: leave {path.suffix} out."
        )
    with compressed(io.BytesIO(), path):  # says now rather than behind the last shard whether it can be compressed
        pass
    target = Target(Layout(format, systems), options.only_mean, path, in_parts=path.is_file() or not path.exists())
    if not target.in_parts and (format == "parquet" or is_compressed(path)):
        raise InputError(
            f"Expected a file for anything but plain text, but got the device or pipe {path}: give another."
        )
    return _checked(target)


def _is_folder(output: str) -> bool:
    """Return whether an output is a folder for shards: it says so at its end, is empty, or has been one before."""
    from textmover.runs.shards.folder import is_free, is_parts

    path = Path(output)
    return output.endswith(("/", "\\")) or is_parts(path) or is_free(path)


def _checked(target: Target) -> Target:
    if target.only_mean and target.layout.format not in MEAN_FORMATS:
        raise InputError(
            f"Expected --only-mean together with --format text or json, but got {target.layout.format}: choose one of "
            "them."
        )
    return target


class Sink(Protocol):
    """Takes shards in input order."""

    def take(self, done: Done) -> None:
        """Take a shard that is finished."""

    def finish(self, shards: int, summary: Summary) -> None:
        """All shards have been taken."""


@contextlib.contextmanager
def open_sink(target: Target, parts: Parts | None) -> Iterator[Sink]:
    """Get ready to take shards; ``parts`` is where they are kept, if they are."""
    if parts is not None:
        yield _PartsSink(target, parts)
    elif target.path is None:
        yield _StreamSink(target, sys.stdout)
    else:
        with atomic_file(target.path) as stream:
            yield _StreamSink(target, stream)


class _StreamSink:
    """Writes shards as they come; what needs all of them, at the end."""

    def __init__(self, target: Target, stream: IO[str]) -> None:
        self._target = target
        self._layout = target.layout
        self._stream = stream
        self._encoded: list[bytes] = []

    def take(self, done: Done) -> None:
        if done.scores is None:
            raise RuntimeError("Expected scores of a run without parts, but got none.")
        if self._target.only_mean:
            return
        encoded = self._layout.encode(done.scores.values)
        if self._layout.format == "json":
            self._encoded.append(encoded)
            return
        header = self._layout.header(done.tally.names) if done.shard.index == 0 else ""
        self._stream.write(header + encoded.decode())
        self._stream.flush()

    def finish(self, shards: int, summary: Summary) -> None:
        if self._target.only_mean:
            self._stream.write(self._layout.means(summary))
        elif self._layout.format == "json":
            self._stream.write(self._layout.whole(self._encoded, summary))


class _PartsSink:
    """Leaves shards where they are until all of them are finished."""

    def __init__(self, target: Target, parts: Parts) -> None:
        self._target = target
        self._parts = parts

    def take(self, done: Done) -> None:
        pass

    def finish(self, shards: int, summary: Summary) -> None:
        if self._target.folder:
            self._parts.seal(shards, summary)
        else:
            self._parts.merge(self._target.named, shards, summary, only_mean=self._target.only_mean)


@contextlib.contextmanager
def keeping(target: Target, parts: Parts | None) -> Iterator[None]:
    """Say what is kept where something ends the work early, and leave no folder without a finished shard."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        said = None if parts is None else kept_words(parts)
        if said is None:
            # Beside an older result the folder stays, so that --resume does not take that for the result of this run.
            if parts is not None and not (target.path is not None and target.path.is_file()):
                parts.remove()
            raise
        if isinstance(error, KeyboardInterrupt):
            raise type(error)(f"interrupted: {said}") from None
        said = f"What was scored before is not lost: {said}."
        if isinstance(error, InputError):
            raise InputError(f"{error} {said}") from error
        logger.warning("%s", said)  # above the traceback of a defect
        raise


def kept_words(parts: Parts) -> str | None:
    """Sentence about finished shards and how to resume; ``None`` if there are none."""
    kept = len(parts.kept())
    are = "1 finished shard is" if kept == 1 else f"{kept} finished shards are"
    return f"{are} kept in {parts.folder}, continue with --resume" if kept else None
