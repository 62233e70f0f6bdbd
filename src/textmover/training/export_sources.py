"""Metrics that ``textmover export`` reads, with their model cards, and changes: averages and refitted statistics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from textmover.checkpoints.averaging import average_metrics, interpolate, refit
from textmover.checkpoints.card import made_from, write_card
from textmover.checkpoints.encoder_entry import encoder_misfit
from textmover.checkpoints.files import CARD
from textmover.checkpoints.loading import checkpoint_folder, load_metric
from textmover.checkpoints.run_checkpoints import metric_entry, read_run_checkpoint
from textmover.checkpoints.statistics_files import fitted_names
from textmover.markdown_escaping import markdown_code, markdown_text
from textmover.modules.base_metric import Calibration
from textmover.presets import PRESETS, build_metric
from textmover.readers.column_flags import flags_named
from textmover.training.optimization import LoraConfig, merged_state
from textmover.types import InputError, Segment, SegmentMetric

SUFFIX = ".ckpt"  # suffix of run checkpoints; such a name is looked for nowhere else
PREFIX = "metric."  # prefix of the metric's weights in a run's checkpoint


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
    # Older checkpoints do not tell data and notices.
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
    if start in PRESETS and not Path(start).is_dir():
        metric: Any = build_metric(config)
    else:
        metric = _restart(path, start, config)
    misfit = encoder_misfit(metric, about.get("encoder") or {})
    if misfit is not None:
        # Its weights would fit, but not its tokenizer, its name, and what an adapter or a share of it is taken from.
        raise InputError(f"{misfit}: put that one back to export {path}.")
    try:
        metric.load_state_dict(weights)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise InputError(
            f"Expected the weights in {path} to fit its configuration, but got: {' '.join(lines[:2])} "
            "Give the checkpoint of a run of this version, or put back the encoder that it was trained from."
        ) from error
    metric.eval()
    return metric


def _restart(path: Path, start: str, config: Mapping[str, Any]) -> SegmentMetric:
    """The checkpoint that training started from, in the run's configuration: it brings its own encoder along."""
    try:
        metric = load_metric(start)
        own = metric.config.to_dict()
        changes = {name: value for name, value in config.items() if name not in own or own[name] != value}
        return load_metric(start, **changes) if changes else metric
    except InputError as error:
        raise InputError(f"{error} (It is what {path} was trained from.)") from error


def _without_lora(path: Path, state: Mapping[str, Tensor], config: Any) -> Mapping[str, Tensor]:
    """The state of a run with LoRA's matrices added to the weights that they belong to."""
    if not any(".lora_A." in name for name in state):
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

FLAGS = {"share": "--untrained", "metrics": "--average", "weights": "--weights"}  # of arguments that errors may name


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

    The weights of the runs ``average`` are averaged with its own, which comes first in ``weights``; ``untrained`` is
    the share of the way back to the untrained encoder. Statistics and calibration are fitted again on the segments
    ``rated`` of the file ``ratings``, where there is one.
    """
    cards, made = [(name, card)], []
    with flags_named(FLAGS):
        if average:
            found = [metric_and_card(run) for run in average]
            cards += [(Path(run).name, other_card) for run, (_, other_card) in zip(average, found, strict=True)]
            metrics = [metric, *(other for other, _ in found)]
            if ratings is None:
                counted = weights or [1.0] * len(cards)
                _tell_unlike_scales([one for one, weight in zip(metrics, counted, strict=False) if weight > 0])
            texts = None if ratings is None else _texts(metric, rated)
            metric = average_metrics(metrics, weights, texts=texts)
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
