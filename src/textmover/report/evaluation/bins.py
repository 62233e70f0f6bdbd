"""Agreement within bins of length and of quality: a picture, its numbers, and what does not count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from textmover.report.evaluation.wording import STATISTIC_NAMES
from textmover.report.figures.lines import BinLine, line_plot, value_range
from textmover.report.figures.scales import signed
from textmover.types import Judgements, plural

QUARTILE_NAMES = ("lowest", "low", "high", "highest")

SAMPLES = 200  # most bootstrap samples of a bin: enough for the length of a line in a picture
MOST_LINES = 5
"""With more metrics only the best one and the baseline stand out; the others come forward when they are pointed at."""


class Bins(NamedTuple):
    """Bins with their names, and the lines of metrics over them."""

    title: str
    names: Sequence[str]
    bins: Sequence[BinAgreement]
    lines: Sequence[BinLine]


def bin_views(
    scores: Mapping[str, NDArray[np.float64]],
    colours: Mapping[str, int],
    selection: Selection,
    evaluation: Evaluation,
    *,
    groups: Sequence[str] | None,
    statistic: str,
    lengths: tuple[NDArray[np.float64], str] | None,
) -> dict[str, Any]:
    """Agreement by length and by quartile of the rating, as the template reads it.

    Scores ``[n]`` come by metric, from the best to the worst, higher is better; lengths with what they count, words of
    the first reference if ``None``. Without groups all rows are pooled.
    """
    values, unit = _lengths(selection.judgements) if lengths is None else lengths
    options = IntervalOptions(
        min(SAMPLES, evaluation.samples), evaluation.seed, evaluation.level, draw_labels(selection.judgements)
    )
    how: dict[str, Any] = {"statistic": statistic, "intervals": options}
    table, human = list(scores.values()), selection.human
    by_length = agreement_by_length(table, human, values, groups, **how)
    by_quality = agreement_by_quantile(table, human, groups, bins=len(QUARTILE_NAMES), **how)
    ranges = [f"{one.low:g}" if one.low == one.high else f"{one.low:g}–{one.high:g}" for one in by_length]
    quarters: Sequence[str] = QUARTILE_NAMES
    if len(by_quality) < len(quarters):
        quarters = [f"{signed(one.low, 1)} to {signed(one.high, 1)}" for one in by_quality]
    front = [name for place, name in enumerate(scores) if name == evaluation.baseline or place == 0]
    front = front if len(scores) > MOST_LINES else list(scores)
    drawn = [
        Bins(f"Agreement by {title}", names, bins, _lines(bins, colours, list(scores), front))
        for title, names, bins in (
            (f"length in {unit}", ranges, by_length),
            ("quartile of the rating", quarters, by_quality),
        )
    ]
    span = value_range([line for one in drawn for line in one.lines])
    axis = STATISTIC_NAMES[statistic] + ("" if groups is None else ", mean over groups")
    has_intervals = any(not np.isnan(one.lower).all() for one in (*by_length, *by_quality))
    draws = plural(options.samples, "draw")
    said = f"{100 * evaluation.level:g} % bootstrap intervals, {draws}" if has_intervals else ""
    return {
        "by_length": _view(drawn[0], axis, span),
        "by_quality": _view(drawn[1], axis, span),
        "length_unit": unit,
        "bin_front": front if len(scores) > MOST_LINES else [],
        "bin_intervals": said,
    }


def _lines(
    bins: Sequence[BinAgreement], colours: Mapping[str, int], names: Sequence[str], front: Sequence[str]
) -> list[BinLine]:
    return [
        BinLine(
            name,
            colours[name],
            [float(found.values[index]) for found in bins],
            [(float(found.lower[index]), float(found.upper[index])) for found in bins],
            name not in front,
        )
        for index, name in enumerate(names)
    ]


def _view(drawn: Bins, axis: str, span: tuple[float, float]) -> dict[str, Any]:
    texts, headers = [], []
    some = any(one.groups < one.among for one in drawn.bins)
    for name, one in zip(drawn.names, drawn.bins, strict=True):
        size = f"n {one.counted:,}"
        texts.append((name, size, f"{one.groups}/{plural(one.among, 'group')}") if some else (name, size))
        headers.append((name, f"{size}, {one.groups} of {plural(one.among, 'group')}" if one.among > 1 else size))
    return {
        "picture": line_plot(drawn.lines, texts, title=drawn.title, axis=axis, span=span),
        "headers": headers,
        "lines": drawn.lines,
        "title": drawn.title,
        "drawn": any(math.isfinite(value) for line in drawn.lines for value in line.values),
        "left_out": _left_out(drawn),
    }


def _left_out(drawn: Bins) -> str:
    lost = [one.segments - one.counted for one in drawn.bins]
    listed = ", ".join(f"{count:,} in {name}" for name, count in zip(drawn.names, lost, strict=True) if count)
    if not listed:
        return ""
    total = plural(sum(one.segments for one in drawn.bins), "segment")
    where = "groups" if any(one.among > 1 for one in drawn.bins) else "bins"
    return (
        f"Left out: {sum(lost):,} of {total} ({listed}), in {where} that have fewer than three segments "
        "there, or equal ratings, or equal scores of a metric."
    )


def _lengths(judgements: Judgements) -> tuple[NDArray[np.float64], str]:
    texts = [
        references[0] if references else hypothesis
        for references, hypothesis in zip(judgements.references, judgements.hypotheses, strict=True)
    ]
    unspaced = sum(len(text) > 12 and len(text.split()) == 1 for text in texts)
    if 2 * unspaced > len(texts):  # such as Chinese, where words are not set apart
        return np.array([len(text) for text in texts], dtype=np.float64), "characters of the reference"
    return np.array([len(text.split()) for text in texts], dtype=np.float64), "words of the reference"
