"""Largest disagreements of a metric with people, and the matches of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from textmover.meta_evaluation import MetricScores
from textmover.meta_evaluation.statistics.scores import group_positions, standard_scores
from textmover.types import InputError, Judgements, plural


class Link(NamedTuple):
    """Two words that a metric holds together.

    Attributes:
        hypothesis: Number of the hypothesis's word, from 0.
        reference: Number of the reference's word.
        weight: How much they count for one another, such as the mass that is moved between them; positive.
        similarity: How alike they are, at most 1.
    """

    hypothesis: int
    reference: int
    weight: float
    similarity: float


@dataclass(frozen=True)
class Alignment:
    """Matches of the words of a hypothesis with those of a reference.

    Attributes:
        hypothesis: Words, in order.
        reference: Words of the reference that it was matched with.
        links: Words that belong together, in any order.
        number: Which of the segment's references it is, from 0.

    Raises:
        InputError: If a link leads to a word that is not there, or its weight is not positive.
    """

    hypothesis: tuple[str, ...]
    reference: tuple[str, ...]
    links: tuple[Link, ...]
    number: int = 0

    def __post_init__(self) -> None:
        for link in self.links:
            inside = 0 <= link.hypothesis < len(self.hypothesis) and 0 <= link.reference < len(self.reference)
            if not inside or not 0 < link.weight < float("inf"):
                raise InputError(
                    f"Expected links between {len(self.hypothesis)} and {plural(len(self.reference), 'word')} with "
                    f"positive weights, but got {tuple(link)}: count words from 0, and leave out what carries no "
                    "weight."
                )


@dataclass(frozen=True)
class Disagreement:
    """A segment that a metric judges otherwise than people do.

    Attributes:
        metric: Name of the metric.
        row: Number of the segment in its judgement set, from 0.
        metric_z: Its score in standard deviations above the mean of its group, higher is better.
        rating_z: Its rating likewise.
        score: Its score as it is.
        rating: Its rating as it is.
        group: Its group.
        hypothesis: The text that was judged.
        references: What it was compared with.
        item: What it is an output for, where known.
        system: What produced it, where known.
        alignment: How the metric matched the words with those of a reference, if known.
        source_alignment: How it matched them with those of the source, where it read that.
    """

    metric: str
    row: int
    metric_z: float
    rating_z: float
    score: float
    rating: float
    group: str
    hypothesis: str
    references: tuple[str, ...]
    item: str | None = None
    system: str | None = None
    alignment: Alignment | None = None
    source_alignment: Alignment | None = None

    @property
    def difference(self) -> float:
        """Metric minus people, in standard deviations."""
        return self.metric_z - self.rating_z


def largest_disagreements(
    judgements: Judgements, metrics: Sequence[MetricScores], *, dimension: str, count: int = 3
) -> list[Disagreement]:
    """The segments on which each metric and people differ most: ``z(score) - z(rating)`` within the group.

    Args:
        judgements: What people thought.
        metrics: Scores, ``[n]`` each; segments without a score or a rating have no part,
            nor have groups in which either is the same for all.
        dimension: Of the ratings.
        count: How many for each metric and direction, at most.

    Returns:
        For each metric those that it rates too high, then those that it rates too low, the largest differences first.
        Fill in ``alignment`` with :func:`dataclasses.replace`.

    Raises:
        InputError: If a metric has another number of scores.

    Example:
        >>> judgements = Judgements("a", ("x", "y", "z"), (("r",),) * 3, {"score": np.array([1.0, 2, 3])}, ("all",) * 3)
        >>> metric = MetricScores("m", np.array([3.0, 2, 1]))
        >>> [(one.row, round(one.difference, 1)) for one in
        ...     largest_disagreements(judgements, [metric], dimension="score", count=1)]
        [(0, 2.4), (2, -2.4)]
    """
    ratings = np.asarray(judgements.ratings[dimension], dtype=np.float64)
    groups = group_positions(judgements.groups, len(ratings))
    found = []
    for metric in metrics:
        if len(metric.scores) != len(ratings):
            raise InputError(
                f"Expected {plural(len(ratings), 'score')} of {metric.name!r}, one for each text of {judgements.name}, "
                f"but got {len(metric.scores)}: score the same texts in the same order."
            )
        known = np.isfinite(metric.scores) & np.isfinite(ratings)
        z = np.full((2, len(ratings)), np.nan)
        for members in groups.values():
            rows = members[known[members]]
            if len(rows) and min(np.ptp(metric.scores[rows]), np.ptp(ratings[rows])) > 0:
                z[0, rows] = standard_scores(metric.scores[rows]) * (1 if metric.higher_is_better else -1)
                z[1, rows] = standard_scores(ratings[rows])
        difference = np.nan_to_num(z[0] - z[1])
        order = np.argsort(-difference, kind="stable")
        too_high = [row for row in order[:count].tolist() if difference[row] > 0]
        too_low = [row for row in order[::-1][:count].tolist() if difference[row] < 0]
        found += [
            Disagreement(
                metric=metric.name,
                row=row,
                metric_z=float(z[0, row]),
                rating_z=float(z[1, row]),
                score=float(metric.scores[row]),
                rating=float(ratings[row]),
                group=judgements.groups[row],
                hypothesis=judgements.hypotheses[row],
                references=judgements.references[row],
                item=None if judgements.items is None else judgements.items[row],
                system=None if judgements.systems is None else judgements.systems[row],
            )
            for row in (*too_high, *too_low)
        ]
    return found
