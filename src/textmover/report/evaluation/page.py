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
    BinAgreement,
    Evaluation,
    IntervalOptions,
    MetricScores,
    agreement_by_length,
    agreement_by_quantile,
    metric_correlations,
)
from textmover.meta_evaluation.evaluation import draw_labels, select_rows
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS
from textmover.report.evaluation import wording
from textmover.report.evaluation.disagreements import Disagreement, fold_limit, segment_views
from textmover.report.evaluation.tables import correlation_matrix, group_matrix, p_value_matrix, p_value_text
from textmover.report.figures import evaluation_plots as plots
from textmover.report.figures.scales import Scale, padded, signed
from textmover.report.table_formats import best_rows
from textmover.report.templating import render_page
from textmover.types import InputError, Judgements, plural

PAGE = "index.html"  # file name of the page
MOST_GROUP_COLUMNS = 10  # maximum group columns of the main table; with more groups, only the heat map shows them
QUARTILE_NAMES = ("lowest", "low", "high", "highest")
SAMPLES = 200  # maximum bootstrap samples of a bin, sufficient for intervals in a plot
MOST_LINES = 5
"""With more metrics, only the best one and the baseline are emphasised; the others are highlighted on hover."""


@dataclass(frozen=True, eq=False)
class ReportSection:
    """Section of the page for one judgement set and dimension.

    Attributes:
        evaluation: Values, intervals and tests.
        judgements: Judgement set of the evaluation.
        metrics: Scores of the evaluation, in the same order.
        disagreements: Segments to show, grouped by metric, from :func:`largest_disagreements`.
        remarks: Additional sentences below the table.
        lengths: Length of each text ``[n]`` for the plot over length; ``None`` for words of the first reference.
        length_unit: Unit of the lengths.
    """

    evaluation: Evaluation
    judgements: Judgements
    metrics: Sequence[MetricScores]
    disagreements: Sequence[Disagreement] = ()
    remarks: Sequence[str] = ()
    lengths: NDArray[np.float64] | None = field(default=None)
    length_unit: str = "words"


@dataclass(frozen=True)
class ReportHead:
    """Head of the page.

    Attributes:
        date: Date to print; it is an argument so that the page is reproducible.
        command: Command line.
        versions: Software versions by name.
        title: Title of the page.
    """

    date: str
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    title: str = "How well metrics agree with people"


def write_report(folder: Path | str, head: ReportHead, sections: Sequence[ReportSection]) -> Path:
    """Write the page of :func:`render_report` into a folder, created if missing; return its path.

    Raises:
        InputError: If Jinja is not installed, there is no section, or the page cannot be written.
    """
    text = render_report(head, sections)
    path = Path(folder) / PAGE
    with atomic_file(path) as stream:
        stream.write(text)
    return path


def render_report(head: ReportHead, sections: Sequence[ReportSection]) -> str:
    """Render the page as self-contained HTML with style, script and figures; the same input gives the same text.

    Args:
        head: Head of the page.
        sections: At least one section, for each judgement set and dimension.

    Raises:
        InputError: If Jinja is not installed, or there is no section.
    """
    if not sections:
        raise InputError("Expected at least one judgement set for the report, but got none: name one.")
    evaluations = [one.evaluation for one in sections]
    names = list(dict.fromkeys(metric.name for one in evaluations for metric in one.metrics))
    colours = {name: index for index, name in enumerate(names)}
    overview = wording.overview_rows(evaluations)
    cases = [one for section in sections for one in section.disagreements]
    fold = fold_limit(
        [len(text) for one in cases for text in (one.hypothesis, *getattr(one.references, "texts", one.references))]
    )
    return render_page(
        "page.html.j2",
        metrics=len(names),
        script="script.js",
        title=head.title,
        head=head,
        evaluations=[(wording.title_of(one, evaluations), plural(one.n, "segment")) for one in evaluations],
        overview=overview,
        best_of_sets=[best_rows(column) for column in zip(*(values for _, values in overview), strict=True)],
        sections=[
            {
                "key": f"set-{index}",
                "title": wording.title_of(one.evaluation, evaluations),
                **_SectionView(one, colours, fold).values(),
            }
            for index, one in enumerate(sections, start=1)
        ],
        colour_of=colours,
        mark=wording.mark,
        p_value_text=p_value_text,
    )


