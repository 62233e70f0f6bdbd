"""The bootstrap: what a draw is, and its intervals against theory."""

import math
import time

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation.significance import bootstrap
from textmover.meta_evaluation.significance.bootstrap import (
    bootstrap_draws,
    bootstrap_gain,
    bootstrap_interval,
    bootstrap_sums,
)
from textmover.meta_evaluation.statistics import score_arrays
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS, averaged_correlation
from textmover.types import InputError


def ratings(n, seed=0, groups=2):
    """Human scores, a worse and a better metric, and groups."""
    rng = np.random.default_rng(seed)
    human = rng.normal(size=n)
    worse = human + 1.5 * rng.normal(size=n)
    better = human + 0.8 * rng.normal(size=n)
    return human, worse, better, [f"group {number % groups}" for number in range(n)]


@pytest.mark.parametrize("statistic", CORRELATIONS)
class TestEveryStatistic:
    def test_chunks_do_not_matter(self, statistic, monkeypatch):
        human, worse, better, groups = ratings(60)
        whole = bootstrap_gain(worse, better, human, groups, statistic=statistic, samples=50)
        monkeypatch.setattr(score_arrays, "CHUNK_ENTRIES", 70)
        chunked = bootstrap_gain(worse, better, human, groups, statistic=statistic, samples=50)
        assert chunked[:5] == pytest.approx(whole[:5], abs=1e-14)

    def test_estimates(self, statistic):
        human, worse, better, groups = ratings(90, groups=3)
        gain = bootstrap_gain(worse, better, human, groups, statistic=statistic, samples=20)
        means = [averaged_correlation(one, human, groups, statistic=statistic).value for one in (worse, better)]
        assert (gain.before, gain.after) == pytest.approx(means)
        assert gain.estimate == gain.after - gain.before
        interval = bootstrap_interval(better, human, groups, statistic=statistic, samples=20)
        assert interval[:3] == (gain.after, gain.after_low, gain.after_high)


class TestDraws:
    def test_stay_within_groups(self):
        """Each group is a line of its own slope: any draw of one group alone correlates perfectly."""
        human = np.arange(40.0)
        groups = ["up"] * 20 + ["down"] * 20
        draws = bootstrap_draws([np.where(human < 20, human, -human)], human, groups, samples=200)
        np.testing.assert_allclose(draws.means, 0, atol=1e-14)

    def test_clusters_are_drawn_whole(self):
        """Segments of one cluster keep their common share of every draw."""
        labels = np.array([0, 0, 0, 1, 2, 2])
        for counts in bootstrap.draw_counts(labels, 500, np.random.default_rng(0)):
            for cluster in range(3):
                assert (np.ptp(counts[:, labels == cluster], axis=1) == 0).all()
            assert (counts[:, [0, 3, 4]].sum(axis=1) == 3).all()
            np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.15)


class TestIntervals:
    def test_width_is_that_of_theory(self):
        """For normal scores the standard error of r is (1 - r²)/√n."""
        human, _, better, _ = ratings(2000, seed=1)
        interval = bootstrap_interval(better, human, ["all"] * 2000)
        expected = 2 * 1.96 * (1 - interval.estimate**2) / math.sqrt(2000)
        assert interval.high - interval.low == pytest.approx(expected, rel=0.1)
        assert interval.low < 1 / math.sqrt(1 + 0.8**2) < interval.high

    def test_level(self):
        human, worse, better, groups = ratings(100)
        wide = bootstrap_gain(worse, better, human, groups, level=0.99)
        narrow = bootstrap_gain(worse, better, human, groups, level=0.5)
        assert wide.low < narrow.low < narrow.high < wide.high


class TestUndefined:
    def test_groups_without_correlation_are_named(self):
        human, worse, better, _ = ratings(60)
        groups = ["good"] * 40 + ["constant"] * 18 + ["short"] * 2
        better[40:58] = 0.3
        gain = bootstrap_gain(worse, better, human, groups, samples=30)
        assert gain.excluded == ("constant", "short")
        assert gain.before == pytest.approx(stats.pearsonr(worse[:40], human[:40]).statistic)

    def test_constant_draws_are_counted(self):
        """A draw of three segments takes one of them three times with probability 1/9."""
        interval = bootstrap_interval([1, 2, 3], [1, 3, 2], ["all"] * 3, samples=3000)
        assert interval.undefined == pytest.approx(3000 / 9, rel=0.15)
        assert (interval.low, interval.high) == pytest.approx((-1, 1))

    def test_a_draw_counts_if_every_group_is_defined_in_it(self):
        """One group always has r = -1 but in 1 of 9 draws, one always 1: their mean is 0, never that of one alone."""
        human = np.concatenate([[1.0, 2, 3], np.arange(40)])
        scores, groups = np.where(np.arange(43) < 3, -human, human), ["a"] * 3 + ["b"] * 40
        interval = bootstrap_interval(scores, human, groups, samples=3000)
        assert interval[:3] == pytest.approx((0, 0, 0))
        assert interval.undefined == pytest.approx(3000 / 9, rel=0.15)
        columns = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])  # ratios: 0, not defined; 1, 1
        sums = bootstrap_sums(columns, ["a", "a", "b", "b"], ratio, samples=400)["ratio"]
        assert sums[:3] == (0.5, 0.5, 0.5)
        assert sums.undefined == pytest.approx(100, rel=0.3)

    def test_too_few_defined_draws_have_no_interval(self):
        groups = [f"g{number // 3}" for number in range(90)]
        interval = bootstrap_interval(np.tile([1.0, 3, 2], 30), np.tile([1.0, 2, 3], 30), groups, samples=500)
        assert interval.estimate == pytest.approx(0.5)
        assert np.isnan([interval.low, interval.high]).all()
        assert 450 < interval.undefined < 500

    @pytest.mark.parametrize("statistic", CORRELATIONS)
    def test_nothing_is_defined(self, statistic):
        gain = bootstrap_gain([1, 1, 1], [1, 2, 3], [1, 2, 3], ["a"] * 3, statistic=statistic, samples=20)
        assert all(math.isnan(value) for value in gain[:5])
        assert gain.excluded == ("a",)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"statistic": "cosine"}, "pearson, spearman, kendall, kendall-c, but got 'cosine'"),
        ({"samples": 19}, "`samples` to be a whole number from 20 to 1,000,000, but got 19"),
        ({"samples": 20.5}, "whole number from 20 to 1,000,000, but got 20.5: 1000 is usual"),
        ({"level": 95}, "level between 0 and 1, but got 95"),
        ({"clusters": ["a"]}, "3 clusters, one per segment, but got 1"),
        ({"after": [1, 2, math.nan]}, r"finite scores after, .* for 1 of 3"),
        ({"after": [1, 2]}, "but got 2 and 3"),
        ({"groups": ["a"] * 2}, "3 groups, one per segment, but got 2"),
    ],
)
def test_bad_input(changed, message):
    given = {**dict.fromkeys(("before", "after", "human"), (1.0, 2.0, 3.0)), "groups": ["a"] * 3}
    with pytest.raises(InputError, match=message):
        bootstrap_gain(**{**given, **changed})


