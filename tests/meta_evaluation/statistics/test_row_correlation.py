"""Row-wise statistics against SciPy, one row at a time."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation.statistics import row_correlation as rows
from textmover.meta_evaluation.statistics.row_correlation import (
    ROW_STATISTICS,
    batches,
    chunks,
    levelled,
    unit_correlations,
)

SCIPY = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
    "kendall-c": functools.partial(stats.kendalltau, variant="c"),
}


def accuracy_by_hand(x, y):
    pairs = itertools.combinations(range(len(x)), 2)
    return np.mean([np.sign(x[i] - x[j]) == np.sign(y[i] - y[j]) for i, j in pairs])


@pytest.mark.parametrize("statistic", SCIPY)
class TestCorrelations:
    @pytest.mark.parametrize("levels", [2, 4, 1000])
    @pytest.mark.parametrize("size", [3, 5, 20, 70])
    def test_against_scipy(self, statistic, size, levels):
        x, y = np.random.default_rng(size).integers(levels, size=(2, 40, size)) / 7
        for value, one, other in zip(ROW_STATISTICS[statistic](x, y), x, y, strict=True):
            if np.ptp(one) and np.ptp(other):
                assert value == pytest.approx(SCIPY[statistic](one, other).statistic, abs=1e-13)
            else:
                assert math.isnan(value)

    def test_one_row_against_many(self, statistic):
        x, y = np.random.default_rng(0).normal(size=(2, 5, 6, 9))
        result = ROW_STATISTICS[statistic](x, y[0, 0])
        assert result.shape == (5, 6)
        assert result[3, 2] == pytest.approx(SCIPY[statistic](x[3, 2], y[0, 0]).statistic)

    @pytest.mark.parametrize("size", [0, 1, 2])
    def test_too_short(self, statistic, size):
        x, y = np.random.default_rng(0).normal(size=(2, 4, size))
        assert np.isnan(ROW_STATISTICS[statistic](x, y)).all()

    def test_units(self, statistic):
        x, y = np.random.default_rng(0).normal(size=(2, 20))
        units = [np.array([3, 1, 0]), np.array([2]), np.arange(4, 9), np.array([9, 10, 11]), np.arange(12, 20)]
        x[9:12] = 0.3
        result = unit_correlations(x, y, units, statistic)
        assert np.isnan(result).tolist() == [False, True, False, True, False]
        for number in (0, 2, 4):
            members = units[number]
            assert result[number] == pytest.approx(SCIPY[statistic](x[members], y[members]).statistic)


@pytest.mark.parametrize("levels", [2, 1000])
def test_accuracy(levels):
    x, y = np.random.default_rng(0).integers(levels, size=(2, 10, 7))
    expected = [accuracy_by_hand(one, other) for one, other in zip(x, y, strict=True)]
    np.testing.assert_allclose(ROW_STATISTICS["accuracy"](x, y), expected)
    assert np.isnan(ROW_STATISTICS["accuracy"](x[:, :1], y[:, :1])).all()


def test_means_are_equal_within_rounding_of_their_own_terms():
    noise = 1e-16
    means = np.array([[1 + 2 * noise, 0.0, 1, 1 - noise, math.nan], [1e6, 1e6 + 1e-7, noise, 0, -1]])
    sizes = np.array([[1.0] * 5, [1e6, 1e6, 1, 1, 1]])
    assert len(set(means[0].tolist())) == 5
    found = levelled(means, sizes)
    np.testing.assert_array_equal(found[0], [1 - noise, 0, 1 - noise, 1 - noise, math.nan])
    np.testing.assert_array_equal(found[1], [1e6, 1e6, 0, 0, -1])
    assert levelled(np.array([1e-14, 2e-14]), np.array([1e-13, 1e-13])).tolist() == [1e-14, 2e-14]
    assert levelled(np.zeros((3, 0)), np.zeros(0)).shape == (3, 0)


def test_batches_hold_every_unit_once():
    rng = np.random.default_rng(0)
    units = [rng.integers(100, size=size) for size in rng.integers(1, 5, size=50)]
    found = {}
    for batch in batches(units):
        found |= {number: members.tolist() for number, members in zip(batch.units.tolist(), batch.members, strict=True)}
    assert found == {number: members.tolist() for number, members in enumerate(units)}


def test_chunks_cover_all_rows(monkeypatch):
    monkeypatch.setattr(rows, "CHUNK_ENTRIES", 10)
    for count, entries in ((0, 3), (7, 3), (9, 3), (5, 100), (4, 0)):
        assert [row for part in chunks(count, entries) for row in range(count)[part]] == list(range(count))
