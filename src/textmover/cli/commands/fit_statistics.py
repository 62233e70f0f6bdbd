"""``textmover fit-idf``, ``fit-mean`` and ``fit-baseline``: statistics of a corpus, as files that any scoring takes."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from textmover.checkpoints.hub import DEFAULT_PRESET
from textmover.checkpoints.statistics_files import size_of, unfitted_statistics
from textmover.cli.console import set_up_logging
from textmover.cli.options.columns import add_split_option
from textmover.cli.options.metric import add_metric_options
from textmover.files import check_output
from textmover.readers.lines import check_once
from textmover.readers.segments import read_texts
from textmover.scoring.field_flags import FIELD, field_flag, given_fields
from textmover.scoring.scorer_options import build_scorer
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.scoring.scorer import Scorer


class Fitted(NamedTuple):
    """A statistic that the command fits.

    Attributes:
        what: Its name in sentences.
        field: Field of the configuration that makes room for it.
        value: What that field is set to where the metric has no room.
    """

    what: str
    field: str
    value: Any


STATISTICS = {
    "idf": Fitted("idf weights", "weights", "idf"),
    "mean": Fitted("a corpus mean", "centering", "corpus"),
    "baseline": Fitted("a baseline", "rescale", True),
}
"""Statistics to fit, by the command's name after ``fit-``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options; which of the commands it is stands at the end of the parser's name."""
    parser.set_defaults(statistic=parser.prog.rpartition("fit-")[2])
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="FILE",
        help="texts, one a line ('-' is standard input); with --column a CSV, TSV, JSON Lines, Parquet or "
        "hub:owner/name each",
    )
    parser.add_argument("--column", metavar="COLUMN", help="column of the tables that holds the texts")
    add_split_option(parser)
    parser.add_argument("--output", required=True, metavar="FILE", help="where the statistics go, as .safetensors")
    parser.add_argument("--corpus", metavar="TEXT", help="what the texts are, for the file; their names if not given")
    add_metric_options(parser, fit_on=False, default=DEFAULT_PRESET)


def run(options: argparse.Namespace) -> None:
    """Fit a statistic on the texts that the options name, and write it."""
    set_up_logging(quiet=True)
    output = check_output(options.output, options.data)
    texts = _texts(options)
    scorer, changes = _with_room(options)
    metric, name = scorer.metric, options.statistic
    names = _names(scorer, name)
    scorer.fit(texts, names)
    written = [one for one in names if one != "idf_hypothesis"]  # on a corpus, one table serves both sides
    scorer.save_statistics(output, written, options.corpus or ", ".join(Path(one).name for one in options.data))
    if options.quiet:
        return
    for field in changes:
        sys.stdout.write(
            f"{options.model} has no {STATISTICS[name].what.removeprefix('a ')} of its own: fitted for it with "
            f"{_flags(changes, field)}.\n"
        )
    fitted = ", ".join(f"{one} ({size_of(metric, one)})" for one in written)
    sys.stdout.write(f"Fitted on {len(texts):,} texts: {fitted}.\n")
    if name == "baseline":
        _print_baseline(scorer)
    sys.stdout.write(f"Written to {output}. Score with it:\n  {_hint(options, changes, output)}\n")


def _texts(options: argparse.Namespace) -> list[str]:
    """The texts of all files."""
    if options.split is not None and options.column is None:
        raise InputError("Expected `--split` together with --column, but got it alone: lines have no splits.")
    check_once(options.data)
    try:
        read = [read_texts(path, options.column, split=options.split or "train") for path in options.data]
    except InputError as error:
        raise InputError(re.sub(r"`column`", "`--column`", str(error))) from error
    return [text for texts in read for text in texts]


def _with_room(options: argparse.Namespace) -> tuple[Scorer, dict[str, Any]]:
    """The scorer with room for the statistic, and what had to be changed in the metric for that."""
    scorer, wanted = build_scorer(options), STATISTICS[options.statistic]
    if options.statistic in scorer.metric.statistics:
        return scorer, {}
    if hasattr(options, FIELD + wanted.field):
        given = getattr(options, FIELD + wanted.field)
        raise InputError(
            f"Expected a metric with room for {wanted.what}, but got `{field_flag(wanted.field)} {_value(given)}`: "
            f"leave it out, or give {_value(wanted.value)}."
        )
    changes = {wanted.field: wanted.value}
    return build_scorer(options, **changes), changes


def _names(scorer: Scorer, statistic: str) -> list[str]:
    """Statistics to fit: the one asked for, on both sides, and those that a baseline lacks."""
    names = list(scorer.metric.statistics)
    if statistic != "baseline":
        return [name for name in names if name in (statistic, f"{statistic}_hypothesis")]
    lacking = unfitted_statistics(scorer.metric)
    idf = [name for name in names if name.startswith("idf") and scorer.metric.fits_on_call]
    return [name for name in names if name in (*lacking, *idf, "baseline")]


def _print_baseline(scorer: Scorer) -> None:
    """The values that were fitted, and what becomes of the score's range."""
    recall, precision, f = scorer.metric.statistics["baseline"].state_dict()["values"].tolist()
    low, high = scorer.metric.range
    sys.stdout.write(
        f"Baseline: recall {recall:.4f}, precision {precision:.4f}, F {f:.4f}.\n"
        f"Rescaled scores run from {low:.4g} to {high:.4g}; unrelated texts score about 0.\n"
    )


def _hint(options: argparse.Namespace, changes: dict[str, Any], output: Path) -> str:
    """The command that scores with the statistics, with all options that they were fitted for."""
    given = given_fields(options)
    fields = {**given, **changes}
    model = ["--model", options.model, *(["--revision", options.revision] if options.revision else [])]
    files = [part for path in (*(options.statistics or ()), str(output)) for part in ("--statistics", path)]
    flags = [part for name in fields for part in _flags(fields, name).split(" ", 1)]
    return shlex.join(["textmover", "score", "-i", "hypotheses.txt", "references.txt", *model, *flags, *files])


def _flags(fields: dict[str, Any], name: str) -> str:
    return f"{field_flag(name)} {_value(fields[name])}"


def _value(value: Any) -> str:
    """A value as it is written on the command line."""
    return (
        {True: "true", False: "false", None: "null"}.get(value, str(value))
        if not isinstance(value, list)
        else str(value)
    )
