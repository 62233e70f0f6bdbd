"""``textmover evaluate``: agreement of metrics with human ratings, with confidence intervals and tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from textmover.cli.commands.paper_experiment import load_experiment, run_experiment
from textmover.experiments.evaluation import agreement, output
from textmover.experiments.evaluation.metrics import KeptScores, Metrics
from textmover.experiments.evaluation.sets import (
    partial_table,
    read_precomputed,
    read_sets,
    scores_files,
    set_files,
    write_scores,
)
from textmover.files import check_folder
from textmover.meta_evaluation import Protocol, evaluate
from textmover.readers.error_spans import marked_description
from textmover.report import check_jinja, title_of
from textmover.terminal import progress_bars
from textmover.types import InputError


def run(options: argparse.Namespace) -> None:
    """Score rated texts with each metric, print the agreement with the ratings, and save the scores.

    Input is checked before a model is loaded. If the agreement of a set or dimension is undefined, the command shows
    the others and ends with an error that names it.
    """
    if options.experiment is not None:
        run_experiment(options, load_experiment(options.experiment))
        return
    if not options.data:
        raise InputError("Expected `--data` to name a file of judged texts, but got none: name one.")
    if (marked := marked_description(options.set)) is not None:
        agreement.evaluate_marked(options, marked)
        return
    protocol = agreement.chosen_protocol(options)
    metrics = Metrics(options)
    files = set_files(options)
    paths = scores_files(options, files)
    if options.report:
        check_folder(options.report, "--report")
        check_jinja()
    sets = read_sets(options, files)
    ready = read_precomputed(options, sets, files, paths)
    metrics.check(sets, ready)
    asked = agreement.questions(sets, protocol, options)
    metrics.load()
    judged = []
    kept = KeptScores({one.name: partial_table(path) for one, path in zip(sets, paths, strict=True)})
    total = metrics.steps * sum(map(len, sets))
    with kept.told(), progress_bars(shown=not options.quiet) as advance:
        for judgements, existing_rows, questions, path in zip(sets, ready, asked, paths, strict=True):
            with kept.keeping(judgements.name, judgements) as take:
                scores = metrics.scores(judgements, lambda done: advance("scoring", done, total), take)
            rows = (*scores, *existing_rows)
            write_scores(judgements, rows, path)
            results = tuple(agreement.judge(question, rows, protocol, options) for question in questions)
            judged.append(agreement.Judged(judgements, rows, results, path))
    _show(options, judged, protocol, metrics)


def _show(options: argparse.Namespace, rated: Sequence[agreement.Judged], protocol: Protocol, metrics: Metrics) -> None:
    problems = [str(one) for each in rated for one in each.results if isinstance(one, agreement.Failure)]
    places = ", ".join(str(one.path) for one in rated)
    if not any(one.findings for one in rated):
        raise InputError(f"{' '.join(problems).removesuffix('.')}; the scores are in {places}.")
    if options.report:
        try:
            output.write_page(options, rated, metrics)  # before printing, which may fail on a closed pipe
        except (InputError, OSError) as error:
            problems.append(str(error))  # raise it after printing the tables, which took longer to compute
    _print(options, rated, protocol)
    if problems:
        raise InputError(" ".join(problems))


def _print(options: argparse.Namespace, judged: Sequence[agreement.Judged], protocol: Protocol) -> None:
    """Print tables; a single metric gets a table by group with more statistics."""
    single_metric = options.format == "table" and all(len(result_set.rows) == 1 for result_set in judged)
    results = [result for result_set in judged for result in result_set.results]
    if not (single_metric and protocol == Protocol()):
        notes = [result_set.notes(finding) for result_set in judged for finding in result_set.findings]
        output.print_several(results, notes, options.format, signatures=not options.quiet)
        return
    for result_set in judged:
        for finding in result_set.findings:
            if len(results) > 1:
                sys.stdout.write(f"{title_of(finding.evaluation)}\n")
            asked = finding.question
            by_statistic = {"pearson": finding.evaluation}
            for name in ("spearman", "kendall"):  # without intervals and tests
                by_statistic[name] = evaluate(
                    asked.judgements, finding.rows, Protocol(name), dimension=asked.dimension, samples=0, permutations=0
                )
            output.print_one_metric(by_statistic, result_set.notes(finding), signature=not options.quiet)
    output.print_failures(results)
