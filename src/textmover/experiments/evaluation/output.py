"""Output of ``textmover evaluate``: printed tables and the report page."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from textmover import report
from textmover._version import __version__
from textmover.experiments.evaluation.agreement import AgreementResult, Failure, Judged
from textmover.experiments.evaluation.metrics import Metrics
from textmover.meta_evaluation import Evaluation
from textmover.report.evaluation.tables import evaluation_entry
from textmover.report.table_formats import json_text, number
from textmover.terminal import console, print_table
from textmover.types import SourcedReferences, compared_texts

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer

PACKAGES = ("torch", "transformers", "numpy", "scipy")


def write_page(options: argparse.Namespace, found: Sequence[Judged], metrics: Metrics) -> Path:
    """Write the report page of all sets and dimensions with a result."""
    sections = []
    for judged in found:
        for finding in judged.findings:
            notes = [*judged.notes(finding), *metrics.warnings.get(finding.question.judgements.name, ())]
            shown: Sequence[report.Disagreement] = ()
            missing = [row.name for row in judged.rows if row not in finding.rows]
            if missing:
                notes.append(f"Left out: {', '.join(missing)} (no score for any text).")
            judgements, evaluation = finding.question.judgements, finding.evaluation
            if evaluation.dimension is not None:
                shown = report.largest_disagreements(judgements, finding.rows, dimension=evaluation.dimension)
                shown = [
                    _with_alignments(metrics.scorers.get(disagreement.metric), disagreement) for disagreement in shown
                ]
            sections.append(report.ReportSection(evaluation, judgements, finding.rows, shown, notes))
    versions = {"textmover": __version__, **{name: metadata.version(name) for name in PACKAGES}}
    versions["python"] = ".".join(map(str, sys.version_info[:3]))
    command = shlex.join(["textmover", *options.command_line])
    head = report.ReportHead(datetime.date.today().isoformat(), command, versions)
    return report.write_report(options.report, head, sections)


def _with_alignments(scorer: Scorer | None, shown: report.Disagreement) -> report.Disagreement:
    """Add the metric's word alignment of the hypothesis with its best reference and with its source."""
    if scorer is None:
        return shown
    from textmover.explaining.transport import align_words

    metric = scorer.fitted_metric
    (compared,) = compared_texts(scorer.metric, [shown.references])
    pairs = [SourcedReferences([one], compared.source) for one in compared]
    if len(pairs) > 1:
        scores = scorer.score_fitted([shown.hypothesis] * len(pairs), pairs, warn=False).scores
        pairs = [pairs[int(np.argmax(scores if scorer.metric.higher_is_better else -scores))]]
    for reference in pairs[0] if pairs else ():
        number = shown.references.index(reference)
        shown = replace(shown, alignment=align_words(metric, shown.hypothesis, reference, number))
    if compared.source is None:
        return shown
    if pairs and "copied" in scorer.score_fitted([shown.hypothesis], pairs, warn=False).counts:
        return shown  # a copy of the source is scored against the reference alone
    return replace(shown, source_alignment=align_words(metric, shown.hypothesis, compared.source))


def print_one_metric(by_statistic: Mapping[str, Evaluation], notes: Sequence[str], *, signature: bool) -> None:
    """Print the agreement of one metric in each group by several statistics; only the first has an interval."""
    first = next(iter(by_statistic.values()))
    agreements = [one.metrics[0] for one in by_statistic.values()]
    headers = ("group", "n", *(name.capitalize() for name in by_statistic))
    sizes = {**{one.name: one.segments for one in first.excluded}, **first.groups}
    rows = [
        (group, f"{sizes[group]:,}", *(number(one.by_group[group], 4) for one in agreements))
        for group in agreements[0].by_group
    ]
    if len(rows) > 1:
        rows.append(("mean", f"{first.n:,}", *(number(one.value, 4) for one in agreements)))
    print_table(headers, rows, numbers=headers[1:], narrow=headers[1:])
    sys.stdout.write(f"\n{_conclusion(first, next(iter(by_statistic)).capitalize())}\n")
    for line in report.remarks(first, notes):
        sys.stdout.write(f"{line}\n")
    if signature:
        sys.stdout.write(f"Signature: {agreements[0].signature}\n")


def _conclusion(evaluation: Evaluation, statistic: str) -> str:
    metric = evaluation.metrics[0]
    if (value := number(metric.value)) == "-":
        why = next((one.reason for one in evaluation.excluded if one.name == metric.name), "it has none in any group")
        return f"{metric.name}: no value of {statistic} ({why})."
    interval = "no interval"
    if (low := number(metric.low)) != "-":
        interval = f"{100 * evaluation.level:g} % interval {low} to {number(metric.high)}"
    return f"{metric.name}: mean {statistic} {value}, {interval}."


def print_several(
    results: Sequence[AgreementResult | Failure], notes: Sequence[Sequence[str]], format: str, *, signatures: bool
) -> None:
    """Print a table for each set and dimension, and a line (JSON: an entry) for each failure."""
    evaluations = [result.shown for result in results if isinstance(result, AgreementResult)]
    if format == "table":
        report.print_evaluations(console(), evaluations, further=notes, signatures=signatures)
        print_failures(results)
        return
    if format != "json":
        sys.stdout.write(report.format_evaluations(evaluations, format, further=notes))
        return
    further = iter(notes)
    entries = [
        {"set": result.name, "dimension": result.dimension, "error": result.reason}
        if isinstance(result, Failure)
        else evaluation_entry(result.shown, next(further))
        for result in results
    ]
    sys.stdout.write(json_text({"sets": entries}))


def print_failures(results: Sequence[AgreementResult | Failure]) -> None:
    """Print a line for each failure."""
    for result in results:
        if isinstance(result, Failure):
            sys.stdout.write(f"No agreement. {result}\n")
