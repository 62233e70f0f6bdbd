"""Several systems on the same segments: which is better, how sure that is, and where they differ."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.significance.permutation import significance_clusters
from textmover.meta_evaluation.statistics.scores import check_segments, finite_scores
from textmover.meta_evaluation.systems.paired_tests import (
    SEED,
    SystemComparison,
    bootstrap_pairs,
    mean_intervals,
    randomise_pairs,
)
from textmover.types import InputError, Shown, View, plural


class SystemPair(NamedTuple):
    """Two systems, segment by segment.

    Attributes:
        first: Name of the system that was named first.
        second: Name of the other.
        bootstrap: Paired bootstrap with ``first`` as the baseline, with the interval of the difference.
        randomisation: Paired approximate randomisation, without intervals.
        wins: Segments on which ``second`` is better.
        ties: Segments on which their scores differ by no more than a tie allows.
        losses: Segments on which ``first`` is better.
        differing: Segments on which their scores are not the same number.
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
        """The least two-sided p-value that so many differing segments allow: 2 of all ways to exchange their scores."""
        return min(1.0, 2.0 ** (1 - self.differing))


class Decision(NamedTuple):
    """Decision of the two tests about two systems.

    Attributes:
        winner: The system that both find better; ``None`` where there is none.
        agreed: Whether both find a difference, or neither does.
    """

    winner: str | None
    agreed: bool


@dataclass(frozen=True, eq=False, repr=False)
class ComparedSystems(Shown):
    """Comparison of systems on the same segments.

    Attributes:
        systems: Their names, as they were given.
        scores: Segment scores, float64 ``[S, n]``.
        means: Mean score of each, ``[S]``.
        low: Lower end of the 95 % bootstrap interval of each mean, ``[S]``.
        high: Upper end.
        ranks: Of each, from 1: systems share a rank where randomisation does not tell them apart, or could not.
        pairs: One for each two systems, in the order in which they were given.
        higher_is_better: False for distances.
        significant: Largest p-value that is taken for significant.
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
        """Show the systems, the best first."""
        bounds = [f"{low:.4f} to {high:.4f}" for low, high in zip(self.low, self.high, strict=True)]
        rows = [(self.systems[one], str(self.ranks[one]), f"{self.means[one]:.4f}", bounds[one]) for one in self.order]
        apart = sum(self.decision(pair).winner is not None for pair in self.pairs)
        size = f"{plural(len(self.systems), 'system')} on {plural(self.scores.shape[1], 'segment')}"
        headline = f"{size}; both tests tell {apart} of {plural(len(self.pairs), 'pair')} apart"
        return View(headline, ("system", "rank", "mean", "95 % interval"), rows)

    @property
    def order(self) -> list[int]:
        """The systems from best to worst."""
        best_first = -self.means if self.higher_is_better else self.means
        return np.argsort(best_first, kind="stable").tolist()

    def best_first(self, segment: int) -> list[int]:
        """The systems from the best to the worst score of a segment."""
        scores = self.scores[:, segment]
        return np.argsort(-scores if self.higher_is_better else scores, kind="stable").tolist()

    def decision(self, pair: SystemPair) -> Decision:
        """Return the better of two systems if both tests find it and enough segments differ.

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
        """Systems that both tests find worse than the first one."""
        first = [pair for pair in self.pairs if pair.first == self.systems[0]]
        return tuple(pair.second for pair in first if self.decision(pair).winner == pair.first)

    def differing(self, number: int) -> list[int]:
        """The segments on which the best and the worst score are furthest apart, the largest difference first."""
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

    A system's score is the mean over all segments. Each two are compared by paired bootstrap and by paired approximate
    randomisation, with the seed and the samples that sacrebleu draws; p-values are not corrected for the number of
    comparisons. Ranks come from the two-sided p-values of randomisation by the rule of
    :func:`~textmover.meta_evaluation.significance_clusters`. Where two systems differ on so few segments that no
    two-sided test could tell them apart, neither ranks nor decisions do, whatever sacrebleu's way of counting gives.

    Args:
        scores: Scores of each of ``S`` systems on the same ``n`` segments, by its name.
        samples: Bootstrap samples.
        trials: Trials of the randomisation.
        seed: Seed of both, for each two systems again.
        tie: Largest difference between two scores of a segment that counts as a tie.
        significant: Largest p-value that sets two systems apart.
        higher_is_better: False for distances.

    Raises:
        InputError: If there are fewer than two systems, they have not as many scores, or a score is not finite.

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
    lengths = {len(one) for one in table}
    if len(lengths) > 1:
        other = next(place for place, one in enumerate(table) if len(one) != len(table[0]))
        raise InputError(
            f"Expected all systems on the same segments, but got {plural(len(table[0]), 'score')} of {names[0]} and "
            f"{len(table[other])} of {names[other]}."
        )
    values = np.stack(table)
    check_segments(values)
    pairs = []
    p_values = np.ones((len(names), len(names)))
    better = values if higher_is_better else -values
    places = list(itertools.combinations(range(len(names)), 2))
    bootstraps = bootstrap_pairs(table, places, samples=samples, seed=seed)
    randomisations = randomise_pairs(table, places, samples=trials, seed=seed)
    for (one, other), bootstrap, randomisation in zip(places, bootstraps, randomisations, strict=True):
        gap = better[other] - better[one]
        wins, losses = int((gap > tie).sum()), int((gap < -tie).sum())
        ties = values.shape[1] - wins - losses
        differing = int((gap != 0).sum())
        pair = SystemPair(names[one], names[other], bootstrap, randomisation, wins, ties, losses, differing)
        pairs.append(pair)
        winner, loser = (other, one) if better[other].mean() > better[one].mean() else (one, other)
        p_values[winner, loser] = max(randomisation.p_value, pair.least)
    # The samples of the tests, so that intervals and p-values are of one piece.
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
