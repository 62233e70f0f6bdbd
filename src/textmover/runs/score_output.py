"""Output of ``textmover score``: standard output, a file, or a folder of shards."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from textmover.files import atomic_file, check_output, name_output
from textmover.runs.shards.folder import SUMMARY, is_free, is_parts, is_sealed, output_manifest_path, parts_folder_of
from textmover.runs.shards.score_formats import Layout, LineLayout, check_compression, format_of, is_compressed
from textmover.runs.shards.shards import ShardFolder
from textmover.runs.shards.streaming import ShardStream
from textmover.types import InputError, plural

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """Path and format of the scores; ``None`` as path is standard output."""

    layout: Layout | LineLayout
    path: Path | None = None
    folder: bool = False  # true if the result is a folder of shards
    in_parts: bool = False  # true if shards are stored until all are finished; false if streamed to a device or pipe

    @property
    def named(self) -> Path:
        """The path, which must not be ``None``."""
        assert self.path is not None
        return self.path

    @property
    def parts_folder(self) -> Path:
        """Folder of the shards."""
        return self.named if self.folder else parts_folder_of(self.named)

    @property
    def complete(self) -> bool:
        """Return whether the result of an earlier run appears to be complete."""
        if self.path is None or not self.in_parts:
            return False
        if self.folder:
            return is_sealed(self.path)
        return self.path.is_file() and self.path.stat().st_size > 0 and not is_parts(self.parts_folder)


def choose_target(options: argparse.Namespace, systems: tuple[str, ...], inputs: Sequence[str]) -> Target:
    """Return the target for the options; raise :class:`InputError` if they conflict or it cannot be written."""
    keep = tuple(dict.fromkeys(options.keep_columns or ()))
    layout = functools.partial(Layout, systems=systems, keep=keep, only_mean=options.only_mean)
    if options.output is None:
        refuse_resuming(options)
        format = options.format or "text"
        if format == "parquet":
            raise InputError("Expected --format parquet together with --output FILE, but got no file: name it.")
        return Target(layout(format))
    path = Path(options.output)
    # The output is a folder of shards if its name ends with a slash, it is empty, or it already holds shards.
    if options.output.endswith(("/", "\\")) or is_parts(path) or is_free(path):
        if options.format not in (None, "parquet"):
            raise InputError(
                f"Expected Parquet in the folder {path}, but got --format {options.format}: leave it out, or give the "
                "name of a file."
            )
        if any(Path(one).is_dir() and path.resolve() == Path(one).resolve() for one in inputs):
            raise InputError(f"Expected `--output` to be a new folder, but got the input {path}: give another name.")
        name_output(path / SUMMARY, path)
        return Target(layout("parquet"), path, folder=True, in_parts=True)
    check_output(path, inputs)
    return _file_target(layout(format_of(path, options.format)), path)


def line_target(options: argparse.Namespace, layout: LineLayout, path: Path | None) -> Target:
    """Return the target of a command that writes lines to a checked path, or to standard output if it is ``None``."""
    if path is not None:
        return _file_target(layout, path)
    refuse_resuming(options)
    return Target(layout)


def refuse_resuming(options: argparse.Namespace, what: str = "no file: name it") -> None:
    """Raise :class:`InputError` if an option is given that needs a file with finished shards."""
    for name in ("resume", "overwrite"):
        if getattr(options, name):
            raise InputError(f"Expected --{name} together with --output FILE, but got {what}.")


def _file_target(layout: Layout | LineLayout, path: Path) -> Target:
    if layout.format == "parquet" and is_compressed(path):
        raise InputError(
            f"Expected a Parquet file, which compresses its own columns, but got {path}: leave {path.suffix} out."
        )
    check_compression(path)
    in_parts = path.is_file() or not path.exists()
    if not in_parts and (layout.format == "parquet" or is_compressed(path)):
        raise InputError(
            f"Expected a file for anything but plain text, but got the device or pipe {path}: give another."
        )
    return Target(layout, path, in_parts=in_parts)


def say_at_end(target: Target, options: argparse.Namespace, kept_shards: int | None, said: Sequence[str]) -> None:
    """Print ``said`` and the number of shards of earlier runs, ``None`` if one of these had finished, unless quiet."""
    lines = [f"Kept: {plural(kept_shards, 'shard')} of an earlier run"] if kept_shards else []
    lines += said
    if options.resume and target.in_parts and not target.folder:
        lines.append(f"Kept for --resume: {output_manifest_path(target.named)}")
    if kept_shards is None:
        lines = [f"Complete already: {target.path} (--overwrite computes it again)"]
    if not options.quiet:
        sys.stderr.write("".join(f"{one}\n" for one in lines))


@contextlib.contextmanager
def opened(target: Target, parts: ShardFolder | None) -> Iterator[ShardFolder | ShardStream]:
    """Yield ``parts``, the folder that stores shards, else the stream of the output."""
    if parts is not None:
        with report_kept_shards(target, parts):
            yield parts
    else:
        with contextlib.nullcontext(sys.stdout) if target.path is None else atomic_file(target.path) as stream:
            yield ShardStream(target.layout, stream)


@contextlib.contextmanager
def report_kept_shards(target: Target, parts: ShardFolder) -> Iterator[None]:
    """Add the number of kept shards to an error of the block; remove a folder without finished shards."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        message = kept_shards_message(parts)
        if message is None:
            # Keep the folder next to an older result: otherwise --resume takes that for the result of this run.
            if not (target.path is not None and target.path.is_file()):
                parts.remove()
            raise
        if isinstance(error, KeyboardInterrupt):
            raise type(error)(f"interrupted: {message}") from None
        message = f"Earlier work is kept: {message}."
        if isinstance(error, InputError):
            raise InputError(f"{error} {message}") from error
        logger.warning("%s", message)  # printed above the traceback of an internal error
        raise


def kept_shards_message(parts: ShardFolder) -> str | None:
    """Return a message with the number of finished shards and how to resume; ``None`` without finished shards."""
    kept = len(parts.kept())
    are = "1 finished shard is" if kept == 1 else f"{kept} finished shards are"
    return f"{are} kept in {parts.folder}, continue with --resume" if kept else None
