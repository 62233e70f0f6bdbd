"""Sweeps: agreement with human ratings for every setting of a grid, as a table, JSON and a figure."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from textmover import meta_evaluation
from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS
from textmover.readers.csv_and_jsonl import named
from textmover.report import Line, Panel, draw_panels
from textmover.report.table_formats import pick, plain
from textmover.scoring.config_flags import field_flag, field_value, written
from textmover.scoring.scorer import Scorer
from textmover.types import InputError, Segment

STATISTICS = ("pearson", "spearman", "kendall")


class SettingResult(NamedTuple):
    """Agreement of one setting."""

    values: Mapping[str, Any]  # the swept fields
    mean: meta_evaluation.MeanCorrelation  # over groups
    interval: meta_evaluation.Interval  # 95 %, of the mean Pearson
    higher_is_better: bool  # false where agreement is a negative correlation
    signature: str  # what the scores depend on

    @property
    def agreement(self) -> float:
        """The mean Pearson, with its sign turned where lower scores are better."""
        return self.mean.pearson if self.higher_is_better else -self.mean.pearson


def read_grid(entries: Sequence[str], fixed: Collection[str]) -> dict[str, list[Any]]:
    """Fields and their values, of entries NAME=VALUE,…; whether the fields exist is left to the metric."""
    fields: dict[str, list[Any]] = {}
    for given in entries:
        name, _, listed = given.partition("=")
        name = name.strip().replace("-", "_")
        texts = [text.strip() for text in re.split(r",(?![^\[]*\])", listed)]  # a comma in brackets is of the value
        if not name or not all(texts):
            raise InputError(f"Expected --field NAME=VALUE,VALUE, such as temperature=0.02,0.05, but got {given!r}.")
        if name in fields:
            raise InputError(f"Expected each --field once, but got `{name}` twice: give all its values at once.")
        if name in fixed:
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


def group_of(segment: Segment) -> str:
    """Group that correlations are computed within; one for all where no column makes groups."""
    return " / ".join(segment.groups.values()) if segment.groups else "all"


def check_ratings(segments: Sequence[Segment]) -> None:
    """Refuse ratings that nothing can agree with."""
    ratings: dict[str, list[float | None]] = {}
    for one in segments:
        ratings.setdefault(group_of(one), []).append(one.score)
    if not any(len(values) >= MIN_SEGMENTS and len(set(values)) > 1 for values in ratings.values()):
        raise InputError(
            f"Expected a group of at least {MIN_SEGMENTS} segments whose ratings differ, but got none "
            f"({named(list(ratings), most=5)}): give more data."
        )


def judge(
    scorer: Scorer, segments: Sequence[Segment], values: Mapping[str, Any], *, samples: int, seed: int
) -> SettingResult:
    """Score and correlate; the bootstrap draws whole references."""
    result = scorer.score([one.hypothesis for one in segments], [one.compared for one in segments])
    human = np.array([one.score for one in segments], dtype=np.float64)
    groups = list(map(group_of, segments))
    clusters = ["\n".join(one.compared.texts) for one in segments]
    interval = meta_evaluation.bootstrap_interval(
        result.scores, human, groups, samples=samples, seed=seed, clusters=clusters
    )
    mean = meta_evaluation.mean_correlation(meta_evaluation.grouped_correlations(result.scores, human, groups))
    return SettingResult(values, mean, interval, scorer.metric.higher_is_better, str(result.signature))


def best_setting(results: Sequence[SettingResult]) -> int | None:
    """The setting that agrees best, of those with a correlation in the most groups; ``None`` if none has any."""
    most = max(one.mean.groups for one in results)
    usable = [index for index, one in enumerate(results) if one.mean.groups == most and not math.isnan(one.agreement)]
    return max(usable, key=lambda index: results[index].agreement, default=None)


def as_table(results: Sequence[SettingResult]) -> str:
    """Tab-separated values with all digits; ``nan`` where there is no correlation."""
    lines = [[*results[0].values, "n", "groups", *STATISTICS, "pearson_low", "pearson_high", "signature"]]
    for one in results:
        numbers = [getattr(one.mean, key) for key in ("n", "groups", *STATISTICS)]
        ends = (one.interval.low, one.interval.high)
        lines.append([*map(written, one.values.values()), *map(repr, (*numbers, *ends)), one.signature])
    return "".join("\t".join(line) + "\n" for line in lines)


def as_records(results: Sequence[SettingResult]) -> list[dict[str, Any]]:
    """Each setting as JSON has it."""
    return [
        {
            "fields": plain(one.values),
            **plain(pick(one.mean, "n", "groups", "undefined", *STATISTICS)),
            "interval": plain(pick(one.interval, "low", "high")),
            **pick(one, "higher_is_better", "signature"),
        }
        for one in results
    ]


def draw_settings(
    varying: Mapping[str, Sequence[Any]], results: Sequence[SettingResult], best: int | None, path: Path, title: str
) -> None:
    """One line over the values of a field, or one for each value of a second; results are in the order of the grid."""
    (name, values), *second = varying.items()
    other, members = second[0] if second else ("", [None])
    lines = []
    for member in members:
        places = [index for index, one in enumerate(results) if not second or one.values[other] == member]
        ends = ("low", "high") if not second else ()
        label = f"{other} {written(member)}" if second else "mean Pearson with its 95 % interval"
        bounds = {end: [getattr(results[index].interval, end) for index in places] for end in ends}
        means = [results[index].mean.pearson for index in places]
        lines.append(Line(label, means, best=places.index(best) if best in places else None, **bounds))
    x = [written(value) for value in values]
    label = "mean Pearson" if any(one.higher_is_better for one in results) else "mean Pearson (negative: agreement)"
    draw_panels([Panel("", lines)], x, path, x_label=name, y_label=label, title=title)
