"""From evaluations to what the page's template shows: texts, numbers and pictures, nothing left to compute."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation import (
    BinAgreement,
    Evaluation,
    MetricAgreement,
    MetricScores,
    agreement_by_length,
    agreement_by_quantile,
    metric_correlations,
)
from textmover.meta_evaluation.averaging import CORRELATIONS
from textmover.meta_evaluation.groups import Selection, select_rows
from textmover.report.disagreements import Disagreement
from textmover.report.lines import BinLine, line_plot
from textmover.report.matrices import correlation_matrix, group_matrix, p_value_matrix, p_value_text
from textmover.report.scatter import density_steps, distribution_plot, most_in_a_hexagon, scatter_plot, step_labels
from textmover.report.svg import Scale, element, padded, signed, svg
from textmover.report.texts import ShownText, shown_alignment, shown_text
from textmover.report.wording import (
    STATISTIC_NAMES,
    best_rows,
    headline,
    mark,
    overview_rows,
    plural,
    remarks,
    set_title,
    shown_groups,
)
from textmover.types import Judgements

__all__ = ["ReportSection", "overview_view", "section_view"]

MOST_GROUP_COLUMNS = 10
"""With more groups the main table leaves their values to the heat map, which has a row for each."""

QUARTILES = 4
QUARTILE_NAMES = ("lowest", "low", "high", "highest")


@dataclass(frozen=True, eq=False)
class ReportSection:
    """What the page shows of one judgement set and dimension.

    Attributes:
        evaluation: Values, intervals and tests.
        judgements: What it is of.
        metrics: The same scores that it is of, in the same order.
        disagreements: Segments to show, grouped by metric; from :func:`largest_disagreements`.
        remarks: What the caller adds under the table, a sentence each.
        lengths: Length of each text ``[n]`` for the lines over length; if ``None``, words of the first reference.
        length_unit: What lengths count.
    """

    evaluation: Evaluation
    judgements: Judgements
    metrics: Sequence[MetricScores]
    disagreements: Sequence[Disagreement] = ()
    remarks: Sequence[str] = ()
    lengths: NDArray[np.float64] | None = field(default=None)
    length_unit: str = "words"


def section_view(
    section: ReportSection, key: str, colours: Mapping[str, int], among: Sequence[Evaluation], fold: int
) -> dict[str, Any]:
    """One set for the template.

    Args:
        section: The set.
        key: Start of its anchors.
        colours: Number of each metric's colour.
        among: All evaluations of the page.
        fold: Characters of a text that may be folded away.

    Returns:
        Values by name, as ``templates/page.html.j2`` reads them.
    """
    evaluation = section.evaluation
    ranked = evaluation.ranked()
    selection = select_rows(section.judgements, section.metrics, evaluation.protocol, evaluation.dimension)
    rated = not np.isnan(selection.human).any()
    view: dict[str, Any] = {
        "key": key,
        "title": set_title(evaluation, among),
        "headline": headline(evaluation),
        "lead": remarks(evaluation)[0],
        "remarks": [_unbroken(one) for one in remarks(evaluation, section.remarks)[1:]],
        "table": _table(evaluation, ranked, colours),
        "p_values": p_value_matrix(evaluation) if len(ranked) > 1 else None,
        "by_group": group_matrix(evaluation) if len(evaluation.groups) > 1 else None,
        "rated": rated,
        "by_length": None,
        "by_quality": None,
        "panels": _panels(section, ranked, selection, colours, rated=rated),
        "correlations": None,
        "disagreements": _disagreements(section.disagreements, colours, fold),
        "signatures": [(one.name, one.signature) for one in ranked if one.signature],
        "statistic": STATISTIC_NAMES[_statistic(evaluation)],
        "averaged": evaluation.protocol.level != "pooled" and len(evaluation.groups) > 1,
    }
    if len(ranked) > 1:
        names, table = _in_order(ranked, selection)
        view["correlations"] = correlation_matrix(
            names, metric_correlations(list(table), _groups(evaluation, selection), statistic=_statistic(evaluation))
        )
    if rated:
        view |= _breakdowns(section, ranked, selection, colours)
    return view


def overview_view(evaluations: Sequence[Evaluation], colours: Mapping[str, int]) -> dict[str, Any] | None:
    """The table of all sets, where there are several.

    Args:
        evaluations: Of the sets.
        colours: Number of each metric's colour.

    Returns:
        Headers and rows.
    """
    if len(evaluations) < 2:
        return None
    rows = overview_rows(evaluations)
    columns = [
        [math.nan if one is None else one.value for one in column]
        for column in zip(*(found for _, found in rows), strict=True)
    ]
    best = [best_rows(column) for column in columns]
    return {
        "headers": [set_title(one, evaluations) for one in evaluations],
        "sizes": [plural(one.n, "segment") for one in evaluations],
        "rows": [
            {
                "name": name,
                "colour": colours[name],
                "cells": [
                    _value_cell(column[row], best=row in places) for column, places in zip(columns, best, strict=True)
                ],
            }
            for row, (name, _) in enumerate(rows)
        ],
    }


def _unbroken(remark: str) -> str:
    """The sentence with its inequalities kept on one line."""
    return remark.replace(" ≤ ", "\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}")


# --- the main table ---------------------------------------------------------------------------------------------------


def _table(evaluation: Evaluation, ranked: Sequence[MetricAgreement], colours: Mapping[str, int]) -> dict[str, Any]:
    groups = shown_groups(evaluation)
    groups = groups if len(groups) <= MOST_GROUP_COLUMNS else ()
    values = {group: [one.by_group.get(group, math.nan) for one in ranked] for group in groups}
    best = {group: best_rows(column) for group, column in values.items()}
    best_means = best_rows([one.value for one in ranked])
    has_intervals = any(not math.isnan(one.low) for one in ranked)
    scale = Scale(*padded([end for one in ranked for end in (one.low, one.value, one.high)], 0.04), 3, 117)
    return {
        "groups": [(group, evaluation.groups[group]) for group in groups],
        "omitted": len(evaluation.groups) if len(evaluation.groups) > MOST_GROUP_COLUMNS else 0,
        "statistic": STATISTIC_NAMES[evaluation.protocol.statistic].partition(" (")[0],
        "intervals": f"{100 * evaluation.level:g} % interval" if has_intervals else "",
        "ranks": any(one.rank is not None for one in ranked),
        "baseline": evaluation.baseline,
        "rows": [
            {
                "name": one.name,
                "colour": colours[one.name],
                "mean": _value_cell(one.value, best=row in best_means),
                "interval": "" if math.isnan(one.low) else f"{signed(one.low, 3)} to {signed(one.high, 3)}",
                "low": "" if math.isnan(one.low) else repr(one.low),
                "picture": _interval_picture(one, scale),
                "rank": one.rank,
                "against": _against(one, evaluation),
                "groups": [_value_cell(values[group][row], best=row in best[group]) for group in groups],
            }
            for row, one in enumerate(ranked)
        ],
    }


def _value_cell(value: float, *, best: bool) -> dict[str, Any]:
    return {"text": signed(value, 3), "value": "" if math.isnan(value) else repr(float(value)), "best": best}


def _against(metric: MetricAgreement, evaluation: Evaluation) -> dict[str, str]:
    """Gain over the baseline, its mark, and what a screen reader says."""
    if metric.name == evaluation.baseline:
        return {"text": "baseline", "mark": "", "said": "", "value": "0"}
    said = {"↑": "significantly better", "↓": "significantly worse", "": ""}[mark(metric)]
    if not math.isnan(metric.p_value):
        said = f"{said or 'no significant difference'}, p = {p_value_text(metric.p_value)}"
    return {
        "text": signed(metric.gain, 3, plus=True),
        "mark": mark(metric),
        "said": said,
        "value": "" if math.isnan(metric.gain) else repr(metric.gain),
    }


def _interval_picture(metric: MetricAgreement, scale: Scale) -> str:
    """A point on its interval, on one scale for all metrics."""
    if math.isnan(metric.low) or math.isnan(metric.value):
        return ""
    line = element("path", class_="line", d=f"M{scale.at(metric.low):.1f} 8H{scale.at(metric.high):.1f}")
    point = element("circle", cx=scale.at(metric.value), cy=8, r=3.4)
    title = f"{metric.name}: {signed(metric.value, 3)}, {signed(metric.low, 3)} to {signed(metric.high, 3)}"
    return svg(120, 16, line, point, title=title, class_="interval")


# --- pictures ---------------------------------------------------------------------------------------------------------


def _panels(
    section: ReportSection,
    ranked: Sequence[MetricAgreement],
    selection: Selection,
    colours: Mapping[str, int],
    *,
    rated: bool,
) -> dict[str, Any]:
    """Scatter plots and distributions, one for each metric, on the rows that count."""
    by_name = {one.name: one for one in section.metrics}
    raw = {one.name: by_name[one.name].scores[selection.rows] for one in ranked}
    steps = [1]
    if rated and raw:
        steps = density_steps(max(most_in_a_hexagon(selection.human, scores) for scores in raw.values()))
    scatter, distributions = [], []
    for one in ranked:
        metric = by_name[one.name]
        panel = {"name": one.name, "colour": colours[one.name], "reversed": not metric.higher_is_better}
        if rated:
            picture = scatter_plot(
                one.name, selection.human, raw[one.name], steps=steps, higher_is_better=metric.higher_is_better
            )
            scatter.append({**panel, "picture": picture})
        distributions.append({**panel, "picture": distribution_plot(one.name, raw[one.name])})
    people = distribution_plot("the human ratings", selection.human) if rated else ""
    return {
        "scatter": scatter,
        "steps": step_labels(steps) if len(steps) > 1 else [],
        "distributions": distributions,
        "people": people,
    }


def _breakdowns(
    section: ReportSection, ranked: Sequence[MetricAgreement], selection: Selection, colours: Mapping[str, int]
) -> dict[str, Any]:
    """Agreement by length and by quartile of the rating."""
    names, table = _in_order(ranked, selection)
    scores, groups = list(table), _groups(section.evaluation, selection)
    statistic = _statistic(section.evaluation)
    lengths, unit = _lengths(section, selection)
    by_length = agreement_by_length(scores, selection.human, lengths, groups, statistic=statistic)
    by_quality = agreement_by_quantile(scores, selection.human, groups, bins=QUARTILES, statistic=statistic)
    ranges = [f"{one.low:g}" if one.low == one.high else f"{one.low:g}–{one.high:g}" for one in by_length]
    quarters = list(QUARTILE_NAMES) if len(by_quality) == QUARTILES else [
        f"{signed(one.low, 1)} to {signed(one.high, 1)}" for one in by_quality
    ]  # fmt: skip
    return {
        "by_length": _bin_view(by_length, ranges, names, colours, f"Agreement by length in {unit}"),
        "by_quality": _bin_view(by_quality, quarters, names, colours, "Agreement by quartile of the rating"),
        "length_unit": unit,
    }


def _bin_view(
    bins: Sequence[BinAgreement], labels: Sequence[str], names: Sequence[str], colours: Mapping[str, int], title: str
) -> dict[str, Any]:
    """A picture, and its numbers as a table."""
    lines = [
        BinLine(name, colours[name], [float(one.values[index]) for one in bins]) for index, name in enumerate(names)
    ]
    sizes = [f"n {one.segments:,}" for one in bins]
    return {
        "picture": line_plot(lines, list(zip(labels, sizes, strict=True)), title=title),
        "headers": [f"{label} ({size})" for label, size in zip(labels, sizes, strict=True)],
        "rows": [(line.name, [signed(value, 3) for value in line.values]) for line in lines],
        "title": title,
        "drawn": any(math.isfinite(value) for line in lines for value in line.values),
    }


def _lengths(section: ReportSection, selection: Selection) -> tuple[NDArray[np.float64], str]:
    """Length of each text that counts, and what is counted."""
    if section.lengths is not None:
        return np.asarray(section.lengths, dtype=np.float64)[selection.rows], section.length_unit
    judgements = selection.judgements
    texts = [
        references[0] if references else hypothesis
        for references, hypothesis in zip(judgements.references, judgements.hypotheses, strict=True)
    ]
    unspaced = sum(len(text) > 12 and len(text.split()) == 1 for text in texts)
    if 2 * unspaced > len(texts):  # such as Chinese, where words are not set apart
        return np.array([len(text) for text in texts], dtype=np.float64), "characters of the reference"
    return np.array([len(text.split()) for text in texts], dtype=np.float64), "words of the reference"


def _in_order(ranked: Sequence[MetricAgreement], selection: Selection) -> tuple[list[str], NDArray[np.float64]]:
    """Names and scores of the metrics, from the best to the worst."""
    places = [selection.metrics.index(one.name) for one in ranked]
    return [one.name for one in ranked], selection.scores[places]


def _groups(evaluation: Evaluation, selection: Selection) -> tuple[str, ...] | None:
    return None if evaluation.protocol.level == "pooled" else selection.judgements.groups


def _statistic(evaluation: Evaluation) -> str:
    """Of segments: the protocol's own, or Pearson's r where that is no correlation."""
    return evaluation.protocol.statistic if evaluation.protocol.statistic in CORRELATIONS else "pearson"


# --- disagreements ----------------------------------------------------------------------------------------------------


def _disagreements(
    disagreements: Sequence[Disagreement], colours: Mapping[str, int], fold: int
) -> list[dict[str, Any]]:
    """By metric, those rated too high and those rated too low."""
    by_metric: dict[str, list[Disagreement]] = {}
    for one in disagreements:
        by_metric.setdefault(one.metric, []).append(one)
    return [
        {
            "name": name,
            "colour": colours.get(name, 0),
            "widest": signed(max(abs(one.difference) for one in ones), 1),
            "directions": [
                {"title": title, "segments": [_item(one, fold) for one in ones if (one.difference > 0) == higher]}
                for title, higher in (("Better than people find it", True), ("Worse than people find it", False))
            ],
        }
        for name, ones in by_metric.items()
    ]


def _item(one: Disagreement, fold: int) -> dict[str, Any]:
    number = 0
    if one.alignment is None:
        hypothesis = shown_text(one.hypothesis, fold)
        reference = shown_text(one.references[0], fold) if one.references else ShownText()
    else:
        hypothesis, reference = shown_alignment(one.alignment, fold)
        number = one.alignment.number
    return {
        "row": one.row + 1,
        "group": one.group,
        "difference": signed(one.difference, 1, plus=True),
        "metric_z": signed(one.metric_z, 1, plus=True),
        "rating_z": signed(one.rating_z, 1, plus=True),
        "score": signed(one.score, 3),
        "rating": f"{one.rating:.3g}".replace("-", "\N{MINUS SIGN}"),
        "picture": _z_picture(one),
        "aligned": one.alignment is not None,
        "hypothesis": hypothesis,
        "reference": reference if one.references or one.alignment else None,
        "others": [shown_text(text, fold) for place, text in enumerate(one.references) if place != number],
    }


def _z_picture(one: Disagreement) -> str:
    """People (a ring) and metric (a dot) on a line of standard deviations."""
    low, high = padded([-3, 3, one.metric_z, one.rating_z], 0.03)
    scale = Scale(low, high, 4, 136)
    people, metric = scale.at(one.rating_z), scale.at(one.metric_z)
    parts = [
        element("path", class_="axis", d="M2 8H138"),
        element("path", class_="axis", d=f"M{scale.at(0):.1f} 4V12"),
        element("path", class_="line", d=f"M{people:.1f} 8H{metric:.1f}"),
        element("circle", class_="people", cx=people, cy=8, r=3.8),
        element("circle", cx=metric, cy=8, r=4.2),
    ]
    title = f"people {signed(one.rating_z, 1, plus=True)}, metric {signed(one.metric_z, 1, plus=True)}"
    return svg(140, 16, *parts, title=title, class_="interval")
