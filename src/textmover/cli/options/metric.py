"""Options that choose and configure a metric: its name, its fields, and the cache."""

from __future__ import annotations

import argparse
import functools
from typing import Any, get_args

from textmover.checkpoints.hub import DEFAULT_METRIC, DEFAULT_PRESET
from textmover.cli.options.declaration import HelpFormatter, Part
from textmover.cli.options.signature_and_citations import CITING
from textmover.scoring.backends import BACKENDS
from textmover.scoring.field_flags import FIELD, NOT_FIELDS, field_flag, field_value, metric_fields, value_word
from textmover.scoring.precision import Precision
from textmover.scoring.scorer_options import FOLDER_LIMIT


def add_field_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field that a kind of metric has; ``--help-metric`` shows them."""
    group = parser.add_argument_group("fields of the metric")
    told = fields_help(parser.prog)
    group.add_argument("--help-metric", action="version", version=told, help="show their options, such as --layer 4")
    _add_fields(group, shown=False)


def _add_fields(group: Any, *, shown: bool) -> None:
    for name, (hint, comment) in metric_fields().items():
        if name not in NOT_FIELDS:
            settings: dict[str, Any] = {"default": argparse.SUPPRESS, "metavar": value_word(hint)}
            settings["help"] = comment if shown else argparse.SUPPRESS
            parse = functools.partial(field_value, name)
            group.add_argument(field_flag(name), dest=f"{FIELD}{name}", type=parse, **settings)


def fields_help(program: str) -> str:
    """The help of the options for fields of the metric."""
    shown = argparse.ArgumentParser(program, f"{program} [options]", add_help=False, formatter_class=HelpFormatter)
    _add_fields(shown.add_argument_group("fields of the metric", "They override those of --model."), shown=True)
    return shown.format_help()


def metric_options(*, fit_on: bool = True, several: bool = False, default: str | None = None) -> tuple[Part, ...]:
    """Options that choose one or several metrics, and one for each field of their configuration.

    Without ``fit_on``, statistics come from files alone; without ``default``, ``take_default`` chooses the metric.
    """
    meant = default or f"{DEFAULT_METRIC}, or {DEFAULT_PRESET} with --encoder,"
    how = "repeat" if several else f"default {default}" if default else ""
    fitting = "one of:\n--fit-on FILE: texts, one a line, to fit the metric's corpus statistics on"
    text = f"""
# metric
--model NAME {f"({how})" if how else ""}: metric or preset by name (see `textmover list`), checkpoint folder or hub id;
    {f"repeat it for several; {meant} if nothing is named" if several else f"{meant} if not given"}
--revision TEXT: commit or tag on the hub, of the checkpoint or encoder
--precision {"|".join(get_args(Precision))} (default exact): float32, bfloat16, 8 bits, or the fastest that stays close
--backend {"|".join(BACKENDS)} (default auto): what runs the encoder; the fastest that is installed if not given
--device NAME: cpu, cuda, mps, …; a GPU is taken where there is one
--batch-tokens N: tokens to a batch of the encoder; what suits the device if not given
--no-cache: keep nothing of a text once it has been scored
{fitting if fit_on else ""}
--statistics FILE (repeat): corpus statistics of `textmover fit-idf`, `fit-mean` or `fit-baseline`; repeat it for
    several

# options
--quiet: no signature, no progress, no notes; warnings remain
"""
    return text, CITING, add_field_options


CACHE = f"""
# metric
--cache FOLDER: keep there what the encoder makes of each text, and encode no text twice; scores move by up to 1e-6
--cache-limit GIB: room for --cache, in GiB; {FOLDER_LIMIT >> 30} if not given
"""
