"""Metrics and model cards for ``textmover export``: load from run checkpoints, average, interpolate and refit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from textmover.checkpoints.averaging import average_metrics, interpolate, refit
from textmover.checkpoints.card import made_from, write_card
from textmover.checkpoints.checkpoint_files import CARD
from textmover.checkpoints.encoder_state import encoder_misfit
from textmover.checkpoints.hub import local_folder
from textmover.checkpoints.lightning_checkpoints import metric_entry, read_run_checkpoint
from textmover.checkpoints.loading import checkpoint_folder, load_metric
from textmover.checkpoints.statistics_files import fitted_names
from textmover.markdown_escaping import markdown_code, markdown_text
from textmover.modules.base_metric import Calibration
from textmover.modules.encoder.lora import LoraConfig, merged_state
from textmover.presets import PRESETS, build_metric
from textmover.readers.column_flags import errors_with_flag_names
from textmover.types import InputError, Segment, SegmentMetric

SUFFIX = ".ckpt"  # suffix of run checkpoints; names with it are only looked up as files
PREFIX = "metric."  # prefix of the metric's weights in a run's checkpoint


def metric_and_card(name: str) -> tuple[SegmentMetric, str]:
    """Return metric and model card of a .ckpt file of a run, a folder, released metric, hub id or preset."""
    path = Path(name)
    if not path.is_file() and path.suffix != SUFFIX:
        folder = checkpoint_folder(name)
        if folder is not None:
            text = (folder / CARD).read_text(encoding="utf-8") if (folder / CARD).is_file() else ""
            return load_metric(folder), text if text.strip() else f"# {markdown_text(path.name)}\n"
        if name in PRESETS:
            metric = load_metric(name)
            return metric, write_card(f"The metric `{name}`", f"from the preset `{name}`", metric)
    if not path.is_file() and ":/" not in name:
        raise InputError(
            f"Expected {path} to be the checkpoint of a training run, but there is no such file: give its .ckpt file, "
            "the folder of a metric, or a name (see `textmover list`)."
        )
    content = read_run_checkpoint(name)
    content.pop("optimizer_states", None)  # large, and not needed
    about = metric_entry(content, str(path))
    metric = _rebuild(path, content["state_dict"], about)
    step, epoch = int(content.get("global_step", 0)), int(content.get("epoch", 0)) + 1
    origin = f"from {markdown_code(path.name)}, after step {step} (epoch {epoch}) of its training run"
    title = f"A text-generation metric trained from {markdown_code(str(about['start']))}"
    # Older checkpoints have no data and notices.
    data = {str(key): str(value) for key, value in (about.get("data") or {}).items()}
    notices = tuple(map(str, about.get("notices") or ()))
    return metric, write_card(title, origin, metric, about["config"], data=data, notices=notices)


def _rebuild(path: Path, state: Mapping[str, Tensor], about: Mapping[str, Any]) -> SegmentMetric:
    start, config = str(about["start"]), dict(about["config"])
    state = _without_lora(path, state, about.get("lora"))
    weights = {name.removeprefix(PREFIX): tensor for name, tensor in state.items() if name.startswith(PREFIX)}
    if not weights:
        raise InputError(
            f"Expected {path} to hold a metric, but none of its weights are under `{PREFIX}`: give a .ckpt file of a "
            "run that trained a metric."
        )
    if start in PRESETS and not local_folder(start):
        metric: Any = build_metric(config)
    else:
        metric = _restart(path, start, config)
    misfit = encoder_misfit(metric, about.get("encoder") or {})
    if misfit is not None:
        # The weights would fit, but not tokenizer, name, and the base of an adapter or interpolation.
        raise InputError(f"{misfit}: restore that encoder to export {path}.")
    try:
        metric.load_state_dict(weights)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise InputError(
            f"Expected the weights in {path} to fit its configuration, but got: {' '.join(lines[:2])} "
            "Give the checkpoint of a run of this version, or restore the encoder that it was trained from."
        ) from error
    metric.eval()
    return metric


def _restart(path: Path, start: str, config: Mapping[str, Any]) -> SegmentMetric:
    """Load the checkpoint that training started from, with its encoder, in the run's configuration."""
    try:
        metric = load_metric(start)
        saved = metric.config.to_dict()
        changes = {name: value for name, value in config.items() if name not in saved or saved[name] != value}
        return load_metric(start, **changes) if changes else metric
    except InputError as error:
        raise InputError(f"{error} ({path} was trained from it.)") from error


