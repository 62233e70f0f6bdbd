"""``textmover export``: a training run, or any other metric, becomes a folder that scores, with its back-ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from textmover import __version__
from textmover.cli.console import set_up_logging
from textmover.presets import PRESETS, build_metric
from textmover.scoring.backends import EXPORTED, Prepared, check_backend, prepare
from textmover.scoring.checkpoint import CARD, load_metric, save_checkpoint
from textmover.scoring.probes import PROBES
from textmover.types import InputError, SegmentMetric

__all__ = ["add_arguments", "run"]

PREFIX = "metric."
"""What the names of the metric's weights start with in a run's checkpoint."""


@dataclass(frozen=True)
class Run:
    """What a run's checkpoint says of its metric.

    Attributes:
        path: The checkpoint.
        start: Preset, folder or hub id that training started from.
        config: The metric's configuration.
        weights: Weights and fitted statistics by name.
        step: Optimiser steps done.
        epoch: Epoch that was running, counted from 1.
    """

    path: Path
    start: str
    config: dict[str, Any]
    weights: dict[str, Tensor]
    step: int
    epoch: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "run_checkpoint", metavar="RUN", help="checkpoint of `textmover train` (.ckpt), folder of a metric, or preset"
    )
    parser.add_argument("folder", metavar="FOLDER", help="where the metric goes: configuration, weights, model card")
    parser.add_argument("--overwrite", action="store_true", help="replace what is in the folder")
    parser.add_argument(
        "--backend", action="append", choices=EXPORTED, help="also write what this back-end runs; may be repeated"
    )
    parser.add_argument(
        "--precision",
        action="append",
        choices=("exact", "int8"),
        help="its arithmetic, float32 if not given (which serves bfloat16 too); may be repeated",
    )


def run(options: argparse.Namespace) -> None:
    """Rebuild a metric, write it as a folder, and measure the back-ends that go with it.

    Raises:
        InputError: If the metric cannot be used, a back-end not be made, or the folder not be written.
    """
    set_up_logging(quiet=True)
    folder = Path(options.folder)
    _check_folder(folder)
    if options.precision and not options.backend:
        raise InputError("Expected `--backend` beside `--precision`, but got none: name what is to be written.")
    # Both in the order in which they were given, each once.
    backends, precisions = dict.fromkeys(options.backend or ()), dict.fromkeys(options.precision or ("exact",))
    wanted = [(name, precision) for name in backends for precision in precisions]
    for name in backends:
        check_backend(name, torch.device("cpu"))
    metric, card = _metric_and_card(options.run_checkpoint)
    lines: list[str] = []

    def add_backends(beside: Path) -> None:
        lines.extend(_described(*one, prepare(metric, *one, beside)) for one in wanted)

    save_checkpoint(metric, folder, card=card, overwrite=options.overwrite, add=add_backends)
    sys.stdout.write(
        f"Exported to {folder}. Score with it:\n"
        f"  textmover score -i hypotheses.txt references.txt --model {options.folder}\n" + "".join(lines)
    )


def _metric_and_card(name: str) -> tuple[SegmentMetric, str]:
    """The metric of a run, a folder or a preset, and its model card."""
    path = Path(name)
    if path.is_dir():
        card = path / CARD
        return load_metric(name), card.read_text(encoding="utf-8") if card.is_file() else f"# {path.name}\n"
    if not path.is_file() and name in PRESETS:
        metric = load_metric(name)
        return metric, _card(f"The metric `{name}`", f"from the preset `{name}`", metric.config.to_dict(), metric)
    found = _read_run(path)
    metric = _rebuild(found)
    origin = f"from `{path.name}`, after step {found.step} (epoch {found.epoch}) of its training run"
    return metric, _card(f"A text-generation metric trained from `{found.start}`", origin, found.config, metric)


def _described(backend: str, precision: str, prepared: Prepared) -> str:
    """One line on how far a back-end deviates."""
    measured = [] if prepared.deviation is None else [f"of a score {prepared.deviation:.1e}"]
    if prepared.states is not None:
        measured.append(f"of a hidden state {prepared.states:.1e} of the largest")
    return f"{backend} {precision}: largest deviation from torch on {len(PROBES)} pairs: {', '.join(measured)}.\n"


def _check_folder(folder: Path) -> None:
    """Refuse a place that cannot be written to before anything is loaded."""
    existing = next(parent for parent in folder.absolute().parents if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InputError(
            f"Expected to be able to write {folder}, but {existing} does not allow it: give another place."
        )


def _read_run(path: Path) -> Run:
    """A run's checkpoint, read without running any code in it."""
    if not path.is_file():
        raise InputError(
            f"Expected {path} to be the checkpoint of a training run, but there is no such file: give its .ckpt file, "
            "the folder of a metric, or a preset (see `textmover list`)."
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # bytes that are no checkpoint fail in the unpickler in any way
        raise InputError(
            f"Expected {path} to be the checkpoint of a training run, but torch cannot read it as tensors and plain "
            f"values ({type(error).__name__}): it is damaged, of another kind, or holds objects that would run code "
            "when they are loaded."
        ) from error
    return _run_of(path, content)


def _run_of(path: Path, content: Any) -> Run:
    state = content.get("state_dict") if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping):
        raise InputError(
            f"Expected {path} to be a Lightning checkpoint, but it holds no `state_dict`: give a .ckpt file of "
            "`textmover train`."
        )
    about = content.get("textmover")
    if not isinstance(about, Mapping) or not isinstance(about.get("config"), Mapping) or "start" not in about:
        raise InputError(
            f"Expected {path} to be of `textmover train`, but it does not say (under `textmover`) which metric it "
            "holds: give a .ckpt file of a run that trained a metric."
        )
    weights = {name.removeprefix(PREFIX): tensor for name, tensor in state.items() if name.startswith(PREFIX)}
    if not weights:
        raise InputError(
            f"Expected {path} to hold a metric, but none of its weights are under `{PREFIX}`: give a .ckpt file of a "
            "run that trained a metric."
        )
    step, epoch = int(content.get("global_step", 0)), int(content.get("epoch", 0)) + 1
    return Run(path, str(about["start"]), dict(about["config"]), weights, step, epoch)


