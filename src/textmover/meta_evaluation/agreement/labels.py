"""Classification agreement: accuracy, macro-F1 and Matthews correlation, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.significance.bootstrap import UNKNOWN, Interval, bootstrap_sums
from textmover.meta_evaluation.statistics.score_arrays import divide
from textmover.types import InputError


def confusion_matrix(labels: ArrayLike, predicted: ArrayLike, classes: int) -> NDArray[np.int64]:
    """Count how often each class (row) was predicted as each class (column), ``[C, C]``."""
    true, pred = np.asarray(labels, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if true.shape != pred.shape or true.ndim != 1:
        raise InputError(f"Expected as many predictions as labels, but got {pred.shape} and {true.shape}: pair them.")
    if len(true) and (min(true.min(), pred.min()) < 0 or max(true.max(), pred.max()) >= classes):
        raise InputError(f"Expected classes from 0 to {classes - 1}, but got others: count them all in `classes`.")
    return np.bincount(true * classes + pred, minlength=classes**2).reshape(classes, classes)


def label_statistics(confusion: NDArray[np.generic]) -> dict[str, NDArray[np.float64]]:
    """Return accuracy, macro-F1 and Matthews correlation (Gorodkin 2004, Eq. 8) of confusion matrices ``[…, C, C]``."""
    counts = confusion.astype(np.float64)
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    true, pred = counts.sum(axis=-1), counts.sum(axis=-2)
    total = true.sum(axis=-1)
    occurs = (true + pred) > 0
    f1 = np.where(occurs, 2 * right / np.where(occurs, true + pred, 1.0), 0.0)
    spread = np.sqrt((total**2 - (pred**2).sum(axis=-1)) * (total**2 - (true**2).sum(axis=-1)))
    covariance = total * right.sum(axis=-1) - (true * pred).sum(axis=-1)
    return {
        "accuracy": right.sum(axis=-1) / np.maximum(total, 1),
        "macro_f1": f1.sum(axis=-1) / np.maximum(occurs.sum(axis=-1), 1),
        "matthews": np.where(spread > 0, covariance / np.where(spread > 0, spread, 1.0), 0.0),
    }


def bootstrap_labels(
    labels: Sequence[int], predicted: Sequence[int], classes: int, clusters: Sequence[str], *, samples: int = 1000
) -> dict[str, Interval]:
    """Compute label statistics with confidence intervals, by a bootstrap over clusters."""
    confusion_matrix(labels, predicted, classes)  # validates the labels
    cells = np.asarray(labels, dtype=np.int64) * classes + np.asarray(predicted, dtype=np.int64)

    def statistics(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return label_statistics(sums.reshape(*sums.shape[:-1], classes, classes))

    sums = _cluster_sums(np.eye(classes**2)[cells], clusters)
    return bootstrap_sums(sums, None, statistics, samples=samples)


def bootstrap_share(hits: ArrayLike, clusters: Sequence[str], *, samples: int = 1000) -> Interval:
    """Compute the fraction of hits with its confidence interval, by a bootstrap over clusters."""
    values = np.asarray(hits, dtype=np.float64)
    sums = _cluster_sums(np.stack([values, np.ones_like(values)], axis=1), clusters)
    result = bootstrap_sums(sums, None, lambda drawn: {"share": divide(*np.moveaxis(drawn, -1, 0))}, samples=samples)
    return result.get("share", UNKNOWN)


def _cluster_sums(columns: NDArray[np.float64], clusters: Sequence[str]) -> NDArray[np.float64]:
    names, owners = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.zeros((len(names), columns.shape[1]))
    np.add.at(sums, owners, columns)
    return sums
