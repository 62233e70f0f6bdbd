"""``textmover fit-idf``, ``fit-mean`` and ``fit-baseline``: fit statistics of a corpus and save them for scoring."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from textmover.checkpoints.statistics_files import size_of, unfitted_statistics
from textmover.files import check_output
from textmover.readers.column_flags import errors_with_flag_names
from textmover.readers.segments import read_texts
from textmover.scoring.metric_field_options import field_flag, given_fields, option_text
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_from_options import build_scorer, take_by_language, take_default, warn_of_few
from textmover.types import InputError, fixed, plural

STATISTICS: dict[str, tuple[str, str, Any]] = {
    "fit-idf": ("idf weights", "weights", "idf"),
    "fit-mean": ("a corpus mean", "centering", "corpus"),
    "fit-baseline": ("a baseline", "rescale", True),
}
"""By command: name of the statistic in messages, and the field and value that enable it in a metric."""


def run(options: argparse.Namespace) -> None:
    """Fit a statistic on the texts that the options name, and save it."""
    output = check_output(options.output, options.data, (".safetensors",))
    with errors_with_flag_names({"column": "--column"}):
        texts_by_file = [read_texts(path, options.column, split=options.split or "train") for path in options.data]
    texts = [text for file_texts in texts_by_file for text in file_texts]
    if not any(map(str.strip, texts)):
        raise InputError(f"Expected texts to fit on in {', '.join(options.data)}, but all of them are empty.")
    take_default(options)
    take_by_language(options, texts, [])
    what, name = STATISTICS[options.command][0], options.command.removeprefix("fit-")
    scorer, changes = _with_statistic(options, name)
    names = _names(scorer, name)
    scorer.fit(texts, names)
    saved = [one for one in names if one != "idf_hypothesis"]  # for a corpus, both sides share one table
    scorer.save_statistics(output, saved, options.corpus or ", ".join(Path(one).name for one in options.data))
    warn_of_few(len(texts), what)
    if options.quiet:
        return
    for field, value in changes.items():
        sys.stdout.write(
            f"{options.model} uses no {what.removeprefix('a ')}: the file counts only with {_flag(field, value)}.\n"
        )
    fitted = ", ".join(f"{one} ({size_of(scorer.metric, one)})" for one in saved)
    sys.stdout.write(f"Fitted on {plural(len(texts), 'text')}: {fitted}.\n")
    if name == "baseline":
        recall, precision, f = scorer.metric.statistics["baseline"].state_dict()["values"].tolist()
        low, high = scorer.metric.range
        sys.stdout.write(
            f"Baseline: recall {fixed(recall, 4)}, precision {fixed(precision, 4)}, F {fixed(f, 4)}.\n"
            f"Rescaled scores run from {low:.4g} to {high:.4g}; unrelated texts score about 0.\n"
        )
    sys.stdout.write(f"Score with it:\n  {_hint(options, changes, output)}\n")


def _with_statistic(options: argparse.Namespace, name: str) -> tuple[Scorer, dict[str, Any]]:
    """Return a scorer whose metric has the statistic, and the fields that were changed for that."""
    scorer, (what, field, value) = build_scorer(options), STATISTICS[options.command]
    if name in scorer.metric.statistics:
        return scorer, {}
    fields = given_fields(options)
    if field in fields:
        raise InputError(
            f"Expected a metric that reads {what}, but got `{_flag(field, fields[field])}`: leave it out, or give "
            f"{option_text(value)}."
        )
    return build_scorer(options, **{field: value}), {field: value}


def _names(scorer: Scorer, statistic: str) -> list[str]:
    """Return the statistics to fit: the requested one, unfitted ones that a baseline needs, and the baseline."""
    to_fit = {statistic, f"{statistic}_hypothesis"}
    if statistic == "baseline":
        to_fit |= set(unfitted_statistics(scorer.metric))
        to_fit |= {one for one in scorer.metric.statistics if one.startswith("idf") and scorer.metric.fits_on_call}
    else:
        to_fit.add("baseline")  # the baseline depends on other statistics
    return [name for name in scorer.metric.statistics if name in to_fit]


def _hint(options: argparse.Namespace, changes: dict[str, Any], output: Path) -> str:
    """Return the command that scores with the statistics and the options that they were fitted for."""
    model = ["--model", options.model, *(["--revision", options.revision] if options.revision else [])]
    files = [part for path in (*(options.statistics or ()), str(output)) for part in ("--statistics", path)]
    fields = {**given_fields(options), **changes}.items()
    flags = [part for field, value in fields for part in (field_flag(field), option_text(value))]
    return shlex.join(["textmover", "score", "-i", "hypotheses.txt", "references.txt", *model, *flags, *files])


def _flag(field: str, value: Any) -> str:
    return f"{field_flag(field)} {option_text(value)}"
