"""Differences under permutations against a loop over them, with the correlations that test_kernel.py checks."""

import itertools
import math

import numpy as np
import pytest

from textmover.meta_evaluation.statistics import score_arrays
from textmover.meta_evaluation.statistics import swapped_correlation as swapping
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS
from textmover.meta_evaluation.statistics.swapped_correlation import swapped_correlations


def by_loop(scores, human, units, signs, statistic):
    found = []
    for a, b in itertools.combinations(range(len(scores)), 2):
        for row in signs:
            first, second = np.where(row > 0, scores[a], scores[b]), np.where(row > 0, scores[b], scores[a])
            differences = []
            for unit in units:
                one, other = (CORRELATIONS[statistic](scores[unit], human[unit]) for scores in (first, second))
                differences += [] if np.isnan(one - other) else [one - other]
            found.append(np.mean(differences) if differences else math.nan)
    return np.reshape(found, (-1, len(signs)))


def example(sizes, levels, seed=0, metrics=3, permutations=15):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    units = np.split(rng.permutation(n), np.cumsum(sizes)[:-1])
    scores = rng.integers(levels, size=(metrics, n)) / 7 - 1
    human = rng.integers(4, size=n) / 3
    return scores, human, units, rng.choice([-1, 1], size=(permutations, n)).astype(np.int8)


@pytest.mark.parametrize("statistic", CORRELATIONS)
class TestAgainstALoop:
    @pytest.mark.parametrize("levels", [2, 3, 6, 10_000])
    @pytest.mark.parametrize("sizes", [[3, 3, 3, 4, 2, 1], [9], [5, 7, 2, 30]], ids=str)
    def test_values(self, statistic, sizes, levels):
        data = example(sizes, levels)
        np.testing.assert_allclose(swapped_correlations(*data, statistic), by_loop(*data, statistic), atol=1e-12)

    def test_chunks_do_not_matter(self, statistic, monkeypatch):
        data = example([8, 8, 8, 20], 5)
        whole = swapped_correlations(*data, statistic)
        for module in (score_arrays, swapping):
            monkeypatch.setattr(module, "CHUNK_ENTRIES", 50)
        np.testing.assert_allclose(swapped_correlations(*data, statistic), whole, atol=1e-12)

    def test_nothing_is_defined(self, statistic):
        scores, human, units, signs = example([4, 4], 5)
        assert np.isnan(swapped_correlations(scores, human * 0, units, signs, statistic)).all()
        assert np.isnan(swapped_correlations(scores * 0, human, units, signs, statistic)).all()

    def test_laws(self, statistic):
        """Nothing exchanged: the difference as it is; everything exchanged: its negative; one metric twice: 0."""
        scores, human, units, _ = example([12, 9], 10_000)
        ones = np.ones((1, 21))
        scores[2] = scores[0]
        found = swapped_correlations(scores, human, units, np.concatenate([ones, -ones]), statistic)
        np.testing.assert_allclose(found[:, 1], -found[:, 0], atol=1e-13)
        assert found[1] == pytest.approx([0, 0], abs=1e-13)
        assert found[0, 0] == pytest.approx(-found[2, 0])


def test_outliers_cost_no_digits():
    """Both metrics have one far away segment, which hides the spread of the others in a sum of squares."""
    scores, human, units, signs = example([20], 10_000)
    scores[:, 0] = 1e7
    scores[0, 1:] *= 1e-3
    np.testing.assert_allclose(
        swapped_correlations(scores, human, units, signs, "pearson"),
        by_loop(scores, human, units, signs, "pearson"),
        atol=1e-9,
    )