def test_no_metric():
    with pytest.raises(InputError, match="at least one metric"):
        bootstrap_draws([], [1, 2, 3], ["a"] * 3)


class TestOneCluster:
    """A group of one reference gives the same draw each time, which says nothing of how sure a correlation is."""

    HUMAN = np.random.default_rng(0).normal(size=40)
    SCORES = HUMAN + np.random.default_rng(1).normal(size=40)
    MIXED = (["a"] * 20 + ["b"] * 20, ["r"] * 20 + [str(number) for number in range(20)])

    def gain(self, groups, clusters, human=HUMAN):
        return bootstrap_gain(human, self.SCORES, human, groups, samples=50, clusters=clusters)

    def test_there_is_no_interval(self):
        gain = self.gain(["a"] * 40, ["r"] * 40)
        assert gain.estimate == gain.after - gain.before < 0
        assert np.isnan([gain.low, gain.high, gain.after_low, gain.after_high]).all()
        assert gain.clusters == (("a", 1),)
        two = self.gain(["a"] * 40, ["r"] * 20 + ["s"] * 20)
        assert two.low < two.high

    def test_nor_of_a_mean_that_it_is_a_part_of(self):
        gain = self.gain(*self.MIXED)
        assert np.isnan([gain.low, gain.high]).all()
        assert gain.clusters == (("a", 1), ("b", 20))

    def test_a_group_that_does_not_count_does_not_matter(self):
        human = np.where(np.arange(40) < 20, 0.0, self.HUMAN)  # no correlation in the first group
        gain = self.gain(*self.MIXED, human)
        assert (gain.excluded, gain.clusters) == (("a",), (("b", 20),))
        assert gain.low < gain.estimate < gain.high


def test_little_to_draw_is_told():
    assert bootstrap.few_to_draw({"a": 10, "b": 11}, "reference") is None
    assert "there are only 9 references" in bootstrap.few_to_draw({"a": 9}, "reference")
    assert "in 2 of 3 groups, only 3 in b." in bootstrap.few_to_draw({"a": 9, "b": 3, "c": 10}, "reference")


def test_speed():
    human, worse, better, groups = ratings(6400, groups=8)
    start = time.perf_counter()
    bootstrap_gain(worse, better, human, groups, samples=1000)
    assert time.perf_counter() - start < 10  # 0.4 s on two idle cores


def ratio(sums):
    with np.errstate(invalid="ignore", divide="ignore"):
        return {"ratio": sums[..., 0] / sums[..., 1]}


def test_sums_of_columns_have_the_interval_of_their_drawn_rows():
    rng = np.random.default_rng(0)
    columns = np.stack([rng.random(50), rng.random(50) + 1], axis=1)
    groups = ["x"] * 30 + ["y"] * 20
    found = bootstrap_sums(columns, groups, ratio, samples=2000)["ratio"]
    parts = columns[:30], columns[30:]
    assert found.estimate == pytest.approx(np.mean([one[:, 0].sum() / one[:, 1].sum() for one in parts]))
    assert found.clusters == (("x", 30), ("y", 20))
    drawn = [
        np.mean([ratio(one[rng.integers(len(one), size=len(one))].sum(axis=0))["ratio"] for one in parts])
        for _ in range(2000)
    ]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.01)


def test_sums_that_are_not_defined_are_excluded_and_single_rows_have_no_interval():
    columns = np.array([[1.0, 2.0], [1.0, 0.0], [0.0, 0.0], [2.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    found = bootstrap_sums(columns[2:], ["a", "b", "b", "a"], ratio, samples=200)["ratio"]
    assert (found.estimate, found.excluded, found.clusters) == (0.5, ("a",), (("b", 2),))
    assert found.low == found.high == 0.5
    assert 30 < found.undefined < 70, "a quarter of the draws takes the row of zeros twice"
    single = bootstrap_sums(columns[:1], None, ratio)["ratio"]
    assert single.estimate == 0.5
    assert math.isnan(single.low)
    assert bootstrap_sums(columns[:0], None, ratio) == {}
