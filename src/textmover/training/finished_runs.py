"""Metrics that ``textmover export`` reads, with their model cards: those of training runs, and whatever has a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from textmover.checkpoints.card import write_card
from textmover.checkpoints.encoder_weights import encoder_misfit
from textmover.checkpoints.files import CARD
from textmover.checkpoints.loading import checkpoint_folder, load_metric
from textmover.checkpoints.training_run import metric_entry, read_run_checkpoint
from textmover.markdown import markdown_code, markdown_text
from textmover.presets import PRESETS, build_metric
from textmover.types import InputError, SegmentMetric

LORA = ".lora_A."
"""Part of the names of LoRA's matrices."""

SUFFIX = ".ckpt"
"""Suffix of run checkpoints; such a name is looked for nowhere else."""

PREFIX = "metric."
"""Prefix of the metric's weights in a run's checkpoint."""


@dataclass(frozen=True)
class Run:
    """Metric of a run's checkpoint; older ones do not tell encoder, data and notices."""

    path: Path
    start: str  # preset, folder or hub id that training started from
    config: dict[str, Any]
    encoder: dict[str, Any]  # that training started from
    weights: dict[str, Tensor]  # and fitted statistics
    step: int
    epoch: int  # counted from 1
    data: dict[str, str]
    notices: tuple[str, ...]


def metric_and_card(name: str) -> tuple[SegmentMetric, str]:
    """The metric of a run's .ckpt file, or of a folder, released metric, hub id or preset, and its model card."""
    path = Path(name)
    if not path.is_file() and path.suffix != SUFFIX:
        folder = checkpoint_folder(name)
        if folder is not None:
            text = (folder / CARD).read_text(encoding="utf-8") if (folder / CARD).is_file() else ""
            return load_metric(folder), text if text.strip() else f"# {markdown_text(path.name)}\n"
        if name in PRESETS:
            metric = load_metric(name)
            return metric, write_card(f"The metric `{name}`", f"from the preset `{name}`", metric)
    found = _read_run(name)
    metric = _rebuild(found)
    origin = f"from {markdown_code(path.name)}, after step {found.step} (epoch {found.epoch}) of its training run"
    title = f"A text-generation metric trained from {markdown_code(found.start)}"
    return metric, write_card(title, origin, metric, found.config, data=found.data, notices=found.notices)


def _read_run(name: str) -> Run:
    """A run's checkpoint, read without running any code in it."""
    path = Path(name)
    if not path.is_file() and ":/" not in name:
        raise InputError(
            f"Expected {path} to be the checkpoint of a training run, but there is no such file: give its .ckpt file, "
            "the folder of a metric, or a name (see `textmover list`)."
        )
    content = read_run_checkpoint(name)
    about = metric_entry(content, str(path))
    state = _without_lora(path, content["state_dict"], about.get("lora"))
    weights = {name.removeprefix(PREFIX): tensor for name, tensor in state.items() if name.startswith(PREFIX)}
    if not weights:
        raise InputError(
            f"Expected {path} to hold a metric, but none of its weights are under `{PREFIX}`: give a .ckpt file of a "
            "run that trained a metric."
        )
    step, epoch = int(content.get("global_step", 0)), int(content.get("epoch", 0)) + 1
    data = {str(key): str(value) for key, value in (about.get("data") or {}).items()}
    notices = tuple(map(str, about.get("notices") or ()))
    encoder = dict(about.get("encoder") or {})
    return Run(path, str(about["start"]), dict(about["config"]), encoder, weights, step, epoch, data, notices)


def _rebuild(found: Run) -> SegmentMetric:
    """The metric with the run's configuration and weights."""
    if found.start in PRESETS and not Path(found.start).is_dir():
        metric: Any = build_metric(found.config)
    else:
        metric = _restart(found)
    misfit = encoder_misfit(metric, found.encoder)
    if misfit is not None:
        # Its weights would fit, but not its tokenizer, its name, and what an adapter or a share of it is taken from.
        raise InputError(f"{misfit}: put that one back to export {found.path}.")
    try:
        metric.load_state_dict(found.weights)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise InputError(
            f"Expected the weights in {found.path} to fit its configuration, but got: {' '.join(lines[:2])} "
            "Give the checkpoint of a run of this version, or put back the encoder that it was trained from."
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


def _without_lora(path: Path, state: Mapping[str, Tensor], config: Any) -> Mapping[str, Tensor]:
    """The state of a run with LoRA's matrices added to the weights that they belong to."""
    if not any(LORA in name for name in state):
        return state
    if not isinstance(config, Mapping):
        raise InputError(
            f"Expected {path} to hold the scale of its LoRA matrices under `textmover`, but it does not: give a "
            ".ckpt file of a run of this version."
        )
    from textmover.training.lora import LoraConfig, merged_state

    return merged_state(state, LoraConfig(**config))
