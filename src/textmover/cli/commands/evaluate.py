"""``textmover evaluate``: how well metrics agree with people, how sure that is, and which of them agree better."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from textmover.cli.commands.paper_experiment import load_experiment, run_experiment
from textmover.cli.console import set_up_logging
from textmover.cli.options.columns import RATED_COLUMNS
from textmover.cli.options.metric import CACHE, metric_options
from textmover.cli.options.paper_experiments import EXPERIMENT
from textmover.experiments.evaluation.agreement import (
    PROTOCOL_OPTIONS,
    Failure,
    Finding,
    Judged,
    Question,
    chosen_protocol,
    judge,
    questions,
)
from textmover.experiments.evaluation.given_scores import READY_OPTIONS, read_ready
from textmover.experiments.evaluation.metrics import BASELINES, Metrics
from textmover.experiments.evaluation.output import (
    print_failures,
    print_one_metric,
    print_several,
    report_section,
    scores_files,
    write_page,
    write_scores,
)
from textmover.experiments.evaluation.sets import SET_OPTIONS, read_sets, set_files
from textmover.files import check_folder
from textmover.meta_evaluation import Evaluation, Protocol, evaluate
from textmover.report import check_jinja, set_title
from textmover.terminal import console
from textmover.types import InputError

OPTIONS = (
    SET_OPTIONS,
    EXPERIMENT,
    RATED_COLUMNS,
    f"{BASELINES}{READY_OPTIONS}",
    "--against NAME: the metric that the others are compared with; significance is marked",
    PROTOCOL_OPTIONS,
    """
--format table|markdown|csv|json|latex (default table): of what is printed
--report FOLDER: write a page with tables, plots and examples there
--samples N (default 1000, at least 1): draws of the bootstrap
--permutations N (default 1000, at least 1): of the tests between metrics
--seed N (default 0): of draws and permutations
""",
    *metric_options(several=True),
    CACHE,
    lambda parser: parser.set_defaults(parser=parser),  # an experiment tells which options differ from their defaults
)


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
    set_up_logging(quiet=True)
    protocol = chosen_protocol(options)
    metrics = Metrics(options)
    files = set_files(options)
    paths = scores_files(options, files)
    if options.report:
        check_folder(options.report, "--report")
        check_jinja()
    sets = read_sets(options, files)
    ready = read_ready(options, sets, files, paths)
    metrics.check(sets, ready)
    asked = questions(sets, protocol, options)
    metrics.load()
    found = []
    with _progress(metrics.steps * sum(map(len, sets)), shown=not options.quiet) as advance:
        for one, known, wanted, path in zip(sets, ready, asked, paths, strict=True):
            rows = (*metrics.scores(one, advance), *known)
            write_scores(one, rows, path)
            results = tuple(
                judge(each, rows, protocol, options) if isinstance(each, Question) else each for each in wanted
            )
            found.append(Judged(one, rows, results, path))
    _show(options, found, protocol, metrics)


def _show(options: argparse.Namespace, found: Sequence[Judged], protocol: Protocol, metrics: Metrics) -> None:
    """Page, tables, and at the end what could not be done."""
    problems = [str(one) for each in found for one in each.results if isinstance(one, Failure)]
    places = ", ".join(str(one.path) for one in found)
    if not any(one.findings for one in found):
        raise InputError(f"{' '.join(problems).removesuffix('.')}; the scores are in {places}.")
    page: Path | None = None
    if options.report:
        try:
            page = _page(options, found, metrics)  # before a pipe can break
        except (InputError, OSError) as error:
            problems.append(str(error))  # after the tables, which cost more to make
    _print(options, found, protocol)
    _note(options, f"Scores: {places}")
    if page is not None:
        _note(options, f"Report: {page}")
    if problems:
        raise InputError(" ".join(problems))


@contextlib.contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar of segments times metrics on standard error, if that is a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    stream = console(stderr=True)
    columns = (TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stream, transient=True, disable=not (shown and stream.is_terminal)) as bar:
        task = bar.add_task("scoring", total=total)
        yield lambda done: bar.update(task, advance=done)


def _page(options: argparse.Namespace, found: Sequence[Judged], metrics: Metrics) -> Path:
    """The page of all sets and dimensions that have agreement."""
    sections = []
    for one in found:
        for finding in one.findings:
            notes = one.notes(finding)
            lacking = [row.name for row in one.rows if row not in finding.rows]
            if lacking:
                notes.append(f"Left out: {', '.join(lacking)} (no score for any text).")
            judgements = finding.question.judgements
            sections.append(report_section(finding.evaluation, judgements, finding.rows, notes, metrics.scorers))
    return write_page(options.report, sections, options)


def _print(options: argparse.Namespace, found: Sequence[Judged], protocol: Protocol) -> None:
    """Print tables; of a single metric one that goes by groups and has further statistics."""
    alone = options.format == "table" and all(len(one.rows) == 1 for one in found)
    results = [result for one in found for result in one.results]
    if not (alone and protocol == Protocol()):
        notes = [one.notes(finding) for one in found for finding in one.findings]
        print_several(results, notes, options.format, signatures=not options.quiet)
        return
    for one in found:
        for finding in one.findings:
            if len(results) > 1:
                sys.stdout.write(f"{set_title(finding.evaluation)}\n")
            others = {name: _quick(finding, name) for name in ("spearman", "kendall")}
            by_statistic = {"pearson": finding.evaluation, **others}
            print_one_metric(by_statistic, one.notes(finding), signature=not options.quiet)
    print_failures(results)


def _note(options: argparse.Namespace, text: str) -> None:
    """Say where something is, where that is not among what a program reads."""
    if options.format == "table" and not options.quiet:
        sys.stdout.write(f"{text}\n")


def _quick(finding: Finding, statistic: str) -> Evaluation:
    """The value of another statistic, without interval and tests."""
    asked = finding.question
    return evaluate(
        asked.judgements, finding.rows, Protocol(statistic), dimension=asked.dimension, samples=0, permutations=0
    )
