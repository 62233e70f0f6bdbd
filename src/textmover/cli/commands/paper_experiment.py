"""``textmover evaluate --experiment``: an experiment of a paper again, with what the paper printed beside it."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from textmover.cli.console import set_up_logging
from textmover.cli.options.paper_experiments import (
    check_options,
    figure_path,
    page_path,
    rebuilding_command,
)
from textmover.experiments.page import FORMATS, Block, Page, as_text, print_blocks
from textmover.experiments.papers.config import Experiment, Place, converted
from textmover.experiments.papers.data import absent_files, check_readers, given_files, read_set
from textmover.experiments.papers.layers import analyse, draw_layers
from textmover.experiments.papers.metrics import ExperimentMetrics, Scored
from textmover.experiments.papers.results import Findings, questions, unanswerable
from textmover.experiments.papers.score_cache import KeptScores, scores_folder
from textmover.experiments.papers.table_blocks import draw_figure, figure_block, layer_block, table_blocks
from textmover.files import check_output, write_output
from textmover.reading import read_yaml
from textmover.terminal import AdvancePart, progress_bars
from textmover.types import InputError

logger = logging.getLogger(__name__)

NAMED = 3
"""Number of things without a value named at the end; all are named under their tables."""


def load_experiment(path: str | Path) -> Experiment:
    """Read an experiment and make sure that it can be run.

    Args:
        path: A YAML file whose keys are the fields of :class:`Experiment`.
    """
    found = converted(Experiment, read_yaml(path), Place(str(path)))
    check_readers(found)
    return found


def run_experiment(options: argparse.Namespace, experiment: Experiment) -> None:
    """Compute an experiment, print it, and write it where ``--output`` says; the scores are kept as they come.

    Args:
        options: The command's options.
        experiment: The experiment.
    """
    set_up_logging(quiet=True)
    check_options(options, experiment)
    files = given_files(experiment, options.data or ())
    output = page_path(options, experiment, files)
    kept = KeptScores(scores_folder(experiment.origin, output), experiment.judged_sets)
    for path in kept.paths.values():
        check_output(path, [*files.values(), experiment.origin])
    with kept.told():
        with progress_bars(shown=not options.quiet) as advance:
            blocks, gaps = _computed(options, experiment, files, output, kept, advance)
        page = Page(
            experiment.title,
            str(experiment.paper),
            experiment.origin,
            rebuilding_command(options, experiment, files),
            experiment.notes,
            tuple(blocks),
        )
        if output is not None:
            write_output(as_text(page, FORMATS[output.suffix.lower()]), output)
    if options.format == "table":
        _print(page, quiet=options.quiet)
        if kept.written and not options.quiet:
            sys.stdout.write(f"\nScores: {', '.join(map(str, kept.written))}\n")
    else:
        sys.stdout.write(as_text(page, options.format))
    if gaps:
        raise InputError(_without_value(experiment, gaps, output, kept))


def _without_value(experiment: Experiment, gaps: Sequence[str], output: Path | None, kept: KeptScores) -> str:
    """Sentence about metrics without a value, and the place of the other results."""
    named = "; ".join(gaps[:NAMED]) + (f"; and {len(gaps) - NAMED:,} more" if len(gaps) > NAMED else "")
    places = [f"page: {output}"] if output is not None else []
    places += [f"scores: {kept.folder}"] if kept.written else []
    where = f" ({', '.join(places)})" if places else ""
    return (
        f"Expected everything that {experiment.origin} asks for to have a value, but got none for {named}: the reasons "
        f"stand under the tables{where}."
    )


# --- the work ---------------------------------------------------------------------------------------------------------


def _computed(
    options: argparse.Namespace,
    experiment: Experiment,
    files: Mapping[str, str],
    output: Path | None,
    kept: KeptScores,
    advance: AdvancePart,
) -> tuple[list[Block], list[str]]:
    """All tables and figures, the figures drawn where there is a page for them, and what has no value."""
    analysed: list[Block] = []
    spec = experiment.layers
    if spec is not None:  # first: it keeps nothing, so that nothing is lost where it fails
        layers = analyse(spec, files[spec.file], options, lambda done: advance("reading", done, spec.texts))
        figure = None if output is None else figure_path(output, spec.name)
        if figure is not None:
            draw_layers(layers.analysis, figure, layers.encoder)
        analysed.append(layer_block(layers, figure.name if figure else None))
    if not (experiment.tables or experiment.figures):
        return analysed, []
    blocks: list[Block] = []
    findings = _findings(options, experiment, files, kept, advance)
    for table in experiment.tables:
        blocks += table_blocks(findings.table(table))
    for one in experiment.figures:
        found = findings.figure(one)
        figure = None if output is None or found.empty else figure_path(output, one.name)
        if figure is not None:
            draw_figure(found, str(figure))
        blocks.append(figure_block(found, figure.name if figure else None))
    return [*blocks, *analysed], list(findings.gaps)


def _findings(
    options: argparse.Namespace,
    experiment: Experiment,
    files: Mapping[str, str],
    kept: KeptScores,
    advance: AdvancePart,
) -> Findings:
    """Read the sets that were given, and score those that have an answer to something."""
    names = experiment.judged_sets
    absent = {name: how for name in names if (how := absent_files(experiment, name, files))}
    sets = {name: read_set(experiment, name, files) for name in names if name not in absent}
    hopeless = unanswerable(experiment, sets, options)
    for asked, reason in hopeless.items():
        logger.warning("%s: %s The rest is computed.", asked, reason)
    worth = {asked.set for asked in questions(experiment, sets) if asked not in hopeless}
    judged = {name: one for name, one in sets.items() if name in worth}
    wanted = {name: experiment.metrics_of_set(name) for name in judged}
    metrics = ExperimentMetrics(options, experiment, {metric for several in wanted.values() for metric in several})
    metrics.load(judged.values())
    total = sum(len(one) * metrics.steps(wanted[name]) for name, one in judged.items())
    scored: dict[str, dict[str, Scored]] = {}
    unscored: dict[str, str] = {}

    def score(name: str) -> None:
        try:
            with kept.keeping(name, judged[name]) as take:
                scored[name] = metrics.scores(
                    judged[name], wanted[name], lambda done: advance("scoring", done, total), take
                )
        except InputError as error:  # told under the tables, and at the end of the command
            unscored[name] = str(error)

    for name in judged:
        score(name)
    if unscored and not scored:
        raise InputError(next(iter(unscored.values())))
    return Findings(options, sets, scored, hopeless, absent, unscored, metrics.failed, metrics.fitted)


# --- the terminal -----------------------------------------------------------------------------------------------------


def _print(page: Page, *, quiet: bool) -> None:
    sys.stdout.write(f"{page.title}\nPublished: {page.paper}.\n")
    if not quiet:
        sys.stdout.write("".join(f"{note}\n" for note in page.notes))
    sys.stdout.write("\n" if page.blocks else "")
    print_blocks(page.blocks, ("metric", "encoder"), quiet=quiet)
