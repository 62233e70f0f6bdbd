"""``textmover export``: training runs, or any other metric, become a folder that scores, with its back-ends."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import torch

from textmover._version import __version__
from textmover.checkpoints.adapter import AdapterConfig, adapter_report
from textmover.checkpoints.files import CARD
from textmover.checkpoints.folder import check_replaceable, save_checkpoint
from textmover.checkpoints.hub import check_repository, push_to_hub
from textmover.checkpoints.loading import load_metric
from textmover.cli.console import set_up_logging
from textmover.cli.training.mixing import MIX_OPTIONS, check_mix_options, mixed
from textmover.files import atomic_file
from textmover.modules.probes import PROBES, probe_scores
from textmover.scoring.backends import EXPORTED, Prepared, check_backend, prepare
from textmover.training.finished_runs import metric_and_card
from textmover.types import InputError, SegmentMetric

ADAPTER_SECTION = re.compile(r"\n## Adapter\n.*?(?=\n## |\Z)", re.DOTALL)
"""Section of an adapter's model card about the adapter."""


OPTIONS = (
    f"""
RUN (as run_checkpoint): checkpoint of `textmover train` (.ckpt), folder of a metric, released metric, hub id, or preset
FOLDER: where the metric goes: configuration, weights, model card
--overwrite: replace what is in the folder
--adapter RANK: store the encoder as its difference from the pretrained one, of this rank on the mean: a few megabytes;
    16 is usual
--adapter-dtype float16|float32: type of the adapter's numbers, float16 if not given
{MIX_OPTIONS}
--backend {"|".join(EXPORTED)} (repeat): also write what this back-end runs; may be repeated
--precision exact|int8 (repeat): its arithmetic, float32 if not given (which serves bfloat16 too); may be repeated
--push OWNER/NAME: also put the folder on the Hugging Face Hub
--private: make its repository there private, where it is new
--push-revision BRANCH: branch there; the main one if not given
""",
)


def run(options: argparse.Namespace) -> None:
    """Rebuild a metric, mix it with others, write it as a folder, measure what goes with it, and push it."""
    set_up_logging(quiet=True)
    folder = Path(options.folder)
    _check_folder(folder, overwrite=options.overwrite)
    adapter = _check_options(options)
    # Both in the order in which they were given, each once.
    backends, precisions = dict.fromkeys(options.backend or ()), dict.fromkeys(options.precision or ("exact",))
    wanted = [(name, precision) for name in backends for precision in precisions]
    for name in backends:
        check_backend(name, torch.device("cpu"))
    metric, card = mixed(options, *metric_and_card(options.run_checkpoint))
    card = ADAPTER_SECTION.sub("", card)  # of an adapter that it was before
    lines: list[str] = []

    def add_backends(beside: Path) -> None:
        lines.extend(_described(*one, prepare(metric, *one, beside)) for one in wanted)

    save_checkpoint(metric, folder, card=card, overwrite=options.overwrite, add=add_backends, adapter=adapter)
    if adapter is not None:
        lines.append(_adapter_line(metric, folder))
        with atomic_file(folder / CARD) as stream:
            stream.write(_adapter_card(card, folder, lines[-1]))
    sys.stdout.write(
        f"Exported to {folder}. Score with it:\n"
        f"  textmover score -i hypotheses.txt references.txt --model {options.folder}\n" + "".join(lines)
    )
    if options.push is not None:
        address = push_to_hub(folder, options.push, private=options.private, revision=options.push_revision)
        sys.stdout.write(f"Pushed to {address}\n")


def _check_options(options: argparse.Namespace) -> AdapterConfig | None:
    """Refuse what does not go together, before the work; what kind of adapter is wanted, if any."""
    check_mix_options(options)
    if options.precision and not options.backend:
        raise InputError("Expected `--backend` beside `--precision`, but got none: name what is to be written.")
    if options.adapter is None and options.adapter_dtype is not None:
        raise InputError("Expected `--adapter RANK` beside `--adapter-dtype`, but got none: give a rank, such as 16.")
    if options.adapter is not None and options.backend:
        raise InputError(
            "Expected `--backend` without `--adapter`, but got both: what a back-end runs holds all weights, so export "
            "it in full."
        )
    if options.push is None and (options.private or options.push_revision is not None):
        raise InputError("Expected `--push OWNER/NAME` beside `--private` or `--push-revision`, but got none: give it.")
    if options.push is not None:
        check_repository(options.push)
    return None if options.adapter is None else AdapterConfig(options.adapter, options.adapter_dtype or "float16")


def _described(backend: str, precision: str, prepared: Prepared) -> str:
    """One line on how far a back-end deviates."""
    measured = [] if prepared.deviation is None else [f"of a score {prepared.deviation:.1e}"]
    if prepared.states is not None:
        measured.append(f"of a hidden state {prepared.states:.1e} of the largest")
    return f"{backend} {precision}: largest deviation from torch on {len(PROBES)} pairs: {', '.join(measured)}.\n"


def _adapter_line(metric: SegmentMetric, folder: Path) -> str:
    """One line on an adapter's size, and on how far it is from the metric that it was made of."""
    report = adapter_report(folder)
    if report is None:
        raise RuntimeError(f"Expected {folder} to hold the adapter that was written there, but it does not.")
    parts = [f"{report.size / 1e6:.2f} MB"]
    if report.matrix is not None:
        parts.append(f"relative error of all matrices {report.error:.1e}")
        parts.append(f"largest of one {report.largest_error:.1e} ({report.matrix})")
    again = load_metric(folder)
    if not metric.needs_fit:
        deviation = float((probe_scores(again) - probe_scores(metric)).abs().max())
        parts.append(f"largest deviation of an uncalibrated score on {len(PROBES)} pairs {deviation:.1e}")
    return (
        f"Adapter of rank {report.rank} ({report.dtype}) over {report.base} (sha256 {report.sha256[:16]}…): "
        f"{', '.join(parts)}.\n"
    )


def _adapter_card(card: str, folder: Path, line: str) -> str:
    """The model card with what an adapter's reader has to know."""
    signature = load_metric(folder).signature
    return (
        f"{card.rstrip()}\n\n## Adapter\n\n{line}\nThe encoder is stored as its difference from that base, which has "
        f"to be at hand with the same hash. Signature as an adapter:\n`textmover:{__version__}|{signature}`\n"
    )


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a place that cannot be written, before the work rather than after it."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InputError(
            f"Expected to be able to write {folder}, but {existing} does not allow it: give another place."
        )
    check_replaceable(folder, overwrite=overwrite)
