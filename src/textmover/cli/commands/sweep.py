"""``textmover sweep``: how well every setting of a grid agrees with human ratings."""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from textmover.checkpoints.hub import DEFAULT_PRESET
from textmover.cli.console import set_up_logging
from textmover.cli.options.columns import RATED_COLUMNS, read_tables
from textmover.cli.options.metric import field_value, metric_options
from textmover.files import check_output, write_output
from textmover.meta_evaluation import (
    Interval,
    MeanCorrelation,
    bootstrap_interval,
    grouped_correlations,
    mean_correlation,
)
from textmover.readers.text_tables import named
from textmover.report import Line, Panel, check_matplotlib, draw_panels, report_files
from textmover.scoring.field_flags import FIELD, field_flag
from textmover.scoring.metric_set import Settings, scorers
from textmover.scoring.scorer import Scorer
from textmover.terminal import console, print_table
from textmover.types import InputError, Segment

logger = logging.getLogger(__name__)

STATISTICS = ("pearson", "spearman", "kendall")
EVERYTHING = "all"
"""Name of the one group that there is where no column makes groups."""

OPTIMISTIC = (
    "The best of {n} settings was chosen on the ratings that it is judged on here, so its agreement is optimistic: "
    "judge it once on ratings that had no part in the choice."
)


@dataclass(frozen=True)
class _Result:
    """Agreement of one setting.

    Attributes:
        values: The swept fields with their values.
        mean: Mean correlations over groups.
        interval: 95 % interval of the mean Pearson.
        higher_is_better: False where agreement is a negative correlation.
        signature: What the scores depend on.
    """

    values: Mapping[str, Any]
    mean: MeanCorrelation
    interval: Interval
    higher_is_better: bool
    signature: str

    @property
    def agreement(self) -> float:
        """The mean Pearson, with its sign turned where lower scores are better."""
        return self.mean.pearson if self.higher_is_better else -self.mean.pearson


FEWEST = 3
"""Segments that a correlation takes at the least."""


@dataclass(frozen=True)
class _Ratings:
    """The rated segments, and how a setting is judged on them."""

    segments: Sequence[Segment]
    samples: int
    seed: int

    def judge(self, scorer: Scorer, values: Mapping[str, Any]) -> _Result:
        """Score and correlate."""
        result = scorer.score([one.hypothesis for one in self.segments], [one.references for one in self.segments])
        human = np.array([one.score for one in self.segments], dtype=np.float64)
        groups = list(map(_group, self.segments))
        clusters = ["\n".join(one.references) for one in self.segments]
        interval = bootstrap_interval(
            result.scores, human, groups, samples=self.samples, seed=self.seed, clusters=clusters
        )
        mean = mean_correlation(grouped_correlations(result.scores, human, groups))
        return _Result(values, mean, interval, scorer.metric.higher_is_better, str(result.signature))


OPTIONS = (
    f"""
--data FILE... (required): rated segments as CSV, TSV, JSON Lines, Parquet or hub:owner/name
--field NAME=VALUE,… (repeat, required): field of the metric and the values that it takes, such as
    temperature=0.01,0.02,0.05 or hypothesis-penalty=0.1,inf; repeat it for a grid
--group COLUMN (repeat): correlate within each value of this column, such as a language pair; repeat it for combinations
{RATED_COLUMNS}
--output NAME: where table and figure go: a folder, or a name, to which .tsv and .png are added; a name in .svg or .pdf
    says how the figure is drawn. The first data file's name with .sweep in this folder if not given
--no-figure: the table alone, which needs no matplotlib (extra report)
--format table|json (default table): of what is printed
--samples N (default 1000, at least 1): draws of the bootstrap
--seed N (default 0): seed of the bootstrap
""",
    *metric_options(default=DEFAULT_PRESET),
)


