"""Correlations of groups and units against SciPy, on ties, constants, NaN and small n."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation.statistics.correlation import (
    CORRELATIONS,
    Correlation,
    averaged_correlation,
    correlation,
    correlations,
    grouped_correlations,
    mean_correlation,
)
from textmover.types import InputError

NAN = math.nan


@pytest.mark.parametrize("n", [3, 4, 57])
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_against_scipy(n, levels):
    x, y = np.random.default_rng(n).integers(levels, size=(2, n)) / 7
    x[0], y[0] = 500.0, -500.0  # never constant
    expected = [one(x, y).statistic for one in (stats.pearsonr, stats.spearmanr, stats.kendalltau)]
    assert correlations(x, y) == pytest.approx((n, *expected), abs=1e-14)
    tau_c = stats.kendalltau(x, y, variant="c").statistic
    assert averaged_correlation(x, y, statistic="kendall-c").value == pytest.approx(tau_c, abs=1e-14)


@pytest.mark.parametrize("statistic", [functools.partial(correlation, statistic=one) for one in CORRELATIONS])
class TestOneStatistic:
    @pytest.mark.parametrize("x", [[], [1.0, 2.0], [0.1] * 3, [0.1] * 1000, [0.0] * 5])
    def test_not_defined(self, statistic, x):
        other = np.arange(len(x), dtype=float)
        assert all(math.isnan(statistic(*pair)) for pair in ((x, other), (other, x), (x, x)))

    @pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e300])
    def test_scale(self, statistic, scale):
        x, y = np.random.default_rng(0).normal(size=(2, 30))
        assert statistic(scale * x, y) == pytest.approx(statistic(x, y), abs=1e-12)
        assert statistic(x, -scale * y) == pytest.approx(-statistic(x, y), abs=1e-12)
        assert abs(statistic(x, 3 * x + 1)) <= 1


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
        assert mean[4:] == (2, ("constant", "short"))
        assert mean[:4] == pytest.approx(np.add(by_group["good"], by_group["fair"]) / [1, 2, 2, 2], abs=1e-15)

    @pytest.mark.parametrize("by_group", [{}, {"a": Correlation(2, NAN, NAN, NAN)}])
    def test_mean_of_nothing(self, by_group):
        mean = mean_correlation(by_group)
        assert np.isnan(mean[1:4]).all()
        assert (mean.n, mean.groups, mean.undefined) == (0, 0, tuple(by_group))


class TestUnits:
    def test_per_item_and_per_system(self):
        human, noise = np.random.default_rng(0).normal(size=(2, 12, 5))
        metric = human + noise
        item, system = (np.indices((12, 5)).reshape(2, -1)).astype(str).tolist()
        for labels, rows in ((item, zip(metric, human, strict=True)), (system, zip(metric.T, human.T, strict=True))):
            found = averaged_correlation(metric.ravel(), human.ravel(), labels)
            assert found.value == pytest.approx(np.mean([stats.pearsonr(x, y).statistic for x, y in rows]))

    def test_units_are_named_and_counted(self):
        metric = [1.0, 2, 3, 5, 5, 5, 1, 2, 1, 2, 3, 9, 9, 9, 9]
        human = [1.0, 3, 2, 1, 2, 3, 1, 2, 4, 4, 4, 1, 2, 3, 4]
        units = ["good"] * 3 + ["metric"] * 3 + ["short"] * 2 + ["human"] * 3 + ["metric 2"] * 4
        result = averaged_correlation(metric, human, units)
        assert result[:5] == (pytest.approx(0.5), 1, 3, ("metric", "short", "human", "metric 2"), 12)
        assert math.isnan(result.by_unit["short"])

    def test_nothing_is_defined(self):
        result = averaged_correlation([1, 2], [1, 2], ["a", "b"])
        assert math.isnan(result.value)
        assert (result.units, result.segments, result.undefined_segments) == (0, 0, 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"statistic": "cosine"}, "pearson, spearman, kendall, kendall-c, but got 'cosine'"),
        ({"units": ["a"]}, "3 groups, one per segment, but got 1"),
        ({"metric_scores": [1, 2]}, "but got 2 and 3"),
        ({"metric_scores": [1, 2, NAN, 4]}, r"finite metric scores, .* for 1 of 4 segments \(counted from 0: 2\)"),
        ({"human_scores": [math.inf, -math.inf, 3]}, r"finite human scores, .* for 2 of 3 segments .*: 0, 1\)"),
    ],
)
def test_bad_input(changed, message):
    with pytest.raises(InputError, match=message):
        averaged_correlation(**{"metric_scores": [1, 2, 3], "human_scores": [1, 2, 3], **changed})
