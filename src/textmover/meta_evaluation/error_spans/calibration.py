"""Calibration of probabilities of errors: reliability curve, expected calibration error, average precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.meta_evaluation.statistics.scores import Vector, divided
from textmover.types import InputError

BINS = 10
"""Bins of a reliability curve."""


class Cells(NamedTuple):
    """Sums over the words (or gaps) of each probability, from the lowest probability up, ``[U]`` each."""

    counts: Vector  # how many there are
    wrong: Vector  # how many of them are wrong
    mass: Vector  # sum of their probabilities


class Reliability(NamedTuple):
    """Probabilities beside what came true, in bins of about as many words (or gaps) each.

    Attributes:
        probability: Mean probability of each of ``B`` bins, ascending.
        wrong: Share that people marked as wrong, ``[B]``.
        counts: How many words (or gaps) each bin holds, ``[B]``.
        error: Expected calibration error ``Σ counts |wrong - probability| / Σ counts``; NaN without any.
        average_precision: Mean precision over the wrong ones, each at its own threshold; NaN where none is wrong.
    """

    probability: Vector
    wrong: Vector
    counts: Vector
    error: float
    average_precision: float


def check_bins(bins: int) -> None:
    """Refuse less than one bin."""
    if bins < 1:
        raise InputError(f"Expected at least one bin, but got {bins}: {BINS} are usual.")


def cells_of(probabilities: ArrayLike, wrong: ArrayLike) -> tuple[Cells, NDArray[np.int64]]:
    """Sum up equal probabilities, and return the cell of each as well."""
    levels, cell = np.unique(np.asarray(probabilities, dtype=np.float64), return_inverse=True)
    counts, wrong_ones = (
        np.bincount(cell, weights=np.asarray(one, dtype=np.float64), minlength=len(levels)).astype(np.float64)
        for one in (np.ones(len(cell)), wrong)
    )
    return Cells(counts, wrong_ones, counts * levels), cell


def equal_mass(counts: Vector, bins: int) -> NDArray[np.int64]:
    """Return the bin of each cell, so that bins are about equally full; equal probabilities share one."""
    middle = np.cumsum(counts) - counts / 2
    return np.minimum(middle * bins / max(counts.sum(), 1.0), bins - 1).astype(np.int64)


def reliability(cells: Cells, bins: int = BINS) -> Reliability:
    """Compute the reliability curve of cells.

    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks, with the equal-mass bins of Nguyen and
    O'Connor (2015), Posterior calibration and exploratory analysis for natural language processing models.

    Example:
        >>> curve = reliability(cells_of([0.1, 0.1, 0.8, 0.8], [False, False, True, False])[0], bins=2)
        >>> curve.probability, curve.wrong, round(curve.error, 3), curve.average_precision
        (array([0.1, 0.8]), array([0. , 0.5]), 0.2, 0.5)
    """
    place = equal_mass(cells.counts, bins)
    counts, wrong, mass = (np.bincount(place, one, bins).astype(np.float64) for one in cells)
    full = counts > 0
    error = float(calibration_error(np.stack([counts, wrong, mass], axis=-1)))
    above, right = np.cumsum(cells.counts[::-1]), np.cumsum(cells.wrong[::-1])
    total = right[-1] if len(right) else 0.0
    precision = float((divided(right, above) * cells.wrong[::-1])[above > 0].sum() / total) if total else np.nan
    return Reliability(mass[full] / counts[full], wrong[full] / counts[full], counts[full], error, precision)


def calibration_error(bins: Vector) -> Vector:
    """Expected calibration error of bins ``[…, B, 3]`` of counts, wrong ones and summed probabilities; NaN if empty."""
    counts, wrong, mass = np.moveaxis(bins, -1, 0)
    return divided(np.abs(wrong - mass).sum(axis=-1), counts.sum(axis=-1))
