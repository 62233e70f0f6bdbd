"""Named configurations: what ``--model twmd`` stands for, and the classes that configurations are built into."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from textmover.modules.config import MetricConfig
from textmover.modules.metric_model import MetricModel
from textmover.types import InputError, SegmentMetric

__all__ = ["KINDS", "PRESETS", "Preset", "build_metric", "preset_config"]

KINDS: dict[str, type[SegmentMetric]] = {"transport": MetricModel}
"""Metric classes by the ``kind`` of their configuration."""


@dataclass(frozen=True)
class Preset:
    """A named configuration and what there is to know about it.

    Attributes:
        config: The configuration, of the class that its ``kind`` names.
        formula: What it computes, in one line.
        source: Where it comes from.
        higher_is_better: False for distances.
    """

    config: Any
    formula: str
    source: str
    higher_is_better: bool = True


_CHEN = "Chen et al. 2020"
_GREEDY: dict[str, Any] = {
    "matching": "bertscore",
    "hypothesis_special_tokens": "targets",
    "reference_special_tokens": "targets",
    "normalize": False,
}

PRESETS: dict[str, Preset] = {
    "twmd": Preset(MetricConfig(), "max <P,S> + T H(P), one Sinkhorn iteration, F, normalised", _CHEN),
    "twmd-b": Preset(
        MetricConfig(temperature=0.1, centering="corpus"), "twmd over centred vectors, F, normalised", _CHEN
    ),
    "trwmd": Preset(MetricConfig(matching="trwmd"), "sum_i a_i sum_j softmax_j(S/T) S, F, normalised", _CHEN),
    "trwmd-b": Preset(
        MetricConfig(matching="trwmd", temperature=0.15, centering="corpus"),
        "trwmd over centred vectors, F, normalised",
        _CHEN,
    ),
    "bertscore-f1": Preset(
        MetricConfig(**_GREEDY), "sum_i a_i max_j S and its transpose, harmonic mean", "Zhang et al. 2020"
    ),
    "bertscore-p": Preset(MetricConfig(**_GREEDY, score="precision"), "sum_j b_j max_i S", "Zhang et al. 2020"),
    "bertscore-r": Preset(MetricConfig(**_GREEDY, score="recall"), "sum_i a_i max_j S", "Zhang et al. 2020"),
    "sbert": Preset(MetricConfig(matching="sbert"), "mean of S over all pairs, normalised", _CHEN),
    "wordset-cka": Preset(
        MetricConfig(matching="wordset-cka", centering="dimension"),
        "mean of S squared over all pairs, normalised",
        "Zhelezniak et al. 2019",
    ),
}
"""All presets by name. Their encoder is the embedded one; every field can be overridden."""


def preset_config(name: str, **overrides: Any) -> Any:
    """Configuration of a preset, with some fields changed.

    Raises:
        InputError: If the preset or a field is unknown; names the nearest.

    Example:
        >>> preset_config("twmd", temperature=0.05).temperature
        0.05
    """
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"Expected a checkpoint folder, a hub name or a preset, but got {name!r}. {hint}"
            f"The presets are {', '.join(PRESETS)}."
        )
    return PRESETS[name].config.override(**overrides)


def build_metric(config: Any) -> Any:
    """The metric that a configuration describes, on its pretrained encoder.

    Args:
        config: A configuration object, or a mapping with its ``kind`` and fields.

    Returns:
        A :class:`~textmover.types.SegmentMetric` that is a torch module.

    Raises:
        InputError: If the kind or a field is unknown, or the encoder cannot be found.
    """
    kind = config.get("kind", "transport") if isinstance(config, Mapping) else config.kind
    if kind not in KINDS:
        raise InputError(f"Expected `kind` to be one of {', '.join(KINDS)}, but got {kind!r}.")
    metric_class = KINDS[kind]
    return metric_class.from_config(
        metric_class.config_class.from_dict(config) if isinstance(config, Mapping) else config
    )
