"""``textmover evaluate``: how well metrics agree with people, how sure that is, and which of them agree better."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from textmover.cli.console import console, set_up_logging
from textmover.cli.evaluation_print import print_one_metric, print_several
from textmover.cli.evaluation_report import report_section, write_page
from textmover.cli.evaluation_rows import Metrics, add_row_options
from textmover.cli.evaluation_sets import add_set_options, read_sets, scores_files, scores_table
from textmover.cli.experiment import add_experiment_option, load_experiment, run_experiment
from textmover.cli.options import add_cache_option, add_column_options, add_metric_options, write_output
from textmover.meta_evaluation import LEVELS, STATISTICS, Evaluation, MetricScores, Protocol, evaluate
from textmover.report import check_jinja, file_remarks, set_title
from textmover.types import InputError, Judgements

__all__ = ["Judged", "add_arguments", "run"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Judged:
    """A set, the scores of all metrics for its texts, and how well they agree with each dimension of its ratings.

    Attributes:
        judgements: The set.
        rows: The scores.
        evaluations: One for each dimension.
        path: Where the scores are.
    """

    judgements: Judgements
    rows: tuple[MetricScores, ...]
    evaluations: tuple[Evaluation, ...]
    path: Path

    @property
    def notes(self) -> list[str]:
        """What has to be said of the set, whatever the protocol."""
        falling = [row.name for row in self.rows if not row.higher_is_better]
        notes = file_remarks(self.judgements)
        if falling:
            notes.append(f"Lower scores are better for {', '.join(falling)}: agreement is that of the negated scores.")
        return notes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_set_options(parser)
    add_experiment_option(parser)
    add_column_options(parser, score=True)
    add_row_options(parser)
    parser.add_argument(
        "--against", metavar="NAME", help="the metric that the others are compared with; significance is marked"
    )
    parser.add_argument("--statistic", choices=tuple(STATISTICS), default="pearson", help="of agreement")
    parser.add_argument(
        "--level",
        choices=tuple(LEVELS),
        help="what the statistic is computed over: " + "; ".join(f"{name}: {what}" for name, what in LEVELS.items()),
    )
    parser.add_argument(
        "--format", choices=("table", "markdown", "csv", "json", "latex"), default="table", help="of what is printed"
    )
    parser.add_argument("--report", metavar="FOLDER", help="write a page with tables, plots and examples there")
    parser.add_argument("--samples", type=int, default=1000, metavar="N", help="draws of the bootstrap")
    parser.add_argument("--permutations", type=int, default=1000, metavar="N", help="of the tests between metrics")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of draws and permutations")
    add_metric_options(parser, several=True)
    add_cache_option(parser)


def run(options: argparse.Namespace) -> None:
    """Score the judged texts that the options name with each metric, compare with people, print, and keep the scores.

    Raises:
        InputError: If data, metrics or options cannot be used.
    """
    if options.experiment is not None:
        run_experiment(options, load_experiment(options.experiment))
        return
    if not options.data:
        raise InputError("Expected `--data` to name a file of judged texts, but got none: name one.")
    set_up_logging(quiet=True)
    for name, least in (("samples", 1), ("permutations", 1), ("seed", 0)):
        if getattr(options, name) < least:
            raise InputError(f"Expected --{name} to be at least {least}, but got {getattr(options, name)}.")
    protocol = Protocol(options.statistic, options.level or STATISTICS[options.statistic][0])
    metrics = Metrics(options)
    paths = scores_files(options)
    sets = read_sets(options)
    for one in sets:
        protocol.check(one)
    if options.report:
        check_jinja()
    metrics.load()
    found = []
    with _progress(metrics.steps * sum(map(len, sets)), shown=not options.quiet) as advance:
        for one, path in zip(sets, paths, strict=True):
            rows = metrics.scores(one, advance)
            _write_scores(one, rows, path)
            found.append(Judged(one, tuple(rows), _evaluations(one, rows, protocol, options), path))
    page = _page(options, found, metrics) if options.report else None  # before a pipe can break
    _print(options, found, protocol)
    if page is not None:
        _note(options, f"Report: {page}")


def _evaluations(
    judgements: Judgements, rows: Sequence[MetricScores], protocol: Protocol, options: argparse.Namespace
) -> tuple[Evaluation, ...]:
    """How well the metrics agree with each dimension of the ratings."""
    dimensions = options.dimension or list(judgements.ratings)
    return tuple(
        evaluate(
            judgements,
            rows,
            protocol,
            dimension=dimension,
            baseline=options.against,
            samples=options.samples,
            permutations=options.permutations,
            seed=options.seed,
        )
        for dimension in ([None] if protocol.statistic == "darr" else dimensions)
    )


def _write_scores(judgements: Judgements, rows: Sequence[MetricScores], path: Path) -> None:
    text, altered = scores_table(judgements, rows)
    write_output(text, path)
    if altered:
        logger.warning("%s: a tab or line break in %d of the texts was written as a space.", path, altered)


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
    """The page of all sets and dimensions."""
    sections = [
        report_section(evaluation, one.judgements, one.rows, one.notes, metrics.scorers)
        for one in found
        for evaluation in one.evaluations
    ]
    return write_page(options.report, sections, options)


def _print(options: argparse.Namespace, found: Sequence[Judged], protocol: Protocol) -> None:
    """Print tables; of a single metric one that goes by groups and has further statistics."""
    alone = options.format == "table" and all(len(one.rows) == 1 for one in found)
    if not (alone and protocol == Protocol()):
        evaluations = [evaluation for one in found for evaluation in one.evaluations]
        notes = [one.notes for one in found for _ in one.evaluations]
        print_several(evaluations, notes, options.format, signatures=not options.quiet)
    else:
        for one in found:
            for evaluation in one.evaluations:
                if len(found) + len(one.evaluations) > 2:
                    sys.stdout.write(f"{set_title(evaluation)}\n")
                others = {name: _quick(one, name, evaluation.dimension) for name in ("spearman", "kendall")}
                print_one_metric({"pearson": evaluation, **others}, one.notes, signature=not options.quiet)
    _note(options, f"Scores: {', '.join(str(one.path) for one in found)}")


def _note(options: argparse.Namespace, text: str) -> None:
    """Say where something is, where that is not among what a program reads."""
    if options.format == "table" and not options.quiet:
        sys.stdout.write(f"{text}\n")


def _quick(judged: Judged, statistic: str, dimension: str | None) -> Evaluation:
    """The value of another statistic, without interval and tests."""
    return evaluate(judged.judgements, judged.rows, Protocol(statistic), dimension=dimension, samples=0, permutations=0)
