"""Where a metric agrees with people and where not: by length, by quality, and beside other metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from textmover.meta_evaluation.averaging import averaged_correlation
from textmover.meta_evaluation.correlation import finite_scores, group_positions
from textmover.meta_evaluation.drawn_correlation import Vector
from textmover.types import InputError

__all__ = ["BinAgreement", "agreement_by_length", "agreement_by_quantile", "metric_correlations"]


class BinAgreement(NamedTuple):
    """Agreement on the segments whose length, or rating, lies in one range.

    Attributes:
        low: Lowest length or rating among them.
        high: Highest.
        segments: How many they are.
        values: Agreement of each of ``K`` metrics, mean over groups; NaN where no group has a correlation.
        groups: Over how many groups each is averaged, ``[K]``.
    """

    low: float
    high: float
    segments: int
    values: Vector
    groups: np.ndarray


def metric_correlations(
    scores: Sequence[ArrayLike], groups: Sequence[str] | None = None, *, statistic: str = "pearson"
) -> Vector:
    """Correlation of metrics with one another, mean over groups.

    Args:
        scores: Scores of ``K`` metrics, ``[n]`` each, without NaN.
        groups: Group of each segment; ``None`` pools all.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.

    Returns:
        ``[K, K]``, symmetric; NaN where no group has a correlation, on the diagonal too.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or the statistic is unknown.

    Example:
        >>> metric_correlations([[1, 2, 3], [1, 3, 2], [4, 4, 4]])
        array([[1. , 0.5, nan],
               [0.5, 1. , nan],
               [nan, nan, nan]])
    """
    table = np.full((len(scores), len(scores)), np.nan)
    for i, first in enumerate(scores):
        for j in range(i, len(scores)):
            table[i, j] = table[j, i] = averaged_correlation(first, scores[j], groups, statistic=statistic).value
    return table


def agreement_by_length(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    lengths: ArrayLike,
    groups: Sequence[str] | None = None,
    *,
    bins: int = 4,
    statistic: str = "pearson",
) -> list[BinAgreement]:
    """Agreement by the length of the text, in bins of about as many segments each.

    Args:
        scores: Scores of ``K`` metrics, higher is better, ``[n]`` each.
        human: Human scores ``[n]``.
        lengths: Length of each text, such as its number of words, ``[n]``.
        groups: Group of each segment; agreement is the mean over groups, ``None`` pools all.
        bins: Number of bins; equal lengths stay in one bin, so there may be fewer.
        statistic: ``pearson``, ``spearman``, ``kendall`` or ``kendall-c``.

    Returns:
        The bins, from short to long.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or an option is out of range.

    Example:
        >>> human = [1, 2, 3, 3, 2, 1]
        >>> [(one.low, one.high, float(one.values[0])) for one in
        ...     agreement_by_length([[1, 2, 3, 1, 2, 3]], human, [4, 5, 6, 7, 8, 9], bins=2)]
        [(4.0, 6.0, 1.0), (7.0, 9.0, -1.0)]
    """
    values = finite_scores(lengths, "lengths")
    return _binned(scores, human, values, _bins(values, bins), groups, statistic)


def agreement_by_quantile(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    groups: Sequence[str] | None = None,
    *,
    bins: int = 4,
    statistic: str = "pearson",
) -> list[BinAgreement]:
    """Agreement among bad, middling and good texts: by quantile of the rating, quartiles if there are four.

    Quantiles are those within each group, since groups may be rated on different scales. Within a bin people's
    ratings span less, so that all correlations are lower than over the whole range; compare metrics, not bins.

    Args:
        scores: Scores of ``K`` metrics, higher is better, ``[n]`` each.
        human: Human scores ``[n]``.
        groups: As for :func:`agreement_by_length`.
        bins: Number of bins; equal ratings stay in one bin, so some may be empty and are left out.
        statistic: As for :func:`agreement_by_length`.

    Returns:
        The bins, from low to high ratings.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or an option is out of range.

    Example:
        >>> [one.segments for one in agreement_by_quantile([[1, 2, 3, 4, 5]], [1, 2, 3, 4, 5], bins=2)]
        [3, 2]
    """
    ratings = finite_scores(human, "human scores")
    numbers = np.zeros(len(ratings), dtype=np.int64)
    labels = ["all"] * len(ratings) if groups is None else groups
    for members in group_positions(labels, len(ratings)).values():
        numbers[members] = _bins(ratings[members], bins)
    return _binned(scores, human, ratings, numbers, groups, statistic)


def _bins(values: Vector, bins: int) -> np.ndarray:
    """Number of the quantile that each value is in, ``[n]``; a value on an edge belongs to the lower one."""
    if bins < 1:
        raise InputError(f"Expected at least one bin, but got {bins}: 4 makes quartiles.")
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    return np.searchsorted(np.quantile(values, np.arange(1, bins) / bins), values, side="left")


def _binned(
    scores: Sequence[ArrayLike],
    human: ArrayLike,
    values: Vector,
    numbers: np.ndarray,
    groups: Sequence[str] | None,
    statistic: str,
) -> list[BinAgreement]:
    ratings = finite_scores(human, "human scores")
    columns = [finite_scores(one, "metric scores") for one in scores]
    for column in (*columns, ratings):
        if len(column) != len(values):
            raise InputError(
                f"Expected a score, a rating and a length for each segment, but got {len(column)} and {len(values)}: "
                "give all in the same order."
            )
    found = []
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        inside = None if groups is None else [groups[row] for row in rows.tolist()]
        results = [averaged_correlation(one[rows], ratings[rows], inside, statistic=statistic) for one in columns]
        found.append(
            BinAgreement(
                float(values[rows].min()),
                float(values[rows].max()),
                len(rows),
                np.array([one.value for one in results]),
                np.array([one.units for one in results]),
            )
        )
    return found
