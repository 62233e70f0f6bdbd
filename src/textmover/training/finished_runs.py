"""Metrics that ``textmover export`` reads, with their model cards, and changes: averages and refitted statistics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from textmover.checkpoints.averaging import average_metrics, interpolate, refit
from textmover.checkpoints.card import made_from, write_card
from textmover.checkpoints.encoder_weights import encoder_misfit
from textmover.checkpoints.files import CARD
from textmover.checkpoints.loading import checkpoint_folder, load_metric
from textmover.checkpoints.statistics_files import fitted_names
from textmover.checkpoints.training_run import metric_entry, read_run_checkpoint
from textmover.markdown_escaping import markdown_code, markdown_text
from textmover.modules.configured_metric import Calibration
from textmover.presets import PRESETS, build_metric
from textmover.readers.column_options import flags_named
from textmover.training.optimization import LoraConfig, merged_state
from textmover.types import InputError, Segment, SegmentMetric

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
    return merged_state(state, LoraConfig(**config))


logger = logging.getLogger(__name__)

UNLIKE = 3.0
"""Largest ratio of two calibrations' slopes whose mean is useful: seeds of one recipe differ
by less, ratings of 0 to 5 and of 0 to 100 by more."""

FLAGS = {"share": "--untrained", "metrics": "--average", "weights": "--weights"}
"""The flag behind each argument that an error may name."""


def mix(
    metric: SegmentMetric,
    card: str,
    name: str,
    *,
    average: Sequence[str],
    weights: Sequence[float] | None,
    untrained: float | None,
    ratings: str | None,
    rated: list[Segment],
) -> tuple[SegmentMetric, str]:
    """Mix a metric with others, and describe it in a card that hands on what theirs say of their data.

    Args:
        metric: The metric of a run.
        card: Its card.
        name: Its name.
        average: Runs whose weights are averaged with its own.
        weights: What each of them counts, its own first.
        untrained: Share of the way back to the untrained encoder.
        ratings: File of ``rated``, on which statistics and calibration are fitted again; ``None`` for none.
        rated: Its segments.
    """
    cards, made = [(name, card)], []
    with flags_named(FLAGS):
        if average:
            others = []
            for run in average:
                other, other_card = metric_and_card(run)
                others.append(other)
                cards.append((Path(run).name, other_card))
            if ratings is None:
                counted = weights or [1.0] * len(cards)
                _tell_unlike_scales(
                    [one for one, weight in zip([metric, *others], counted, strict=False) if weight > 0]
                )
            texts = None if ratings is None else _texts(metric, rated)
            metric = average_metrics([metric, *others], weights, texts=texts)
            shown = [f"`{one}`" for one, _ in cards]
            if weights is not None:
                shown = [f"{one} ({weight:g})" for one, weight in zip(shown, weights, strict=True)]
            made.append(f"as the mean of the weights of {', '.join(shown)}")
        else:
            made.append(f"from `{cards[0][0]}`")
        if untrained is not None:
            metric = interpolate(metric, untrained)
            made.append(f"{untrained:g} of the way back to the untrained encoder")
        if ratings is not None:
            made.append(f"with {' and '.join(_fit(metric, rated))} fitted on `{Path(ratings).name}`")
    title = "A text-generation metric of mixed weights" if len(made) > 1 or len(cards) > 1 else "A refitted metric"
    return metric, write_card(title, ", ".join(made), metric) + made_from(cards)


def _fit(metric: SegmentMetric, rated: list[Segment]) -> list[str]:
    """Fit everything that a metric has room for on rated segments; returns what that was."""
    texts, calibrated = _texts(metric, rated), bool(getattr(metric.config, "calibrate", False))
    if texts is None and not calibrated:
        raise InputError(
            "Expected a metric with corpus statistics or calibration to fit on --ratings, but got one with neither: "
            "leave --ratings out."
        )
    refit(metric, texts=texts, rated=rated if calibrated else None)
    return [*(fitted_names(metric) if texts is not None else ()), *(("calibration",) if calibrated else ())]


def _texts(metric: SegmentMetric, rated: list[Segment]) -> list[str] | None:
    """The distinct texts of rated segments, where there are statistics to fit on them."""
    if not fitted_names(metric):
        return None
    return list(dict.fromkeys(text for one in rated for text in (one.hypothesis, *one.compared.texts)))


def _tell_unlike_scales(metrics: Sequence[SegmentMetric]) -> None:
    """Warn where the metrics were calibrated to ratings of different scales, which a mean of heads does not serve."""
    found = (getattr(metric, "calibration", None) for metric in metrics)
    heads = [head for head in found if isinstance(head, Calibration)]
    slopes = [abs(float(head.scale.detach())) for head in heads]
    if slopes and max(slopes) > UNLIKE * min(slopes):
        logger.warning(
            "The metrics that are averaged were calibrated to ratings of different scales (%s), so the scores of their "
            "mean are on none of them: fit the calibration again on ratings of one scale (--ratings FILE).",
            ", ".join(f"{float(head.scale.detach()):.4g} s + {float(head.offset.detach()):.4g}" for head in heads),
        )
