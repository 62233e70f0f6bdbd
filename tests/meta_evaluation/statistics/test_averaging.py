"""Averages over units against a loop."""

import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import averaged_correlation
from textmover.types import InputError


def judged(items=12, systems=5, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.normal(size=(items, systems))
    metric = human + rng.normal(size=(items, systems))
    item = np.repeat(np.arange(items), systems).astype(str)
    system = np.tile(np.arange(systems), items).astype(str)
    return metric, human, item.tolist(), system.tolist()


class TestLevels:
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


class TestUndefined:
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


def test_bad_input():
    with pytest.raises(InputError, match="pearson, spearman, kendall, kendall-c, but got 'cosine'"):
        averaged_correlation([1, 2, 3], [1, 2, 3], statistic="cosine")
    with pytest.raises(InputError, match="group for each of 3 segments, but got 1"):
        averaged_correlation([1, 2, 3], [1, 2, 3], ["a"])
    with pytest.raises(InputError, match="finite metric scores"):
        averaged_correlation([1, math.nan, 3], [1, 2, 3])
