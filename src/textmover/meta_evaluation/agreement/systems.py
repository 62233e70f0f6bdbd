"""System-level agreement: correlation, pairwise accuracy and soft pairwise accuracy.

A system's score is the mean over all its segments, the same for metric and human scores. Systems need not share
segments: direct assessment samples different segments for each system. Tests between two systems, as in soft pairwise
accuracy, use the items that both have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.significance.significance_tests import swap_signs
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS, accuracy, check_statistic
from textmover.meta_evaluation.statistics.score_arrays import (
    ROUNDING,
    Positions,
    Vector,
    group_positions,
    label_numbers,
    paired_scores,
    restore_ties,
)
from textmover.types import InputError, View, fixed, plural
from textmover.types.display import shown_tuple

STATISTICS: Mapping[str, Callable[[Vector, Vector], Vector]] = {**CORRELATIONS, "accuracy": accuracy}
"""Statistics of system means by name; each correlates rows."""


@shown_tuple
class SystemAgreement(NamedTuple):
    """Agreement of mean system scores.

    Attributes:
        value: The statistic; NaN for fewer than three systems (accuracy: two) or constant human means; a correlation
            also for constant metric means.
        systems: Names of the systems, in order of first appearance.
        metric_means: Mean metric score of each system.
        human_means: Mean human score of each system.
        segments: Number of segments of each system.
    """

    value: float
    systems: tuple[str, ...]
    metric_means: Vector
    human_means: Vector
    segments: NDArray[np.int64]

    def view(self) -> View:
        """Show the value and the means of each system."""
        rows = list(zip(self.systems, self.metric_means, self.human_means, self.segments, strict=True))
        headline = f"agreement {fixed(self.value, 4)} on {plural(len(rows), 'system')}"
        return View(headline, ("system", "metric", "people", "segments"), rows)


class SoftPairwiseAccuracy(NamedTuple):
    """Soft pairwise accuracy.

    Attributes:
        value: ``1 - mean |p_human - p_metric|`` over pairs of systems, in [0, 1]; NaN without pairs or differences.
        pairs: Number of pairs.
        undefined: Excluded pairs of systems that share no item.
    """

    value: float
    pairs: int
    undefined: tuple[tuple[str, str], ...]


def system_means(scores: ArrayLike, systems: Sequence[str]) -> dict[str, float]:
    """Compute the mean score of each system over all its segments.

    Args:
        scores: Score of each segment, ``[n]``.
        systems: System of each segment, ``n`` names.

    Raises:
        InputError: If the lists differ in length.

    Example:
        >>> system_means([1, 2, 6], ["a", "a", "b"])
        {'a': 1.5, 'b': 6.0}
    """
    values = np.asarray(scores, dtype=np.float64)
    positions = group_positions(systems, len(values))
    return {name: float(values[members].mean()) for name, members in positions.items()}


def system_agreement(
    metric_scores: ArrayLike, human_scores: ArrayLike, systems: Sequence[str], *, statistic: str = "pearson"
) -> SystemAgreement:
    """Compute the agreement of mean system scores: a correlation, or pairwise accuracy.

    Pairwise accuracy is ``mean [sign(Δmetric) = sign(Δhuman)]`` over all pairs of systems. Means that differ only by
    rounding errors are ties.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        systems: System of each segment, ``n`` names.
        statistic: ``pearson``, ``spearman``, ``kendall``, ``kendall-c`` or ``accuracy``.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or the statistic is unknown.

    Example:
        >>> result = system_agreement([1, 2, 3, 5], [2, 4, 9, 8], ["a", "a", "b", "c"], statistic="accuracy")
        >>> round(result.value, 3)
        0.667

    Reference: Kocmi et al. (2021), To Ship or Not to Ship (pairwise accuracy).
    """
    check_statistic(statistic, STATISTICS)
    metric, human = paired_scores(metric_scores, human_scores)
    positions = group_positions(systems, len(metric))
    metric_means, human_means = (tied_means(one, positions.values()) for one in (metric, human))
    value = float(STATISTICS[statistic](metric_means, human_means))
    sizes = np.array([len(members) for members in positions.values()], dtype=np.int64)
    return SystemAgreement(value, tuple(positions), metric_means, human_means, sizes)


def soft_pairwise_accuracy(
    metric_scores: ArrayLike,
    human_scores: ArrayLike,
    items: Sequence[str],
    systems: Sequence[str],
    *,
    permutations: int = 1000,
    seed: int = 0,
) -> SoftPairwiseAccuracy:
    """Compute soft pairwise accuracy: ``1 - mean |p_human - p_metric|`` over pairs of systems.

    ``p`` is the one-sided p-value that the first system is better, by a paired permutation test over shared items, with
    the same permutations for human and metric scores.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        items: Item of each segment, such as its source text.
        systems: System of each segment; one segment per system and item.
        permutations: Number of permutations of each test.
        seed: Seed of the permutations.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or a system has two segments for an item.

    Example:
        >>> items, systems = ["1", "2", "3"] * 2, ["a"] * 3 + ["b"] * 3
        >>> soft_pairwise_accuracy([1, 2, 3, 2, 3, 4], [5, 6, 7, 6, 7, 8], items, systems).value
        1.0

    Reference: Thompson et al. (2024), Improving Statistical Significance in Human Evaluation of Automatic Metrics via
    Soft Pairwise Accuracy.
    """
    metric, human = paired_scores(metric_scores, human_scores)
    (value,), pairs, undefined = soft_accuracies(metric[None], human, items, systems, permutations, seed)
    return SoftPairwiseAccuracy(float(value), pairs, undefined)


def soft_accuracies(
    scores: Vector, human: Vector, items: Sequence[str], systems: Sequence[str], permutations: int, seed: int
) -> tuple[Vector, int, tuple[tuple[str, str], ...]]:
    """Return the soft accuracy of each metric ``[K]``, the number of system pairs, and pairs without shared items."""
    names, cells = item_table(items, systems, len(human))
    signs = swap_signs(permutations, cells.shape[1], np.random.default_rng(seed))[1:].astype(np.float64)
    target = pairwise_p_values(human, cells, signs)
    known = ~np.isnan(target)
    undefined = tuple(pair for pair, shared in zip(itertools.combinations(names, 2), known, strict=True) if not shared)
    values = np.full(len(scores), np.nan)
    if known.any() and human.min() < human.max():
        values = np.array([1 - np.abs(target - pairwise_p_values(one, cells, signs))[known].mean() for one in scores])
    return values, int(known.sum()), undefined


def item_table(items: Sequence[str], systems: Sequence[str], n: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the system names, and the segment row of each system and item, ``[systems, items]``; -1 if missing."""
    system_rows, item_rows = group_positions(systems, n), group_positions(items, n)
    item_of = label_numbers(items)
    cells = np.full((len(system_rows), len(item_rows)), -1, dtype=np.int64)
    for number, (name, members) in enumerate(system_rows.items()):
        if len(np.unique(item_of[members])) < len(members):
            duplicate = list(item_rows)[int(np.bincount(item_of[members]).argmax())]
            raise InputError(
                f"Expected one segment per system and item, but got several of system {name!r} for item {duplicate!r}: "
                "leave all but one out."
            )
        cells[number, item_of[members]] = members
    return tuple(system_rows), cells