class _SectionView:
    """Values of a section for its template; ``fold`` is the most characters of a folded text."""

    def __init__(self, section: ReportSection, colours: Mapping[str, int], fold: int) -> None:
        self.section, self.colours, self.fold = section, colours, fold
        self.evaluation = evaluation = section.evaluation
        self.ranked = evaluation.ranked()
        self.names = [one.name for one in self.ranked]
        self.selection = select_rows(section.judgements, section.metrics, evaluation.protocol, evaluation.dimension)
        # Statistic over segments: the protocol's if it is a correlation, otherwise Pearson's r.
        self.statistic = evaluation.protocol.statistic if evaluation.protocol.statistic in CORRELATIONS else "pearson"
        self.groups = None if evaluation.protocol.level == "pooled" else self.selection.judgements.groups
        rows = dict(zip(self.selection.metrics, self.selection.scores, strict=True))
        self.scores = {name: rows[name] for name in self.names}  # from best to worst

    def values(self) -> dict[str, Any]:
        """Return all values by name."""
        evaluation, ranked, names = self.evaluation, self.ranked, self.names
        columns = wording.shown_groups(evaluation)
        omitted = len(columns) if len(columns) > MOST_GROUP_COLUMNS else 0
        columns = () if omitted else columns
        sentences = wording.remarks(evaluation, self.section.remarks)
        shown = [[one.value for one in ranked], *([one.by_group[name] for one in ranked] for name in columns)]
        rated = not np.isnan(self.selection.human).any()
        return {
            "evaluation": evaluation,
            "ranked": ranked,
            "names": [evaluation.name, *names, *evaluation.groups],  # any may be written from right to left
            "columns": columns,
            "omitted": omitted,
            "best": list(map(best_rows, shown)),
            "bounded": any(not math.isnan(one.low) for one in ranked),
            "ranks": any(one.rank is not None for one in ranked),
            "scale": Scale(*padded([end for one in ranked for end in (one.low, one.value, one.high)], 0.04), 3, 117),
            "headline": wording.headline(evaluation),
            "lead": sentences[0],
            "remarks": [one.replace(" ≤ ", "\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}") for one in sentences[1:]],
            "p_values": p_value_matrix(evaluation) if len(ranked) > 1 else None,
            "by_group": group_matrix(evaluation) if len(evaluation.groups) > 1 else None,
            "disagreements": segment_views(self.section.disagreements, names, self.fold, self.section.judgements),
            "value_name": wording.STATISTIC_NAMES[evaluation.protocol.statistic].partition(" (")[0],
            "statistic": wording.STATISTIC_NAMES[self.statistic],
            "averaged": evaluation.protocol.level != "pooled" and len(evaluation.groups) > 1,
            **self._pictures(rated=rated),
            **self._correlations(),
            **(self._bins() if rated else {"by_length": None}),
        }

    def _correlations(self) -> dict[str, Any]:
        if len(self.ranked) < 2:
            return {"correlations": None}
        found = metric_correlations(list(self.scores.values()), self.groups, statistic=self.statistic)
        note = ""
        if found.groups != found.among:
            note = (
                f"Mean over {found.groups} of {plural(found.among, 'group')}, which hold {found.counted:,} of "
                f"{plural(len(self.selection.rows), 'segment')}: in the others a metric's scores are all equal, or "
                "there are fewer than three segments."
            )
        return {"correlations": correlation_matrix(self.names, found.values), "correlated": note}

    def _pictures(self, *, rated: bool) -> dict[str, Any]:
        human = self.selection.human
        scatter: list[dict[str, Any]] = []
        distributions: list[dict[str, Any]] = []
        plotted: list[plots.Scatter] = []
        if rated:
            picture, outside = plots.distribution_plot("the human ratings", human), plots.outside_words(human)
            distributions.append({"name": None, "picture": picture, "outside": outside, "reversed": False})
        for name in self.names:
            metric = next(one for one in self.section.metrics if one.name == name)
            scores, rising = metric.scores[self.selection.rows], metric.higher_is_better
            panel = {"name": name, "reversed": not rising}
            if rated:
                plotted.append(plots.Scatter(name, human, scores, higher_is_better=rising))
                scatter.append({**panel, "outside": plots.outside_words(scores, human)})
            picture = plots.distribution_plot(name, scores)
            distributions.append({**panel, "picture": picture, "outside": plots.outside_words(scores)})
        steps = plots.density_steps(max((one.densest for one in plotted), default=0))
        scatter = [{**panel, "picture": one.draw(steps)} for panel, one in zip(scatter, plotted, strict=True)]
        labels = plots.step_labels(steps) if len(steps) > 1 else []
        return {"scatter": scatter, "steps": labels, "distributions": distributions}

    def _bins(self) -> dict[str, Any]:
        """Return plots of agreement by length and by rating quartile."""
        evaluation, human = self.evaluation, self.selection.human
        lengths, unit = self._lengths()
        labels = draw_labels(self.selection.judgements)
        intervals = IntervalOptions(min(SAMPLES, evaluation.samples), evaluation.seed, evaluation.level, labels)
        options: dict[str, Any] = {"statistic": self.statistic, "intervals": intervals}
        table = list(self.scores.values())
        by_length = agreement_by_length(table, human, lengths, self.groups, **options)
        by_quality = agreement_by_quantile(table, human, self.groups, bins=len(QUARTILE_NAMES), **options)
        ranges = [f"{one.low:g}" if one.low == one.high else f"{one.low:g}–{one.high:g}" for one in by_length]
        quartiles = list(QUARTILE_NAMES)
        if len(by_quality) < len(quartiles):
            quartiles = [f"{signed(one.low, 1)} to {signed(one.high, 1)}" for one in by_quality]
        front = self.names
        if len(front) > MOST_LINES:
            front = [name for place, name in enumerate(front) if name == evaluation.baseline or place == 0]
        lines = [self._lines(bins, front) for bins in (by_length, by_quality)]
        axes = {
            "span": plots.value_range([line for several in lines for line in several]),
            "axis": wording.STATISTIC_NAMES[self.statistic] + ("" if self.groups is None else ", mean over groups"),
        }
        has_intervals = any(not np.isnan(one.lower).all() for one in (*by_length, *by_quality))
        draws = plural(intervals.samples, "draw")
        return {
            "by_length": _view(f"Agreement by length in {unit}", ranges, by_length, lines[0], **axes),
            "by_quality": _view("Agreement by quartile of the rating", quartiles, by_quality, lines[1], **axes),
            "length_unit": unit,
            "bin_front": front if len(self.names) > MOST_LINES else [],
            "bin_intervals": f"{100 * evaluation.level:g} % bootstrap intervals, {draws}" if has_intervals else "",
        }

    def _lines(self, bins: Sequence[BinAgreement], front: Sequence[str]) -> list[plots.BinLine]:
        lines = []
        for index, name in enumerate(self.names):
            values = [float(one.values[index]) for one in bins]
            ends = [(float(one.lower[index]), float(one.upper[index])) for one in bins]
            lines.append(plots.BinLine(name, self.colours[name], values, ends, name not in front))
        return lines

    def _lengths(self) -> tuple[NDArray[np.float64], str]:
        if self.section.lengths is not None:
            return np.asarray(self.section.lengths, np.float64)[self.selection.rows], self.section.length_unit
        both = zip(self.selection.judgements.references, self.selection.judgements.hypotheses, strict=True)
        texts = [references[0] if references else hypothesis for references, hypothesis in both]
        unspaced = sum(len(text) > 12 and len(text.split()) == 1 for text in texts)
        if 2 * unspaced > len(texts):  # languages without spaces between words, such as Chinese
            return np.array([len(text) for text in texts], dtype=np.float64), "characters of the reference"
        return np.array([len(text.split()) for text in texts], dtype=np.float64), "words of the reference"


