"""From a judgement set and scores to the groups that agreement is computed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.agreement.group_agreement import Group
from textmover.meta_evaluation.agreement.preferences import preference_pairs
from textmover.meta_evaluation.agreement.protocol import Protocol
from textmover.meta_evaluation.results import MetricScores
from textmover.meta_evaluation.statistics.scores import Vector, group_positions
from textmover.types import InputError, Judgements, plural

EVERYTHING = "all"
"""Name of the one group of pooled segments."""


class Selection(NamedTuple):
    """The rows that all metrics and people have scored."""

    judgements: Judgements  # what people thought of them
    rows: NDArray[np.int64]  # their numbers in the whole set
    metrics: tuple[str, ...]
    scores: Vector  # scores of the metrics, higher is better, ``[K, n]``
    human: Vector  # ratings ``[n]``; NaN where preferences are used
    dimension: str | None
    missing: Mapping[str, int]  # how many rows lack something, by what they lack
    left_out: int  # how many rows were left out for that
    lost_preferences: int  # how many preferences lost a side, or lie across groups


def select_rows(
    judgements: Judgements, metrics: Sequence[MetricScores], protocol: Protocol, dimension: str | None
) -> Selection:
    """Leave out the rows that lack a rating or one of the scores, for all metrics alike."""
    size = len(judgements)
    for one in metrics:
        if len(one.scores) != size:
            raise InputError(
                f"Expected {plural(size, 'score')} of {one.name!r}, one for each text of {judgements.name}, but got "
                f"{len(one.scores)}: score the same texts in the same order."
            )
    human = np.full(size, np.nan)
    lacking: dict[str, NDArray[np.bool_]] = {}
    if protocol.statistic == "darr":
        dimension = None
    else:
        dimension = choose_dimension(judgements, dimension)
        human = np.asarray(judgements.ratings[dimension], dtype=np.float64)
        if np.isinf(human).any():
            raise InputError(
                f"Expected finite ratings in {dimension!r} of {judgements.name}, but got infinity for "
                f"{int(np.isinf(human).sum())}: correct them, or write NaN for what is missing."
            )
        lacking["rating"] = np.isnan(human)
    lacking |= {one.name: np.isnan(one.scores) for one in metrics}
    gone = np.any(list(lacking.values()), axis=0) if size else np.zeros(0, dtype=bool)
    rows = np.flatnonzero(~gone)
    missing = {name: int(where.sum()) for name, where in lacking.items() if where.any()}
    if not len(rows):
        listed = ", ".join(f"{name} for {count}" for name, count in missing.items())
        raise InputError(
            f"Expected a text of {judgements.name} that people and every metric have scored, but got none of {size} "
            f"(missing: {listed or 'nothing'}): leave out the metric that lacks them."
        )
    kept = judgements.select(rows)
    table = np.stack([one.scores[rows] if one.higher_is_better else -one.scores[rows] for one in metrics])
    lost = 0
    if protocol.statistic == "darr":
        assert judgements.preferences is not None
        assert kept.preferences is not None
        lost = len(judgements.preferences) - len(kept.preferences)
    names = tuple(one.name for one in metrics)
    return Selection(
        kept, rows, names, table, human[rows], dimension, missing, size - len(rows), lost + _torn(kept, protocol)
    )


def split_groups(selection: Selection, protocol: Protocol) -> list[Group]:
    """The groups of a selection, in the order in which they appear."""
    judgements = selection.judgements
    labels = _labels(judgements, protocol)
    clusters = draw_labels(judgements)
    numbers = {label: number for number, label in enumerate(dict.fromkeys(clusters))}
    cluster = np.array([numbers[label] for label in clusters], dtype=np.int64)
    preferences = np.zeros((0, 2), dtype=np.int64)
    if judgements.preferences is not None and protocol.statistic == "darr":
        preferences = preference_pairs(judgements.preferences, len(judgements))
    groups = []
    for name, members in group_positions(labels, len(judgements)).items():
        place = np.full(len(judgements), -1)
        place[members] = np.arange(len(members))
        sides = place[preferences]
        groups.append(
            Group(
                name=name,
                metrics=selection.metrics,
                scores=selection.scores[:, members],
                human=selection.human[members],
                clusters=cluster[members],
                items=_picked(judgements.items, members),
                systems=_picked(judgements.systems, members),
                preferences=sides[(sides >= 0).all(axis=1)],
            )
        )
    return groups


def choose_dimension(judgements: Judgements, dimension: str | None) -> str:
    """The dimension of the ratings: the one that was asked for, or the only one."""
    listed = ", ".join(judgements.ratings) or "none"
    if dimension is None:
        if len(judgements.ratings) != 1:
            raise InputError(f"Expected a dimension of the ratings of {judgements.name}, which has {listed}: name one.")
        return next(iter(judgements.ratings))
    if dimension not in judgements.ratings:
        raise InputError(f"Expected the dimension to be {listed}, but got {dimension!r}: choose one.")
    return dimension


def draw_labels(judgements: Judgements) -> tuple[str, ...]:
    """Bootstrap cluster of each text: its group and item, or its references if items are unknown."""
    if judgements.items is not None:
        return tuple(f"{group}\n{item}" for group, item in zip(judgements.groups, judgements.items, strict=True))
    return tuple(
        "\n".join(("references", group, *references)) if references else f"alone\n{row}"
        for row, (group, references) in enumerate(zip(judgements.groups, judgements.references, strict=True))
    )


def _labels(judgements: Judgements, protocol: Protocol) -> tuple[str, ...]:
    return (EVERYTHING,) * len(judgements) if protocol.level == "pooled" else judgements.groups


def _torn(judgements: Judgements, protocol: Protocol) -> int:
    if protocol.statistic != "darr" or judgements.preferences is None:
        return 0
    labels = _labels(judgements, protocol)
    return sum(labels[better] != labels[worse] for better, worse in judgements.preferences.tolist())


def _picked(values: tuple[str, ...] | None, members: NDArray[np.int64]) -> tuple[str, ...] | None:
    return None if values is None else tuple(values[row] for row in members)
