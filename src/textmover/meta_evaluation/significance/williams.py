"""Williams' test: does one of two metrics correlate significantly better with people?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from textmover.meta_evaluation.statistics.correlation import correlation
from textmover.meta_evaluation.statistics.scores import finite_scores
from textmover.types import InputError


class WilliamsTest(NamedTuple):
    """Outcome of Williams' test.

    Attributes:
        t: Test statistic; above 0 where the first metric correlates better.
        df: Degrees of freedom, ``n - 3``.
        p_value: One-sided: probability of such a ``t`` or a larger one if the first metric were not better. That of the
            other direction is ``1 - p_value``.
    """

    t: float
    df: int
    p_value: float


def williams_test(r12: float, r13: float, r23: float, n: int) -> WilliamsTest:
    """Williams' test of the difference of two correlations that share a variable.

    ``t = (r12 - r13) √((n-1)(1+r23)) / √(2 (n-1)/(n-3) K + r̄² (1-r23)³)`` with
    ``K = 1 - r12² - r13² - r23² + 2 r12 r13 r23`` and ``r̄ = (r12 + r13)/2``.

    Args:
        r12: Pearson's r of people and the first metric.
        r13: Pearson's r of people and the second metric.
        r23: Pearson's r of the two metrics.
        n: Number of segments, at least 4.

    Returns:
        The test; NaN where a correlation is NaN, or where two metrics that are the same leave nothing to test.

    Raises:
        InputError: If there are fewer than four segments, or a correlation is not in [-1, 1].

    Example:
        >>> test = williams_test(0.7, 0.6, 0.8, 103)
        >>> round(test.t, 3), test.df, round(test.p_value, 4)
        (2.214, 100, 0.0146)

    Reference:
        Williams (1959), Regression Analysis; Graham and Baldwin (2014), Testing for Significance of Increased
        Correlation with Human Judgment.
    """
    if n < 4:
        raise InputError(f"Expected at least four segments for Williams' test, but got {n}: give more.")
    for name, r in (("r12", r12), ("r13", r13), ("r23", r23)):
        if abs(r) > 1:
            raise InputError(f"Expected `{name}` to be a correlation, in [-1, 1], but got {r}: give Pearson's r.")
    k = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    mean = (r12 + r13) / 2
    spread = 2 * (n - 1) / (n - 3) * max(k, 0.0) + mean**2 * (1 - r23) ** 3
    if math.isnan(spread) or spread == 0:
        return WilliamsTest(float("nan"), n - 3, float("nan"))
    t = (r12 - r13) * math.sqrt((n - 1) * (1 + r23)) / math.sqrt(spread)
    return WilliamsTest(t, n - 3, float(stats.t.sf(t, n - 3)))


def williams_test_of_scores(first: ArrayLike, second: ArrayLike, human: ArrayLike) -> WilliamsTest:
    """Williams' test of two metrics on the same segments.

    Args:
        first: Scores of the first metric, ``[n]``.
        second: Scores of the second metric, ``[n]``.
        human: Human scores, ``[n]``.

    Returns:
        The test of whether the first correlates better; NaN where a correlation is not defined.

    Raises:
        InputError: If lists differ in length or hold NaN or infinity, or there are fewer than four segments.

    Example:
        >>> human = np.arange(20.0)
        >>> first, second = np.random.default_rng(0).normal(size=(2, 20)) * [[3], [9]] + human
        >>> williams_test_of_scores(first, second, human).p_value < 0.05
        True
    """
    x, y, z = finite_scores(first, "first scores"), finite_scores(second, "second scores"), np.asarray(human)
    return williams_test(correlation(x, z), correlation(y, z), correlation(x, y), len(x))
