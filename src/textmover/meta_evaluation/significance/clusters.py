"""Significance clusters: which metrics share a rank because no test tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from textmover.types import InputError


def significance_clusters(
    values: Sequence[float] | np.ndarray, p_values: ArrayLike, *, threshold: float = 0.05
) -> tuple[int | None, ...]:
    """Ranks by the greedy rule of the WMT metrics tasks.

    Metrics are visited from the best value to the worst, equal values in the order given. The first opens cluster 1. A
    metric opens the next cluster if *any* member of the present cluster is significantly better than it
    (``p ≤ threshold``); otherwise it joins the present cluster. So no member of a cluster is significantly worse than
    another member, and every cluster but the first begins with a metric that is significantly worse than some member
    of the one before it. Members of neighbouring clusters need not all differ significantly.

    Args:
        values: Agreement of each of ``K`` metrics; NaN where it has none.
        p_values: One-sided p-values ``[K, K]``: entry ``[i, j]`` that of "metric i agrees better than metric j". NaN
            (not tested) is not significant.
        threshold: Largest p-value that is significant.

    Returns:
        Rank of each metric, from 1; ``None`` for metrics without a value.

    Raises:
        InputError: If the shapes do not fit.

    Example:
        >>> significance_clusters([0.5, 0.7, 0.69], [[1, 1, 1], [0.01, 1, 0.4], [0.2, 0.6, 1]])
        (2, 1, 1)

    Reference:
        Freitag et al. (2023), Results of WMT23 Metrics Shared Task.
    """
    found, tests = np.asarray(values, dtype=np.float64), np.asarray(p_values, dtype=np.float64)
    if found.ndim != 1 or tests.shape != (len(found), len(found)):
        raise InputError(
            f"Expected p-values of shape [{found.size}, {found.size}] for {found.size} metrics, but got "
            f"{list(tests.shape)}: give one for each ordered pair."
        )
    ranks: list[int | None] = [None] * len(found)
    rank = 1
    cluster: list[int] = []
    for metric in np.argsort(-found, kind="stable").tolist():
        if np.isnan(found[metric]):
            continue
        if any(tests[member, metric] <= threshold for member in cluster):
            rank, cluster = rank + 1, []
        cluster.append(metric)
        ranks[metric] = rank
    return tuple(ranks)
