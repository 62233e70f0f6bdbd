"""Weight changes of ``textmover export``: averages, interpolation, and refitted statistics."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from textmover.checkpoints.averaging import average_metrics, fitted_names, interpolate, refit
from textmover.checkpoints.card import made_from, write_card
from textmover.modules.matching.calibration import Calibration
from textmover.readers.column_flags import flags_named
from textmover.training.finished_runs import metric_and_card
from textmover.types import InputError, Segment, SegmentMetric

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
