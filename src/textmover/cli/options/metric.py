"""Options that say which metric is meant, and what is kept of the texts that it reads."""

from __future__ import annotations

import argparse
from typing import get_args

from textmover.checkpoints.released import DEFAULT_METRIC, DEFAULT_PRESET
from textmover.cli.options.metric_fields import add_field_options
from textmover.cli.options.signature_and_citations import add_citing_options
from textmover.scoring.backends import BACKENDS
from textmover.scoring.precision import Precision
from textmover.scoring.scorer_options import FOLDER_LIMIT


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