def _rebuild(found: Run) -> SegmentMetric:
    """The metric with the run's configuration and weights."""
    if found.start in PRESETS and not Path(found.start).is_dir():
        metric: Any = build_metric(found.config)
    else:
        metric = _restart(found)
    try:
        metric.load_state_dict(found.weights)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise InputError(
            f"Expected the weights in {found.path} to fit its configuration, but got: {' '.join(lines[:2])} "
            "Give the checkpoint of a run of this version."
        ) from error
    metric.eval()
    return metric


def _restart(found: Run) -> SegmentMetric:
    """The checkpoint that training started from, in the run's configuration: it brings its own encoder along."""
    try:
        metric = load_metric(found.start)
        own = metric.config.to_dict()
        changes = {name: value for name, value in found.config.items() if name not in own or own[name] != value}
        return load_metric(found.start, **changes) if changes else metric
    except InputError as error:
        raise InputError(f"{error} (It is what {found.path} was trained from.)") from error


def _card(title: str, origin: str, fields: Mapping[str, Any], metric: SegmentMetric) -> str:
    """The model card, Markdown."""
    config = yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True).strip()
    return (
        "---\nlibrary_name: textmover\ntags: [textmover, text-generation-metric]\n---\n\n"
        f"# {title}\n\n"
        f"Signature: `textmover:{__version__}|{metric.signature}`\n\n"
        "```python\nfrom textmover import Scorer\n\n"
        'Scorer.from_pretrained("path/to/this/folder").score(["a hypothesis"], ["its reference"]).scores\n```\n\n'
        f"Exported by textmover {__version__} {origin}. How well it agrees with ratings was not measured here: "
        "`textmover evaluate` does that.\n\n"
        f"## Configuration\n\n```yaml\n{config}\n```\n"
    )
