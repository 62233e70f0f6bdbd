"""``textmover evaluate``: how well a metric agrees with human ratings, per group and on average."""

from __future__ import annotations

import argparse
import json
import logging
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textmover.cli.console import print_table, set_up_logging
from textmover.cli.options import (
    add_cache_option,
    add_column_options,
    add_metric_options,
    check_output,
    load_scorer,
    read_tables,
    write_output,
)
from textmover.meta_evaluation import (
    Correlation,
    Interval,
    MeanCorrelation,
    bootstrap_interval,
    grouped_correlations,
    mean_correlation,
)
from textmover.types import InputError, Segment, SegmentScores

__all__ = ["add_arguments", "run"]

logger = logging.getLogger(__name__)

STATISTICS = ("pearson", "spearman", "kendall")
EVERYTHING = "all"
"""Name of the one group that there is where no column makes groups."""


@dataclass(frozen=True)
class Judgement:
    """What a metric's scores have to do with the ratings.

    Attributes:
        by_group: Correlations of each group.
        mean: Their mean.
        interval: 95 % interval of the mean Pearson.
        samples: Draws that the interval is made of.
        seed: Seed of the draws.
    """

    by_group: dict[str, Correlation]
    mean: MeanCorrelation
    interval: Interval
    samples: int
    seed: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="FILE",
        help="rated segments as CSV, TSV, JSON Lines, Parquet or hub:owner/name",
    )
    parser.add_argument(
        "--group",
        action="append",
        metavar="COLUMN",
        help="correlate within each value of this column, such as a language pair; repeat it for combinations",
    )
    add_column_options(parser, score=True)
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="where the scores go, as TSV; if not given, the first data file's name with .scores.tsv, in this folder",
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="of what is printed")
    parser.add_argument("--samples", type=int, default=1000, metavar="N", help="draws of the bootstrap")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the bootstrap")
    add_metric_options(parser)
    add_cache_option(parser)


def run(options: argparse.Namespace) -> None:
    """Score the rated segments that the options name, correlate, print, and write the scores.

    Raises:
        InputError: If data or metric cannot be used.
    """
    set_up_logging(quiet=True)
    for name, least in (("samples", 1), ("seed", 0)):
        if getattr(options, name) < least:
            raise InputError(f"Expected --{name} to be at least {least}, but got {getattr(options, name)}.")
    output = check_output(options.output or _default_output(options.data[0]), options.data)
    tables = read_tables(options.data, options, score=True)
    segments = [segment for table in tables for segment in table]
    scorer = load_scorer(options)
    result = scorer.score([one.hypothesis for one in segments], [one.references for one in segments])
    files = [name for name, table in zip(options.data, tables, strict=True) for _ in table]
    text, altered = _scores_table(segments, result.scores, files if len(tables) > 1 else None)
    write_output(text, output)
    if altered:
        logger.warning("%s: a tab or line break in %d of the texts was written as a space.", output, altered)
    judgement = _judge(result.scores, segments, options.samples, options.seed)
    if options.format == "json":
        sys.stdout.write(json.dumps(_as_json(judgement, result, options.model, output), indent=2) + "\n")
        return
    _print_judgement(judgement)
    if not scorer.metric.higher_is_better:
        sys.stdout.write("Lower scores are better, so negative correlations mean agreement.\n")
    if not options.quiet:
        sys.stdout.write(f"Signature: {result.signature}\nScores: {output}\n")


def _default_output(data: str) -> str:
    return f"{Path(data.removeprefix('hub:')).stem}.scores.tsv"


def _judge(scores: NDArray[np.float64], segments: Sequence[Segment], samples: int, seed: int) -> Judgement:
    human = np.array([one.score for one in segments], dtype=np.float64)
    groups = [" / ".join(one.groups.values()) if one.groups else EVERYTHING for one in segments]
    by_group = grouped_correlations(scores, human, groups)
    clusters = ["\n".join(one.references) for one in segments]
    interval = bootstrap_interval(scores, human, groups, samples=samples, seed=seed, clusters=clusters)
    return Judgement(by_group, mean_correlation(by_group), interval, samples, seed)


def _print_judgement(judgement: Judgement) -> None:
    """The table of groups, the interval under it, and which groups have no correlation."""
    rows: list[tuple[str, Correlation | MeanCorrelation]] = [*judgement.by_group.items()]
    if len(rows) > 1:
        rows.append(("mean", judgement.mean))
    headers = ("group", "n", *(name.capitalize() for name in STATISTICS))
    cells = [(name, str(one.n), *(_number(getattr(one, key), 4) for key in STATISTICS)) for name, one in rows]
    print_table(headers, cells, numbers=headers[1:], narrow=headers[1:])
    interval = judgement.interval
    sys.stdout.write(
        f"\nMean Pearson {_number(interval.estimate, 3)}, 95 % interval {_number(interval.low, 3)} to "
        f"{_number(interval.high, 3)} (bootstrap, {judgement.samples} draws of whole references)\n"
    )
    if judgement.mean.undefined:
        sys.stdout.write(
            f"Left out of the mean: {', '.join(judgement.mean.undefined)} (fewer than 3 segments, or scores that are "
            "all equal)\n"
        )


def _as_json(judgement: Judgement, result: SegmentScores, model: str, output: Path) -> dict[str, Any]:
    interval = judgement.interval
    return {
        "model": model,
        "groups": {name: _entry(one) for name, one in judgement.by_group.items()},
        "mean": {**_entry(judgement.mean), "groups": judgement.mean.groups},
        "undefined": list(judgement.mean.undefined),
        "interval": {
            "statistic": "pearson",
            "level": 0.95,
            "low": _or_null(interval.low),
            "high": _or_null(interval.high),
            "samples": judgement.samples,
            "seed": judgement.seed,
        },
        "counts": dict(result.counts),
        "signature": str(result.signature),
        "scores": str(output),
    }


def _entry(one: Correlation | MeanCorrelation) -> dict[str, float | int | None]:
    return {"n": one.n, **{name: _or_null(getattr(one, name)) for name in STATISTICS}}


def _scores_table(
    segments: Sequence[Segment], scores: NDArray[np.float64], files: Sequence[str] | None
) -> tuple[str, int]:
    """Tab-separated values that our reader reads back, and in how many texts white space had to be replaced.

    Columns: file (of several), groups, hypothesis, reference (reference_2, … where a segment has more), human_score,
    metric_score; scores with all digits of a float64.
    """
    most = max(len(one.references) for one in segments)
    references = ["reference", *(f"reference_{number}" for number in range(2, most + 1))]
    own = [*(["file"] if files is not None else []), "hypothesis", *references, "human_score", "metric_score"]
    groups = [f"group_{name}" if name in own else name for name in segments[0].groups]
    header = [*own[: files is not None], *groups, *own[files is not None :]]
    lines, altered = ["\t".join(map(_cell, header))], 0
    for row, (segment, score) in enumerate(zip(segments, scores.tolist(), strict=True)):
        first = [] if files is None else [files[row]]
        padding = [""] * (most - len(segment.references))
        texts = [*first, *segment.groups.values(), segment.hypothesis, *segment.references, *padding]
        cells = [_cell(text) for text in texts]
        altered += sum(cell != text for cell, text in zip(cells, texts, strict=True))
        lines.append("\t".join([*cells, repr(segment.score), repr(score)]))
    return "\n".join(lines) + "\n", altered


def _cell(text: str) -> str:
    """A text without what would end a cell or a line."""
    return re.sub(r"[\t\r\n]+", " ", text)


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value