def _view(
    title: str, names: Sequence[str], bins: Sequence[BinAgreement], lines: Sequence[plots.BinLine], **axes: Any
) -> dict[str, Any]:
    texts, headers = [], []
    has_exclusions = any(one.groups < one.among for one in bins)
    for name, one in zip(names, bins, strict=True):
        size = f"n {one.counted:,}"
        texts.append((name, size, f"{one.groups}/{plural(one.among, 'group')}") if has_exclusions else (name, size))
        headers.append((name, f"{size}, {one.groups} of {plural(one.among, 'group')}" if one.among > 1 else size))
    return {
        "picture": plots.line_plot(lines, texts, title=title, **axes),
        "headers": headers,
        "lines": lines,
        "title": title,
        "drawn": any(math.isfinite(value) for line in lines for value in line.values),
        "left_out": _left_out(names, bins),
    }


def _left_out(names: Sequence[str], bins: Sequence[BinAgreement]) -> str:
    excluded = [one.segments - one.counted for one in bins]
    listed = ", ".join(f"{count:,} in {name}" for name, count in zip(names, excluded, strict=True) if count)
    if not listed:
        return ""
    total = plural(sum(one.segments for one in bins), "segment")
    where = "groups" if any(one.among > 1 for one in bins) else "bins"
    return (
        f"Left out: {sum(excluded):,} of {total} ({listed}), in {where} that have fewer than three segments "
        "there, or equal ratings, or equal scores of a metric."
    )
