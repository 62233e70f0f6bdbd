"""Agreement of predicted with true classes: accuracy, macro-F1, Matthews correlation, and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.significance.bootstrap import LEAST, Interval, draw_sums, percentiles
from textmover.types import InputError

LABEL_STATISTICS = ("accuracy", "macro_f1", "matthews")


def confusion_matrix(labels: ArrayLike, predicted: ArrayLike, classes: int) -> NDArray[np.int64]:
    """Count how often each class (row) was predicted as each class (column), ``[C, C]``."""
    true, found = np.asarray(labels, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if true.shape != found.shape or true.ndim != 1:
        raise InputError(f"Expected as many predictions as labels, but got {found.shape} and {true.shape}: pair them.")
    if len(true) and (min(true.min(), found.min()) < 0 or max(true.max(), found.max()) >= classes):
        raise InputError(f"Expected classes from 0 to {classes - 1}, but got others: count them all in `classes`.")
    return np.bincount(true * classes + found, minlength=classes**2).reshape(classes, classes)


def label_statistics(confusion: NDArray[np.generic]) -> dict[str, NDArray[np.float64]]:
    """Accuracy, macro-F1 and Matthews correlation (Gorodkin 2004, Eq. 8) of confusion matrices, ``[…, C, C]``."""
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
    """Statistics of labels with confidence intervals, by a bootstrap that draws whole clusters."""
    estimates = label_statistics(confusion_matrix(labels, predicted, classes))
    cells = np.asarray(labels, dtype=np.int64) * classes + np.asarray(predicted, dtype=np.int64)

    def statistics(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return label_statistics(sums.reshape(len(sums), classes, classes))

    return _intervals(estimates, np.eye(classes**2)[cells], clusters, statistics, samples, seed, level)


def bootstrap_share(
    hits: ArrayLike, clusters: Sequence[str], *, samples: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Share of hits with its confidence interval, by a bootstrap that draws whole clusters."""
    values = np.asarray(hits, dtype=np.float64)
    estimate = values.mean() if len(values) else np.float64(np.nan)
    columns = np.stack([values, np.ones_like(values)], axis=1)
    found = _intervals(
        {"share": estimate}, columns, clusters, lambda sums: {"share": sums[:, 0] / sums[:, 1]}, samples, seed, level
    )
    return found["share"]


def _intervals(
    estimates: Mapping[str, np.ndarray],
    columns: NDArray[np.float64],
    clusters: Sequence[str],
    statistics: Callable[[NDArray[np.float64]], Mapping[str, np.ndarray]],
    samples: int,
    seed: int,
    level: float,
) -> dict[str, Interval]:
    """Intervals of statistics of the sums of columns; none for items of a single cluster, which every draw takes."""
    names, owners = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.zeros((len(names), columns.shape[1]))
    np.add.at(sums, owners, columns)
    ends = dict.fromkeys(estimates, (math.nan, math.nan))
    if len(names) >= LEAST:
        drawn = statistics(draw_sums(sums, samples, np.random.default_rng(seed)))
        ends = {name: percentiles(drawn[name], level) for name in estimates}
    counted = (("all", len(names)),)
    return {name: Interval(float(value), *ends[name], clusters=counted) for name, value in estimates.items()}
