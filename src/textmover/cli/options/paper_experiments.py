"""Options of an experiment: which ones are refused, where the page goes, and the command that computes it again."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from textmover.experiments.page import FORMATS
from textmover.experiments.papers.config import Experiment
from textmover.files import check_output
from textmover.report import check_matplotlib
from textmover.scoring.field_flags import FIELD, field_flag, given_fields
from textmover.types import InputError

FIXED = (
    "set",
    "dimension",
    "group",
    "item_column",
    "system_column",
    "hypothesis_column",
    "reference_column",
    "score_column",
    "missing_references",
    "missing_ratings",
    "duplicates",
    "split",
    "model",
    "baselines",
    "scores",
    "metric_column",
    "lower_is_better",
    "against",
    "statistic",
    "level",
    "preference_gap",
    "pair_rate",
    "report",
)
"""Options of the command that an experiment decides."""

WITHOUT_EFFECT = ("experiment", "data", "output", "format", "quiet", "run", "command_line", "parser")
"""Entries of the options that change no number, or that the command writes in a place of their own."""

PRINTED = ("table", "markdown", "csv", "json")
"""Formats that an experiment can be printed in."""


EXPERIMENT = """
--experiment FILE: rebuild an experiment of a paper, such as configs/papers/moverscore_wmt17.yaml (docs/experiments.md):
    the file names sets, metrics and tables; --data gives its data (KEY=FILE where it needs several), --encoder the
    encoder, --output a page (.md, .csv or .json) with the published numbers beside the new ones; the scores go into a
    folder PAGE.scores
"""


def check_options(options: argparse.Namespace, experiment: Experiment) -> None:
    """Refuse what the experiment decides itself.

    Args:
        options: The command's options.
        experiment: The experiment.
    """
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
    given = list(given_fields(options))
    everything = experiment.all_metrics
    for name in given:
        if everything and all(name in one.fields for one in everything.values()):
            raise InputError(
                f"Expected {experiment.origin} to leave {field_flag(name)} open, but it sets `{name}` for every "
                "metric: change a copy of the file."
            )


def page_path(options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str]) -> Path | None:
    """Path of the page, checked before the work; figures need matplotlib.

    Args:
        options: The command's options.
        experiment: The experiment.
        files: File of each key.
    """
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
        check_output(figure_path(path, name), inputs)
    if names:
        check_matplotlib()
    return path


def figure_path(page: Path, name: str) -> Path:
    """Path of a figure, beside its page.

    Example:
        >>> str(figure_path(Path("pages/twmd.md"), "heat"))
        'pages/twmd_heat.png'
    """
    return page.with_name(f"{page.stem}_{name}.png")


def rebuilding_command(options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str]) -> str:
    """Command that rebuilds the page: every changed option that changes numbers, and files by name.

    Args:
        options: The command's options.
        experiment: The experiment.
        files: File of each key.
    """
    alone = len(experiment.files) == 1
    parts = ["python", "evaluate.py", "--experiment", experiment.origin, "--data"]
    for key, path in files.items():
        parts.append(_shown(path) if alone else f"{key}={_shown(path)}")
    for name, value in _changed(options):
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            parts.append(flag)
            continue
        for one in value if isinstance(value, list) else [value]:
            parts += [flag, _shown(one)]
    for name, value in vars(options).items():
        if name.startswith(FIELD):
            parts += [field_flag(name.removeprefix(FIELD)), _shown(value)]
    if options.output is not None:
        parts += ["--output", options.output]
    return shlex.join(parts)


def _changed(options: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """Options that have another value than their default and can change a number, without fields of the metric."""
    for name, value in vars(options).items():
        if name not in WITHOUT_EFFECT and not name.startswith(FIELD) and value != options.parser.get_default(name):
            yield name, value


def _shown(value: object) -> str:
    """A value as it is written on the command line; of a file or folder its name alone."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    text = str(value)
    return Path(text).name if os.path.exists(text) else text