def tied_means(scores: Vector, systems: Iterable[Positions]) -> Vector:
    """Return the mean score of each system ``[..., systems]``; means that differ only by rounding errors are equal."""
    rows = list(systems)
    if not rows:
        return np.zeros((*scores.shape[:-1], 0))
    means = np.stack([scores[..., members].mean(axis=-1) for members in rows], axis=-1)
    return restore_ties(means, largest_terms(scores, rows))


def largest_terms(scores: Vector, systems: Iterable[Positions]) -> Vector:
    """Return the largest absolute score of each system ``[..., systems]``, the scale of its mean's rounding error."""
    return np.stack([np.abs(scores[..., members]).max(axis=-1) for members in systems], axis=-1)


def pairwise_p_values(scores: Vector, cells: NDArray[np.int64], signs: Vector) -> Vector:
    """Return the one-sided p-value of each pair of systems, from :func:`item_table` rows; NaN without shared items."""
    table = np.where(cells >= 0, scores[cells], np.nan)
    first, second = np.triu_indices(len(table), 1)
    differences = table[first] - table[second]  # [pairs, items]
    shared = ~np.isnan(differences)
    differences = np.where(shared, differences, 0.0)
    tolerance = ROUNDING * np.abs(differences).sum(axis=1)
    exceeding = signs @ differences.T >= differences.sum(axis=1) - tolerance
    return np.where(shared.any(axis=1), exceeding.mean(axis=0), np.nan)
