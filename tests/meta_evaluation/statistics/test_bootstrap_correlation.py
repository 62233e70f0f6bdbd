"""Correlations of draws against SciPy on the repeated segments."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation.statistics.bootstrap_correlation import (
    drawn_kendall,
    drawn_kendall_c,
    drawn_pearson,
    drawn_spearman,
)

SCIPY = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
    "kendall-c": functools.partial(stats.kendalltau, variant="c"),
}
DRAWN = {
    "pearson": drawn_pearson,
    "spearman": drawn_spearman,
    "kendall": drawn_kendall,
    "kendall-c": drawn_kendall_c,
}


@pytest.mark.parametrize("statistic", SCIPY)
class TestDrawnCorrelations:
    @pytest.mark.parametrize("levels", [3, 1000])
    @pytest.mark.parametrize("n", [3, 8, 40])
    def test_against_scipy_on_repeated_segments(self, statistic, n, levels):
        rng = np.random.default_rng(n)
        x, y = rng.integers(levels, size=(2, n)) / 7
        counts = rng.multinomial(n, np.full(n, 1 / n), size=50)
        result = DRAWN[statistic](x, y, counts)
        for value, count in zip(result, counts, strict=True):
            drawn_x, drawn_y = np.repeat(x, count), np.repeat(y, count)
            if np.ptp(drawn_x) and np.ptp(drawn_y):
                assert value == pytest.approx(SCIPY[statistic](drawn_x, drawn_y).statistic, abs=1e-13)
            else:
                assert math.isnan(value)

    def test_every_segment_once(self, statistic):
        human, worse = np.random.default_rng(0).normal(size=(2, 50))
        (value,) = DRAWN[statistic](worse, human, np.ones((1, 50), dtype=np.int64))
        assert value == pytest.approx(SCIPY[statistic](worse, human).statistic, abs=1e-14)

    def test_not_defined(self, statistic):
        x, y = np.array([0.1, 0.1, 0.7]), np.array([1.0, 2.0, 3.0])
        counts = np.array([[5, 4, 0], [0, 0, 9], [1, 0, 1], [0, 0, 0], [2, 0, 1]])
        assert np.isnan(DRAWN[statistic](x, y, counts)).tolist() == [True, True, True, True, False]
        assert np.isnan(DRAWN[statistic](np.zeros(3), y, counts)).all()

    @pytest.mark.parametrize("scale", [1e-300, 1e300])
    def test_scale(self, statistic, scale):
        human, worse = np.random.default_rng(0).normal(size=(2, 20))
        counts = np.random.default_rng(0).integers(3, size=(5, 20))
        drawn = DRAWN[statistic]
        np.testing.assert_allclose(drawn(scale * worse, human, counts), drawn(worse, human, counts), atol=1e-12)


@pytest.mark.parametrize("outlier", [1e3, 1e6, 1e9])
def test_outliers_that_are_not_drawn_cost_no_digits(outlier):
    """Sums of squares are those of the outlier; a draw without it is computed by itself."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = x + rng.normal(size=30)
    x[0] = outlier
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=100)
    for value, count in zip(drawn_pearson(x, y, counts), counts, strict=True):
        expected = stats.pearsonr(np.repeat(x, count), np.repeat(y, count)).statistic
        assert value == pytest.approx(expected, abs=1e-16 * outlier + 1e-12)
