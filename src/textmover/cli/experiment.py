"""``textmover evaluate --experiment``: an experiment of a paper anew, with what the paper printed beside it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from textmover.cli.console import console, print_table, set_up_logging
from textmover.cli.experiment_blocks import Block, figure_block, layer_block, table_blocks
from textmover.cli.experiment_config import Experiment, read_experiment
from textmover.cli.experiment_data import absent_files, check_readers, given_files, read_set
from textmover.cli.experiment_figures import draw_figure, draw_layers
from textmover.cli.experiment_layers import LayerResult, analyse
from textmover.cli.experiment_output import FORMATS, TEXT_HEADERS, Page, as_text
from textmover.cli.experiment_results import FigureResult, Findings, figure_metrics, metrics_of_set, table_sets
from textmover.cli.experiment_scores import ExperimentMetrics, Scored
from textmover.cli.options import FIELD, check_output, field_flag, write_output
from textmover.meta_evaluation import Protocol
from textmover.report import check_matplotlib
from textmover.types import InputError, Judgements

__all__ = ["Experiment", "add_experiment_option", "load_experiment", "run_experiment"]

FIXED = (
    "set",
    "dimension",
    "group",
    "item_column",
    "system_column",
    "hypothesis_column",
    "reference_column",
    "score_column",
    "split",
    "model",
    "baselines",
    "scores",
    "metric_column",
    "lower_is_better",
    "against",
    "level",
    "report",
)
"""Options of the command that an experiment decides."""

PRINTED = ("table", "markdown", "csv", "json")
"""Formats that an experiment can be printed in."""


def add_experiment_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names an experiment."""
    parser.add_argument(
        "--experiment",
        metavar="FILE",
        help="rebuild an experiment of a paper, such as configs/papers/moverscore_wmt17.yaml (docs/experiments.md): "
        "the file names sets, metrics and tables; --data gives its data (KEY=FILE where it needs several), --encoder "
        "the encoder, --output a page (.md, .csv or .json) with the published numbers beside the new ones",
    )


def load_experiment(path: str | Path) -> Experiment:
    """Read an experiment and make sure that it can be run.

    Args:
        path: A YAML file whose keys are the fields of :class:`Experiment`.

    Returns:
        The experiment.

    Raises:
        InputError: If the file is not there, or holds something that an experiment does not.
    """
    found = read_experiment(path)
    check_readers(found)
    return found


def run_experiment(options: argparse.Namespace, experiment: Experiment) -> None:
    """Compute an experiment, print it, and write it where ``--output`` says.

    Args:
        options: The command's options.
        experiment: The experiment.

    Raises:
        InputError: If data, encoder or options cannot be used, or a file that is needed was not given.
    """
    set_up_logging(quiet=True)
    _check_options(options, experiment)
    files = given_files(experiment, options.data or ())
    output = _output(options, experiment, files)
    with _progress(shown=not options.quiet) as advance:
        blocks = _computed(options, experiment, files, output, advance)
    page = Page(
        experiment.title,
        str(experiment.paper),
        experiment.origin,
        _command(options, experiment, files),
        experiment.notes,
        tuple(blocks),
    )
    if output is not None:
        write_output(as_text(page, FORMATS[output.suffix.lower()]), output)
    if options.format == "table":
        _print(page, quiet=options.quiet)
    else:
        sys.stdout.write(as_text(page, options.format))


# --- the work ---------------------------------------------------------------------------------------------------------

Advance = Callable[[str, int, int], None]
"""Is told what is done, how much of it has been finished since the last call, and how much there is in all."""


def _computed(
    options: argparse.Namespace,
    experiment: Experiment,
    files: Mapping[str, str],
    output: Path | None,
    advance: Advance,
) -> list[Block]:
    """All tables and figures, the figures drawn where there is a page for them."""
    blocks: list[Block] = []
    if experiment.tables or experiment.figures:
        findings = _findings(options, experiment, files, advance)
        for table in experiment.tables:
            blocks += table_blocks(findings.table(table))
        for figure in experiment.figures:
            found = findings.figure(figure)
            blocks.append(figure_block(found, _drawn(found, output)))
    spec = experiment.layers
    if spec is not None:
        layers = analyse(spec, files[spec.file], options, lambda done: advance("reading", done, spec.texts))
        blocks.append(layer_block(layers, _drawn(layers, output)))
    return blocks


def _findings(
    options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str], advance: Advance
) -> Findings:
    """Read the sets that were given, and score them."""
    names = table_sets(experiment)
    absent = {name: how for name in names if (how := absent_files(experiment, name, files))}
    sets: dict[str, Judgements] = {}
    for name in names:
        if name not in absent:
            sets[name] = read_set(experiment, name, files)
    _check_sets(experiment, sets)
    every = {**experiment.metrics, **figure_metrics(experiment)}
    wanted = {name: metrics_of_set(experiment, name) for name in sets}
    used = {metric for names in wanted.values() for metric in names}
    metrics = ExperimentMetrics(
        options,
        {name: one for name, one in every.items() if name in used},
        experiment.baselines,
        idf_by_group=experiment.idf_by_group,
    )
    metrics.load(sets.values())
    total = sum(len(one) * metrics.steps(wanted[name]) for name, one in sets.items())
    scored: dict[str, dict[str, Scored]] = {}
    for name, one in sets.items():
        scored[name] = metrics.scores(one, wanted[name], lambda done: advance("scoring", done, total))
    return Findings(experiment, sets, scored, absent=absent, metrics=metrics, options=options)


