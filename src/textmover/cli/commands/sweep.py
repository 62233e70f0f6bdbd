"""``textmover sweep``: agreement with human ratings for every setting of a grid."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from textmover.cli.options.input_tables import read_tables
from textmover.experiments import sweep
from textmover.experiments.evaluation.metrics import KeptScores
from textmover.experiments.evaluation.sets import partial_table
from textmover.files import atomic_file, check_output, check_unnamed, write_output
from textmover.meta_evaluation.significance.bootstrap import undefined_draws
from textmover.readers.public_sets.catalogue import place_of
from textmover.report import check_matplotlib, report_files
from textmover.report.table_formats import number, plain
from textmover.scoring.metric_field_options import given_fields, option_text
from textmover.scoring.metric_set import Settings, scorers
from textmover.scoring.scorer_from_options import take_by_language
from textmover.terminal import print_table, progress_bars
from textmover.types import InputError, Segment, plural

OPTIMISTIC = (
    "The best of {n} settings was chosen on the ratings that it is judged on here, so its agreement is optimistic: "
    "judge it once on ratings that had no part in the choice."
)


def run(options: argparse.Namespace) -> None:
    """Evaluate every setting of the grid, write each result when it is ready, then print and draw."""
    seen: dict[str, logging.LogRecord] = {}
    for handler in logging.getLogger().handlers:  # log messages that every setting repeats only once
        handler.addFilter(lambda record: seen.setdefault(record.getMessage(), record) is record)
    fields = sweep.read_grid(options.field, given_fields(options))
    varying = {name: values for name, values in fields.items() if len(values) > 1}
    with_figure = not options.no_figure and 1 <= len(varying) <= 2
    name = f"{Path(place_of(options.data[0]).removeprefix('hub:')).stem}.sweep"
    table, figure = (check_output(path, options.data) for path in report_files(options.output or f"{name}.tsv", name))
    if options.output is None:
        check_unnamed(table, ("n", "groups", "pearson", "signature"), *[figure] * with_figure)
    if with_figure:
        check_matplotlib()
    grid = [dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())]
    options.swept = grid
    segments = [one for read in read_tables(options.data, options) for one in read]
    sweep.check_ratings(segments)
    take_by_language(options, (one.hypothesis for one in segments), (one.compared for one in segments), fields)
    results = _judge_all(options, Settings(options, grid), segments, table)
    best = sweep.best_setting(results)
    if with_figure:
        title = f"{Path(options.model).name} on {', '.join(Path(one).name for one in options.data)}"
        sweep.draw_settings(varying, results, best, figure, title)
    files = [str(table), str(figure)] if with_figure else [str(table)]
    if options.format == "json":
        report = {
            "model": options.model,
            "fields": plain(fields),
            "settings": sweep.as_records(results),
            "best": best,
            "note": OPTIMISTIC.format(n=len(results)) if len(results) > 1 else None,
            "bootstrap": {"statistic": "pearson", "level": 0.95, "samples": options.samples, "seed": options.seed},
            "files": files,
        }
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    _print(results, best, options.samples)
    if not options.quiet and not with_figure and not options.no_figure:
        sys.stdout.write(f"No figure: it shows how one or two fields vary, but here {len(varying)} do.\n")


def _judge_all(
    options: argparse.Namespace, settings: Settings, segments: Sequence[Segment], table: Path
) -> list[sweep.SettingResult]:
    """Write and return the results in the order of the grid; finished ones are in a table beside it until then."""
    done: dict[int, sweep.SettingResult] = {}
    grid, partial, kept = settings.grid, partial_table(table), KeptScores({})
    with kept.told(), progress_bars(shown=not options.quiet) as advance:
        for index, scorer in scorers(settings):
            done[index] = sweep.judge(scorer, segments, grid[index], samples=options.samples, seed=options.seed)
            with contextlib.suppress(InputError):  # a full disk does not end the work
                with atomic_file(partial) as stream:
                    stream.write(sweep.as_table([done[one] for one in sorted(done)]))
                kept.written[partial] = None
            advance("settings", 1, len(grid))
        results = [done[index] for index in range(len(grid))]
        write_output(sweep.as_table(results), table)
    partial.unlink(missing_ok=True)
    return results


def _print(results: Sequence[sweep.SettingResult], best: int | None, samples: int) -> None:
    differ = len({result.mean.groups for result in results}) > 1
    headers = [*results[0].values, "Pearson", "95 % interval", "Spearman", "Kendall", *["groups"] * differ, "best"]
    rows = []
    for index, result in enumerate(results):
        pearson, spearman, kendall = (number(getattr(result.mean, key), 4) for key in sweep.STATISTICS)
        interval = f"{number(result.interval.low)} to {number(result.interval.high)}"
        groups = [str(result.mean.groups)] if differ else []
        row = [pearson, interval, spearman, kendall, *groups, "*" if index == best else ""]
        rows.append([*map(option_text, result.values.values()), *row])
    print_table(headers, rows, numbers=headers[:-1], narrow=headers)
    notes = [f"\nIntervals are those of the mean Pearson (bootstrap, {plural(samples, 'draw')} of whole references).\n"]
    if most := max(result.interval.undefined for result in results):
        notes.append(f"Up to {undefined_draws(most)}.\n")
    if undefined := dict.fromkeys(group for result in results for group in result.mean.undefined):
        somewhere = " of some settings" if differ else ""
        notes.append(
            f"Left out of the mean{somewhere}: {', '.join(undefined)} (fewer than 3 segments, or scores that are all "
            "equal)\n"
        )
    if lower := [result for result in results if not result.higher_is_better]:
        where = "" if len(lower) == len(results) else " in some settings"
        notes.append(f"Lower scores are better{where}, so negative correlations mean agreement there.\n")
    if best is not None and len(results) > 1:
        setting = ", ".join(f"{name}={option_text(value)}" for name, value in results[best].values.items())
        notes.append(f"Best: {setting}. {OPTIMISTIC.format(n=len(results))}\n")
    sys.stdout.write("".join(notes))
