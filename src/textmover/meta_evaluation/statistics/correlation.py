"""Agreement of a metric with people on segments: Pearson, Spearman and Kendall, overall and per group.

Everything is float64. A correlation that is not defined (fewer than three segments, or scores that are all equal) is
NaN, without a warning, and is counted wherever groups are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from textmover.types import InputError

MIN_SEGMENTS = 3
"""Fewest segments that a correlation is computed of."""


class Correlation(NamedTuple):
    """Agreement of two lists of scores.

    Attributes:
        n: Number of segments.
        pearson: Pearson's r, in [-1, 1]; NaN where it is not defined.
        spearman: Spearman's ρ, in [-1, 1]; NaN where it is not defined.
        kendall: Kendall's τ-b, in [-1, 1]; NaN where it is not defined.
    """

    n: int
    pearson: float
    spearman: float
    kendall: float


class MeanCorrelation(NamedTuple):
    """Unweighted mean of the correlations of several groups.

    Attributes:
        n: Number of segments in the groups that were averaged.
        pearson: Mean of Pearson's r; NaN if no group has one.
        spearman: Mean of Spearman's ρ; NaN if no group has one.
        kendall: Mean of Kendall's τ-b; NaN if no group has one.
        groups: Number of groups that were averaged.
        undefined: Names of the groups left out because their correlation is NaN.
    """

    n: int
    pearson: float
    spearman: float
    kendall: float
    groups: int
    undefined: tuple[str, ...]


def correlations(metric_scores: ArrayLike, human_scores: ArrayLike) -> Correlation:
    """Pearson's r, Spearman's ρ and Kendall's τ-b of a metric with people.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.

    Returns:
        The three statistics; NaN for fewer than three segments and where either list is constant.

    Raises:
        InputError: If the lists differ in length or hold NaN or infinity.

    Example:
        >>> [round(value, 3) for value in correlations([0.1, 0.4, 0.2, 0.9], [1, 2, 3, 4])]
        [4, 0.798, 0.8, 0.667]
    """
    metric, human = paired_scores(metric_scores, human_scores)
    return Correlation(len(metric), pearson(metric, human), spearman(metric, human), kendall(metric, human))


def grouped_correlations(
    metric_scores: ArrayLike, human_scores: ArrayLike, groups: Sequence[str]
) -> dict[str, Correlation]:
    """Correlations within each group, such as each language pair.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.
        groups: Group of each segment, ``n`` names.

    Returns:
        Correlation by group, in the order in which the groups appear.

    Raises:
        InputError: If the lists differ in length or hold NaN or infinity.

    Example:
        >>> by_group = grouped_correlations([1, 2, 3, 1, 2, 3], [1, 2, 3, 3, 2, 1], ["a"] * 3 + ["b"] * 3)
        >>> {group: round(correlation.kendall, 6) for group, correlation in by_group.items()}
        {'a': 1.0, 'b': -1.0}
    """
    metric, human = paired_scores(metric_scores, human_scores)
    positions = group_positions(groups, len(metric))
    return {group: correlations(metric[members], human[members]) for group, members in positions.items()}


def mean_correlation(by_group: Mapping[str, Correlation]) -> MeanCorrelation:
    """Mean over groups, each group counting the same; groups without a correlation are left out and named.

    Args:
        by_group: Correlation by group, as from :func:`grouped_correlations`.

    Returns:
        The means, over how many groups they are, and which groups are missing.

    Example:
        >>> mean_correlation({"a": Correlation(9, 0.5, 0.5, 0.5), "b": Correlation(2, *[float("nan")] * 3)})
        MeanCorrelation(n=9, pearson=0.5, spearman=0.5, kendall=0.5, groups=1, undefined=('b',))
    """
    defined = [one for one in by_group.values() if not np.isnan(one[1:]).any()]
    undefined = tuple(group for group, one in by_group.items() if np.isnan(one[1:]).any())
    means = np.mean([one[1:] for one in defined], axis=0) if defined else np.full(3, np.nan)
    r, rho, tau = means.tolist()
    return MeanCorrelation(sum(one.n for one in defined), r, rho, tau, len(defined), undefined)


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's ``r = Σ (x - x̄)(y - ȳ) / √(Σ (x - x̄)² Σ (y - ȳ)²)``.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.

    Returns:
        A value in [-1, 1], or NaN if there are fewer than three scores or either list is constant.

    Raises:
        InputError: If the lists differ in length or hold NaN or infinity.

    Example:
        >>> round(pearson([1, 2, 3], [1, 2, 4]), 6)
        0.981981
    """
    x, y = paired_scores(x, y)
    if not _is_defined(x, y):
        return float("nan")
    x, y = _unit(x), _unit(y)
    return float(np.clip(x @ y, -1, 1))


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's ρ: Pearson's r of the ranks, where equal scores share their mean rank.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.

    Returns:
        A value in [-1, 1], or NaN if there are fewer than three scores or either list is constant.

    Raises:
        InputError: If the lists differ in length or hold NaN or infinity.

    Example:
        >>> round(spearman([1, 2, 3], [1, 8, 64]), 6)
        1.0
    """
    x, y = paired_scores(x, y)
    return pearson(stats.rankdata(x), stats.rankdata(y))


def kendall(x: ArrayLike, y: ArrayLike) -> float:
    """Kendall's ``τ_b = (C - D) / √((C + D + T_x)(C + D + T_y))``.

    ``C`` and ``D`` count the concordant and discordant pairs of segments, ``T_x`` and ``T_y`` those tied in one list
    alone.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.

    Returns:
        A value in [-1, 1], or NaN if there are fewer than three scores or either list is constant.

    Raises:
        InputError: If the lists differ in length or hold NaN or infinity.

    Example:
        >>> round(kendall([1, 2, 3, 4], [1, 2, 2, 0]), 6)
        -0.182574
    """
    x, y = paired_scores(x, y)
    if not _is_defined(x, y):
        return float("nan")
    return float(stats.kendalltau(x, y, variant="b", method="asymptotic").statistic)


def kendall_c(x: ArrayLike, y: ArrayLike) -> float:
    """Kendall's (Stuart's) ``τ_c = 2 (C - D) q / (n² (q - 1))``, ``q`` the smaller number of distinct scores.

    Meant for scales of unequal length: it can reach ±1 although one list has more ties than the other.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.

    Returns:
        A value in [-1, 1], or NaN if there are fewer than three scores or either list is constant.

    Example:
        >>> round(kendall_c([1, 2, 3, 4], [1, 1, 2, 2]), 6)
        1.0
    """
    x, y = paired_scores(x, y)
    if not _is_defined(x, y):
        return float("nan")
    return float(stats.kendalltau(x, y, variant="c", method="asymptotic").statistic)


def standard_scores(x: ArrayLike) -> NDArray[np.float64]:
    """Scores of mean 0 and standard deviation 1; all 0 where the scores are constant.

    Args:
        x: Scores ``[n]``.

    Returns:
        float64 ``[n]``; equal scores stay equal.

    Example:
        >>> standard_scores([1, 3]), standard_scores([0.1, 0.1, 0.1])
        (array([-1.,  1.]), array([0., 0., 0.]))
    """
    x = finite_scores(x, "scores")
    if not len(x) or x.min() == x.max():
        return np.zeros_like(x)
    return _unit(x) * np.sqrt(len(x))


def finite_scores(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    """Scores as a float64 vector.

    Args:
        scores: Scores ``[n]``.
        name: What errors call them, such as ``"metric scores"``.

    Returns:
        float64 ``[n]``.

    Example:
        >>> finite_scores([1, 2], "human scores")
        array([1., 2.])
    """
    try:
        vector = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected {name} to be numbers, but got '{error}': give one number per segment.") from error
    if vector.ndim != 1:
        raise InputError(f"Expected {name} of shape [n], but got {list(vector.shape)}: give one number per segment.")
    wrong = np.flatnonzero(~np.isfinite(vector))
    if len(wrong):
        listed = ", ".join(map(str, wrong[:5])) + (", …" if len(wrong) > 5 else "")
        raise InputError(
            f"Expected finite {name}, but got NaN or infinity for {len(wrong)} of {len(vector)} segments "
            f"(counted from 0: {listed}): leave those segments out of every list."
        )
    return vector


def paired_scores(metric_scores: ArrayLike, human_scores: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two lists of scores of the same segments as float64 vectors.

    Args:
        metric_scores: Metric score of each segment, ``[n]``.
        human_scores: Human score of each segment, ``[n]``.

    Returns:
        Both as float64 ``[n]``.
    """
    metric, human = finite_scores(metric_scores, "metric scores"), finite_scores(human_scores, "human scores")
    if len(metric) != len(human):
        raise InputError(
            f"Expected a metric score and a human score for each segment, but got {len(metric)} and {len(human)}: "
            "give both in the same order."
        )
    return metric, human


def group_positions(groups: Sequence[str], n: int) -> dict[str, NDArray[np.int64]]:
    """Positions of the members of each group, groups in the order in which they appear.

    Args:
        groups: Group of each segment.
        n: Number of segments that there should be.

    Example:
        >>> group_positions(["b", "a", "b"], 3)
        {'b': array([0, 2]), 'a': array([1])}
    """
    if len(groups) != n:
        raise InputError(f"Expected a group for each of {n} segments, but got {len(groups)}: give one per segment.")
    members: dict[str, list[int]] = {}
    for position, group in enumerate(groups):
        members.setdefault(group, []).append(position)
    return {group: np.asarray(positions, dtype=np.int64) for group, positions in members.items()}


def _is_defined(x: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    """Whether a correlation exists: enough segments, and neither list constant."""
    return len(x) >= MIN_SEGMENTS and bool(x.min() < x.max() and y.min() < y.max())


def _unit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred and of norm 1; divided by the largest entry first, so that no square over- or underflows."""
    x = x / np.abs(x).max()
    x = x - x.mean()
    x = x / np.abs(x).max()
    return x / np.linalg.norm(x)
