"""Paired tests of two systems on segment scores, which draw the same samples as sacrebleu's with the same seed.

Samples depend on the number of segments alone, so that several pairs of systems share them.

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
from textmover.meta_evaluation.statistics.scores import ROUNDING, Vector, chunks, finite_scores
from textmover.types import InputError

SEED = 12345  # sacrebleu's seed
TURN = 32  # samples that are drawn together at least


class SystemComparison(NamedTuple):
    """A system beside a baseline.

    Attributes:
        baseline: Mean score of the baseline.
        system: Mean score of the system.
        difference: ``system - baseline``.
        p_value: Of the test.
        mean: Mean of the system's score over bootstrap samples; NaN where none were drawn.
        margin: Half the width of the system's 95 % interval; NaN where none were drawn.
        baseline_mean: The same for the baseline.
        baseline_margin: The same for the baseline.
        test: ``paired-bootstrap`` or ``paired-randomisation``.
        samples: Number of bootstrap samples or of trials.
        seed: Seed of both.
        low: Lower end of the 95 % interval of the difference; NaN where no bootstrap samples were drawn.
        high: Upper end.
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
        """Signature of the test, in sacrebleu's form.

        Example:
            >>> paired_bootstrap([0.1, 0.3], [0.2, 0.3]).signature
            'test:paired-bootstrap|samples:1000|seed:12345'
        """
        return comparison_signature(self.test, self.samples, self.seed)


def comparison_signature(test: str, samples: int, seed: int) -> str:
    """Signature of a paired test, also before it is made."""
    return f"test:{test}|samples:{samples}|seed:{seed}"


def paired_bootstrap(
    baseline: ArrayLike, system: ArrayLike, *, samples: int = 1000, seed: int = SEED, two_sided: bool = False
) -> SystemComparison:
    """Paired bootstrap: segments are drawn with replacement, the same for both systems.

    ``p = (1 + #(|δ*| - mean |δ*| > |δ|))/(1 + samples)`` with the differences ``δ*`` of the samples, as sacrebleu
    counts: one tail of two, so that about one in eight pairs of equally good systems has p ≤ .05. ``two_sided`` counts
    both tails, ``|δ* - mean δ*| ≥ |δ|``.

    Args:
        baseline: Segment scores of the baseline, ``[n]``.
        system: Segment scores of the system on the same segments, ``[n]``.
        samples: Number of samples.
        seed: Seed of the samples.
        two_sided: Whether both tails count.

    Returns:
        p-value and intervals; the p-value of equal corpus scores, or of one segment, is 1.

    Raises:
        InputError: If lists differ in length, are empty, or hold NaN or infinity, or there is no sample.

    Example:
        >>> better = paired_bootstrap([0.1, 0.3, 0.2, 0.4], [0.2, 0.4, 0.3, 0.5])
        >>> round(better.difference, 3), round(better.p_value, 3)
        (0.1, 0.001)
    """
    scores = _scores(baseline, system, samples)
    (found,) = bootstrap_pairs(scores, [(0, 1)], samples=samples, seed=seed, two_sided=two_sided)
    return found._replace(p_value=1.0) if len(scores[0]) == 1 else found  # draws of a single segment do not differ


def bootstrap_pairs(
    scores: Sequence[Vector], pairs: Sequence[tuple[int, int]], *, samples: int, seed: int, two_sided: bool = False
) -> list[SystemComparison]:
    """:func:`paired_bootstrap` of several pairs of systems."""
    draws = bootstrap_means(scores, samples, np.random.default_rng(seed))
    found = []
    for one, other in pairs:
        differences = draws[other] - draws[one]
        difference, room = _difference(scores[one], scores[other])
        if two_sided:
            exceeding = int((np.abs(differences - differences.mean()) >= abs(difference) - room).sum())
        else:
            distances = np.abs(differences)
            exceeding = int((distances - distances.mean() > abs(difference) + room).sum())
        found.append(_comparison(scores, (one, other), exceeding, draws, "paired-bootstrap", samples, seed))
    return found


