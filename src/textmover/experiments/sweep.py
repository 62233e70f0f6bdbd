"""Sweeps: agreement with human ratings for each setting of a grid, as table, JSON and figure."""

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
from textmover.readers.segments import joined_groups
from textmover.report import Line, Panel, draw_panels
from textmover.report.table_formats import pick, plain
from textmover.scoring.metric_field_options import field_flag, field_value, option_text
from textmover.scoring.scorer import Scorer
from textmover.types import InputError, Segment

STATISTICS = ("pearson", "spearman", "kendall")


class SettingResult(NamedTuple):
    """Agreement of a setting with human ratings."""

    values: Mapping[str, Any]  # the swept fields
    mean: meta_evaluation.MeanCorrelation  # over groups
    interval: meta_evaluation.Interval  # 95 %, of the mean Pearson
    higher_is_better: bool  # if false, agreement is a negative correlation
    signature: str  # what the scores depend on

    @property
    def agreement(self) -> float:
        """Mean Pearson correlation, negated if lower scores are better."""
        return self.mean.pearson if self.higher_is_better else -self.mean.pearson


def read_grid(entries: Sequence[str], fixed: Collection[str]) -> dict[str, list[Any]]:
    """Parse entries NAME=VALUE,… into fields and values; the metric checks later whether the fields exist."""
    fields: dict[str, list[Any]] = {}
    for entry in entries:
        name, _, listed = entry.partition("=")
        name = name.strip().replace("-", "_")
        texts = [text.strip() for text in re.split(r",(?![^\[]*\])", listed)]  # commas in brackets belong to a value
        if not name or not all(texts):
            raise InputError(f"Expected --field NAME=VALUE,VALUE, such as temperature=0.02,0.05, but got {entry!r}.")
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
                f"Expected --field to give valid values of the field, but got: argument {field_flag(name)}: {error}."
            ) from error
    return fields


def group_of(segment: Segment) -> str:
    """Return the correlation group of a segment; ``all`` if it has no group columns."""
    return joined_groups(list(segment.groups.values())) if segment.groups else "all"


def check_ratings(segments: Sequence[Segment]) -> None:
    """Raise an error if no group has enough segments with different ratings for a correlation."""
    ratings: dict[str, list[float | None]] = {}
    for segment in segments:
        ratings.setdefault(group_of(segment), []).append(segment.score)
    if not any(len(values) >= MIN_SEGMENTS and len(set(values)) > 1 for values in ratings.values()):
        raise InputError(
            f"Expected a group of at least {MIN_SEGMENTS} segments whose ratings differ, but got none "
            f"({named(list(ratings), most=5)}): give more data."
        )


def judge(
    scorer: Scorer, segments: Sequence[Segment], values: Mapping[str, Any], *, samples: int, seed: int
) -> SettingResult:
    """Score segments and correlate with the ratings; the bootstrap resamples references with all their segments."""
    result = scorer.score([segment.hypothesis for segment in segments], [segment.compared for segment in segments])
    human = np.array([segment.score for segment in segments], dtype=np.float64)
    groups = list(map(group_of, segments))
    clusters = ["\n".join(segment.compared.texts) for segment in segments]
    interval = meta_evaluation.bootstrap_interval(
        result.scores, human, groups, samples=samples, seed=seed, clusters=clusters
    )
    mean = meta_evaluation.mean_correlation(meta_evaluation.grouped_correlations(result.scores, human, groups))
    return SettingResult(values, mean, interval, scorer.metric.higher_is_better, str(result.signature))


def best_setting(results: Sequence[SettingResult]) -> int | None:
    """Return the index of the best setting among those defined in the most groups; ``None`` if all are undefined."""
    most = max(one.mean.groups for one in results)
    usable = [index for index, one in enumerate(results) if one.mean.groups == most and not math.isnan(one.agreement)]
    return max(usable, key=lambda index: results[index].agreement, default=None)


def as_table(results: Sequence[SettingResult]) -> str:
    """Format results as tab-separated values with all digits; undefined correlations are ``nan``."""
    lines = [[*results[0].values, "n", "groups", *STATISTICS, "pearson_low", "pearson_high", "signature"]]
    for result in results:
        numbers = [getattr(result.mean, key) for key in ("n", "groups", *STATISTICS)]
        ends = (result.interval.low, result.interval.high)
        lines.append([*map(option_text, result.values.values()), *map(repr, (*numbers, *ends)), result.signature])
    return "".join("\t".join(line) + "\n" for line in lines)


def as_records(results: Sequence[SettingResult]) -> list[dict[str, Any]]:
    """Return the JSON record of each setting."""
    return [
        {
            "fields": plain(result.values),
            **plain(pick(result.mean, "n", "groups", "undefined", *STATISTICS)),
            "interval": plain(pick(result.interval, "low", "high")),
            **pick(result, "higher_is_better", "signature"),
        }
        for result in results
    ]


def draw_settings(
    varying: Mapping[str, Sequence[Any]], results: Sequence[SettingResult], best: int | None, path: Path, title: str
) -> None:
    """Draw a line over the values of a field, or one for each value of a second; results are in grid order."""
    (name, values), *second = varying.items()
    other, members = second[0] if second else ("", [None])
    lines = []
    for member in members:
        places = [index for index, one in enumerate(results) if not second or one.values[other] == member]
        ends = ("low", "high") if not second else ()
        label = f"{other} {option_text(member)}" if second else "mean Pearson with its 95 % interval"
        bounds = {end: [getattr(results[index].interval, end) for index in places] for end in ends}
        means = [results[index].mean.pearson for index in places]
        lines.append(Line(label, means, best=places.index(best) if best in places else None, **bounds))
    x = [option_text(value) for value in values]
    label = "mean Pearson" if any(one.higher_is_better for one in results) else "mean Pearson (negative: agreement)"
    draw_panels([Panel("", lines)], x, path, x_label=name, y_label=label, title=title)