def run(options: argparse.Namespace) -> None:
    """Judge every setting of the grid, write each as soon as it is done, then print and draw."""
    set_up_logging(quiet=True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_once())
    fields = _read_fields(options)
    varying = [name for name, values in fields.items() if len(values) > 1]
    drawn = not options.no_figure and 1 <= len(varying) <= 2
    name = f"{Path(options.data[0].removeprefix('hub:')).stem}.sweep"
    table, figure = (check_output(path, options.data) for path in report_files(options.output or f"{name}.tsv", name))
    if drawn:
        check_matplotlib()
    segments = [one for read in read_tables(options.data, options, score=True) for one in read]
    _check_ratings(segments)
    grid = [dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())]
    results = _judge_all(options, Settings(options, grid), _Ratings(segments, options.samples, options.seed), table)
    best = _best(results)
    if drawn:
        _draw(options, {name: fields[name] for name in varying}, results, best, figure)
    files = [str(table), str(figure)] if drawn else [str(table)]
    if options.format == "json":
        sys.stdout.write(json.dumps(_as_json(options, fields, results, best, files), indent=2) + "\n")
        return
    _print(options, results, best)
    if not options.quiet:
        if not drawn and not options.no_figure:
            sys.stdout.write(f"No figure: it shows how one or two fields vary, but here {len(varying)} do.\n")
        sys.stdout.write(f"Files: {', '.join(files)}\n")


def _check_ratings(segments: Sequence[Segment]) -> None:
    """Refuse ratings that nothing can agree with."""
    ratings: dict[str, list[float | None]] = {}
    for one in segments:
        ratings.setdefault(_group(one), []).append(one.score)
    if not any(len(values) >= FEWEST and len(set(values)) > 1 for values in ratings.values()):
        raise InputError(
            f"Expected a group of at least {FEWEST} segments whose ratings differ, but got none "
            f"({named(list(ratings), most=5)}): give more data."
        )


def _group(segment: Segment) -> str:
    return " / ".join(segment.groups.values()) if segment.groups else EVERYTHING


