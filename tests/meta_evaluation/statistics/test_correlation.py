"""Correlations against SciPy and brute force, on ties, constants, NaN and small n."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation.statistics.correlation import (
    Correlation,
    averaged_correlation,
    correlation,
    correlations,
    grouped_correlations,
    mean_correlation,
)
from textmover.meta_evaluation.statistics.kernel import CORRELATIONS
from textmover.types import InputError

NAN = float("nan")


def kendall_by_hand(x, y):
    pairs = list(itertools.combinations(range(len(x)), 2))
    signs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in pairs]
    untied_x = sum(a != 0 for a, _ in signs)
    untied_y = sum(b != 0 for _, b in signs)
    return sum(a * b for a, b in signs) / math.sqrt(untied_x * untied_y)


def kendall_c_by_hand(x, y):
    signs = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i, j in itertools.combinations(range(len(x)), 2)]
    fewest = min(len(set(x)), len(set(y)))
    return 2 * sum(signs) * fewest / (len(x) ** 2 * (fewest - 1))


@pytest.mark.parametrize("n", [3, 4, 10, 57])
@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_against_scipy(n, levels, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(levels, size=(2, n)) / 7
    x[0], y[0] = 500.0, -500.0  # never constant
    result = correlations(x, y)
    assert result.n == n
    assert result.pearson == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-14)
    assert result.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-14)
    assert result.kendall == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-14)
    assert result.kendall == pytest.approx(kendall_by_hand(x, y), abs=1e-14)
    assert correlation(x, y, "kendall-c") == pytest.approx(stats.kendalltau(x, y, variant="c").statistic, abs=1e-14)
    assert correlation(x, y, "kendall-c") == pytest.approx(kendall_c_by_hand(x, y), abs=1e-14)


@pytest.mark.parametrize("statistic", [functools.partial(correlation, statistic=one) for one in CORRELATIONS])
class TestOneStatistic:
    @pytest.mark.parametrize("x", [[], [1.0], [1.0, 2.0], [0.1] * 3, [0.1] * 1000, [0.0] * 5])
    def test_not_defined(self, statistic, x):
        other = np.arange(len(x), dtype=float)
        assert math.isnan(statistic(x, other))
        assert math.isnan(statistic(other, x))
        assert math.isnan(statistic(x, x))

    @pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e300])
    def test_scale(self, statistic, scale):
        x, y = np.random.default_rng(0).normal(size=(2, 30))
        assert statistic(scale * x, y) == pytest.approx(statistic(x, y), abs=1e-12)
        assert statistic(x, -scale * y) == pytest.approx(-statistic(x, y), abs=1e-12)

    def test_symmetry_and_order(self, statistic):
        x, y = np.random.default_rng(1).normal(size=(2, 30))
        order = np.random.default_rng(2).permutation(30)
        assert statistic(x, y) == pytest.approx(statistic(y, x), abs=1e-14)
        assert statistic(x[order], y[order]) == pytest.approx(statistic(x, y), abs=1e-14)

    def test_perfect(self, statistic):
        x = np.random.default_rng(3).normal(size=30)
        assert statistic(x, x) == pytest.approx(1, abs=1e-14)
        assert abs(statistic(x, 3 * x + 1)) <= 1

    @pytest.mark.parametrize("wrong", [NAN, math.inf, -math.inf])
    def test_not_finite(self, statistic, wrong):
        with pytest.raises(InputError, match=r"finite metric scores, .* for 1 of 4 segments \(counted from 0: 2\)"):
            statistic([1, 2, wrong, 4], [1, 2, 3, 4])
        with pytest.raises(InputError, match=r"finite human scores, .* for 2 of 3 segments \(counted from 0: 0, 1\)"):
            statistic([1, 2, 3], [wrong, wrong, 3])


class TestInput:
    def test_unequal_lengths(self):
        with pytest.raises(InputError, match="but got 2 and 3"):
            correlations([1, 2], [1, 2, 3])


class TestGroups:
    def test_same_as_one_by_one(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(2, 100))
        groups = rng.choice(["b", "a", "c"], size=100).tolist()
        result = grouped_correlations(x, y, groups)
        assert list(result) == list(dict.fromkeys(groups))
        for group, found in result.items():
            inside = np.array(groups) == group
            assert found == correlations(x[inside], y[inside])

    def test_mean_names_what_is_left_out(self):
        scores = [1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 1.0, 2.0, 1.0, 3.0, 2.0]
        human = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 2.0, 3.0]
        groups = ["good"] * 3 + ["constant"] * 3 + ["short"] * 2 + ["fair"] * 3
        by_group = grouped_correlations(scores, human, groups)
        mean = mean_correlation(by_group)
        assert mean.undefined == ("constant", "short")
        assert (mean.groups, mean.n) == (2, 6)
        for name in ("pearson", "spearman", "kendall"):
            expected = (getattr(by_group["good"], name) + getattr(by_group["fair"], name)) / 2
            assert getattr(mean, name) == pytest.approx(expected, abs=1e-15)

    @pytest.mark.parametrize("by_group", [{}, {"a": Correlation(2, NAN, NAN, NAN)}])
    def test_mean_of_nothing(self, by_group):
        mean = mean_correlation(by_group)
        assert math.isnan(mean.pearson)
        assert math.isnan(mean.kendall)
        assert (mean.n, mean.groups, mean.undefined) == (0, 0, tuple(by_group))


def judged(items=12, systems=5, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.normal(size=(items, systems))
    metric = human + rng.normal(size=(items, systems))
    item = np.repeat(np.arange(items), systems).astype(str)
    system = np.tile(np.arange(systems), items).astype(str)
    return metric, human, item.tolist(), system.tolist()


class TestAveraging:
    def test_per_item_and_per_system(self):
        metric, human, item, system = judged()
        rows = [stats.pearsonr(x, y).statistic for x, y in zip(metric, human, strict=True)]
        columns = [stats.pearsonr(x, y).statistic for x, y in zip(metric.T, human.T, strict=True)]
        assert averaged_correlation(metric.ravel(), human.ravel(), item).value == pytest.approx(np.mean(rows))
        assert averaged_correlation(metric.ravel(), human.ravel(), system).value == pytest.approx(np.mean(columns))

    @pytest.mark.parametrize(
        ("statistic", "function"),
        [
            ("pearson", stats.pearsonr),
            ("spearman", stats.spearmanr),
            ("kendall", stats.kendalltau),
            ("kendall-c", lambda x, y: stats.kendalltau(x, y, variant="c")),
        ],
    )
    def test_pooled(self, statistic, function):
        metric, human, _, _ = judged()
        metric = metric.round(0)
        result = averaged_correlation(metric.ravel(), human.ravel(), statistic=statistic)
        assert result.value == pytest.approx(function(metric.ravel(), human.ravel()).statistic, abs=1e-13)
        assert (result.units, result.segments, result.undefined) == (1, 60, ())

    def test_a_shift_of_each_item_changes_pooled_values_alone(self):
        metric, human, item, _ = judged()
        shifted = metric + 10 * np.random.default_rng(1).normal(size=(12, 1))
        before, after = (averaged_correlation(one.ravel(), human.ravel(), item).value for one in (metric, shifted))
        assert after == pytest.approx(before)
        assert averaged_correlation(shifted.ravel(), human.ravel()).value < before / 2


class TestUndefinedUnits:
    def test_units_are_named_and_counted(self):
        metric = [1.0, 2, 3, 5, 5, 5, 1, 2, 1, 2, 3, 9, 9, 9, 9]
        human = [1.0, 3, 2, 1, 2, 3, 1, 2, 4, 4, 4, 1, 2, 3, 4]
        units = ["good"] * 3 + ["metric"] * 3 + ["short"] * 2 + ["human"] * 3 + ["metric 2"] * 4
        result = averaged_correlation(metric, human, units)
        assert result.value == pytest.approx(0.5)
        assert (result.units, result.segments) == (1, 3)
        assert result.undefined == ("metric", "short", "human", "metric 2")
        assert result.undefined_segments == 12
        assert math.isnan(result.by_unit["short"])

    def test_nothing_is_defined(self):
        result = averaged_correlation([1, 2], [1, 2], ["a", "b"])
        assert math.isnan(result.value)
        assert (result.units, result.segments, result.undefined_segments) == (0, 0, 2)


def test_bad_input_of_averages():
    with pytest.raises(InputError, match="pearson, spearman, kendall, kendall-c, but got 'cosine'"):
        averaged_correlation([1, 2, 3], [1, 2, 3], statistic="cosine")
    with pytest.raises(InputError, match="group for each of 3 segments, but got 1"):
        averaged_correlation([1, 2, 3], [1, 2, 3], ["a"])
    with pytest.raises(InputError, match="finite metric scores"):
        averaged_correlation([1, math.nan, 3], [1, 2, 3])
