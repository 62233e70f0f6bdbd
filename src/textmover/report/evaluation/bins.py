"""Agreement by length and by quality for the template: two pictures on one scale, and their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation import (
    BinAgreement,
    Evaluation,
    IntervalOptions,
    agreement_by_length,
    agreement_by_quantile,
)
from textmover.meta_evaluation.agreement.groups import Selection, draw_labels
from textmover.report.evaluation.wording import STATISTIC_NAMES, plural
from textmover.report.figures.lines import BinLine, line_plot, value_range
from textmover.report.figures.svg import signed
from textmover.types import Judgements

QUARTILES = 4
QUARTILE_NAMES = ("lowest", "low", "high", "highest")

SAMPLES = 200
"""Most bootstrap samples of a bin: enough for the length of a line in a picture."""

MOST_LINES = 5
"""With more metrics only the best one and the baseline stand out; the others come forward when they are pointed at."""


class BinMetric(NamedTuple):
    """A metric.

    Attributes:
        name: Of it.
        colour: Number of its colour.
        scores: ``[n]``, higher is better.
    """

    name: str
    colour: int
    scores: NDArray[np.float64]


def bin_views(
    metrics: Sequence[BinMetric],
    selection: Selection,
    evaluation: Evaluation,
    *,
    groups: Sequence[str] | None,
    statistic: str,
    lengths: tuple[NDArray[np.float64], str] | None,
) -> dict[str, Any]:
    """Agreement by length and by quartile of the rating.

    Args:
        metrics: From the best to the worst.
        selection: The rows that count.
        evaluation: Which says how intervals are drawn, and the baseline.
        groups: Group of each row; ``None`` pools all.
        statistic: A correlation.
        lengths: Length of each row and what is counted; words of the first reference if ``None``.

    Returns:
        ``by_length``, ``by_quality`` and what the text says of them.
    """
    values, unit = _lengths(selection.judgements) if lengths is None else lengths
    options = IntervalOptions(
        min(SAMPLES, evaluation.samples), evaluation.seed, evaluation.level, draw_labels(selection.judgements)
    )
    scores, human = [one.scores for one in metrics], selection.human
    by_length = agreement_by_length(scores, human, values, groups, statistic=statistic, intervals=options)
    by_quality = agreement_by_quantile(scores, human, groups, bins=QUARTILES, statistic=statistic, intervals=options)
    ranges = [f"{one.low:g}" if one.low == one.high else f"{one.low:g}–{one.high:g}" for one in by_length]
    quarters = list(QUARTILE_NAMES) if len(by_quality) == QUARTILES else [
        f"{signed(one.low, 1)} to {signed(one.high, 1)}" for one in by_quality
    ]  # fmt: skip
    front: set[str | None] = {one.name for one in metrics[: 1 if len(metrics) > MOST_LINES else None]}
    front.add(evaluation.baseline)
    lines = [_lines(bins, metrics, front) for bins in (by_length, by_quality)]
    span = value_range([line for drawn in lines for line in drawn])
    axis = STATISTIC_NAMES[statistic] + ("" if groups is None else ", mean over groups")
    has_intervals = any(not np.isnan(one.lower).all() for one in (*by_length, *by_quality))
    return {
        "by_length": _view(by_length, ranges, lines[0], axis, span, f"Agreement by length in {unit}"),
        "by_quality": _view(by_quality, quarters, lines[1], axis, span, "Agreement by quartile of the rating"),
        "length_unit": unit,
        "bin_front": [one.name for one in metrics if one.name in front] if len(metrics) > MOST_LINES else [],
        "bin_intervals": f"{100 * evaluation.level:g} % bootstrap intervals, {options.samples} draws"
        if has_intervals
        else "",
    }


def _lines(bins: Sequence[BinAgreement], metrics: Sequence[BinMetric], front: set[str | None]) -> list[BinLine]:
    return [
        BinLine(
            one.name,
            one.colour,
            [float(found.values[index]) for found in bins],
            [(float(found.lower[index]), float(found.upper[index])) for found in bins],
            one.name not in front,
        )
        for index, one in enumerate(metrics)
    ]


def _view(
    bins: Sequence[BinAgreement],
    labels: Sequence[str],
    lines: Sequence[BinLine],
    axis: str,
    span: tuple[float, float],
    title: str,
) -> dict[str, Any]:
    """A picture, its numbers as a table, and what does not count."""
    sizes = [f"n {one.counted:,}" for one in bins]
    some = any(one.groups < one.among for one in bins)
    texts = [
        (label, size, f"{one.groups}/{one.among} groups") if some else (label, size)
        for label, size, one in zip(labels, sizes, bins, strict=True)
    ]
    counts = [
        f"{size}, {one.groups} of {plural(one.among, 'group')}" if one.among > 1 else size
        for size, one in zip(sizes, bins, strict=True)
    ]
    return {
        "picture": line_plot(lines, texts, title=title, axis=axis, span=span),
        "headers": list(zip(labels, counts, strict=True)),
        "rows": [
            (line.name, [_cell(value, ends) for value, ends in zip(line.values, line.ends, strict=True)])
            for line in lines
        ],
        "title": title,
        "drawn": any(math.isfinite(value) for line in lines for value in line.values),
        "left_out": _left_out(bins, labels),
    }


def _cell(value: float, ends: tuple[float, float]) -> tuple[str, str]:
    """A value, and its interval."""
    low, high = ends
    return signed(value, 3), "" if math.isnan(low) else f"{signed(low, 3)} to {signed(high, 3)}"


def _left_out(bins: Sequence[BinAgreement], labels: Sequence[str]) -> str:
    """A sentence on the segments of groups that have no correlation within a bin."""
    lost = [(label, one.segments - one.counted) for label, one in zip(labels, bins, strict=True)]
    listed = ", ".join(f"{count:,} in {label}" for label, count in lost if count)
    if not listed:
        return ""
    total = plural(sum(one.segments for one in bins), "segment")
    several = any(one.among > 1 for one in bins)
    where = "in groups that have" if several else "in bins that have"
    return (
        f"Left out: {sum(count for _, count in lost):,} of {total} ({listed}), {where} fewer than three segments "
        "there, or equal ratings, or equal scores of a metric."
    )


def _lengths(judgements: Judgements) -> tuple[NDArray[np.float64], str]:
    """Length of each text, and what is counted."""
    texts = [
        references[0] if references else hypothesis
        for references, hypothesis in zip(judgements.references, judgements.hypotheses, strict=True)
    ]
    unspaced = sum(len(text) > 12 and len(text.split()) == 1 for text in texts)
    if 2 * unspaced > len(texts):  # such as Chinese, where words are not set apart
        return np.array([len(text) for text in texts], dtype=np.float64), "characters of the reference"
    return np.array([len(text.split()) for text in texts], dtype=np.float64), "words of the reference"
