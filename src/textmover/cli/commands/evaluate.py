"""``textmover evaluate``: how well metrics agree with people, how sure that is, and which of them agree better."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from textmover.cli.commands.paper_experiment import load_experiment, run_experiment
from textmover.experiments.evaluation import agreement, output
from textmover.experiments.evaluation.metrics import Metrics
from textmover.experiments.evaluation.sets import read_ready, read_sets, scores_files, set_files, write_scores
from textmover.files import check_folder
from textmover.meta_evaluation import Protocol, evaluate
from textmover.readers.error_spans import marked_description
from textmover.report import check_jinja, title_of
from textmover.terminal import progress_bars
from textmover.types import InputError


def run(options: argparse.Namespace) -> None:
    """Score the judged texts that the options name with each metric, compare with people, print, and keep the scores.

    What can be wrong is looked for before a model is loaded. Where a set or dimension turns out to have no agreement,
    the others are shown all the same, and the command ends with an error that names it.
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
    ready = read_ready(options, sets, files, paths)
    metrics.check(sets, ready)
    asked = agreement.questions(sets, protocol, options)
    metrics.load()
    found = []
    total = metrics.steps * sum(map(len, sets))
    with progress_bars(shown=not options.quiet) as advance:
        for one, known, wanted, path in zip(sets, ready, asked, paths, strict=True):
            rows = (*metrics.scores(one, lambda done: advance("scoring", done, total)), *known)
            write_scores(one, rows, path)
            results = tuple(agreement.judge(each, rows, protocol, options) for each in wanted)
            found.append(agreement.Judged(one, rows, results, path))
    _show(options, found, protocol, metrics)


def _show(options: argparse.Namespace, found: Sequence[agreement.Judged], protocol: Protocol, metrics: Metrics) -> None:
    problems = [str(one) for each in found for one in each.results if isinstance(one, agreement.Failure)]
    places = ", ".join(str(one.path) for one in found)
    if not any(one.findings for one in found):
        raise InputError(f"{' '.join(problems).removesuffix('.')}; the scores are in {places}.")
    if options.report:
        try:
            output.write_page(options, found, metrics.scorers)  # before a pipe can break
        except (InputError, OSError) as error:
            problems.append(str(error))  # after the tables, which cost more to make
    _print(options, found, protocol)
    if problems:
        raise InputError(" ".join(problems))


def _print(options: argparse.Namespace, found: Sequence[agreement.Judged], protocol: Protocol) -> None:
    """Print tables; of a single metric one that goes by groups and has further statistics."""
    alone = options.format == "table" and all(len(one.rows) == 1 for one in found)
    results = [result for one in found for result in one.results]
    if not (alone and protocol == Protocol()):
        notes = [one.notes(finding) for one in found for finding in one.findings]
        output.print_several(results, notes, options.format, signatures=not options.quiet)
        return
    for one in found:
        for finding in one.findings:
            if len(results) > 1:
                sys.stdout.write(f"{title_of(finding.evaluation)}\n")
            asked = finding.question
            by_statistic = {"pearson": finding.evaluation}
            for name in ("spearman", "kendall"):  # without interval and tests
                by_statistic[name] = evaluate(
                    asked.judgements, finding.rows, Protocol(name), dimension=asked.dimension, samples=0, permutations=0
                )
            output.print_one_metric(by_statistic, one.notes(finding), signature=not options.quiet)
    output.print_failures(results)
