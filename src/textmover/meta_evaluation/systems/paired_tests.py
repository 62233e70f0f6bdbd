"""Paired tests of two systems on segment scores, with the same samples as sacrebleu for the same seed.

Samples depend only on the number of segments, so several pairs of systems share them.

Reference: Koehn (2004), Statistical Significance Tests for Machine Translation Evaluation (bootstrap); Riezler and
Maxwell (2005), On Some Pitfalls in Automatic Evaluation and Significance Testing for MT (approximate randomisation);
Post (2018), A Call for Clarity in Reporting BLEU Scores (sacrebleu).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from textmover.meta_evaluation.significance.bootstrap import check_draws
from textmover.meta_evaluation.statistics.score_arrays import ROUNDING, Vector, chunks, finite_scores
from textmover.types import InputError

SEED = 12345  # sacrebleu's seed
BLOCK = 32  # fewest samples drawn per call


class SystemComparison(NamedTuple):
    """Comparison of a system with a baseline.

    Attributes:
        baseline: Mean score of the baseline.
        system: Mean score of the system.
        difference: ``system - baseline``.
        p_value: p-value of the test.
        mean: Mean of the system's score over bootstrap samples; NaN without samples.
        margin: Half the width of the system's 95 % interval; NaN without samples.
        baseline_mean: Mean of the baseline's score over bootstrap samples.
        baseline_margin: Half the width of the baseline's 95 % interval.
        test: ``paired-bootstrap`` or ``paired-randomisation``.
        samples: Number of bootstrap samples or of trials.
        seed: Seed of samples or trials.
        low: Lower end of the 95 % interval of the difference; NaN without bootstrap samples.
        high: Upper end of the interval.
    """

    baseline: float
    system: float
    difference: float
    p_value: float
    mean: float
    margin: float
    baseline_mean: float
    baseline_margin: float
    test: str
    samples: int
    seed: int
    low: float = math.nan
    high: float = math.nan

    @property
    def signature(self) -> str:
        """Return the signature of the test, in sacrebleu's format.

        Example:
            >>> paired_bootstrap([0.1, 0.3], [0.2, 0.3]).signature
            'test:paired-bootstrap|samples:1000|seed:12345'
        """
        return comparison_signature(self.test, self.samples, self.seed)


def comparison_signature(test: str, samples: int, seed: int) -> str:
    """Return the signature of a paired test."""
    return f"test:{test}|samples:{samples}|seed:{seed}"


def paired_bootstrap(
    baseline: ArrayLike, system: ArrayLike, *, samples: int = 1000, seed: int = SEED, two_sided: bool = False
) -> SystemComparison:
    """Compare two systems by paired bootstrap: both use the same segments, drawn with replacement.

    ``p = (1 + #(|δ*| - mean |δ*| > |δ|))/(1 + samples)`` with the differences ``δ*`` of the samples, as in sacrebleu.
    This counts one tail of two, so about one in eight pairs of equally good systems has p ≤ .05. ``two_sided`` counts
    both tails, ``|δ* - mean δ*| ≥ |δ|``.

    Args:
        baseline: Segment scores of the baseline, ``[n]``.
        system: Segment scores of the system on the same segments, ``[n]``.
        samples: Number of samples.
        seed: Seed of the samples.
        two_sided: Whether to count both tails.

    Returns:
        p-value and intervals; the p-value is 1 for equal corpus scores or a single segment.

    Raises:
        InputError: If lists differ in length, are empty, or contain NaN or infinity, or there are too few samples.

    Example:
        >>> better = paired_bootstrap([0.1, 0.3, 0.2, 0.4], [0.2, 0.4, 0.3, 0.5])
        >>> round(better.difference, 3), round(better.p_value, 3)
        (0.1, 0.001)
    """
    scores = _scores(baseline, system)
    (comparison,) = bootstrap_pairs(scores, [(0, 1)], samples=samples, seed=seed, two_sided=two_sided)
    # All draws of a single segment are equal.
    return comparison._replace(p_value=1.0) if len(scores[0]) == 1 else comparison


def bootstrap_pairs(
    scores: Sequence[Vector], pairs: Sequence[tuple[int, int]], *, samples: int, seed: int, two_sided: bool = False
) -> list[SystemComparison]:
    """Compute :func:`paired_bootstrap` for several pairs of systems."""
    draws = bootstrap_means(scores, samples, np.random.default_rng(seed))
    comparisons = []
    for first, second in pairs:
        differences = draws[second] - draws[first]
        difference, tolerance = _difference(scores[first], scores[second])
        if two_sided:
            exceeding = int((np.abs(differences - differences.mean()) >= abs(difference) - tolerance).sum())
        else:
            distances = np.abs(differences)
            exceeding = int((distances - distances.mean() > abs(difference) + tolerance).sum())
        comparisons.append(_comparison(scores, (first, second), exceeding, draws, "paired-bootstrap", samples, seed))
    return comparisons


def paired_randomisation(
    baseline: ArrayLike,
    system: ArrayLike,
    *,
    samples: int = 10_000,
    bootstrap_samples: int = 1000,
    seed: int = SEED,
    inclusive: bool = False,
) -> SystemComparison:
    """Compare two systems by approximate randomisation: the scores of a segment are exchanged with probability ½.

    ``p = (1 + #(|δ*| > |δ|))/(1 + samples)`` with the differences ``δ*`` of the trials, as in sacrebleu. If few
    segments differ, many trials give ``|δ|`` itself, and this p-value is too small. ``inclusive`` counts them as well
    (``|δ*| ≥ |δ|``), which makes the test valid for any number of segments.

    Args:
        baseline: Segment scores of the baseline, ``[n]``.
        system: Segment scores of the system on the same segments, ``[n]``.
        samples: Number of trials.
        bootstrap_samples: Number of bootstrap samples for the intervals; 0 disables intervals.
        inclusive: Whether to count trials whose difference equals the observed one.
        seed: Seed of trials and samples.

    Returns:
        p-value and intervals; the p-value is 1 for equal corpus scores.

    Raises:
        InputError: If lists differ in length, are empty, or contain NaN or infinity, or there is no trial.

    Example:
        >>> paired_randomisation([0.1, 0.3, 0.2], [0.2, 0.2, 0.2]).p_value
        1.0
        >>> few = ([0.1, 0.2, 0.3], [0.2, 0.3, 0.4])
        >>> [round(paired_randomisation(*few, inclusive=one).p_value, 2) for one in (False, True)]
        [0.0, 0.25]

    Reference: Phipson and Smyth (2010), Permutation P-values Should Never Be Zero.
    """
    scores = _scores(baseline, system)
    options = {"samples": samples, "bootstrap_samples": bootstrap_samples, "seed": seed}
    return randomise_pairs(scores, [(0, 1)], inclusive=inclusive, **options)[0]


def randomise_pairs(
    scores: Sequence[Vector],
    pairs: Sequence[tuple[int, int]],
    *,
    samples: int,
    bootstrap_samples: int = 0,
    seed: int,
    inclusive: bool = False,
) -> list[SystemComparison]:
    """Compute :func:`paired_randomisation` for several pairs of systems."""
    if samples < 1:
        raise InputError(f"Expected at least one trial, but got {samples}: 10000 is usual.")
    rng = np.random.default_rng(seed)
    segments = len(scores[0])
    halves = np.stack([(scores[first] - scores[second]) / segments for first, second in pairs], axis=1)
    differences, tolerances = np.array([_difference(scores[first], scores[second]) for first, second in pairs]).T
    limits = np.abs(differences) - tolerances if inclusive else np.nextafter(np.abs(differences) + tolerances, np.inf)
    reached = np.zeros(len(pairs), dtype=np.int64)
    for rows in _block_sizes(samples, segments + len(pairs)):
        keeps = rng.integers(2, size=(rows, segments), dtype=bool)  # same call as in sacrebleu
        reached += (np.abs(np.where(keeps, 1.0, -1.0) @ halves) >= limits).sum(axis=0)
    draws = bootstrap_means(scores, bootstrap_samples, rng) if bootstrap_samples else None
    return [
        _comparison(scores, pair, int(count), draws, "paired-randomisation", samples, seed)
        for pair, count in zip(pairs, reached, strict=True)
    ]


def _scores(baseline: ArrayLike, system: ArrayLike) -> tuple[Vector, Vector]:
    first, second = finite_scores(baseline, "scores of the baseline"), finite_scores(system, "scores of the system")
    if len(first) != len(second) or not len(first):
        raise InputError(
            f"Expected scores of both systems on the same segments, but got {len(first)} and {len(second)}: give both "
            "in the same order."
        )
    return first, second


def bootstrap_means(scores: Sequence[Vector], samples: int, rng: np.random.Generator) -> list[Vector]:
    """Return the mean of each list over the same drawn segments, ``[samples]`` each."""
    check_draws(samples)
    segments = len(scores[0])
    means = []
    for rows in _block_sizes(samples, segments):
        drawn = rng.choice(segments, size=(rows, segments), replace=True)
        means.append([one[drawn].mean(axis=1) for one in scores])
    return list(np.hstack(means))


def _block_sizes(samples: int, entries: int) -> Iterator[int]:
    """Yield numbers of samples per call, in multiples of 32, so that random booleans equal those of a single call."""
    for blocks in chunks(-(-samples // BLOCK), BLOCK * entries):
        yield min(samples, blocks.stop * BLOCK) - blocks.start * BLOCK


def _difference(first: Vector, second: Vector) -> tuple[float, float]:
    """Return the difference of the means and its rounding tolerance."""
    tolerance = ROUNDING * max(float(np.abs(first).max()), float(np.abs(second).max()))
    return float(second.mean() - first.mean()), tolerance


def _comparison(
    scores: Sequence[Vector],
    pair: tuple[int, int],
    exceeding: int,
    draws: Sequence[Vector] | None,
    test: str,
    samples: int,
    seed: int,
) -> SystemComparison:
    """Build the result from the number of samples that exceed the difference, and from bootstrap means ``draws``."""
    first, second = (scores[index] for index in pair)
    difference, tolerance = _difference(first, second)
    # sacrebleu's count would give equal scores the smallest p-value.
    p_value = 1.0 if abs(difference) <= tolerance else (1 + exceeding) / (1 + samples)
    intervals, ends = [(math.nan, math.nan)] * 2, (math.nan, math.nan)
    if draws is not None:
        intervals = [_mean_and_margin(draws[index]) for index in reversed(pair)]
        ends = interval_of(draws[pair[1]] - draws[pair[0]])
    means = float(first.mean()), float(second.mean())
    return SystemComparison(*means, difference, p_value, *intervals[0], *intervals[1], test, samples, seed, *ends)


def _mean_and_margin(draws: Vector) -> tuple[float, float]:
    low, high = interval_of(draws)
    return float(draws.mean()), (high - low) / 2


def interval_of(draws: Vector) -> tuple[float, float]:
    """Return the 95 % interval, with sacrebleu's percentiles."""
    ordered = np.sort(draws)
    outside = len(ordered) // 40
    return float(ordered[outside]), float(ordered[len(ordered) - outside - 1])


def mean_intervals(tables: Sequence[Sequence[Vector]], samples: int, seed: int) -> tuple[Vector, Vector]:
    """Return the ends of the 95 % interval of each list's mean; lists of one table share their draws."""
    draws = [one for table in tables for one in bootstrap_means(table, samples, np.random.default_rng(seed))]
    low, high = np.array([interval_of(one) for one in draws]).T
    return low, high