def paired_randomisation(
    baseline: ArrayLike,
    system: ArrayLike,
    *,
    samples: int = 10_000,
    bootstrap_samples: int = 1000,
    seed: int = SEED,
    inclusive: bool = False,
) -> SystemComparison:
    """Paired approximate randomisation: each segment's two scores are exchanged with probability ½.

    ``p = (1 + #(|δ*| > |δ|))/(1 + samples)`` with the differences ``δ*`` of the trials, as sacrebleu counts them.
    Where few segments differ, many trials give ``|δ|`` itself, and this p-value is far too small. ``inclusive`` counts
    them too (``|δ*| ≥ |δ|``), which makes a valid test of any number of segments.

    Args:
        baseline: Segment scores of the baseline, ``[n]``.
        system: Segment scores of the system on the same segments, ``[n]``.
        samples: Number of trials.
        bootstrap_samples: Number of bootstrap samples for the intervals; 0 leaves them out.
        inclusive: Whether trials count that give a difference as large as the one that was found.
        seed: Seed of trials and samples.

    Returns:
        p-value and intervals; the p-value of equal corpus scores is 1.

    Raises:
        InputError: If lists differ in length, are empty, or hold NaN or infinity, or there is no trial.

    Example:
        >>> paired_randomisation([0.1, 0.3, 0.2], [0.2, 0.2, 0.2]).p_value
        1.0
        >>> few = ([0.1, 0.2, 0.3], [0.2, 0.3, 0.4])
        >>> [round(paired_randomisation(*few, inclusive=one).p_value, 2) for one in (False, True)]
        [0.0, 0.25]

    Reference: Phipson and Smyth (2010), Permutation P-values Should Never Be Zero.
    """
    scores = _scores(baseline, system, samples)
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
    """:func:`paired_randomisation` of several pairs of systems."""
    rng = np.random.default_rng(seed)
    segments = len(scores[0])
    halves = np.stack([(scores[one] - scores[other]) / segments for one, other in pairs], axis=1)
    differences, rooms = np.array([_difference(scores[one], scores[other]) for one, other in pairs]).T
    limits = np.abs(differences) - rooms if inclusive else np.nextafter(np.abs(differences) + rooms, np.inf)
    reached = np.zeros(len(pairs), dtype=np.int64)
    for rows in _turns(samples, segments + len(pairs)):
        keeps = rng.integers(2, size=(rows, segments), dtype=bool)  # as sacrebleu draws them
        reached += (np.abs(np.where(keeps, 1.0, -1.0) @ halves) >= limits).sum(axis=0)
    draws = bootstrap_means(scores, bootstrap_samples, rng) if bootstrap_samples else None
    return [
        _comparison(scores, pair, int(count), draws, "paired-randomisation", samples, seed)
        for pair, count in zip(pairs, reached, strict=True)
    ]


def _scores(baseline: ArrayLike, system: ArrayLike, samples: int) -> tuple[Vector, Vector]:
    first, second = finite_scores(baseline, "scores of the baseline"), finite_scores(system, "scores of the system")
    if len(first) != len(second) or not len(first):
        raise InputError(
            f"Expected scores of both systems on the same segments, but got {len(first)} and {len(second)}: give both "
            "in the same order."
        )
    if samples < 1:
        raise InputError(f"Expected at least one sample, but got {samples}: 1000 is usual.")
    return first, second


def bootstrap_means(scores: Sequence[Vector], samples: int, rng: np.random.Generator) -> list[Vector]:
    """Mean of each list over the same drawn segments, ``[samples]`` each."""
    check_draws(samples)
    segments = len(scores[0])
    means = []
    for rows in _turns(samples, segments):
        drawn = rng.choice(segments, size=(rows, segments), replace=True)
        means.append([one[drawn].mean(axis=1) for one in scores])
    return list(np.hstack(means))


def _turns(samples: int, entries: int) -> Iterator[int]:
    """Numbers of samples to draw at a time, in multiples of 32 so that the random booleans are those of one call."""
    for blocks in chunks(-(-samples // TURN), TURN * entries):
        yield min(samples, blocks.stop * TURN) - blocks.start * TURN


def _difference(first: Vector, second: Vector) -> tuple[float, float]:
    """Difference of the means, and by how much it may be off by rounding."""
    room = ROUNDING * max(float(np.abs(first).max()), float(np.abs(second).max()))
    return float(second.mean() - first.mean()), room


def _comparison(
    scores: Sequence[Vector],
    pair: tuple[int, int],
    exceeding: int,
    draws: Sequence[Vector] | None,
    test: str,
    samples: int,
    seed: int,
) -> SystemComparison:
    """Result for two systems with this many samples of a larger difference; draws are bootstrap means."""
    first, second = (scores[place] for place in pair)
    difference, room = _difference(first, second)
    # sacrebleu's count would call equal scores the most significant difference there is.
    p_value = 1.0 if abs(difference) <= room else (1 + exceeding) / (1 + samples)
    intervals, ends = [(math.nan, math.nan)] * 2, (math.nan, math.nan)
    if draws is not None:
        intervals = [_mean_and_margin(draws[place]) for place in reversed(pair)]
        ends = interval_of(draws[pair[1]] - draws[pair[0]])
    means = float(first.mean()), float(second.mean())
    return SystemComparison(*means, difference, p_value, *intervals[0], *intervals[1], test, samples, seed, *ends)


def _mean_and_margin(draws: Vector) -> tuple[float, float]:
    low, high = interval_of(draws)
    return float(draws.mean()), (high - low) / 2


def interval_of(draws: Vector) -> tuple[float, float]:
    """The 95 % interval, by sacrebleu's choice of percentiles."""
    ordered = np.sort(draws)
    outside = len(ordered) // 40
    return float(ordered[outside]), float(ordered[len(ordered) - outside - 1])


def mean_intervals(tables: Sequence[Sequence[Vector]], samples: int, seed: int) -> tuple[Vector, Vector]:
    """Ends of the 95 % interval of each list's mean; lists of one table are drawn together."""
    draws = [one for table in tables for one in bootstrap_means(table, samples, np.random.default_rng(seed))]
    low, high = np.array([interval_of(one) for one in draws]).T
    return low, high
