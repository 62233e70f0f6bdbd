"""What several commands share: the options that say which metric, which table and which file is meant."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import math
import os
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import yaml

from textmover.data.readers import Columns, read_lines, read_segments
from textmover.files import atomic_file
from textmover.presets import KINDS
from textmover.scoring.backends import BACKENDS
from textmover.scoring.precision import Precision
from textmover.scoring.released import DEFAULT_METRIC, DEFAULT_PRESET, default_metric
from textmover.scoring.statistics import FIT_COMMANDS, unfitted_statistics
from textmover.types import InputError, Segment

if TYPE_CHECKING:
    from textmover.scoring.encoder_memory import EncoderMemory
    from textmover.scoring.scorer import Scorer

__all__ = [
    "COLUMN_OPTIONS",
    "FIELD",
    "add_cache_option",
    "add_column_options",
    "add_format_option",
    "add_metric_options",
    "build_scorer",
    "check_folder",
    "check_output",
    "field_flag",
    "flags_named",
    "folder_limit",
    "given_fields",
    "load_scorer",
    "read_tables",
    "refuse_table_options",
    "take_default",
    "write_output",
]

NOT_FIELDS = ("kind", "revision")
"""Fields without a flag of their own: a metric keeps its class, and ``--revision`` means checkpoint or encoder."""

FIELD = "field."
"""What the destination of a flag for a field of the configuration starts with."""

FIELD_FLAGS = {"output": "--metric-output"}
"""Flags of fields that would otherwise have the name of a command's own option."""

COLUMN_OPTIONS = ("hypothesis_column", "reference_column", "score_column", "split")
"""Options that only a table has a use for."""

FOLDER_LIMIT = 1 << 33
"""Bytes that states on disk may take, where no limit is given."""

COLUMN_FLAGS = {
    "hypothesis": "--hypothesis-column",
    "references": "--reference-column",
    "score": "--score-column",
    "groups": "--group",
}
"""The flag behind each field of :class:`~textmover.data.readers.Columns`."""


def add_metric_options(
    parser: argparse.ArgumentParser, *, fit_on: bool = True, several: bool = False, default: str | None = None
) -> None:
    """Add the options that choose a metric, and one for each field of its configuration.

    Args:
        parser: The command's parser.
        fit_on: Whether statistics may be fitted before the work; else they come from files alone.
        several: Whether there may be several metrics.
        default: The metric where none is named; ``None`` leaves that to :func:`take_default`.
    """
    meant = default or f"{DEFAULT_METRIC}, or {DEFAULT_PRESET} with --encoder,"
    kinds = "metric or preset by name (see `textmover list`), checkpoint folder or hub id"
    if several:
        parser.add_argument(
            "--model",
            action="append",
            metavar="NAME",
            help=f"{kinds}; repeat it for several; {meant} if nothing is named",
        )
    else:
        parser.add_argument("--model", default=default, metavar="NAME", help=f"{kinds}; {meant} if not given")
    parser.add_argument("--revision", metavar="TEXT", help="commit or tag on the hub, of the checkpoint or encoder")
    parser.add_argument(
        "--precision",
        choices=get_args(Precision),
        default="exact",
        help="float32, bfloat16 where the hardware has it, 8 bits, or the fastest of them that stays close",
    )
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="auto",
        help="what runs the encoder; the fastest that is installed if not given",
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, mps, …; a GPU is taken where there is one")
    parser.add_argument(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="tokens to a batch of the encoder; what suits the device if not given",
    )
    parser.add_argument("--no-cache", action="store_true", help="keep nothing of a text once it has been scored")
    statistics = parser.add_mutually_exclusive_group() if fit_on else parser
    if fit_on:
        statistics.add_argument(
            "--fit-on", metavar="FILE", help="texts, one a line, to fit the metric's corpus statistics on"
        )
    statistics.add_argument(
        "--statistics",
        action="append",
        metavar="FILE",
        help="corpus statistics that `textmover fit-idf`, `fit-mean` or `fit-baseline` wrote; repeat it for several",
    )
    parser.add_argument("--quiet", action="store_true", help="no signature, no progress, no notes; warnings remain")
    from textmover.cli.citing import add_citing_options  # which needs what stands here

    add_citing_options(parser)
    group = parser.add_argument_group("fields of the metric", "They override those of the preset or checkpoint.")
    for name, (hint, comment) in _metric_fields().items():
        if name not in NOT_FIELDS:
            group.add_argument(
                field_flag(name),
                dest=f"{FIELD}{name}",
                type=_value_parser(hint),
                default=argparse.SUPPRESS,
                metavar=_metavar(hint),
                help=comment,
            )


def field_flag(name: str) -> str:
    """The flag that stands for a field of the configuration.

    Example:
        >>> field_flag("multi_reference"), field_flag("output")
        ('--multi-reference', '--metric-output')
    """
    return FIELD_FLAGS.get(name, f"--{name.replace('_', '-')}")


