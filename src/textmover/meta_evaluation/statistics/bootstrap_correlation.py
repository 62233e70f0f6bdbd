"""Correlations of many draws at once, for the bootstrap: SciPy's numbers, without a loop over draws.

A draw is a row of counts, how often each segment was taken, and its correlation is that of the segments with these
counts as weights. All of it is float64; a draw without a correlation (fewer than three segments, or scores that are
all equal) gives NaN, found by comparing scores, where a variance would not be exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textmover.meta_evaluation.statistics.correlation import MIN_SEGMENTS

Vector = NDArray[np.float64]
Counts = NDArray[np.int64]

CHUNK_ENTRIES = 2**20
"""Entries of the largest table that is held at once; larger ones are worked off in chunks."""

CANCELLATION = 0.1
"""Least share of a sum of squares that has to remain once the mean is taken off, for the difference to be trusted."""


def drawn_pearson(x: Vector, y: Vector, counts: Counts) -> Vector:
    """Pearson's r of every draw: each segment weighs as often as it was drawn.

    ``r = Σ c (x - x̄)(y - ȳ) / √(Σ c (x - x̄)² Σ c (y - ȳ)²)`` with ``x̄ = Σ c x / Σ c``.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.
        counts: How often each draw took each segment, ``[samples, n]``.

    Returns:
        ``[samples]``; NaN for draws with fewer than three segments or constant scores.

    Example:
        >>> drawn_pearson(np.array([1.0, 2, 3]), np.array([3.0, 1, 2]), np.array([[0, 2, 1], [3, 0, 0]]))
        array([ 1., nan])
    """
    scaled_x, scaled_y = _scaled(x), _scaled(y)
    columns = np.stack([np.ones_like(scaled_x), scaled_x, scaled_y, scaled_x**2, scaled_y**2, scaled_x * scaled_y])
    total, sum_x, sum_y, square_x, square_y, product = (counts.astype(np.float64) @ columns.T).T
    total = np.maximum(total, 1.0)
    variance_x, variance_y = square_x - sum_x**2 / total, square_y - sum_y**2 / total
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = (product - sum_x * sum_y / total) / np.sqrt(variance_x) / np.sqrt(variance_y)
    # Scores are centred, so that a draw's mean is near 0; where it is not, differences of sums lose digits.
    unsure = (variance_x <= CANCELLATION * square_x) | (variance_y <= CANCELLATION * square_y)
    unsure |= total < MIN_SEGMENTS
    if unsure.any():
        few = counts[unsure]
        exact = _weighted_pearson(scaled_x, scaled_y, few)
        correlation[unsure] = np.where(_are_defined(x, y, few), exact, np.nan)
    return np.clip(correlation, -1, 1)


def drawn_spearman(x: Vector, y: Vector, counts: Counts) -> Vector:
    """Spearman's ρ of every draw: Pearson's r of the ranks within the draw, ties sharing their mean rank.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.
        counts: How often each draw took each segment, ``[samples, n]``.

    Returns:
        ``[samples]``; NaN for draws with fewer than three segments or constant scores.

    Example:
        >>> drawn_spearman(np.array([1.0, 2, 30]), np.array([3.0, 1, 2]), np.array([[0, 2, 1], [1, 1, 1]]))
        array([ 1. , -0.5])
    """
    correlation = _weighted_pearson(_drawn_ranks(x, counts), _drawn_ranks(y, counts), counts)
    return np.where(_are_defined(x, y, counts), correlation, np.nan)


def drawn_kendall(x: Vector, y: Vector, counts: Counts) -> Vector:
    """Kendall's τ-b of every draw.

    ``τ_b = cᵀ(S_x∘S_y)c / √(cᵀ|S_x|c · cᵀ|S_y|c)`` with the matrices of signs ``S_x[i, j] = sign(x_i - x_j)``:
    copies of one segment are tied with each other, and every sum is of integers, hence exact.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.
        counts: How often each draw took each segment, ``[samples, n]``.

    Returns:
        ``[samples]``; NaN for draws with fewer than three segments or constant scores.

    Example:
        >>> drawn_kendall(np.array([1.0, 2, 3]), np.array([3.0, 1, 2]), np.array([[0, 2, 1], [1, 1, 1]])).round(6)
        array([ 1.      , -0.333333])
    """
    difference, untied_x, untied_y = _pair_sums(x, y, counts)
    with np.errstate(invalid="ignore"):
        tau = difference / np.sqrt(untied_x) / np.sqrt(untied_y)
    return np.where(_are_defined(x, y, counts), np.clip(tau, -1, 1), np.nan)


def drawn_kendall_c(x: Vector, y: Vector, counts: Counts) -> Vector:
    """Kendall's ``τ_c = 2 (C - D) q / (n² (q - 1))`` of every draw, ``q`` the smaller number of distinct scores.

    Args:
        x: Scores ``[n]``.
        y: Scores ``[n]``.
        counts: How often each draw took each segment, ``[samples, n]``.

    Returns:
        ``[samples]``; NaN for draws with fewer than three segments or constant scores.

    Example:
        >>> drawn_kendall_c(np.array([1.0, 2, 3]), np.array([3.0, 1, 2]), np.array([[0, 2, 1], [1, 1, 1]])).round(6)
        array([ 0.888889, -0.333333])
    """
    difference, _, _ = _pair_sums(x, y, counts)
    fewest = np.minimum(_distinct(x, counts), _distinct(y, counts)).astype(np.float64)
    total = counts.sum(axis=1).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = difference / total**2 * fewest / (fewest - 1)
    return np.where(_are_defined(x, y, counts), np.clip(tau, -1, 1), np.nan)


def _pair_sums(x: Vector, y: Vector, counts: Counts) -> Vector:
    """``2 (C - D)`` of every draw, and twice the pairs untied in ``x`` and in ``y``: ``[3, samples]``."""
    weights = counts.astype(np.float64)
    sums = np.zeros((3, len(weights)))
    step = max(1, CHUNK_ENTRIES // len(x))
    for start in range(0, len(x), step):
        columns = slice(start, start + step)
        sign_x = np.sign(x[:, None] - x[columns])
        sign_y = np.sign(y[:, None] - y[columns])
        for row, signs in enumerate((sign_x * sign_y, np.abs(sign_x), np.abs(sign_y))):
            sums[row] += np.einsum("sj,sj->s", weights @ signs, weights[:, columns])
    return sums


def _distinct(x: Vector, counts: Counts) -> NDArray[np.int64]:
    """Number of distinct scores in each draw, ``[samples]``."""
    order = np.argsort(x, kind="stable")
    starts = np.flatnonzero(np.diff(x[order], prepend=-np.inf))
    return np.asarray((np.add.reduceat(counts[:, order], starts, axis=1) > 0).sum(axis=1))


def _are_defined(x: Vector, y: Vector, counts: Counts) -> NDArray[np.bool_]:
    """Draws that have a correlation, ``[samples]``: enough segments, and neither list constant."""
    return (counts.sum(axis=1) >= MIN_SEGMENTS) & _vary(x, counts) & _vary(y, counts)


def _vary(x: Vector, counts: Counts) -> NDArray[np.bool_]:
    """Draws whose lowest and highest score differ, ``[samples]``; exact, where a variance would not be."""
    order = np.argsort(x)
    drawn = counts[:, order] > 0
    lowest = drawn.argmax(axis=1)
    highest = len(x) - 1 - drawn[:, ::-1].argmax(axis=1)
    return x[order[lowest]] < x[order[highest]]


def _drawn_ranks(x: Vector, counts: Counts) -> Vector:
    """Rank of each segment within each draw, ``[samples, n]``: the mean rank of all its equals that were drawn."""
    _, level = np.unique(x, return_inverse=True)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))  # where the sorted scores change
    equals = np.add.reduceat(counts[:, order], starts, axis=1)  # [samples, levels]
    ranks = equals.cumsum(axis=1) - (equals - 1) / 2
    return ranks[:, level]


def _scaled(x: Vector) -> Vector:
    """Centred, with 1 as the largest entry, so that squares neither over- nor underflow; zero if constant."""
    x = x / (np.abs(x).max() or 1.0)
    x = x - x.mean()
    return x / (np.abs(x).max() or 1.0)


def _weighted_pearson(x: Vector, y: Vector, counts: Counts) -> Vector:
    """Pearson's r of every draw, of scores ``[n]`` or ``[samples, n]``; anything where it is not defined."""
    weights = counts.astype(np.float64)
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    x = x - (weights * x).sum(axis=1, keepdims=True) / total
    y = y - (weights * y).sum(axis=1, keepdims=True) / total
    weighted_x = weights * x
    covariance = np.einsum("sn,sn->s", weighted_x, y)
    variance_x = np.einsum("sn,sn->s", weighted_x, x)
    variance_y = np.einsum("sn,sn->s", weights * y, y)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(covariance / np.sqrt(variance_x) / np.sqrt(variance_y), -1, 1)
