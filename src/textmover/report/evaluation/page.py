"""The evaluation report as one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textmover.files import atomic_file
from textmover.meta_evaluation import (
    Evaluation,
    MetricAgreement,
    MetricCorrelations,
    MetricScores,
    metric_correlations,
)
from textmover.meta_evaluation.agreement.groups import Selection, select_rows
from textmover.meta_evaluation.statistics.kernel import CORRELATIONS
from textmover.report.evaluation.disagreements import Disagreement
from textmover.report.evaluation.heat_maps import (
    BinMetric,
    bin_views,
    correlation_matrix,
    group_matrix,
    p_value_matrix,
    p_value_text,
)
from textmover.report.evaluation.segments import fold_limit, segment_views, text_sizes
from textmover.report.evaluation.wording import (
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
from textmover.report.figures.scatter import (
    density_steps,
    distribution_plot,
    most_in_a_hexagon,
    outside_words,
    scatter_plot,
    step_labels,
)
from textmover.report.figures.svg import Scale, element, padded, signed, svg
from textmover.report.templating import check_jinja, colour_rules, fill, template_text
from textmover.types import InputError, Judgements

MOST_GROUP_COLUMNS = 10
"""With more groups the main table leaves their values to the heat map, which has a row for each."""


@dataclass(frozen=True, eq=False)
class ReportSection:
    """Section of the page for one judgement set and dimension.

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
        "correlated": "",
        "disagreements": segment_views(
            section.disagreements, [one.name for one in ranked], colours, fold, section.judgements
        ),
        "signatures": [(one.name, one.signature) for one in ranked if one.signature],
        "statistic": STATISTIC_NAMES[_statistic(evaluation)],
        "averaged": evaluation.protocol.level != "pooled" and len(evaluation.groups) > 1,
    }
    if len(ranked) > 1:
        names, table = _in_order(ranked, selection)
        between = metric_correlations(list(table), _groups(evaluation, selection), statistic=_statistic(evaluation))
        view["correlations"] = correlation_matrix(names, between.values)
        view["correlated"] = _correlated(between, len(selection.rows))
    if rated:
        names, table = _in_order(ranked, selection)
        groups, lengths = _groups(evaluation, selection), section.lengths
        view |= bin_views(
            [BinMetric(name, colours[name], scores) for name, scores in zip(names, table, strict=True)],
            selection,
            evaluation,
            groups=groups,
            statistic=_statistic(evaluation),
            lengths=None if lengths is None else (np.asarray(lengths, np.float64)[selection.rows], section.length_unit),
        )
    return view


def overview_view(evaluations: Sequence[Evaluation], colours: Mapping[str, int]) -> dict[str, Any] | None:
    """The table of all sets, where there are several.

    Args:
        evaluations: Of the sets.
        colours: Number of each metric's colour.
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
            outside = outside_words(raw[one.name], selection.human)
            scatter.append({**panel, "picture": picture, "outside": outside})
        picture = distribution_plot(one.name, raw[one.name])
        distributions.append({**panel, "picture": picture, "outside": outside_words(raw[one.name])})
    people = distribution_plot("the human ratings", selection.human) if rated else ""
    return {
        "scatter": scatter,
        "steps": step_labels(steps) if len(steps) > 1 else [],
        "distributions": distributions,
        "people": people,
        "people_outside": outside_words(selection.human) if rated else "",
    }


def _correlated(found: MetricCorrelations, segments: int) -> str:
    """Over what correlations of metrics are averaged, where that is not everything."""
    if found.groups == found.among:
        return ""
    return (
        f"Mean over {found.groups} of {plural(found.among, 'group')}, which hold {found.counted:,} of {segments:,} "
        "segments: in the others a metric's scores are all equal, or there are fewer than three segments."
    )


def _in_order(ranked: Sequence[MetricAgreement], selection: Selection) -> tuple[list[str], NDArray[np.float64]]:
    """Names and scores of the metrics, from the best to the worst."""
    places = [selection.metrics.index(one.name) for one in ranked]
    return [one.name for one in ranked], selection.scores[places]


def _groups(evaluation: Evaluation, selection: Selection) -> tuple[str, ...] | None:
    return None if evaluation.protocol.level == "pooled" else selection.judgements.groups


def _statistic(evaluation: Evaluation) -> str:
    """Statistic over segments: the protocol's, or Pearson's r if that is not a correlation."""
    return evaluation.protocol.statistic if evaluation.protocol.statistic in CORRELATIONS else "pearson"


PAGE = "index.html"
"""Name of the page in its folder."""


@dataclass(frozen=True)
class ReportHead:
    """Head of the page.

    Attributes:
        date: As it is written; the page asks no clock, so that the same input gives the same page.
        command: What was typed.
        versions: Versions of what was used, by name.
        title: Of the page.
    """

    date: str
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    title: str = "How well metrics agree with people"


def write_report(folder: Path | str, head: ReportHead, sections: Sequence[ReportSection]) -> Path:
    """Write the page into a folder, under its name only when it is complete.

    Args:
        folder: Made if it does not exist.
        head: What stands at the top.
        sections: One for each judgement set and dimension, at least one.

    Returns:
        Path of the page.

    Raises:
        InputError: If Jinja is not installed, there is no section, or the page cannot be written.
    """
    text = render_report(head, sections)
    path = Path(folder) / PAGE
    with atomic_file(path) as stream:
        # A lone surrogate, which broken input can hold, is not a character of UTF-8.
        stream.write(text.encode("utf-8", "replace").decode("utf-8"))
    return path


def render_report(head: ReportHead, sections: Sequence[ReportSection]) -> str:
    """The page as text.

    Args:
        head: What stands at the top.
        sections: One for each judgement set and dimension, at least one.

    Returns:
        HTML with its style, its script and its pictures; the same input gives the same text.

    Raises:
        InputError: If Jinja is not installed, or there is no section.
    """
    check_jinja()
    if not sections:
        raise InputError("Expected at least one judgement set for the report, but got none: name one.")
    evaluations = [one.evaluation for one in sections]
    names = list(dict.fromkeys(metric.name for one in evaluations for metric in one.metrics))
    colours = {name: index for index, name in enumerate(names)}
    fold = fold_limit(text_sizes(one for section in sections for one in section.disagreements))
    views = [
        section_view(section, f"set-{index}", colours, evaluations, fold)
        for index, section in enumerate(sections, start=1)
    ]
    return fill(
        "page.html.j2",
        head=head,
        overview=overview_view(evaluations, colours),
        sections=views,
        colours=colour_rules(len(names)),
        style=template_text("style.css"),
        script=template_text("script.js"),
    )