def given_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of the configuration that the options set, by name."""
    return {name.removeprefix(FIELD): value for name, value in vars(options).items() if name.startswith(FIELD)}


def take_default(options: argparse.Namespace) -> None:
    """Name the metric of a command that scores with one, where the options do not."""
    if options.model is None:
        options.model = default_metric(given_fields(options))


def build_scorer(options: argparse.Namespace, memory: EncoderMemory | None = None, **changes: Any) -> Scorer:
    """The scorer that the options describe, whether or not its statistics are there.

    Args:
        options: The command's options.
        memory: What it shares with other scorers; if ``None``, what ``--cache`` asks for.
        **changes: Fields of the configuration that the command changes.

    Raises:
        InputError: If it cannot be loaded.
    """
    from textmover.scoring.scorer import Scorer

    overrides = given_fields(options)
    memory = _memory(options) if memory is None else memory
    return Scorer.from_pretrained(
        options.model,
        precision=options.precision,
        backend=options.backend,
        device=options.device,
        batch_tokens=options.batch_tokens,
        cache=not options.no_cache,
        progress=not options.quiet,
        revision=options.revision,
        statistics=options.statistics or (),
        memory=memory,
        **{**overrides, **changes},
    )


def add_cache_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that keeps what an encoder made of texts for later calls."""
    parser.add_argument(
        "--cache",
        metavar="FOLDER",
        help="keep what the encoder makes of each text there, and read it instead of encoding the text again (see "
        "`textmover cache`); scores may move by 1e-6 then, as texts meet other batch mates",
    )
    parser.add_argument(
        "--cache-limit",
        type=float,
        metavar="GIB",
        help=f"room that --cache may take, in GiB; {FOLDER_LIMIT >> 30} if not given. The longest unused goes first",
    )


def folder_limit(options: argparse.Namespace) -> int:
    """Bytes that the folder of ``--cache`` may hold.

    Raises:
        InputError: If there is a limit and no folder, or it is no size.
    """
    limit: float | None = getattr(options, "cache_limit", None)
    if limit is None:
        return FOLDER_LIMIT
    if options.cache is None:
        raise InputError("Expected `--cache-limit` together with --cache, but got it alone: name the folder.")
    if not 0 < limit < math.inf:
        raise InputError(f"Expected `--cache-limit` to be a size in GiB above 0, but got {limit:g}.")
    return int(limit * 2**30)


def _memory(options: argparse.Namespace) -> EncoderMemory | None:
    """What keeps hidden states on disk, where that is asked for."""
    from textmover.scoring.encoder_memory import EncoderMemory

    limit = folder_limit(options)
    if getattr(options, "cache", None) is None:
        return None
    if options.no_cache:
        raise InputError("Expected `--cache` or `--no-cache`, but got both: leave one out.")
    return EncoderMemory(folder=options.cache, folder_limit=limit)


def load_scorer(
    options: argparse.Namespace,
    memory: EncoderMemory | None = None,
    *,
    one_of_several: bool = False,
    **changes: Any,
) -> Scorer:
    """The scorer that the options describe, ready to score.

    Args:
        options: The command's options.
        memory: See :func:`build_scorer`.
        one_of_several: Whether the texts of ``--fit-on`` are for those of several metrics that have something to fit.
        **changes: Fields of the configuration that the command changes.

    Raises:
        InputError: If it cannot be loaded, or lacks statistics that the options neither give nor give texts for.
    """
    fitting = None if options.fit_on is None else read_lines(options.fit_on)
    scorer = build_scorer(options, memory, **changes)
    if fitting is not None and (scorer.metric.statistics or not one_of_several):
        return scorer.fit(fitting)
    lacking = unfitted_statistics(scorer.metric)
    if lacking:
        commands = " and ".join(f"`textmover {one}`" for one in dict.fromkeys(FIT_COMMANDS[name] for name in lacking))
        raise InputError(
            f"Expected the corpus statistics ({', '.join(lacking)}) of {options.model} to be fitted, but they are not: "
            f"give texts to fit them on with --fit-on FILE (one a line), a file that {commands} wrote with "
            "--statistics FILE, or a trained checkpoint."
        )
    return scorer


