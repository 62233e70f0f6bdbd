"""Agreement of predicted with true classes: accuracy, macro-F1, Matthews correlation, and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.significance.bootstrap import LEAST, Interval, percentiles
from textmover.types import InputError

LABEL_STATISTICS = ("accuracy", "macro_f1", "matthews")

CHUNK_ENTRIES = 1 << 22
"""Counts of draws that are held at a time."""


def confusion_matrix(labels: ArrayLike, predicted: ArrayLike, classes: int) -> NDArray[np.int64]:
    """Count how often each class (row) was predicted as each class (column), ``[C, C]``.

    Args:
        labels: True classes ``[n]``, from 0 to ``classes - 1``.
        predicted: Predicted classes ``[n]``.
        classes: Number of classes ``C``.

    Example:
        >>> confusion_matrix([0, 0, 1], [0, 1, 1], 2).tolist()
        [[1, 1], [0, 1]]
    """
    true, found = np.asarray(labels, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if true.shape != found.shape or true.ndim != 1:
        raise InputError(f"Expected as many predictions as labels, but got {found.shape} and {true.shape}: pair them.")
    if len(true) and (min(true.min(), found.min()) < 0 or max(true.max(), found.max()) >= classes):
        raise InputError(f"Expected classes from 0 to {classes - 1}, but got others: count them all in `classes`.")
    return np.bincount(true * classes + found, minlength=classes**2).reshape(classes, classes)


def label_statistics(confusion: NDArray[np.generic]) -> dict[str, NDArray[np.float64]]:
    r"""Statistics of confusion matrices.

    With counts :math:`c_{ij}` (true ``i``, predicted ``j``), :math:`t_i` and :math:`p_j` their row and column sums and
    :math:`s` their sum: accuracy :math:`\sum_i c_{ii} / s`; macro-F1, the mean of :math:`2 c_{ii} / (t_i + p_i)` over
    the classes that occur on either side; Matthews correlation
    :math:`(s \sum_i c_{ii} - \sum_i t_i p_i) / \sqrt{(s^2 - \sum_i p_i^2)(s^2 - \sum_i t_i^2)}`, 0 where either side
    is constant.

    Args:
        confusion: Counts ``[…, C, C]``.

    Returns:
        ``accuracy``, ``macro_f1`` and ``matthews``, ``[…]`` each.

    Example:
        >>> found = label_statistics(np.array([[2, 0], [1, 1]]))
        >>> {name: round(float(value), 3) for name, value in found.items()}
        {'accuracy': 0.75, 'macro_f1': 0.733, 'matthews': 0.577}

    Reference:
        Gorodkin 2004, Comparing two K-category assignments by a K-category correlation coefficient, Eq. 8.
    """
    counts = confusion.astype(np.float64)
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    true, found = counts.sum(axis=-1), counts.sum(axis=-2)
    total = true.sum(axis=-1)
    occurs = (true + found) > 0
    f1 = np.where(occurs, 2 * right / np.where(occurs, true + found, 1.0), 0.0)
    spread = np.sqrt((total**2 - (found**2).sum(axis=-1)) * (total**2 - (true**2).sum(axis=-1)))
    covariance = total * right.sum(axis=-1) - (true * found).sum(axis=-1)
    return {
        "accuracy": right.sum(axis=-1) / np.maximum(total, 1),
        "macro_f1": f1.sum(axis=-1) / np.maximum(occurs.sum(axis=-1), 1),
        "matthews": np.where(spread > 0, covariance / np.where(spread > 0, spread, 1.0), 0.0),
    }


def bootstrap_labels(
    labels: Sequence[int],
    predicted: Sequence[int],
    classes: int,
    clusters: Sequence[str],
    *,
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Interval]:
    """Statistics of labels with confidence intervals, by a bootstrap that draws whole clusters.

    Args:
        labels: True classes.
        predicted: Predicted classes.
        classes: Number of classes.
        clusters: What is drawn together, such as the text that items share.
        samples: Draws.
        seed: Seed of the draws.
        level: Share of the draws within the interval.

    Returns:
        An interval for each of :data:`LABEL_STATISTICS`; its ends are NaN where there are fewer than two clusters.

    Example:
        >>> found = bootstrap_labels([0, 1, 0, 1], [0, 1, 0, 1], 2, ["a", "b", "c", "d"])["accuracy"]
        >>> found.estimate, found.low, found.high
        (1.0, 1.0, 1.0)
    """
    whole = confusion_matrix(labels, predicted, classes)
    cells = np.asarray(labels, dtype=np.int64) * classes + np.asarray(predicted, dtype=np.int64)
    number, owners = _owners(clusters)
    statistics = label_statistics(whole)
    if number < LEAST:
        return {name: _without_ends(float(value), number) for name, value in statistics.items()}
    drawn = _drawn_sums(np.eye(classes**2)[cells], owners, number, samples, seed)
    found = label_statistics(drawn.reshape(samples, classes, classes))
    return {
        name: Interval(float(value), *percentiles(found[name], level), clusters=(("all", number),))
        for name, value in statistics.items()
    }


def bootstrap_share(
    hits: ArrayLike, clusters: Sequence[str], *, samples: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Share of hits with its confidence interval, by a bootstrap that draws whole clusters.

    Args:
        hits: 1 or 0 for each item, ``[n]``.
        clusters: What is drawn together.
        samples: Draws.
        seed: Seed of the draws.
        level: Share of the draws within the interval.

    Returns:
        The share, NaN of nothing, and its interval, whose ends are NaN where there are fewer than two clusters.

    Example:
        >>> bootstrap_share([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"]).estimate
        0.5
    """
    values = np.asarray(hits, dtype=np.float64)
    number, owners = _owners(clusters)
    if number < LEAST:
        return _without_ends(float(values.mean()) if len(values) else math.nan, number)
    drawn = _drawn_sums(np.stack([values, np.ones_like(values)], axis=1), owners, number, samples, seed)
    share, ends = float(values.mean()), percentiles(drawn[:, 0] / drawn[:, 1], level)
    return Interval(share, *ends, clusters=(("all", number),))


def _without_ends(estimate: float, number: int) -> Interval:
    """Value without an interval, for items of a single cluster: every draw would be the same."""
    return Interval(estimate, math.nan, math.nan, clusters=(("all", number),))


def _owners(clusters: Sequence[str]) -> tuple[int, NDArray[np.int64]]:
    """Number of clusters, and the number of each item's."""
    names, owners = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    return len(names), owners


def _drawn_sums(
    columns: NDArray[np.float64], owners: NDArray[np.int64], number: int, samples: int, seed: int
) -> NDArray[np.float64]:
    """Sums of the columns ``[n, K]`` over as many clusters as there are, drawn with replacement, ``[samples, K]``."""
    sums = np.zeros((number, columns.shape[1]))
    np.add.at(sums, owners, columns)
    rng = np.random.default_rng(seed)
    chunk = max(1, CHUNK_ENTRIES // number)
    parts = [
        rng.multinomial(number, np.full(number, 1 / number), size=min(chunk, samples - start)) @ sums
        for start in range(0, samples, chunk)
    ]
    return np.concatenate(parts)
