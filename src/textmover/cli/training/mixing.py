"""Weight changes of ``textmover export``: averages, interpolation, and refitted statistics."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from textmover.checkpoints.averaging import average_metrics, fitted_names, interpolate, refit
from textmover.checkpoints.card import made_from, write_card
from textmover.cli.options.columns import RATED_COLUMNS, read_tables
from textmover.modules.matching.calibration import Calibration
from textmover.readers.column_flags import COLUMN_OPTIONS, flags_named
from textmover.training.finished_runs import metric_and_card
from textmover.types import InputError, Segment, SegmentMetric

logger = logging.getLogger(__name__)

UNLIKE = 3.0
"""Largest ratio of two calibrations' slopes whose mean is useful: seeds of one recipe differ
by less, ratings of 0 to 5 and of 0 to 100 by more."""

FLAGS = {"share": "--untrained", "metrics": "--average", "weights": "--weights"}
"""The flag behind each argument that an error may name."""


MIX_OPTIONS = f"""
--average RUN...: the mean of the weights of RUN and of these, all of one configuration (other seeds, steps, or data)
--weights WEIGHT...: what RUN and each of --average count in the mean; all the same if not given
--untrained SHARE: weights that are this share of the way back to the untrained encoder: 0 as trained, 1 untrained
--ratings FILE: table of rated segments that corpus statistics and calibration are fitted on again, after the mixing
{RATED_COLUMNS}
"""


def check_mix_options(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, before anything is loaded."""
    if options.untrained is not None and not 0 <= options.untrained <= 1:
        raise InputError(
            f"Expected `--untrained` to be between 0 (as trained) and 1 (untrained), but got {options.untrained:g}."
        )
    if options.weights is not None and options.average is None:
        raise InputError("Expected `--average RUN …` beside `--weights`, but got none: name what is to be averaged.")
    named = [name for name in COLUMN_OPTIONS if getattr(options, name) is not None]
    if named and options.ratings is None:
        raise InputError(
            f"Expected `--ratings FILE` beside `--{named[0].replace('_', '-')}`, but got none: give the table."
        )


def mixed(options: argparse.Namespace, metric: SegmentMetric, card: str) -> tuple[SegmentMetric, str]:
    """A metric mixed as the options say, and its card.

    Args:
        options: The command's options.
        metric: The metric of the run that stands first.
        card: Its card, which stays where nothing is mixed, and is handed on by that of what is made from it.
    """
    if options.average is None and options.untrained is None and options.ratings is None:
        return metric, card
    rated = None if options.ratings is None else read_tables([options.ratings], options, score=True)[0]
    cards, made = [(Path(options.run_checkpoint).name, card)], []
    with flags_named(FLAGS):
        if options.average is not None:
            others = []
            for name in options.average:
                other, other_card = metric_and_card(name)
                others.append(other)
                cards.append((Path(name).name, other_card))
            if rated is None:
                counted = options.weights or [1.0] * len(cards)
                _tell_unlike_scales(
                    [one for one, weight in zip([metric, *others], counted, strict=False) if weight > 0]
                )
            texts = None if rated is None else _texts(metric, rated)
            metric = average_metrics([metric, *others], options.weights, texts=texts)
            shown = [f"`{name}`" for name, _ in cards]
            if options.weights is not None:
                shown = [f"{name} ({weight:g})" for name, weight in zip(shown, options.weights, strict=True)]
            made.append(f"as the mean of the weights of {', '.join(shown)}")
        else:
            made.append(f"from `{cards[0][0]}`")
        if options.untrained is not None:
            metric = interpolate(metric, options.untrained)
            made.append(f"{options.untrained:g} of the way back to the untrained encoder")
        if rated is not None:
            made.append(f"with {' and '.join(_fit(metric, rated))} fitted on `{Path(options.ratings).name}`")
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
    return list(dict.fromkeys(text for one in rated for text in (one.hypothesis, *one.references)))


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
