"""PERM-BOTH: its p-values, their symmetry and their distribution."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import averaged_correlation, permutation_p_values, permutation_test
from textmover.meta_evaluation.significance.significance_tests import (
    p_value_matrix,
    permutation_test_of_sums,
    swap_signs,
)
from textmover.meta_evaluation.statistics.correlation import CORRELATIONS
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
        rng = np.random.default_rng(5)
        scaled, signs = np.array([first, second]), np.ones((61, 40))
        for name in dict.fromkeys(groups):
            inside = np.flatnonzero(np.array(groups) == name)
            scaled[:, inside] = stats.zscore(scaled[:, inside], axis=1)
            signs[:, inside] = swap_signs(60, len(inside), rng)
        differences = []
        for row in signs:
            exchanged = np.where(row > 0, scaled, scaled[::-1])
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
        assert np.isnan([test.p_value, test.difference]).all()
        values = p_value_matrix(np.array([[0.5, math.nan, 0.7, 0.1]]), 2)  # a permutation without value does not count
        np.testing.assert_allclose(values, [[math.nan, 2 / 3], [2 / 3, math.nan]])

    def test_a_group_without_correlation_is_left_out(self):
        scores, human, groups = metrics(60, noise=(1.0, 1.5))
        more = [np.append(one, [1.0, 1.0, 1.0]) for one in (*scores, human)]
        alone = permutation_test(*scores, human, groups)
        result = permutation_test(*more, [*groups, *["constant"] * 3])
        assert (result.difference, result.p_value) == (alone.difference, alone.p_value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"statistic": "acc23"}, "kendall-c, but got 'acc23'"),
        ({"permutations": 0}, "at least one permutation, but got 0"),
        ({"scores": []}, "at least one metric"),
        ({"units": ["a"]}, "3 units, one per segment, but got 1"),
        ({"groups": ["a"]}, "3 groups, one per segment, but got 1"),
        ({"scores": [[1, 2, math.nan], [1, 2, 3]]}, "finite metric scores"),
        ({"scores": [[], []], "human": []}, "at least one segment, but got none"),
    ],
)
def test_bad_input(changed, message):
    with pytest.raises(InputError, match=message):
        permutation_p_values(**{"scores": [[1, 2, 3]] * 2, "human": [1, 2, 3], **changed})


def ratio(sums):
    return {"ratio": sums[..., 0] / sums[..., 1]}


def test_exchanged_sums_are_those_of_exchanged_rows():
    rng = np.random.default_rng(0)
    columns = rng.random((2, 5, 2)) + np.array([0.1, 1.0])
    found = permutation_test_of_sums(columns, ["a", "a", "b", "b", "b"], ratio, permutations=4000)["ratio"]

    def difference(swapped):
        one, two = np.where(swapped[:, None], columns[::-1], columns)
        parts = [slice(0, 2), slice(2, 5)]
        return np.mean([np.divide(*one[part].sum(axis=0)) - np.divide(*two[part].sum(axis=0)) for part in parts])

    every = [difference(np.array(one)) for one in itertools.product([False, True], repeat=5)]
    assert found[0, 1] == pytest.approx(np.mean([one >= every[0] - 1e-12 for one in every]), abs=0.03)
    assert found[1, 0] == pytest.approx(np.mean([one <= every[0] + 1e-12 for one in every]), abs=0.03)
    assert np.isnan(found.diagonal()).all()


def test_exchanged_sums_of_equal_systems_are_never_different():
    columns = np.random.default_rng(0).random((1, 20, 2))
    p_values = permutation_test_of_sums(np.concatenate([columns] * 3), None, ratio, permutations=50)["ratio"]
    assert p_values[~np.eye(3, dtype=bool)].tolist() == [1.0] * 6
    assert permutation_test_of_sums(columns, None, ratio) == {}