def _judge_all(options: argparse.Namespace, settings: Settings, ratings: _Ratings, table: Path) -> list[_Result]:
    """The results in the order of the grid; those that are done are in the table whatever happens."""
    done: dict[int, _Result] = {}
    stream = console(stderr=True)
    columns = (TextColumn("settings"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    silent = options.quiet or not stream.is_terminal
    try:
        with Progress(*columns, console=stream, transient=True, disable=silent) as bar:
            task = bar.add_task("settings", total=len(settings.grid))
            for index, scorer in scorers(settings):
                done[index] = ratings.judge(scorer, settings.grid[index])
                write_output(_as_table([done[one] for one in sorted(done)]), table)
                bar.update(task, advance=1)
    except KeyboardInterrupt:
        if done:
            logger.warning("%d of %d settings are done; they are in %s.", len(done), len(settings.grid), table)
        raise
    return [done[index] for index in range(len(settings.grid))]


def _read_fields(options: argparse.Namespace) -> dict[str, list[Any]]:
    """The swept fields and their values; whether the fields exist is left to the metric."""
    fields: dict[str, list[Any]] = {}
    for given in options.field:
        name, _, listed = given.partition("=")
        name = name.strip().replace("-", "_")
        texts = [text.strip() for text in re.split(r",(?![^\[]*\])", listed)]  # a comma in brackets is of the value
        if not name or not all(texts):
            raise InputError(f"Expected --field NAME=VALUE,VALUE, such as temperature=0.02,0.05, but got {given!r}.")
        if name in fields:
            raise InputError(f"Expected each --field once, but got `{name}` twice: give all its values at once.")
        if hasattr(options, FIELD + name):
            raise InputError(
                f"Expected `{name}` to be fixed or swept, but got {field_flag(name)} and --field: leave one out."
            )
        try:
            fields[name] = [field_value(name, text) for text in dict.fromkeys(texts)]
        except argparse.ArgumentTypeError as error:
            raise InputError(
                "Expected the values of --field to be such as the field takes, but got: argument "
                f"{field_flag(name)}: {error}."
            ) from error
    return fields


def _best(results: Sequence[_Result]) -> int | None:
    """The setting that agrees best, of those with a correlation in the most groups; ``None`` if none has any."""
    most = max(one.mean.groups for one in results)
    usable = [index for index, one in enumerate(results) if one.mean.groups == most and not math.isnan(one.agreement)]
    return max(usable, key=lambda index: results[index].agreement, default=None)


def _print(options: argparse.Namespace, results: Sequence[_Result], best: int | None) -> None:
    """The table in the order of the grid, and what has to be known to read it."""
    names = list(results[0].values)
    counted = len({one.mean.groups for one in results}) > 1
    headers = [*names, "Pearson", "95 % interval", "Spearman", "Kendall", *(["groups"] if counted else []), "best"]
    rows = []
    for index, one in enumerate(results):
        pearson, spearman, kendall = (_number(getattr(one.mean, key), 4) for key in STATISTICS)
        interval = f"{_number(one.interval.low, 3)} to {_number(one.interval.high, 3)}"
        groups = [str(one.mean.groups)] if counted else []
        mark = "*" if index == best else ""
        values = map(_written, one.values.values())
        rows.append((*values, pearson, interval, spearman, kendall, *groups, mark))
    print_table(headers, rows, numbers=headers[:-1], narrow=headers)
    out = [f"\nIntervals are those of the mean Pearson (bootstrap, {options.samples} draws of whole references).\n"]
    undefined = dict.fromkeys(group for one in results for group in one.mean.undefined)
    if undefined:
        somewhere = " of some settings" if counted else ""
        out.append(
            f"Left out of the mean{somewhere}: {', '.join(undefined)} (fewer than 3 segments, or scores that are all "
            "equal)\n"
        )
    lower = [one for one in results if not one.higher_is_better]
    if lower:
        where = "" if len(lower) == len(results) else " in some settings"
        out.append(f"Lower scores are better{where}, so negative correlations mean agreement there.\n")
    if best is not None and len(results) > 1:
        setting = ", ".join(f"{name}={_written(value)}" for name, value in results[best].values.items())
        out.append(f"Best: {setting}. {OPTIMISTIC.format(n=len(results))}\n")
    sys.stdout.write("".join(out))


def _as_table(results: Sequence[_Result]) -> str:
    """Tab-separated values with all digits; ``nan`` where there is no correlation."""
    header = [*results[0].values, "n", "groups", *STATISTICS, "pearson_low", "pearson_high", "signature"]
    lines = ["\t".join(header)]
    for one in results:
        numbers = [getattr(one.mean, key) for key in ("n", "groups", *STATISTICS)] + [*one.interval[1:3]]
        lines.append("\t".join([*map(_written, one.values.values()), *map(repr, numbers), one.signature]))
    return "\n".join(lines) + "\n"


def _as_json(
    options: argparse.Namespace,
    fields: Mapping[str, Sequence[Any]],
    results: Sequence[_Result],
    best: int | None,
    files: Sequence[str],
) -> dict[str, Any]:
    settings = [
        {
            "fields": {name: _plain(value) for name, value in one.values.items()},
            "n": one.mean.n,
            "groups": one.mean.groups,
            "undefined": list(one.mean.undefined),
            **{key: _plain(getattr(one.mean, key)) for key in STATISTICS},
            "interval": {"low": _plain(one.interval.low), "high": _plain(one.interval.high)},
            "higher_is_better": one.higher_is_better,
            "signature": one.signature,
        }
        for one in results
    ]
    return {
        "model": options.model,
        "fields": {name: [_plain(value) for value in values] for name, values in fields.items()},
        "settings": settings,
        "best": best,
        "note": OPTIMISTIC.format(n=len(results)) if len(results) > 1 else None,
        "bootstrap": {"statistic": "pearson", "level": 0.95, "samples": options.samples, "seed": options.seed},
        "files": list(files),
    }


def _draw(
    options: argparse.Namespace,
    varying: Mapping[str, Sequence[Any]],
    results: Sequence[_Result],
    best: int | None,
    path: Path,
) -> None:
    """One line over the values of a field, or one for each value of a second field."""
    (name, values), *second = varying.items()
    of_lines = second[0] if second else ("", [None])
    lines = []
    for other in of_lines[1]:
        members = [
            next(
                index
                for index, one in enumerate(results)
                if one.values[name] == value and (not second or one.values[of_lines[0]] == other)
            )
            for value in values
        ]
        ends = (
            {}
            if second
            else {key: [getattr(results[index].interval, key) for index in members] for key in ("low", "high")}
        )
        lines.append(
            Line(
                f"{of_lines[0]} {_written(other)}" if second else "mean Pearson with its 95 % interval",
                [results[index].mean.pearson for index in members],
                best=members.index(best) if best in members else None,
                **ends,
            )
        )
    title = f"{Path(options.model).name} on {', '.join(Path(one).name for one in options.data)}"
    x = [_written(value) for value in values]
    label = "mean Pearson" if any(one.higher_is_better for one in results) else "mean Pearson (negative: agreement)"
    draw_panels([Panel("", lines)], x, path, x_label=name, y_label=label, title=title)


def _written(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _once() -> Any:
    """A filter for messages that every setting would repeat."""
    seen: set[str] = set()

    def unseen(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message in seen:
            return False
        seen.add(message)
        return True

    return unseen
