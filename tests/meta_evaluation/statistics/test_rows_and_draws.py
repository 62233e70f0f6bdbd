"""Correlations of rows and of draws against SciPy, one row or draw at a time."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation.statistics.correlation import CORRELATIONS, accuracy, pearson

SCIPY = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
    "kendall-c": functools.partial(stats.kendalltau, variant="c"),
}


def by_scipy(statistic, x, y):
    defined = len(x) > 2 and np.ptp(x) and np.ptp(y)
    return SCIPY[statistic](x, y).statistic if defined else math.nan


def accuracy_by_hand(x, y):
    pairs = itertools.combinations(range(len(x)), 2)
    return np.mean([np.sign(x[i] - x[j]) == np.sign(y[i] - y[j]) for i, j in pairs])


@pytest.mark.parametrize("statistic", SCIPY)
class TestRows:
    @pytest.mark.parametrize("levels", [2, 4, 1000])
    @pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 20, 70])
    def test_against_scipy(self, statistic, size, levels):
        x, y = np.random.default_rng(size).integers(levels, size=(2, 40, size)) / 7
        for value, one, other in zip(CORRELATIONS[statistic](x, y), x, y, strict=True):
            assert value == pytest.approx(by_scipy(statistic, one, other), abs=1e-13, nan_ok=True)


@pytest.mark.parametrize("levels", [2, 1000])
def test_accuracy(levels):
    x, y = np.random.default_rng(0).integers(levels, size=(2, 10, 7))
    expected = [accuracy_by_hand(one, other) for one, other in zip(x, y, strict=True)]
    np.testing.assert_allclose(accuracy(x, y), expected)
    assert np.isnan(accuracy(x[:, :1], y[:, :1])).all()
    assert np.isnan(accuracy(x, 0 * y)).all()
    assert (accuracy(0 * x, np.arange(7)) == 0).all()
    absent = np.where(np.arange(10)[:, None] == 4, np.nan, x)
    np.testing.assert_array_equal(accuracy(absent, absent), [np.nan if row == 4 else 1 for row in range(10)])


@pytest.mark.parametrize("statistic", SCIPY)
class TestDrawnCorrelations:
    @pytest.mark.parametrize("levels", [3, 1000])
    @pytest.mark.parametrize("n", [3, 8, 40])
    def test_against_scipy_on_repeated_segments(self, statistic, n, levels):
        rng = np.random.default_rng(n)
        x, y = rng.integers(levels, size=(2, n)) / 7
        counts = rng.multinomial(n, np.full(n, 1 / n), size=50)
        result = CORRELATIONS[statistic](x, y, counts)
        for value, count in zip(result, counts, strict=True):
            expected = by_scipy(statistic, np.repeat(x, count), np.repeat(y, count))
            assert value == pytest.approx(expected, abs=1e-13, nan_ok=True)

    def test_not_defined(self, statistic):
        x, y = np.array([0.1, 0.1, 0.7]), np.array([1.0, 2.0, 3.0])
        counts = np.array([[5, 4, 0], [0, 0, 9], [1, 0, 1], [0, 0, 0], [2, 0, 1]])
        assert np.isnan(CORRELATIONS[statistic](x, y, counts)).tolist() == [True, True, True, True, False]
        assert np.isnan(CORRELATIONS[statistic](np.zeros(3), y, counts)).all()

    @pytest.mark.parametrize("scale", [1e-300, 1e300])
    def test_scale(self, statistic, scale):
        human, worse = np.random.default_rng(0).normal(size=(2, 20))
        counts = np.random.default_rng(0).integers(3, size=(5, 20))
        drawn = CORRELATIONS[statistic]
        np.testing.assert_allclose(drawn(scale * worse, human, counts), drawn(worse, human, counts), atol=1e-12)


@pytest.mark.parametrize("outlier", [1e3, 1e6, 1e9])
def test_outliers_that_are_not_drawn_cost_no_digits(outlier):
    """Sums of squares are those of the outlier; a draw without it is computed by itself."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = x + rng.normal(size=30)
    x[0] = outlier
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=100)
    for value, count in zip(pearson(x, y, counts), counts, strict=True):
        expected = stats.pearsonr(np.repeat(x, count), np.repeat(y, count)).statistic
        assert value == pytest.approx(expected, abs=1e-16 * outlier + 1e-12)
