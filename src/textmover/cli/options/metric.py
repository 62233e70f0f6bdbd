"""Options that choose and configure a metric: its name, its fields, and the cache."""

from __future__ import annotations

import argparse
import inspect
import re
import types
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from textmover.checkpoints.hub import DEFAULT_METRIC, DEFAULT_PRESET
from textmover.cli.options.signature_and_citations import add_citing_options
from textmover.presets import KINDS
from textmover.reading import load_yaml
from textmover.scoring.backends import BACKENDS
from textmover.scoring.field_flags import FIELD, field_flag
from textmover.scoring.precision import Precision
from textmover.scoring.scorer_options import FOLDER_LIMIT
from textmover.types import InputError

NOT_FIELDS = ("kind", "revision")
"""Fields without a flag of their own: a metric keeps its class, and ``--revision`` means checkpoint or encoder."""


def add_field_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field that a kind of metric has."""
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


def _value_parser(hint: Any) -> Callable[[str], Any]:
    """Parser of a flag's text: a text as it is, a list split at commas, or else YAML."""
    alternatives = get_args(hint)
    if hint is str or get_origin(hint) is Literal:
        return str
    if hint == tuple[str, ...]:
        return lambda text: tuple(one.strip() for one in text.strip("[] ").split(",") if one.strip())
    if str in alternatives:
        return lambda text: None if text == "null" else text

    def parse(text: str) -> Any:
        try:
            value = load_yaml(text, "the value")
        except InputError as error:
            raise argparse.ArgumentTypeError(f"expected a number, true, false or null, but got {text!r}") from error
        if isinstance(value, str) and (hint is float or float in alternatives):
            try:
                return float(value)  # "inf"
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
    """Type and comment of every field that a kind of metric has; the first kind's, where several have it."""
    found: dict[str, tuple[Any, str | None]] = {}
    for config_class in dict.fromkeys(metric_class.config_class for metric_class in KINDS.values()):
        hints, comments = get_type_hints(config_class), _field_comments(config_class)
        for entry in fields(config_class):
            found.setdefault(entry.name, (hints[entry.name], comments.get(entry.name)))
    return found


def _field_comments(config_class: type) -> dict[str, str]:
    """Comments of the fields in the source, for the help."""
    try:
        source = inspect.getsource(config_class)
    except OSError:  # installed without source
        return {}
    found = re.findall(r"^ {4}(\w+): [^#\n]*# (.+)$", source, flags=re.MULTILINE)
    return {name: comment.replace("None", "null").replace("%", "%%") for name, comment in found}


def add_metric_options(
    parser: argparse.ArgumentParser, *, fit_on: bool = True, several: bool = False, default: str | None = None
) -> None:
    """Add the options that choose a metric, and one for each field of its configuration.

    Args:
        parser: The command's parser.
        fit_on: Whether statistics may be fitted before the work; else they come from files alone.
        several: Whether there may be several metrics.
        default: The metric where none is named; ``None`` leaves that to ``take_default``.
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
    add_citing_options(parser)
    add_field_options(parser)


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
        help=f"room that --cache may take, in GiB; {FOLDER_LIMIT >> 30} if not given. What other "
        "versions of textmover have kept goes first, then the longest unused",
    )
