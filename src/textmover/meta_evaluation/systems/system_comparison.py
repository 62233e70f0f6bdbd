"""Comparison of several systems on the same segments: means, ranks, pairwise tests and differing segments."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.significance.significance_tests import significance_clusters
from textmover.meta_evaluation.statistics.score_arrays import ROUNDING, check_segments, finite_scores
from textmover.meta_evaluation.systems.paired_tests import (
    SEED,
    SystemComparison,
    bootstrap_pairs,
    mean_intervals,
    randomise_pairs,
)
from textmover.types import InputError, Shown, View, fixed, plural


class SystemPair(NamedTuple):
    """Pairwise comparison of two systems by segment.

    Attributes:
        first: Name of the first system.
        second: Name of the second system.
        bootstrap: Paired bootstrap with ``first`` as the baseline, with the interval of the difference.
        randomisation: Paired approximate randomisation, without intervals.
        wins: Number of segments on which ``second`` is better.
        ties: Number of segments on which the difference is within the tie threshold.
        losses: Number of segments on which ``first`` is better.
        differing: Number of segments with unequal scores.
    """

    first: str
    second: str
    bootstrap: SystemComparison
    randomisation: SystemComparison
    wins: int
    ties: int
    losses: int
    differing: int

    @property
    def least(self) -> float:
        """Return the smallest possible two-sided p-value for this number of differing segments, ``2 / 2**n``."""
        return min(1.0, 2.0 ** (1 - self.differing))


class Decision(NamedTuple):
    """Joint decision of both tests about two systems.

    Attributes:
        winner: System that both tests find significantly better, or ``None``.
        agreed: Whether both tests find a difference, or neither does.
    """

    winner: str | None
    agreed: bool


@dataclass(frozen=True, eq=False, repr=False)
class ComparedSystems(Shown):
    """Comparison of systems on the same segments.

    Attributes:
        systems: System names, in input order.
        scores: Segment scores, float64 ``[S, n]``.
        means: Mean score of each system, ``[S]``.
        low: Lower end of the 95 % bootstrap interval of each mean, ``[S]``.
        high: Upper end of the interval.
        ranks: Rank of each system, from 1; systems that randomisation does not or cannot distinguish share a rank.
        pairs: Comparison of each pair of systems, in input order.
        higher_is_better: False for distances.
        significant: Largest p-value considered significant.
    """

    systems: tuple[str, ...]
    scores: NDArray[np.float64]
    means: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    ranks: tuple[int, ...]
    pairs: tuple[SystemPair, ...]
    higher_is_better: bool
    significant: float

    def view(self) -> View:
        """Show the systems, best first."""
        bounds = [f"{fixed(low, 4)} to {fixed(high, 4)}" for low, high in zip(self.low, self.high, strict=True)]
        rows = [(self.systems[one], str(self.ranks[one]), fixed(self.means[one], 4), bounds[one]) for one in self.order]
        apart = sum(self.decision(pair).winner is not None for pair in self.pairs)
        size = f"{plural(len(self.systems), 'system')} on {plural(self.scores.shape[1], 'segment')}"
        headline = f"{size}; both tests find differences in {apart} of {plural(len(self.pairs), 'pair')}"
        return View(headline, ("system", "rank", "mean", "95 % interval"), rows)

    @property
    def order(self) -> list[int]:
        """Return the system indices from best to worst."""
        best_first = -self.means if self.higher_is_better else self.means
        return np.argsort(best_first, kind="stable").tolist()

    def best_first(self, segment: int) -> list[int]:
        """Return the system indices from best to worst score of a segment."""
        scores = self.scores[:, segment]
        return np.argsort(-scores if self.higher_is_better else scores, kind="stable").tolist()

    def decision(self, pair: SystemPair) -> Decision:
        """Return the better of two systems if both tests are significant and enough segments differ.

        Args:
            pair: One of :attr:`pairs`.
        """
        tests = (pair.bootstrap, pair.randomisation)
        significant = [max(one.p_value, pair.least) <= self.significant for one in tests]
        better = (pair.bootstrap.difference > 0) == self.higher_is_better
        winner = pair.second if better else pair.first
        return Decision(winner if all(significant) else None, significant[0] == significant[1])

    @property
    def worse(self) -> tuple[str, ...]:
        """Return the systems that both tests find worse than the first one."""
        first = [pair for pair in self.pairs if pair.first == self.systems[0]]
        return tuple(pair.second for pair in first if self.decision(pair).winner == pair.first)

    def differing(self, number: int) -> list[int]:
        """Return the segments with the largest range of scores, in descending order."""
        spread = self.scores.max(axis=0) - self.scores.min(axis=0)
        return [row for row in np.argsort(-spread, kind="stable")[:number].tolist() if spread[row] > 0]


def compare_systems(
    scores: Mapping[str, ArrayLike],
    *,
    samples: int = 1000,
    trials: int = 10_000,
    seed: int = SEED,
    tie: float = 0.0,
    significant: float = 0.05,
    higher_is_better: bool = True,
) -> ComparedSystems:
    """Compare systems by their segment scores.

    A system's score is the mean over all segments. Each pair is compared by paired bootstrap and by paired approximate
    randomisation, with sacrebleu's seed and samples; p-values are not corrected for multiple comparisons. Ranks are
    computed from the randomisation p-values by :func:`~textmover.meta_evaluation.significance_clusters`. If two systems
    differ on too few segments for any two-sided test to be significant, ranks and decisions do not distinguish them.

    Args:
        scores: Scores of ``S`` systems on the same ``n`` segments, by system name.
        samples: Number of bootstrap samples.
        trials: Number of randomisation trials.
        seed: Seed of bootstrap and randomisation, reused for each pair.
        tie: Largest score difference that counts as a tie.
        significant: Largest p-value considered significant.
        higher_is_better: False for distances.

    Raises:
        InputError: If there are fewer than two systems, their numbers of scores differ, or a score is not finite.

    Example:
        >>> found = compare_systems({"A": [0.2, 0.4, 0.3, 0.5], "B": [0.3, 0.5, 0.4, 0.1]}, samples=100, trials=100)
        >>> found.pairs[0].wins, found.pairs[0].losses, found.differing(1)
        (3, 1, [3])

    Reference: Koehn (2004); Riezler and Maxwell (2005); Post (2018).
    """
    if len(scores) < 2:
        raise InputError(f"Expected at least two systems to compare, but got {len(scores)}: name another.")
    if not tie >= 0:
        raise InputError(f"Expected `tie` to be 0 or above, but got {tie}.")
    names = tuple(scores)
    table = [finite_scores(scores[name], f"scores of {name}") for name in names]
    lengths = {len(first) for first in table}
    if len(lengths) > 1:
        second = next(place for place, first in enumerate(table) if len(first) != len(table[0]))
        raise InputError(
            f"Expected all systems on the same segments, but got {plural(len(table[0]), 'score')} of {names[0]} and "
            f"{len(table[second])} of {names[second]}."
        )
    values = np.stack(table)
    check_segments(values)
    pairs = []
    p_values = np.ones((len(names), len(names)))
    better = values if higher_is_better else -values
    largest_tie = tie and tie + ROUNDING * np.abs(values).max()  # .4 and .3 differ by .1
    index_pairs = list(itertools.combinations(range(len(names)), 2))
    bootstraps = bootstrap_pairs(table, index_pairs, samples=samples, seed=seed)
    randomisations = randomise_pairs(table, index_pairs, samples=trials, seed=seed)
    for (first, second), bootstrap, randomisation in zip(index_pairs, bootstraps, randomisations, strict=True):
        difference = better[second] - better[first]
        wins, losses = int((difference > largest_tie).sum()), int((difference < -largest_tie).sum())
        ties = values.shape[1] - wins - losses
        differing = int((difference != 0).sum())
        pair = SystemPair(names[first], names[second], bootstrap, randomisation, wins, ties, losses, differing)
        pairs.append(pair)
        winner, loser = (second, first) if better[second].mean() > better[first].mean() else (first, second)
        p_values[winner, loser] = max(randomisation.p_value, pair.least)
    # Same samples as the tests, so that intervals and p-values are consistent.
    low, high = mean_intervals([table], samples, seed)
    ranks = significance_clusters(better.mean(axis=1), p_values, threshold=significant)
    return ComparedSystems(
        systems=names,
        scores=values,
        means=values.mean(axis=1),
        low=low,
        high=high,
        ranks=tuple(rank or 1 for rank in ranks),
        pairs=tuple(pairs),
        higher_is_better=higher_is_better,
        significant=significant,
    )
