"""PERM-BOTH: its p-values, their symmetry and their distribution."""

import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import averaged_correlation, permutation_p_values, permutation_test
from textmover.meta_evaluation.significance.permutation import p_value_matrix, swap_signs
from textmover.meta_evaluation.statistics.kernel import CORRELATIONS
from textmover.types import InputError


def metrics(n, seed=0, noise=(1.0, 1.0), groups=2):
    rng = np.random.default_rng(seed)
    human = rng.normal(size=n)
    scores = [human + one * rng.normal(size=n) for one in noise]
    return scores, human, [f"group {number % groups}" for number in range(n)]


class TestAgainstALoop:
    @pytest.mark.parametrize("statistic", CORRELATIONS)
    def test_p_value(self, statistic):
        """The same exchanges, made one at a time on z-scores within each group."""
        (first, second), human, groups = metrics(40, noise=(1.0, 1.4))
        names = list(dict.fromkeys(groups))
        rng = np.random.default_rng(5)
        signs = {}
        scaled = np.array([first, second])
        for name in names:
            inside = np.flatnonzero(np.array(groups) == name)
            scaled[:, inside] = stats.zscore(scaled[:, inside], axis=1)
            signs[name] = swap_signs(60, len(inside), rng)[1:]
        differences = []
        for number in range(-1, 60):
            keeps = np.ones(40, dtype=bool)
            if number >= 0:
                for name in names:
                    keeps[np.array(groups) == name] = signs[name][number] > 0
            exchanged = np.where(keeps, scaled[0], scaled[1]), np.where(keeps, scaled[1], scaled[0])
            one, other = (averaged_correlation(x, human, groups, statistic=statistic).value for x in exchanged)
            differences.append(one - other)
        expected = (1 + sum(one >= differences[0] for one in differences[1:])) / 61
        result = permutation_test(first, second, human, groups, statistic=statistic, permutations=60, seed=5)
        assert result.difference == pytest.approx(differences[0])
        assert result.p_value == pytest.approx(expected)

    def test_units(self):
        (first, second), human, _ = metrics(60, noise=(0.5, 2.0))
        items = [str(row // 5) for row in range(60)]
        result = permutation_test(first, second, human, units=items)
        values = [averaged_correlation(one, human, items).value for one in (first, second)]
        assert result.difference == pytest.approx(values[0] - values[1])
        assert result.p_value < 0.01


class TestLaws:
    def test_both_directions(self):
        scores, human, groups = metrics(80, noise=(1.0, 1.3, 2.0))
        p_values = permutation_p_values(scores, human, groups)
        assert np.isnan(np.diagonal(p_values)).all()
        both = p_values + p_values.T
        off = ~np.eye(3, dtype=bool)
        assert (both[off] >= 1).all()
        assert (both[off] <= 1.01).all()  # but for equal differences and the two that are added
        assert p_values[0, 2] < 0.05 < 0.95 < p_values[2, 0]

    @pytest.mark.parametrize("statistic", CORRELATIONS)
    def test_scale_does_not_matter(self, statistic):
        scores, human, groups = metrics(50, noise=(1.0, 1.3))
        one = permutation_p_values(scores, human, groups, statistic=statistic, permutations=100)
        other = permutation_p_values(
            [1e6 * scores[0] - 3, 1e-6 * scores[1]], human, groups, statistic=statistic, permutations=100
        )
        np.testing.assert_array_equal(one, other)

    def test_a_metric_and_itself(self):
        (scores, _), human, groups = metrics(50)
        assert permutation_p_values([scores, 2 * scores + 1], human, groups)[0, 1] == 1

    def test_seed(self):
        scores, human, groups = metrics(80, noise=(1.0, 1.1))
        results = [permutation_test(*scores, human, groups, seed=seed) for seed in (0, 0, 1)]
        assert results[0] == results[1]
        assert results[0].p_value != results[2].p_value
        assert results[0].seed == 0

    def test_pairs_share_permutations(self):
        scores, human, groups = metrics(60, noise=(1.0, 1.3, 2.0))
        together = permutation_p_values(scores, human, groups)
        assert permutation_test(scores[1], scores[2], human, groups).p_value == together[1, 2]


@pytest.mark.parametrize("statistic", ["pearson", "kendall"])
def test_p_values_are_uniform_where_nothing_differs(statistic):
    p_values = [
        permutation_test(*metrics(60, seed)[0], *metrics(60, seed)[1:], statistic=statistic, permutations=99).p_value
        for seed in range(300)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) <= 0.05) <= 0.08


class TestUndefined:
    def test_constant_metric(self):
        (scores, _), human, groups = metrics(30)
        test = permutation_test(scores, np.ones(30), human, groups)
        assert math.isnan(test.p_value)
        assert math.isnan(test.difference)

    def test_permutations_without_value_do_not_count(self):
        np.testing.assert_allclose(
            p_value_matrix(np.array([[0.5, math.nan, 0.7, 0.1]]), 2), [[math.nan, 2 / 3], [2 / 3, math.nan]]
        )

    def test_a_group_without_correlation_is_left_out(self):
        scores, human, groups = metrics(60, noise=(1.0, 1.5))
        more = [np.append(one, [1.0, 1.0, 1.0]) for one in (*scores, human)]
        alone = permutation_test(*scores, human, groups)
        result = permutation_test(*more, [*groups, *["constant"] * 3])
        assert (result.difference, result.p_value) == (alone.difference, alone.p_value)


def test_bad_input():
    human = [1, 2, 3]
    with pytest.raises(InputError, match="kendall-c, but got 'acc23'"):
        permutation_test(human, human, human, statistic="acc23")
    with pytest.raises(InputError, match="at least one permutation, but got 0"):
        permutation_test(human, human, human, permutations=0)
    with pytest.raises(InputError, match="at least one metric"):
        permutation_p_values([], human)
    with pytest.raises(InputError, match="unit for each of 3 segments, but got 1"):
        permutation_test(human, human, human, units=["a"])
    with pytest.raises(InputError, match="group for each of 3 segments, but got 1"):
        permutation_test(human, human, human, ["a"])
    with pytest.raises(InputError, match="finite metric scores"):
        permutation_test([1, 2, math.nan], human, human)