def _without_lora(path: Path, state: Mapping[str, Tensor], config: Any) -> Mapping[str, Tensor]:
    """Return the state of a run with LoRA matrices merged into their weights."""
    if not any(".lora_A." in name for name in state):
        return state
    if not isinstance(config, Mapping):
        raise InputError(
            f"Expected {path} to hold the scale of its LoRA matrices under `textmover`, but it does not: give a "
            ".ckpt file of a run of this version."
        )
    return merged_state(state, LoraConfig(**config))


logger = logging.getLogger(__name__)

MAX_SLOPE_RATIO = 3.0
"""Largest ratio of two calibration slopes that can be averaged. Seeds of one recipe differ by less, rating scales of
0 to 5 and 0 to 100 by more."""

FLAGS = {"share": "--untrained", "metrics": "--average", "weights": "--weights"}  # by argument name


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
    """Mix a metric with others, and return it with a model card that lists the data of all.

    The weights of the runs ``average`` are averaged with its own, which comes first in ``weights``. ``untrained`` is
    the interpolation share of the untrained encoder. Statistics and calibration are refitted on the segments
    ``rated`` of the file ``ratings``, if given.
    """
    cards, steps = [(name, card)], []
    with errors_with_flag_names(FLAGS):
        if average:
            loaded = [metric_and_card(run) for run in average]
            cards += [(Path(run).name, other_card) for run, (_, other_card) in zip(average, loaded, strict=True)]
            metrics = [metric, *(other for other, _ in loaded)]
            if ratings is None:
                shares = weights or [1.0] * len(cards)
                _warn_of_different_scales([one for one, weight in zip(metrics, shares, strict=False) if weight > 0])
            texts = None if ratings is None else _texts(metric, rated)
            metric = average_metrics(metrics, weights, texts=texts)
            names = [f"`{one}`" for one, _ in cards]
            if weights is not None:
                names = [f"{one} ({weight:g})" for one, weight in zip(names, weights, strict=True)]
            steps.append(f"as the mean of the weights of {', '.join(names)}")
        else:
            steps.append(f"from `{cards[0][0]}`")
        if untrained is not None:
            metric = interpolate(metric, untrained)
            steps.append(f"{untrained:g} of the way back to the untrained encoder")
        if ratings is not None:
            steps.append(f"with {' and '.join(_fit(metric, rated))} fitted on `{Path(ratings).name}`")
    title = "A text-generation metric of mixed weights" if len(steps) > 1 or len(cards) > 1 else "A refitted metric"
    return metric, write_card(title, ", ".join(steps), metric) + made_from(cards)


def _fit(metric: SegmentMetric, rated: list[Segment]) -> list[str]:
    """Refit all statistics and the calibration of a metric on rated segments; return their names."""
    texts, calibrated = _texts(metric, rated), bool(getattr(metric.config, "calibrate", False))
    if texts is None and not calibrated:
        raise InputError(
            "Expected a metric with corpus statistics or calibration to fit on --ratings, but got one with neither: "
            "leave --ratings out."
        )
    refit(metric, texts=texts, rated=rated if calibrated else None)
    return [*(fitted_names(metric) if texts is not None else ()), *(("calibration",) if calibrated else ())]


def _texts(metric: SegmentMetric, rated: list[Segment]) -> list[str] | None:
    """Return the distinct texts of rated segments; ``None`` for a metric without statistics."""
    if not fitted_names(metric):
        return None
    return list(dict.fromkeys(text for one in rated for text in (one.hypothesis, *one.compared.texts)))


def _warn_of_different_scales(metrics: Sequence[SegmentMetric]) -> None:
    calibrations = (getattr(metric, "calibration", None) for metric in metrics)
    heads = [head for head in calibrations if isinstance(head, Calibration)]
    slopes = [abs(float(head.scale.detach())) for head in heads]
    if slopes and max(slopes) > MAX_SLOPE_RATIO * min(slopes):
        logger.warning(
            "The averaged metrics are calibrated to different rating scales (%s), so scores of their mean are on none "
            "of them: refit the calibration on ratings of one scale (--ratings FILE).",
            ", ".join(f"{float(head.scale.detach()):.4g} s + {float(head.offset.detach()):.4g}" for head in heads),
        )
