"""Options that choose and configure a metric: its name, its fields, and the cache."""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

from textmover.checkpoints.hub import DEFAULT_METRIC, DEFAULT_PRESET
from textmover.cli.options.declaration import Part
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
            settings: dict[str, Any] = {"default": argparse.SUPPRESS, "metavar": _metavar(hint), "help": comment}
            parse = functools.partial(field_value, name)
            group.add_argument(field_flag(name), dest=f"{FIELD}{name}", type=parse, **settings)


def field_value(name: str, text: str) -> Any:
    """Value of a flag: a text as it is, a list split at commas, or else YAML; a text where there is no such field."""
    hint = _metric_fields().get(name, (str, None))[0]
    alternatives = get_args(hint)
    if hint is str or get_origin(hint) is Literal:
        return text
    if hint == tuple[str, ...]:
        return tuple(one.strip() for one in text.strip("[] ").split(",") if one.strip())
    if str in alternatives:
        return None if text == "null" else text
    try:
        value = load_yaml(text, "the value")
    except InputError as error:
        raise argparse.ArgumentTypeError(f"expected a number, true, false or null, but got {text!r}") from error
    if isinstance(value, str) and (hint is float or float in alternatives):
        with contextlib.suppress(ValueError):
            return float(value)  # "inf"
    return value


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"{{{','.join(map(str, get_args(hint)))}}}"
    if hint is bool:
        return "{true,false}"
    if hint == tuple[str, ...]:
        return "TEXT,…"
    return "TEXT" if hint is str or str in get_args(hint) else "NUMBER"


@functools.cache
def _metric_fields() -> dict[str, tuple[Any, str | None]]:
    """Type and comment of every field that a kind of metric has; the first kind's, where several have it."""
    found: dict[str, tuple[Any, str | None]] = {}
    for config_class in dict.fromkeys(metric_class.config_class for metric_class in KINDS.values()):
        comments: dict[str, str] = {}
        with contextlib.suppress(OSError):  # installed without source
            source = inspect.getsource(config_class)
            comments = dict(re.findall(r"^ {4}(\w+): [^#\n]*# (.+)$", source, flags=re.MULTILINE))
        for name, hint in get_type_hints(config_class).items():
            comment = comments.get(name)
            found.setdefault(name, (hint, comment and comment.replace("None", "null").replace("%", "%%")))
    return found


def metric_options(*, fit_on: bool = True, several: bool = False, default: str | None = None) -> tuple[Part, ...]:
    """Options that choose a metric, and one for each field of its configuration.

    Args:
        fit_on: Whether statistics may be fitted before the work; else they come from files alone.
        several: Whether there may be several metrics.
        default: The metric where none is named; ``None`` leaves that to ``take_default``.
    """
    meant = default or f"{DEFAULT_METRIC}, or {DEFAULT_PRESET} with --encoder,"
    how = "repeat" if several else f"default {default}" if default else ""
    fitting = "one of:\n--fit-on FILE: texts, one a line, to fit the metric's corpus statistics on"
    text = f"""
--model NAME {f"({how})" if how else ""}: metric or preset by name (see `textmover list`), checkpoint folder or hub id;
    {f"repeat it for several; {meant} if nothing is named" if several else f"{meant} if not given"}
--revision TEXT: commit or tag on the hub, of the checkpoint or encoder
--precision {"|".join(get_args(Precision))} (default exact): float32, bfloat16 where the hardware has it, 8 bits, or the
    fastest of them that stays close
--backend {"|".join(BACKENDS)} (default auto): what runs the encoder; the fastest that is installed if not given
--device NAME: cpu, cuda, mps, …; a GPU is taken where there is one
--batch-tokens N: tokens to a batch of the encoder; what suits the device if not given
--no-cache: keep nothing of a text once it has been scored
{fitting if fit_on else ""}
--statistics FILE (repeat): corpus statistics that `textmover fit-idf`, `fit-mean` or `fit-baseline` wrote; repeat it
    for several

--quiet: no signature, no progress, no notes; warnings remain
"""
    return text, add_citing_options, add_field_options


CACHE = f"""
--cache FOLDER: keep what the encoder makes of each text there, and read it instead of encoding the text again (see
    `textmover cache`); scores may move by 1e-6 then, as texts meet other batch mates
--cache-limit GIB: room that --cache may take, in GiB; {FOLDER_LIMIT >> 30} if not given. What other versions of
    textmover have kept goes first, then the longest unused
"""
