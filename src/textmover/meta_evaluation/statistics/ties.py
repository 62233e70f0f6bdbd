"""Pairwise agreement with ties: acc23, τ23 and tie calibration.

A real-valued metric rarely gives two texts the same score. Therefore differences up to a threshold ε count as ties. The
best ε is chosen for each metric, which makes metrics with and without ties comparable.

Reference: Deutsch, Foster and Freitag (2023), Ties Matter: Meta-Evaluating Modern Metrics with Pairwise Accuracy and
Tie Calibration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.statistics.score_arrays import (
    ROUNDING,
    Positions,
    Vector,
    batches,
    chunks,
    group_positions,
    nan_mean,
    paired_scores,
)
from textmover.types import InputError

MOST_PAIRS = 2**25  # most pairs to sort (about 1.5 GB); 8,192 segments in one unit


class PairCounts(NamedTuple):
    """Numbers of segment pairs in one unit, by the order of human and metric scores.

    Attributes:
        concordant: ``C``: same order.
        discordant: ``D``: opposite order.
        ties_both: ``T_both``: tied in both.
        ties_human: ``T_h``: tied in human scores only.
        ties_metric: ``T_m``: tied in metric scores only.
    """

    concordant: int
    discordant: int
    ties_both: int
    ties_human: int
    ties_metric: int

    @property
    def acc23(self) -> float:
        """Return ``(C + T_both)/N``, in [0, 1]; NaN without pairs."""
        return (self.concordant + self.ties_both) / sum(self) if sum(self) else float("nan")

    @property
    def tau23(self) -> float:
        """Return ``(C + T_both - D - T_h - T_m)/N = 2 acc23 - 1``; NaN without pairs."""
        return 2 * self.acc23 - 1


class TieAgreement(NamedTuple):
    """Pairwise agreement with ties, averaged over units.

    Attributes:
        acc23: Mean of ``(C + T_both)/N`` over units; NaN if no unit has a pair.
        tau23: Mean of ``(C + T_both - D - T_h - T_m)/N``, which is ``2 acc23 - 1``.
        epsilon: Largest metric difference that counts as a tie.
        units: Number of averaged units.
        pairs: Number of pairs in these units.
        undefined: Names of the units without pairs, with a single segment.
    """

    acc23: float
    tau23: float
    epsilon: float
    units: int
    pairs: int
    undefined: tuple[str, ...]


class TieCalibration(NamedTuple):
    """Calibrated tie threshold of a metric, and its agreement with and without calibration.

    Attributes:
        epsilon: The smallest ε that maximises the mean acc23 over units.
        agreement: Agreement with this ε.
        uncalibrated: Agreement with ε = 0.
    """

    epsilon: float
    agreement: TieAgreement
    uncalibrated: TieAgreement


def pair_counts(metric_scores: ArrayLike, human_scores: ArrayLike, *, epsilon: float = 0.0) -> PairCounts:
    """Count pairs of segments; ``|Δmetric| ≤ ε`` is a metric tie, ``Δhuman = 0`` a human tie.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        epsilon: Largest difference of the metric that counts as a tie, from 0.

    Raises:
        InputError: If the lists differ in length or contain NaN or infinity, or ε is negative.

    Example:
        >>> pair_counts([0.1, 0.2, 0.9], [1, 1, 2], epsilon=0.1)
        PairCounts(concordant=2, discordant=0, ties_both=1, ties_human=0, ties_metric=0)
    """
    metric, human = paired_scores(metric_scores, human_scores)
    _check_epsilon(epsilon)
    counts = np.zeros(5, dtype=np.int64)
    for columns in chunks(len(metric), len(metric)):
        metric_signs = _signs(metric[:, None] - metric[columns], epsilon)
        human_signs = np.sign(human[:, None] - human[columns])
        product, tied, alike = metric_signs * human_signs, metric_signs == 0, human_signs == 0
        cases = (product > 0, product < 0, alike & tied, alike & ~tied, tied & ~alike)
        counts += [int(case.sum()) for case in cases]
    counts[2] -= len(metric)  # exclude each segment paired with itself
    return PairCounts(*(counts // 2).tolist())  # each pair was counted in both orders


def tie_agreement(
    metric_scores: ArrayLike, human_scores: ArrayLike, units: Sequence[str] | None = None, *, epsilon: float = 0.0
) -> TieAgreement:
    """Compute acc23 and τ23 over the pairs within each unit, averaged over units.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        units: Unit of each segment: its item to compare systems, its system to compare items; ``None`` uses all pairs.
        epsilon: Largest difference of the metric that counts as a tie, from 0.

    Raises:
        InputError: If lists differ in length or contain NaN or infinity, or ε is negative.

    Example:
        >>> tie_agreement([0.1, 0.2, 0.9, 0.5], [1, 1, 0, 2], ["a", "a", "b", "b"], epsilon=0.1).acc23
        0.5
    """
    metric, human = paired_scores(metric_scores, human_scores)
    _check_epsilon(epsilon)
    return _agreement(metric, human, group_positions(units, len(metric)), epsilon)


def calibrate_ties(
    metric_scores: ArrayLike,
    human_scores: ArrayLike,
    units: Sequence[str] | None = None,
    *,
    pair_rate: float = 1.0,
    seed: int = 0,
) -> TieCalibration:
    """Find the tie threshold ε that maximises the mean acc23 over units.

    When ε reaches the difference of a pair, acc23 gains ``1/N_u`` if the pair is a human tie, loses ``1/N_u`` if it is
    concordant, and otherwise stays. So one pass over sorted differences finds the best ε exactly, in ``O(N log N)``.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        units: As for :func:`tie_agreement`; ε is the same for all units.
        pair_rate: Fraction of pairs used to choose ε, above 0 and at most 1; the agreement is always over all pairs.
        seed: Seed of the sampling of pairs.

    Raises:
        InputError: If lists differ in length or are not finite, the rate is out of range, or there are too many pairs.

    Example:
        >>> result = calibrate_ties([0.1, 0.2, 0.9, 0.5], [1, 1, 2, 0])
        >>> round(result.epsilon, 3), round(result.agreement.acc23, 3), round(result.uncalibrated.acc23, 3)
        (0.1, 0.667, 0.5)
    """
    metric, human = paired_scores(metric_scores, human_scores)
    positions = group_positions(units, len(metric))
    epsilon = calibrated_epsilon(metric, human, list(positions.values()), pair_rate=pair_rate, seed=seed)
    return TieCalibration(epsilon, *(_agreement(metric, human, positions, one) for one in (epsilon, 0.0)))


def calibrated_epsilon(
    metric: Vector, human: Vector, units: Sequence[Positions], *, pair_rate: float = 1.0, seed: int = 0
) -> float:
    """Return the smallest ε that maximises the mean acc23 over units on sampled pairs; 0 without pairs."""
    if not 0 < pair_rate <= 1:
        raise InputError(f"Expected the share of pairs to be above 0 and at most 1, but got {pair_rate}: 1 is exact.")
    pairs = sum(len(members) * (len(members) - 1) // 2 for members in units)
    if pairs * pair_rate > MOST_PAIRS:
        raise InputError(
            f"Expected at most {MOST_PAIRS:,} pairs to calibrate ties on, but got {pairs:,}: choose a `pair_rate` of "
            f"{MOST_PAIRS / pairs:.2g} or less, or compare within items."
        )
    differences, changes = [np.zeros(1)], [np.zeros(1)]
    rng = np.random.default_rng(seed)
    for first, second in _pairs(units, pair_rate, rng):
        if not first.shape[-1]:
            continue
        metric_difference, human_difference = metric[first] - metric[second], human[first] - human[second]
        alike = human_difference == 0
        concordant = ~alike & (np.sign(metric_difference) == np.sign(human_difference))
        matters = alike | concordant  # other pairs do not depend on ε
        differences.append(np.abs(metric_difference[matters]))
        changes.append(np.where(alike, 1.0, -1.0)[matters] / first.shape[-1])
    return _best(np.concatenate(differences), np.concatenate(changes))


def unit_agreement(metric: Vector, human: Vector, units: Sequence[Positions], epsilon: float) -> Vector:
    """Return acc23 within each of ``U`` units, ``[U]``; NaN for a unit of one segment."""
    values = np.full(len(units), np.nan)
    for numbers, members in batches(units):
        size = members.shape[1]
        if size < 2:
            continue
        alike = np.zeros(len(numbers))
        for rows in chunks(len(numbers), size**2):
            x, y = metric[members[rows]], human[members[rows]]
            for columns in chunks(size, size * len(x)):
                alike[rows] += agreeing_pairs(x, y, columns, epsilon).sum(axis=(1, 2))
        values[numbers] = (alike - size) / (size * (size - 1))  # excludes each segment paired with itself
    return values


def agreeing_pairs(x: Vector, y: Vector, columns: slice, epsilon: float) -> NDArray[np.bool_]:
    """Return whether metric and human scores order pairs alike, ties included, ``[..., m, columns]``."""
    metric_signs = _signs(x[..., :, None] - x[..., None, columns], epsilon)
    return metric_signs == np.sign(y[..., :, None] - y[..., None, columns])


def _pairs(
    units: Sequence[Positions], pair_rate: float, rng: np.random.Generator
) -> Iterator[tuple[Positions, Positions]]:
    """Yield first and second segments of pairs: ``[U, N]`` for equal-sized units, or samples of a unit ``[N]``."""
    for numbers, members in batches(units):
        size = members.shape[1]
        pairs = size * (size - 1) // 2
        if pair_rate == 1:
            first, second = np.triu_indices(size, 1)
            for rows in chunks(len(numbers), max(1, pairs)):
                yield members[rows][:, first], members[rows][:, second]
            continue
        for unit in members:
            sampled = rng.choice(pairs, size=rng.binomial(pairs, pair_rate), replace=False, shuffle=False)
            # Pair index p of the lower triangle is in row i with i (i - 1)/2 <= p < i (i + 1)/2; rounding is corrected.
            row = ((1 + np.sqrt(1 + 8 * sampled.astype(np.float64))) / 2).astype(np.int64)
            row -= row * (row - 1) // 2 > sampled
            row += row * (row + 1) // 2 <= sampled
            yield unit[row], unit[sampled - row * (row - 1) // 2]


def _best(differences: Vector, changes: Vector) -> float:
    """Return the smallest difference at which the running sum of changes is largest."""
    order = np.argsort(differences, kind="stable")
    ordered = differences[order]
    last = np.append(ordered[1:] > ordered[:-1], True)  # pairs of equal difference change together
    sums = np.cumsum(changes[order])[last]
    best = int(np.argmax(sums >= sums.max() - ROUNDING * max(1.0, float(np.abs(changes).sum()))))
    return float(ordered[last][best])


def _agreement(metric: Vector, human: Vector, positions: dict[str, Positions], epsilon: float) -> TieAgreement:
    values = unit_agreement(metric, human, list(positions.values()), epsilon)
    undefined = tuple(name for name, value in zip(positions, values, strict=True) if np.isnan(value))
    sizes = np.array([len(members) for members in positions.values()], dtype=np.int64)
    pairs = int((sizes * (sizes - 1) // 2).sum())
    mean = float(nan_mean(values, axis=0))
    return TieAgreement(mean, 2 * mean - 1, epsilon, len(positions) - len(undefined), pairs, undefined)


def _signs(differences: Vector, epsilon: float) -> Vector:
    return np.where(np.abs(differences) <= epsilon, 0.0, np.sign(differences))


def _check_epsilon(epsilon: float) -> None:
    if not epsilon >= 0:
        raise InputError(f"Expected epsilon to be at least 0, but got {epsilon}: 0 counts equal scores alone as ties.")
