"""Agreement with human preferences between two outputs for the same item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.statistics.score_arrays import ROUNDING, finite_scores, group_positions, label_numbers
from textmover.types import InputError, plural


class PreferenceAgreement(NamedTuple):
    """Agreement of a metric with preferences.

    Attributes:
        tau: ``(C - D)/(C + D)``, in [-1, 1]; NaN without preferences.
        concordant: ``C``: number of preferences where the better output scores higher.
        discordant: ``D``: number of all others, including metric ties.
        ties: Number of metric ties.
    """

    tau: float
    concordant: int
    discordant: int
    ties: int


def darr_tau(scores: ArrayLike, preferences: ArrayLike) -> PreferenceAgreement:
    """Compute the Kendall-like τ of WMT 2018 and 2019 (daRR): ``τ = (C - D)/(C + D)``; metric ties are discordant.

    Args:
        scores: Metric score of each segment, higher is better, ``[n]``.
        preferences: Row indices of the better and the worse output of each pair, ``[m, 2]``.

    Raises:
        InputError: If scores contain NaN or infinity, or a pair has an invalid row or the same row twice.

    Example:
        >>> darr_tau([0.9, 0.5, 0.5], [[0, 1], [1, 2], [0, 2], [0, 1]])
        PreferenceAgreement(tau=0.5, concordant=3, discordant=1, ties=1)

    Reference: Ma et al. (2018), Results of the WMT18 Metrics Shared Task.
    """
    vector = finite_scores(scores, "metric scores")
    pairs = preference_pairs(preferences, len(vector))
    better, worse = vector[pairs[:, 0]], vector[pairs[:, 1]]
    concordant = int((better > worse).sum())
    discordant = len(pairs) - concordant
    tau = (concordant - discordant) / len(pairs) if len(pairs) else float("nan")
    return PreferenceAgreement(tau, concordant, discordant, int((better == worse).sum()))


def grouped_darr_tau(
    scores: ArrayLike, preferences: ArrayLike, groups: Sequence[str]
) -> dict[str, PreferenceAgreement]:
    """Compute :func:`darr_tau` by group, in order of first appearance; NaN for a group without preferences.

    Args:
        scores: Metric score of each segment, higher is better, ``[n]``.
        preferences: Row indices of the better and the worse output of each pair, ``[m, 2]``.
        groups: Group of each segment.

    Raises:
        InputError: As for :func:`darr_tau`, or if the rows of a pair are in two groups.

    Example:
        >>> by_group = grouped_darr_tau([1, 2, 3, 4], [[1, 0], [2, 3]], ["a", "a", "b", "b"])
        >>> {group: one.tau for group, one in by_group.items()}
        {'a': 1.0, 'b': -1.0}
    """
    vector = finite_scores(scores, "metric scores")
    pairs = preference_pairs(preferences, len(vector))
    positions = group_positions(groups, len(vector))
    sides = label_numbers(groups)[pairs]
    bad = np.flatnonzero(sides[:, 0] != sides[:, 1])
    if len(bad):
        raise InputError(
            f"Expected both rows of a preference to be in one group, but {len(bad)} of {plural(len(pairs), 'pair')} "
            f"cross groups, first rows {pairs[bad[0]].tolist()}: leave those out."
        )
    return {group: darr_tau(vector, pairs[sides[:, 0] == index]) for index, group in enumerate(positions)}


def preferences_from_ratings(ratings: ArrayLike, items: Sequence[str], *, least: float = 25.0) -> NDArray[np.int64]:
    """Derive preferences from ratings: pairs of outputs for an item whose ratings differ by at least ``least``.

    Args:
        ratings: Raw mean rating of each output, such as 0 to 100, ``[n]``; NaN if missing.
        items: Item of each output; include the group's name if groups share item names.
        least: Smallest rating difference of a preference, above 0.

    Returns:
        Rows of the better and of the worse output of each pair, ``[m, 2]``.

    Raises:
        InputError: If lists differ in length or ``least`` is not above 0.

    Example:
        >>> preferences_from_ratings([80, 40, 60, 10], ["s1", "s1", "s1", "s2"]).tolist()
        [[0, 1]]
    """
    if not least > 0:
        raise InputError(f"Expected the smallest difference to be above 0, but got {least}: WMT uses 25 of 100.")
    values = np.asarray(ratings, dtype=np.float64)
    least -= ROUNDING * float(np.abs(values[np.isfinite(values)]).max(initial=least))
    pairs = []
    for members in group_positions(items, len(values)).values():
        first, second = np.triu_indices(len(members), 1)
        difference = values[members[first]] - values[members[second]]
        pairs.append(np.stack([members[first], members[second]], axis=1)[difference >= least])
        pairs.append(np.stack([members[second], members[first]], axis=1)[difference <= -least])
    return np.concatenate(pairs) if pairs else np.zeros((0, 2), dtype=np.int64)


def preference_pairs(preferences: ArrayLike, n: int) -> NDArray[np.int64]:
    """Validate that each preference has two of ``n`` rows, and return preferences as int64 ``[m, 2]``."""
    pairs = np.asarray(preferences)
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(
            f"Expected preferences as rows of numbers, shape [m, 2], but got {pairs.dtype} {list(pairs.shape)}: "
            "give the row of the better and of the worse output of each pair."
        )
    wrong = (pairs < 0).any(axis=1) | (pairs >= n).any(axis=1) | (pairs[:, 0] == pairs[:, 1])
    if wrong.any():
        raise InputError(
            f"Expected preferences to name two of {n} rows (counted from 0), but {int(wrong.sum())} of {len(pairs)} do "
            f"not, the first {pairs[wrong][0].tolist()}: correct them."
        )
    return pairs.astype(np.int64)
