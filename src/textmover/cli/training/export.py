"""``textmover export``: convert a training run or another metric to a metric folder, with optional back-ends."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.averaging import as_token_table, refit
from textmover.checkpoints.card import adapter_card, describe_adapter, without_adapter
from textmover.checkpoints.checkpoint_files import CARD
from textmover.checkpoints.hub import check_repository, push_to_hub
from textmover.checkpoints.saving import check_replaceable, save_checkpoint
from textmover.cli.options.input_tables import first_set_flag, read_tables
from textmover.files import atomic_file, check_folder
from textmover.modules.devices import resolve_device
from textmover.modules.score_deviation import PROBES
from textmover.readers.column_flags import COLUMN_OPTIONS
from textmover.scoring.backends.artefacts import Artefact
from textmover.scoring.backends.names import check_backend
from textmover.scoring.backends.preparation import prepare
from textmover.scoring.metric_field_options import FIELD
from textmover.training.averaging_for_export import metric_and_card, mix
from textmover.types import InputError, Segment


def run(options: argparse.Namespace) -> None:
    """Load a metric, average it with others, write it to a folder with its back-ends, and push it to the Hub."""
    folder = Path(options.folder)
    check_replaceable(check_folder(folder, "FOLDER"), overwrite=options.overwrite)
    adapter = _check_options(options)
    # Remove duplicates, but keep the order.
    backends, precisions = dict.fromkeys(options.backend or ()), dict.fromkeys(options.precision or ("exact",))
    to_prepare = [(name, precision) for name in backends for precision in precisions]
    for name in backends:
        check_backend(name, resolve_device("cpu"))
    metric, card = metric_and_card(options.run_checkpoint)
    rated: list[Segment] = []
    if options.average is not None or options.untrained is not None or options.ratings is not None:
        if options.ratings is not None:
            fields = {f"{FIELD}{name}": getattr(metric, name) for name in ("mode", "fallback") if hasattr(metric, name)}
            rated = read_tables([options.ratings], argparse.Namespace(**vars(options), **fields))[0]
        settings = {name: getattr(options, name) for name in ("weights", "untrained", "ratings")}
        name = Path(options.run_checkpoint).name
        metric, card = mix(metric, card, name, average=options.average or (), rated=rated, **settings)
    card = without_adapter(card)  # drop entries of an earlier adapter
    lines: list[str] = []

    def add_backends(temporary: Path) -> None:
        lines.extend(_described(*one, prepare(metric, *one, temporary)) for one in to_prepare)

    if options.table:
        metric = as_token_table(metric, options.dimensions, [one.references[0] for one in rated])
        refit(metric, rated=rated if rated and metric.config.calibrate else None)
    save_checkpoint(metric, folder, card=card, overwrite=options.overwrite, add=add_backends, adapter=adapter)
    if adapter is not None:
        lines.append(describe_adapter(metric, folder))
        with atomic_file(folder / CARD) as stream:
            stream.write(adapter_card(card, folder, lines[-1]))
    sys.stdout.write(
        f"Exported to {folder}. Score with it:\n"
        f"  textmover score -i hypotheses.txt references.txt --model {shlex.quote(options.folder)}\n" + "".join(lines)
    )
    if options.push is not None:
        address = push_to_hub(folder, options.push, private=options.private, revision=options.push_revision)
        sys.stdout.write(f"Pushed to {address}\n")


def _check_options(options: argparse.Namespace) -> AdapterConfig | None:
    """Raise :class:`InputError` for conflicting options; return the settings of the adapter, if any."""
    if options.untrained is not None and not 0 <= options.untrained <= 1:
        raise InputError(
            f"Expected `--untrained` to be between 0 (as trained) and 1 (untrained), but got {options.untrained:g}."
        )
    if options.weights is not None and options.average is None:
        raise InputError("Expected `--average RUN …` beside `--weights`, but got none: name what is to be averaged.")
    column = first_set_flag(options, *COLUMN_OPTIONS)
    if column and options.ratings is None:
        raise InputError(f"Expected `--ratings FILE` beside `{column}`, but got none: give the table.")
    if options.precision and not options.backend:
        raise InputError("Expected `--backend` beside `--precision`, but got none: name what is to be written.")
    if options.adapter is None and options.adapter_dtype is not None:
        raise InputError("Expected `--adapter RANK` beside `--adapter-dtype`, but got none: give a rank, such as 16.")
    if options.adapter is not None and options.backend:
        raise InputError(
            "Expected `--backend` without `--adapter`, but got both: back-ends need all weights, so export it in full."
        )
    if options.table and (options.adapter is not None or options.backend):
        raise InputError("Expected `--table` without `--adapter` and `--backend`, but got both: no encoder is left.")
    if options.dimensions is not None and not options.table:
        raise InputError("Expected `--table` beside `--dimensions`, but got none: an encoder keeps its width.")
    if options.push is None and (options.private or options.push_revision is not None):
        raise InputError("Expected `--push OWNER/NAME` beside `--private` or `--push-revision`, but got none: give it.")
    if options.push is not None:
        check_repository(options.push)
    return None if options.adapter is None else AdapterConfig(options.adapter, options.adapter_dtype or "float16")


def _described(backend: str, precision: str, made: Artefact) -> str:
    """Return a line with the largest deviation of a back-end from torch."""
    measured = [] if made.deviation is None else [f"of a score {made.deviation:.1e}"]
    measured.append(f"of a hidden state {made.states:.1e} of the largest")
    return f"{backend} {precision}: largest deviation from torch on {len(PROBES)} pairs: {', '.join(measured)}.\n"
