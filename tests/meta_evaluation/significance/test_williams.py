"""Williams' test against the formula written another way, and its rate of errors by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from textmover.meta_evaluation import williams_test, williams_test_of_scores
from textmover.types import InputError


def by_determinant(r12, r13, r23, n):
    """The formula with the determinant of the correlation matrix in the place of K."""
    determinant = np.linalg.det([[1, r12, r13], [r12, 1, r23], [r13, r23, 1]])
    mean = (r12 + r13) / 2
    return (r12 - r13) * np.sqrt((n - 1) * (1 + r23) / (2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - r23) ** 3))


@pytest.mark.parametrize("n", [4, 20, 560])
@pytest.mark.parametrize(("r12", "r13", "r23"), [(0.7, 0.6, 0.8), (0.3, 0.5, 0.1), (0.5, 0.5, 0.9), (-0.2, 0.1, 0.0)])
def test_formula(r12, r13, r23, n):
    result = williams_test(r12, r13, r23, n)
    expected = by_determinant(r12, r13, r23, n)
    assert result.t == pytest.approx(expected)
    assert result.df == n - 3
    assert result.p_value == pytest.approx(1 - stats.t.cdf(expected, n - 3))
    assert williams_test(r13, r12, r23, n).p_value == pytest.approx(1 - result.p_value)


def test_errors_are_as_rare_as_promised():
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(400):
        human = rng.normal(size=60)
        shared = human + rng.normal(size=60)
        p_values.append(williams_test_of_scores(*(shared + rng.normal(size=(2, 60))), human).p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_of_scores():
    human, first, second = np.random.default_rng(0).normal(size=(3, 30)) + 2 * np.random.default_rng(1).normal(size=30)
    r = np.corrcoef([human, first, second])
    assert williams_test_of_scores(first, second, human) == pytest.approx(williams_test(r[0, 1], r[0, 2], r[1, 2], 30))


def test_not_defined():
    assert math.isnan(williams_test(math.nan, 0.1, 0.2, 10).p_value)
    assert math.isnan(williams_test_of_scores([1, 1, 1, 1], [1, 2, 3, 4], [1, 2, 3, 5]).p_value)
    assert np.isnan(williams_test(1.0, 1.0, 1.0, 10)[::2]).all()


@pytest.mark.parametrize("factor", [3.7, 1e-3, -1, -0.3])
def test_rescaled_metric_has_no_test(factor):
    """The formula would divide rounding errors by rounding errors, with p-values such as 1e-51 or 1."""
    for seed in range(40):
        metric, noise = np.random.default_rng(seed).normal(size=(2, 25))
        assert math.isnan(williams_test_of_scores(metric, factor * metric + 0.4, metric + noise).p_value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.1, 0.2, 0.3, 3), r"at least four segments .* but got 3"),
        ((0.1, 1.2, 0.3, 30), r"`r13` to be a correlation, in \[-1, 1\], but got 1.2"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        williams_test(*arguments)
