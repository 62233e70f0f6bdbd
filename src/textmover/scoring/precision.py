"""The arithmetic of the encoder while scoring: exact (float32), fast (bfloat16), or whichever is safe.

Everything after the encoder stays float32. ``fast`` changes the scores a little (typically in the third digit of a
cosine); ``auto`` takes it only where the largest change over a set of probe pairs is at most :data:`AUTO_BOUND`.
"""

from __future__ import annotations

import copy
import logging
from typing import Literal

import torch

from textmover.types import InputError, SegmentMetric

__all__ = ["AUTO_BOUND", "Precision", "apply_precision", "has_bfloat16"]

logger = logging.getLogger(__name__)

Precision = Literal["exact", "fast", "auto"]

AUTO_BOUND = 0.01
"""Largest deviation of an uncalibrated score on the probe pairs that ``auto`` accepts."""

PROBES = (
    ("The council approved the new budget on Tuesday.", "On Tuesday the council passed the new budget."),
    ("She has never been to Norway.", "She has been to Norway many times."),
    ("Profits rose by 14 percent in the third quarter.", "In the third quarter, earnings fell by 40 percent."),
    ("Boil the rice for twelve minutes and let it rest.", "Let the rice rest after boiling it for twelve minutes."),
    ("Heavy rain closed two roads near the river.", "Two roads by the river were shut because of the rain."),
    ("Where did you leave the keys?", "The museum opens at nine."),
    ("No one was injured in the fire.", "Nobody got hurt in the blaze, officials said."),
    ("It works.", "It does not work at all, whatever we try to do about it."),
)
"""Pairs of sentences that deviations are measured on."""


def has_bfloat16(device: torch.device) -> bool:
    """Whether matrix products in bfloat16 run in hardware on a device."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # The flags of the processor; torch has no public name for them in all the versions that we support.
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def apply_precision(metric: SegmentMetric, precision: Precision) -> SegmentMetric:
    """A metric with the arithmetic that was asked for; its ``precision`` says what runs.

    Args:
        metric: The metric on its device; ``fast`` changes it in place.
        precision: What was asked for.

    Returns:
        The metric to score with. ``exact`` leaves it as it was configured.

    Raises:
        InputError: If the precision is ``auto`` and a statistic is missing that scoring needs.
    """
    if precision == "exact":
        return metric
    if not has_bfloat16(metric.device):
        if precision == "fast":
            logger.warning("No bfloat16 arithmetic on this %s: precision 'fast' runs in float32.", metric.device.type)
        return metric
    if precision == "fast":
        metric.cast_encoder(torch.bfloat16)
        return metric
    if metric.needs_fit:
        raise InputError("Expected fitted statistics for precision 'auto': fit them first, or name a precision.")
    faster = copy.deepcopy(metric)
    faster.cast_encoder(torch.bfloat16)
    if faster.signature == metric.signature:  # nothing to cast, as with static vectors
        return metric
    deviation = float((_probe(faster) - _probe(metric)).abs().max())
    if deviation <= AUTO_BOUND:
        return faster
    logger.info("Precision auto: bfloat16 deviates by %.4f on the probe pairs, so float32 runs.", deviation)
    return metric


def _probe(metric: SegmentMetric) -> torch.Tensor:
    """Values of the probe pairs, before calibration where the metric has them."""
    sides = [metric.tokenize([pair[side] for pair in PROBES]).to(metric.device) for side in (0, 1)]
    with torch.inference_mode():
        scores = metric.pair_scores(*sides)
    return scores.score if scores.f is None else scores.f