def add_column_options(parser: argparse.ArgumentParser, *, score: bool, systems: bool = False) -> None:
    """Add the options that say what the columns of a table mean.

    Args:
        parser: The command's parser.
        score: Whether human scores are wanted.
        systems: Whether there may be several columns of texts to judge.
    """
    parser.add_argument(
        "--hypothesis-column",
        action="append" if systems else "store",
        metavar="COLUMN",
        help="texts to judge; 'hypothesis' if not given" + ("; repeat it for several systems" if systems else ""),
    )
    parser.add_argument(
        "--reference-column",
        action="append",
        metavar="COLUMN",
        help="references; 'reference' if not given; repeat it for several columns",
    )
    if score:
        parser.add_argument("--score-column", metavar="COLUMN", help="human scores; 'score' if not given")
    parser.add_argument("--split", metavar="NAME", help="split of a hub data set; 'train' if not given")


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what a table is whose name does not."""
    parser.add_argument(
        "--data-format",
        choices=("csv", "tsv", "jsonl", "parquet"),
        help="what --data is; from its suffix if not given",
    )


def refuse_table_options(options: argparse.Namespace, flag: str) -> None:
    """Refuse options that only a table has a use for, where text files are given by ``flag``.

    Raises:
        InputError: If there is one.
    """
    given = [name for name in (*COLUMN_OPTIONS, "data_format") if getattr(options, name, None) is not None]
    if given:
        raise InputError(
            f"Expected `--{given[0].replace('_', '-')}` together with --data, but got {flag}: lines have no columns, "
            "so leave it out."
        )


def read_tables(paths: Sequence[str], options: argparse.Namespace, *, score: bool) -> list[list[Segment]]:
    """The segments of each file, by the columns that the options name.

    Raises:
        InputError: If a file, a column or a cell cannot be used.
    """
    columns = Columns(
        hypothesis=options.hypothesis_column or "hypothesis",
        references=tuple(dict.fromkeys(options.reference_column or ["reference"])),
        score=(options.score_column or "score") if score else None,
        groups=tuple(dict.fromkeys(getattr(options, "group", None) or ())),
    )
    with flags_named():
        return [read_segments(path, columns, split=options.split or "train") for path in paths]


@contextlib.contextmanager
def flags_named(flags: Mapping[str, str] = COLUMN_FLAGS) -> Iterator[None]:
    """Name the flag in errors that name a field of the columns, or another argument that stands behind a flag.

    Args:
        flags: The flag behind each argument; what has none keeps its name.

    Raises:
        InputError: In place of each one.
    """
    try:
        yield
    except InputError as error:
        # "set `score` to null" is a way out in Python alone.
        said = re.sub(r"`([^`]+)`(?! to null)", lambda name: f"`{flags.get(name[1], name[1])}`", str(error))
        if said == str(error):
            raise
        raise InputError(said) from error


def check_output(path: str | Path, inputs: Sequence[str]) -> Path:
    """Refuse a file that cannot be written, before the work rather than after it.

    Raises:
        InputError: If it is a folder, one of the inputs, or in a place that cannot be written to.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"Expected `--output` to be a file, but got the folder {path}: give the name of a file in it.")
    if any(Path(one).exists() and path.resolve() == Path(one).resolve() for one in inputs):
        raise InputError(f"Expected `--output` to be a new file, but got the input {path}: give another name.")
    _check_writable(path, path.absolute().parent)
    return path


def check_folder(path: str | Path, flag: str) -> Path:
    """Refuse a folder that cannot be made or written to, before the work rather than after it.

    Args:
        path: The folder, which need not exist.
        flag: What names it on the command line.

    Raises:
        InputError: If it is a file, or in a place that cannot be written to.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"Expected `{flag}` to be a folder, but got the file {path}: give the name of a folder.")
    _check_writable(path, path.absolute())
    return path


def _check_writable(path: Path, folder: Path) -> None:
    """Make sure that a folder, or the nearest one above it that exists, can be written to."""
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        reason = "is a file" if not existing.is_dir() else "is a folder that may not be written to"
        raise InputError(
            f"Expected to be able to write {path}, but {existing} {reason}: give a place that can be written."
        )


def write_output(text: str, path: Path) -> None:
    """Write a file that appears under its name only when it is complete."""
    with atomic_file(path) as stream:
        stream.write(text)


def _value_parser(hint: Any) -> Callable[[str], Any]:
    """How the text of a flag becomes the value of a field: texts as they are, split at commas, or else as YAML."""
    alternatives = get_args(hint)
    if hint is str or get_origin(hint) is Literal:
        return str
    if hint == tuple[str, ...]:
        return lambda text: tuple(one.strip() for one in text.strip("[] ").split(",") if one.strip())
    if str in alternatives:
        return lambda text: None if text == "null" else text

    def parse(text: str) -> Any:
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise argparse.ArgumentTypeError(f"expected a number, true, false or null, but got {text!r}") from error
        if isinstance(value, str) and (hint is float or float in alternatives):
            try:
                return float(value)  # YAML takes 1e-3 for a text
            except ValueError:
                return value
        return value

    return parse


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"{{{','.join(map(str, get_args(hint)))}}}"
    if hint is bool:
        return "{true,false}"
    if hint == tuple[str, ...]:
        return "TEXT,…"
    alternatives = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    return "TEXT" if str in alternatives else "NUMBER"


def _metric_fields() -> dict[str, tuple[Any, str | None]]:
    """Type and comment of every field that a kind of metric has."""
    found: dict[str, tuple[Any, str | None]] = {}
    for config_class in {metric_class.config_class for metric_class in KINDS.values()}:
        hints, comments = get_type_hints(config_class), _field_comments(config_class)
        found.update({entry.name: (hints[entry.name], comments.get(entry.name)) for entry in fields(config_class)})
    return found


def _field_comments(config_class: type) -> dict[str, str]:
    """What the source says of each field, for the help."""
    try:
        source = inspect.getsource(config_class)
    except OSError:  # installed without source
        return {}
    found = re.findall(r"^ {4}(\w+): [^#\n]*# (.+)$", source, flags=re.MULTILINE)
    return {name: comment.replace("None", "null").replace("%", "%%") for name, comment in found}
