"""``textmover evaluate --experiment``: repeat the experiment of a paper, and compare with its published values."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from textmover.experiments.evaluation.metrics import KeptScores
from textmover.experiments.papers.experiment import Experiment
from textmover.experiments.papers.sections import compute, figure_path
from textmover.files import check_output, write_output
from textmover.report import check_matplotlib
from textmover.report.table_formats import PAGE_FORMATS, Page, page_text, print_blocks
from textmover.safe_reading import YamlPosition, converted, read_yaml
from textmover.scoring.metric_field_options import FIELD, field_flag, given_fields, option_text
from textmover.terminal import progress_bars
from textmover.types import InputError

FIXED = (
    "set", "dimension", "group", "item_column", "system_column", "hypothesis_column", "reference_column",
    "score_column", "missing_references", "missing_ratings", "duplicates", "split", "model", "baselines", "scores",
    "metric_column", "lower_is_better", "against", "statistic", "level", "preference_gap", "pair_rate", "report",
)  # fmt: skip
"""Options of the command that the experiment file sets."""

WITHOUT_EFFECT = ("experiment", "data", "output", "format", "quiet", "run", "command", "command_line", "defaults")
"""Entries of the options that change no number, or that the rebuilding command handles separately."""

PRINTED = ("table", "markdown", "csv", "json")  # formats
MOST_GAPS = 3  # missing values that the final error names; the tables have notes on all of them


def load_experiment(path: str | Path) -> Experiment:
    """Read and check an experiment, a YAML file with the fields of :class:`Experiment`."""
    return converted(Experiment, read_yaml(path), YamlPosition(str(path)))


def run_experiment(options: argparse.Namespace, experiment: Experiment) -> None:
    """Compute an experiment, print it, and write it to ``--output``; each set of scores is saved once computed."""
    _check_options(options, experiment)
    files = experiment.given_files(options.data or ())
    output = _page_path(options, experiment, files)
    folder = Path(f"{Path(experiment.origin).stem}.scores") if output is None else output.with_suffix(".scores")
    saved = KeptScores.in_folder(folder, experiment.judged_sets)
    for path in saved.paths.values():
        check_output(path, [*files.values(), experiment.origin])
    with saved.told():
        with progress_bars(shown=not options.quiet) as advance:
            blocks, gaps = compute(options, experiment, files, output, saved, advance)
        page = Page(
            experiment.title,
            str(experiment.paper),
            experiment.origin,
            _rebuilding_command(options, experiment, files),
            experiment.notes,
            tuple(blocks),
        )
        if output is not None:
            write_output(page_text(page, PAGE_FORMATS[output.suffix.lower()]), output)
    if options.format == "table":
        sys.stdout.write(f"{page.title}\nPublished: {page.paper}.\n")
        if not options.quiet:
            sys.stdout.write("".join(f"{note}\n" for note in page.notes))
        sys.stdout.write("\n" if page.blocks else "")
        print_blocks(page.blocks, ("metric", "encoder"), quiet=options.quiet)
    else:
        sys.stdout.write(page_text(page, options.format))
    if gaps:
        raise InputError(_gaps_message(experiment, gaps, output, saved))


def _gaps_message(experiment: Experiment, gaps: Sequence[str], output: Path | None, saved: KeptScores) -> str:
    """Return the error message about missing values, with the paths of the other results."""
    named = "; ".join(gaps[:MOST_GAPS]) + (f"; and {len(gaps) - MOST_GAPS:,} more" if len(gaps) > MOST_GAPS else "")
    places = [f"page: {output}"] if output is not None else []
    places += [f"scores: {saved.folder}"] if saved.written else []
    where = f" ({', '.join(places)})" if places else ""
    return (
        f"Expected everything that {experiment.origin} asks for to have a value, but got none for {named}: the reasons "
        f"stand under the tables{where}."
    )


def _check_options(options: argparse.Namespace, experiment: Experiment) -> None:
    changed = dict(_changed(options))
    for name in FIXED:
        if name in changed:
            raise InputError(
                f"Expected {experiment.origin} to decide what is computed, but got --{name.replace('_', '-')} as well: "
                "leave it out, or change a copy of the file."
            )
    if options.format not in PRINTED:
        raise InputError(
            f"Expected --format of an experiment to be {', '.join(PRINTED)}, but got {options.format}: choose one."
        )
    metrics = experiment.all_metrics.values()
    for name in given_fields(options):
        if metrics and all(name in one.fields for one in metrics):
            raise InputError(
                f"Expected {experiment.origin} to leave {field_flag(name)} open, but it sets `{name}` for every "
                "metric: change a copy of the file."
            )


def _page_path(options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str]) -> Path | None:
    """Return the path of the page; check it, and matplotlib if there are figures, before the work."""
    if options.output is None:
        return None
    inputs = [*files.values(), experiment.origin]
    path = check_output(options.output, inputs)
    if path.suffix.lower() not in PAGE_FORMATS:
        raise InputError(
            f"Expected --output of an experiment to end in {', '.join(PAGE_FORMATS)}, but got {path}: give another "
            "name."
        )
    names = [one.name for one in experiment.figures] + ([experiment.layers.name] if experiment.layers else [])
    for name in names:
        check_output(figure_path(path, name), inputs)
    if names:
        check_matplotlib()
    return path


def _rebuilding_command(options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str]) -> str:
    """Return the command that rebuilds the page: options that change numbers, and files without their folders."""
    single_file = len(experiment.files) == 1
    parts = ["python", "evaluate.py", "--experiment", experiment.origin, "--data"]
    for key, path in files.items():
        parts.append(_command_text(path) if single_file else f"{key}={_command_text(path)}")
    for name, value in _changed(options):
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            parts.append(flag)
            continue
        for part in value if isinstance(value, list) else [value]:
            parts += [flag, _command_text(part)]
    for name, value in given_fields(options).items():
        parts += [field_flag(name), _command_text(value)]
    if options.output is not None:
        parts += ["--output", options.output]
    return shlex.join(parts)


def _changed(options: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """Yield options that differ from their default and can change numbers, except fields of the metric."""
    for name, value in vars(options).items():
        if name not in WITHOUT_EFFECT and not name.startswith(FIELD) and value != options.defaults.get(name):
            yield name, value


def _command_text(value: object) -> str:
    """Format a value for the command line; reduce paths to the name of the file or folder."""
    text = option_text(value)
    return Path(text).name if os.path.exists(text) else text