def _check_sets(experiment: Experiment, sets: Mapping[str, Judgements]) -> None:
    """Make sure before the work that the sets have what tables and figures are about."""
    for table in experiment.tables:
        for name in table.sets:
            for statistic in table.statistics if name in sets else ():
                Protocol(statistic, table.level).check(sets[name])
            for dimension in table.dimensions if name in sets else ():
                _check_dimension(sets[name], dimension, experiment)
    for figure in experiment.figures:
        if figure.set in sets:
            Protocol(figure.statistic, figure.level).check(sets[figure.set])
            if figure.dimension is not None:
                _check_dimension(sets[figure.set], figure.dimension, experiment)


def _check_dimension(one: Judgements, dimension: str, experiment: Experiment) -> None:
    if dimension not in one.ratings:
        raise InputError(
            f"Expected the dimensions that {experiment.origin} names for {one.name} to be among "
            f"{', '.join(one.ratings) or 'none'}, but got {dimension!r}: correct it."
        )


def _drawn(result: FigureResult | LayerResult, output: Path | None) -> str | None:
    """Draw a figure beside the page; its name as the page names it."""
    if output is None:
        return None
    path = _figure_path(output, result.spec.name)
    if isinstance(result, LayerResult):
        draw_layers(result, str(path))
    else:
        draw_figure(result, str(path))
    return path.name


def _figure_path(output: Path, name: str) -> Path:
    return output.with_name(f"{output.stem}_{name}.png")


# --- options ----------------------------------------------------------------------------------------------------------


def _check_options(options: argparse.Namespace, experiment: Experiment) -> None:
    """Refuse what the experiment decides itself."""
    for name in FIXED:
        if getattr(options, name, None) not in (None, [], ()):
            raise InputError(
                f"Expected {experiment.origin} to decide what is computed, but got --{name.replace('_', '-')} as well: "
                "leave it out, or change a copy of the file."
            )
    if options.format not in PRINTED:
        raise InputError(
            f"Expected --format of an experiment to be {', '.join(PRINTED)}, but got {options.format}: choose one."
        )
    for name, least in (("samples", 1), ("seed", 0)):
        if getattr(options, name) < least:
            raise InputError(f"Expected --{name} to be at least {least}, but got {getattr(options, name)}.")
    given = [name.removeprefix(FIELD) for name in vars(options) if name.startswith(FIELD)]
    everything = {**experiment.metrics, **figure_metrics(experiment)}
    for name in given:
        if everything and all(name in one.fields for one in everything.values()):
            raise InputError(
                f"Expected {experiment.origin} to leave {field_flag(name)} open, but it sets `{name}` for every "
                "metric: change a copy of the file."
            )


def _output(options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str]) -> Path | None:
    """Where the page goes, checked before the work; figures need matplotlib."""
    if options.output is None:
        return None
    inputs = [*files.values(), experiment.origin]
    path = check_output(options.output, inputs)
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"Expected --output of an experiment to end in {', '.join(FORMATS)}, but got {path}: give another name."
        )
    names = [one.name for one in experiment.figures] + ([experiment.layers.name] if experiment.layers else [])
    for name in names:
        check_output(_figure_path(path, name), inputs)
    if names:
        check_matplotlib()
    return path


def _command(options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str]) -> str:
    """What computes the page anew; data stand there by their names alone."""
    alone = len(experiment.files) == 1
    parts = ["python", "evaluate.py", "--experiment", experiment.origin, "--data"]
    for key, path in files.items():
        name = path if path.startswith("hub:") else Path(path).name
        parts.append(name if alone else f"{key}={name}")
    for name, value in vars(options).items():
        if name.startswith(FIELD):
            parts += [field_flag(name.removeprefix(FIELD)), _field_text(value)]
    if options.output is not None:
        parts += ["--output", options.output]
    return shlex.join(parts)


def _field_text(value: object) -> str:
    """A field as it is written on the command line; of a folder its name alone."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return Path(str(value)).name if os.path.isdir(str(value)) else str(value)


# --- the terminal -----------------------------------------------------------------------------------------------------


def _print(page: Page, *, quiet: bool) -> None:
    sys.stdout.write(f"{page.title}\nPublished: {page.paper}.\n")
    if not quiet:
        sys.stdout.write("".join(f"{note}\n" for note in page.notes))
    for block in page.blocks:
        sys.stdout.write(f"\n{block.title}\n")
        print_table(
            block.headers,
            block.rows,
            numbers=[header for header in block.headers if header not in TEXT_HEADERS],
            narrow=[header for header in block.headers if header not in ("metric", "encoder")],
        )
        if not quiet:
            sys.stdout.write("".join(f"{one}\n" for one in block.remarks))
            sys.stdout.write("".join(f"{name}: {signature}\n" for name, signature in block.signatures))


@contextlib.contextmanager
def _progress(*, shown: bool) -> Iterator[Advance]:
    """A bar on standard error, if that is a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    stream = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stream, transient=True, disable=not (shown and stream.is_terminal)) as bar:
        tasks: dict[str, int] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], advance=done)  # type: ignore[arg-type]

        yield advance
