"""Agreement by parts of the data against selecting them by hand."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import agreement_by_length, agreement_by_quantile, metric_correlations
from textmover.types import InputError


def data(n=80):
    rng = np.random.default_rng(0)
    human = rng.normal(size=n)
    scores = human + rng.normal(size=(3, n))
    return scores, human, rng.integers(3, 40, size=n), rng.choice(["a", "b"], size=n).tolist()


class TestBetweenMetrics:
    def test_pooled(self):
        scores, *_ = data()
        np.testing.assert_allclose(metric_correlations(scores), np.corrcoef(scores))

    def test_mean_over_groups(self):
        scores, _, _, groups = data()
        inside = [np.array(groups) == name for name in ("a", "b")]
        expected = np.mean([stats.spearmanr(scores[:, one], axis=1).statistic for one in inside], axis=0)
        np.testing.assert_allclose(metric_correlations(scores, groups, statistic="spearman"), expected)

    def test_constant(self):
        assert np.isnan(metric_correlations([[1, 1, 1], [1, 2, 3]])[0]).all()


class TestBins:
    def test_lengths(self):
        scores, human, lengths, _ = data()
        bins = agreement_by_length(scores, human, lengths)
        assert sum(one.segments for one in bins) == 80
        assert all(one.high < other.low for one, other in itertools.pairwise(bins))
        assert all(10 <= one.segments <= 30 for one in bins)
        for one in bins:
            inside = (lengths >= one.low) & (lengths <= one.high)
            expected = [stats.pearsonr(row[inside], human[inside]).statistic for row in scores]
            np.testing.assert_allclose(one.values, expected)

    def test_quartiles_within_groups(self):
        scores, human, _, groups = data()
        human = np.where(np.array(groups) == "a", human + 100, human)
        bins = agreement_by_quantile(scores, human, groups, statistic="kendall")
        assert [one.segments for one in bins] == pytest.approx([20] * 4, abs=1)
        assert bins[0].groups.tolist() == [2, 2, 2]
        values = []
        for name in ("a", "b"):
            inside = np.flatnonzero(np.array(groups) == name)
            lowest = inside[human[inside] <= np.quantile(human[inside], 0.25)]
            values.append(stats.kendalltau(scores[0][lowest], human[lowest]).statistic)
        assert bins[0].values[0] == pytest.approx(np.mean(values))

    def test_equal_values_stay_together(self):
        bins = agreement_by_length([[1, 2, 3, 4, 5]], [1, 2, 3, 4, 5], [7] * 5)
        assert [(one.low, one.high, one.segments) for one in bins] == [(7, 7, 5)]

    def test_small_bins_have_no_value(self):
        bins = agreement_by_quantile([[1, 2, 3, 4]], [1, 2, 3, 4], bins=2)
        assert [math.isnan(one.values[0]) for one in bins] == [True, True]
        assert [one.groups[0] for one in bins] == [0, 0]
        assert agreement_by_quantile([[]], []) == []


def test_bad_input():
    with pytest.raises(InputError, match="at least one bin, but got 0"):
        agreement_by_length([[1, 2]], [1, 2], [1, 2], bins=0)
    with pytest.raises(InputError, match="but got 2 and 3"):
        agreement_by_length([[1, 2]], [1, 2, 3], [1, 2, 3])
    with pytest.raises(InputError, match="finite lengths"):
        agreement_by_length([[1, 2]], [1, 2], [1, math.nan])
    with pytest.raises(InputError, match="but got 'cosine'"):
        metric_correlations([[1, 2, 3]], statistic="cosine")
