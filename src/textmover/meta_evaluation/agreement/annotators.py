"""Inter-annotator agreement: Cohen's κ, Fleiss' κ and Krippendorff's α, with NumPy only.

Ratings are arrays ``[annotators, items]`` with NaN for missing ratings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.types import InputError

Level = Literal["nominal", "ordinal", "interval"]  # level of measurement

Weighting = Literal["none", "linear", "quadratic"]  # weights of differences in κ

Array = NDArray[np.float64]


class AnnotatorAgreement(NamedTuple):
    """Agreement of annotators on one criterion.

    Attributes:
        annotators: Number of annotators who share an item with another annotator.
        items: Number of items rated by at least two annotators.
        common: Number of items rated by all annotators, used for Fleiss' κ.
        same: Fraction of equal pairs among pairs of ratings of an item.
        cohen: Cohen's κ of two annotators; NaN for more.
        weighted: Cohen's κ of two annotators with quadratic weights; NaN for more.
        fleiss: Fleiss' κ.
        alpha: Krippendorff's α by level.
    """

    annotators: int
    items: int
    common: int
    same: float
    cohen: float
    weighted: float
    fleiss: float
    alpha: Mapping[Level, float]


def annotator_agreement(ratings: ArrayLike) -> AnnotatorAgreement:
    """Compute all agreement statistics on one criterion; undefined ones are NaN.

    Args:
        ratings: ``[annotators, items]``, NaN if missing. Annotators who share no item are excluded.

    Raises:
        InputError: If ``ratings`` is not a finite two-dimensional array.

    Example:
        >>> found = annotator_agreement([[1, 2, 3, 3], [1, 2, 3, 2]])
        >>> found.items, found.same, round(found.cohen, 3), round(found.alpha["ordinal"], 3)
        (4, 0.75, 0.636, 0.79)
    """
    rated = _rating_array(ratings)
    rated = rated[:, (~np.isnan(rated)).sum(axis=0) >= 2]
    rated = rated[(~np.isnan(rated)).any(axis=1)]
    pair = rated if len(rated) == 2 else np.full((2, 0), np.nan)
    first, second = np.triu_indices(len(rated), 1)
    equal = rated[first] == rated[second]
    both = ~np.isnan(rated[first]) & ~np.isnan(rated[second])
    return AnnotatorAgreement(
        annotators=len(rated),
        items=rated.shape[1],
        common=int((~np.isnan(rated)).all(axis=0).sum()),
        same=float(equal.sum() / both.sum()) if both.any() else math.nan,
        cohen=cohen_kappa(*pair),
        weighted=cohen_kappa(*pair, weights="quadratic"),
        fleiss=fleiss_kappa(rated),
        alpha={level: krippendorff_alpha(rated, level) for level in get_args(Level)},
    )


def cohen_kappa(first: ArrayLike, second: ArrayLike, *, weights: Weighting = "none") -> float:
    r"""Compute Cohen's κ of two annotators over the items that both rated.

    :math:`1 - \sum w_{ab} O_{ab} / \sum w_{ab} E_{ab}` with observed shares :math:`O` of pairs of categories, shares
    expected by chance :math:`E`, and weights :math:`[a \ne b]`, :math:`|a - b|` or :math:`(a - b)^2`.

    Args:
        first: Ratings of the first annotator ``[items]``, NaN if missing.
        second: Ratings of the second annotator ``[items]``.
        weights: ``"none"`` for categories; ``"linear"`` or ``"quadratic"`` if larger differences are worse.

    Returns:
        κ, at most 1; 0 is chance. NaN if all ratings are equal, or no item is shared.

    Raises:
        InputError: If the lengths differ, a rating is infinite, or ``weights`` is unknown.

    Example:
        >>> round(cohen_kappa([1, 2, 3, 3], [1, 2, 3, 2]), 3)
        0.636

    Reference: Cohen (1960), A coefficient of agreement for nominal scales; Cohen (1968) for the weights.
    """
    if weights not in _PENALTIES:
        raise InputError(f"Expected `weights` to be {', '.join(_PENALTIES)}, but got {weights!r}.")
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"Expected ratings of the same items, but got {x.shape} and {y.shape} of them.")
    rated = _rating_array([x, y])
    x, y = rated[:, ~np.isnan(rated).any(axis=0)]
    if not len(x):
        return math.nan
    penalty = _PENALTIES[weights]
    expected = penalty(x[:, None], y[None, :]).mean()
    return _one_minus_ratio(float(penalty(x, y).mean()), float(expected))


def fleiss_kappa(ratings: ArrayLike) -> float:
    r"""Compute Fleiss' κ over the items that all annotators rated.

    :math:`(\bar P - \bar P_e)/(1 - \bar P_e)` with the mean fraction :math:`\bar P` of agreeing pairs of ratings of
    an item and :math:`\bar P_e = \sum_k p_k^2` from the category frequencies.

    Args:
        ratings: ``[annotators, items]``, NaN if missing.

    Returns:
        κ, at most 1; 0 is chance. NaN for fewer than two annotators, no common item, or a single category.

    Raises:
        InputError: If ``ratings`` is not a finite two-dimensional array.

    Example:
        >>> round(fleiss_kappa([[1, 2, 3, 3], [1, 2, 3, 2], [1, 2, 3, 3]]), 3)
        0.745

    Reference: Fleiss (1971), Measuring nominal scale agreement among many raters.
    """
    rated = _rating_array(ratings)
    rated = rated[:, ~np.isnan(rated).any(axis=0)]
    annotators, items = rated.shape
    if annotators < 2 or items == 0:
        return math.nan
    counts = np.stack([(rated == value).sum(axis=0) for value in np.unique(rated)], axis=1).astype(np.float64)
    agreeing = float((counts * (counts - 1)).sum() / (items * annotators * (annotators - 1)))
    chance = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    return _one_minus_ratio(1 - agreeing, 1 - chance)


def krippendorff_alpha(ratings: ArrayLike, level: Level = "nominal") -> float:
    r"""Compute Krippendorff's α: :math:`1 - D_o/D_e`, observed over expected disagreement.

    :math:`D_o` is the mean of :math:`\delta^2` over pairs of ratings of an item, each item weighted by its number of
    ratings. :math:`D_e` is the mean over all pairs of ratings. :math:`\delta^2` is :math:`[a \ne b]` (nominal),
    :math:`(a - b)^2` (interval), or :math:`(\sum_{g=a}^{b} n_g - (n_a + n_b)/2)^2` (ordinal), where :math:`n_g` ratings
    have the value g. Missing ratings are allowed; items with fewer than two ratings are ignored.

    Args:
        ratings: ``[annotators, items]``, NaN if missing.
        level: Level of measurement of the ratings.

    Returns:
        α, at most 1; 0 is chance. NaN if no item has two ratings, or all ratings are equal.

    Raises:
        InputError: If ``ratings`` is not a finite two-dimensional array, or the level is unknown.

    Example:
        >>> nan = float("nan")
        >>> round(krippendorff_alpha([[1, 2, 3, nan], [1, 2, 2, 1], [nan, 2, 3, 1]], "ordinal"), 3)
        0.887

    Reference: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability.
    """
    if level not in get_args(Level):
        raise InputError(f"Expected `level` to be {', '.join(get_args(Level))}, but got {level!r}.")
    rated = _rating_array(ratings)
    rated = rated[:, (~np.isnan(rated)).sum(axis=0) >= 2]
    if not rated.size:
        return math.nan
    values, value_indices = np.unique(rated[~np.isnan(rated)], return_inverse=True)
    counts = np.zeros((rated.shape[1], len(values)))
    np.add.at(counts, (np.nonzero(~np.isnan(rated))[1], value_indices.ravel()), 1.0)
    ratings_of_item = counts.sum(axis=1)
    totals = counts.sum(axis=0)
    shares = counts / (ratings_of_item[:, None] - 1)
    coincidences = counts.T @ shares - np.diag(shares.sum(axis=0))
    # The ordinal distance is the difference of mid-ranks.
    scale = values if level == "interval" else np.cumsum(totals) - totals / 2
    distances = 1 - np.eye(len(values)) if level == "nominal" else (scale[:, None] - scale) ** 2
    number = totals.sum()
    observed = float((coincidences * distances).sum() / number)
    expected = float((np.outer(totals, totals) * distances).sum() / (number * (number - 1)))
    return _one_minus_ratio(observed, expected)


def pairwise_agreement(ratings: ArrayLike, statistic: Callable[[Array], float]) -> Array:
    """Compute a statistic for each pair of annotators, ``[annotators, annotators]``, NaN on the diagonal."""
    array = _rating_array(ratings)
    table = np.full((len(array), len(array)), np.nan)
    for i, j in itertools.combinations(range(len(array)), 2):
        table[i, j] = table[j, i] = statistic(array[[i, j]])
    return table


_PENALTIES: dict[str, Callable[[Array, Array], Array]] = {
    "none": lambda a, b: (a != b).astype(np.float64),
    "linear": lambda a, b: np.abs(a - b),
    "quadratic": lambda a, b: (a - b) ** 2,
}


def _rating_array(ratings: ArrayLike) -> Array:
    array = np.asarray(ratings, dtype=np.float64)
    if array.ndim != 2:
        raise InputError(f"Expected `ratings` to be [annotators, items], but got {array.ndim} dimensions.")
    if np.isinf(array).any():
        raise InputError("Expected `ratings` to be finite, or NaN if missing, but got infinity.")
    return array


def _one_minus_ratio(observed: float, expected: float) -> float:
    return 1 - observed / expected if expected > 0 else math.nan
