"""Agreement by parts of the data against selecting them by hand."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import (
    IntervalOptions,
    agreement_by_length,
    agreement_by_quantile,
    bootstrap_interval,
    metric_correlations,
)
from textmover.types import InputError


def data(n=80):
    rng = np.random.default_rng(0)
    human = rng.normal(size=n)
    scores = human + rng.normal(size=(3, n))
    return scores, human, rng.integers(3, 40, size=n), rng.choice(["a", "b"], size=n).tolist()


class TestBetweenMetrics:
    def test_pooled(self):
        scores, *_ = data()
        found = metric_correlations(scores)
        np.testing.assert_allclose(found.values, np.corrcoef(scores))
        assert found[1:] == (1, 1, 80)

    def test_mean_over_groups(self):
        scores, _, _, groups = data()
        inside = [np.array(groups) == name for name in ("a", "b")]
        expected = np.mean([stats.spearmanr(scores[:, one], axis=1).statistic for one in inside], axis=0)
        np.testing.assert_allclose(metric_correlations(scores, groups, statistic="spearman").values, expected)

    def test_all_pairs_are_averaged_over_the_same_groups(self):
        """A group in which one metric is constant counts for no pair; a metric that never varies is not asked."""
        scores, _, _, groups = data()
        inside, constant = np.array(groups) == "b", np.ones(80)
        scores[2][inside] = 0.4
        found = metric_correlations([*scores, constant], groups)
        np.testing.assert_allclose(found.values[:3, :3], np.corrcoef(scores[:, ~inside]))
        assert np.isnan(found.values[3]).all()
        assert found[1:] == (1, 2, (~inside).sum())


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
        assert (bins[0].groups, bins[0].among, bins[0].counted) == (2, 2, bins[0].segments)
        values = []
        for name in ("a", "b"):
            inside = np.flatnonzero(np.array(groups) == name)
            lowest = inside[human[inside] <= np.quantile(human[inside], 0.25)]
            values.append(stats.kendalltau(scores[0][lowest], human[lowest]).statistic)
        assert bins[0].values[0] == pytest.approx(np.mean(values))

    def test_all_metrics_are_averaged_over_the_same_groups(self):
        """Groups too small, or in which one metric is constant, are not in the mean of any, and that is counted."""
        scores, human, _, groups = data()
        labels = np.array(groups, dtype=object)
        labels[:2], labels[2:7] = "small", "flat"
        scores[1][2:7] = 0.4
        (found,) = agreement_by_length([*scores, np.ones(80)], human, np.ones(80), labels.tolist())
        assert (found.segments, found.counted, found.groups, found.among) == (80, 73, 2, 4)
        for value, one in zip(found.values[:3], scores, strict=True):
            expected = np.mean([stats.pearsonr(one[labels == name], human[labels == name])[0] for name in ("a", "b")])
            assert value == pytest.approx(expected)
        assert math.isnan(found.values[3])

    def test_intervals_are_those_of_the_bootstrap(self):
        scores, human, lengths, groups = data()
        clusters = [str(row // 2) for row in range(80)]
        options = IntervalOptions(samples=50, seed=3, level=0.8, clusters=clusters)
        bins = agreement_by_length([*scores, np.ones(80)], human, lengths, groups, intervals=options, bins=2)
        for one in bins:
            inside = np.flatnonzero((lengths >= one.low) & (lengths <= one.high))
            rows = [
                row for name in dict.fromkeys(groups[row] for row in inside) for row in inside if groups[row] == name
            ]
            alone = bootstrap_interval(
                scores[0][rows], human[rows], [groups[row] for row in rows], samples=50, seed=3, level=0.8,
                clusters=[clusters[row] for row in rows],
            )  # fmt: skip
            assert (one.values[0], one.lower[0], one.upper[0]) == pytest.approx(alone[:3])
            assert math.isnan(one.lower[3])
        assert np.isnan(agreement_by_length(scores, human, lengths)[0].lower).all()

    def test_equal_values_stay_together(self):
        bins = agreement_by_length([[1, 2, 3, 4, 5]], [1, 2, 3, 4, 5], [7] * 5)
        assert [(one.low, one.high, one.segments) for one in bins] == [(7, 7, 5)]

    def test_small_bins_have_no_value(self):
        bins = agreement_by_quantile([[1, 2, 3, 4]], [1, 2, 3, 4], bins=2)
        assert [math.isnan(one.values[0]) for one in bins] == [True, True]
        assert [(one.groups, one.among, one.counted) for one in bins] == [(0, 1, 0)] * 2
        assert agreement_by_quantile([[]], []) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bins": 0}, "at least one bin, but got 0"),
        ({"human": [1, 2, 3], "lengths": [1, 2, 3]}, "but got 2 and 3"),
        ({"lengths": [1, math.nan]}, "finite lengths"),
        ({"statistic": "cosine"}, "but got 'cosine'"),
    ],
)
def test_bad_input(changed, message):
    with pytest.raises(InputError, match=message):
        agreement_by_length(**{"scores": [[1, 2]], "human": [1, 2], "lengths": [1, 2], **changed})
