"""Ranks of significance clusters against the rule written another way."""

import math

import numpy as np
import pytest

from textmover.meta_evaluation import significance_clusters
from textmover.types import InputError


def by_recursion(order, p_values):
    """Take the longest run from the best on in which nobody is significantly worse than one before; then the rest."""
    if not order:
        return []
    end = next(
        (place for place in range(1, len(order)) if any(p_values[i][order[place]] <= 0.05 for i in order[:place])),
        len(order),
    )
    return [order[:end], *by_recursion(order[end:], p_values)]


@pytest.mark.parametrize("seed", range(20))
def test_rule(seed):
    rng = np.random.default_rng(seed)
    values, p_values = rng.normal(size=8), rng.random((8, 8)) ** 3
    ranks = significance_clusters(values, p_values)
    clusters = by_recursion(np.argsort(-values).tolist(), p_values)
    for rank, cluster in enumerate(clusters, 1):
        assert {ranks[metric] for metric in cluster} == {rank}


def test_any_member_of_the_cluster_counts():
    """The third is worse than the first, though not than the second."""
    p_values = [[1, 0.3, 0.05], [0.7, 1, 0.2], [0.99, 0.8, 1]]
    assert significance_clusters([3, 2, 1], p_values) == (1, 1, 2)
    assert significance_clusters([3, 2, 1], p_values, threshold=0.01) == (1, 1, 1)


def test_without_values_or_tests():
    nothing = np.full((3, 3), math.nan)
    assert significance_clusters([0.1, math.nan, 0.3], nothing) == (1, None, 1)
    assert significance_clusters([], np.zeros((0, 0))) == ()


def test_bad_input():
    with pytest.raises(InputError, match=r"shape \[2, 2\] for 2 metrics, but got \[3, 3\]"):
        significance_clusters([1, 2], np.ones((3, 3)))
