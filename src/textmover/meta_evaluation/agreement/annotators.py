"""Inter-annotator agreement: Cohen's κ, Fleiss' κ and Krippendorff's α, on NumPy alone.

Ratings are an array ``[annotators, items]`` with NaN where an annotator did not rate an item.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textmover.types import InputError

Level = Literal["nominal", "ordinal", "interval"]  # levels of measurement: equal or not, an order, or distances

Weighting = Literal["none", "linear", "quadratic"]  # weights of larger differences for κ

Array = NDArray[np.float64]


class AnnotatorAgreement(NamedTuple):
    """Agreement of annotators on one criterion.

    Attributes:
        annotators: Number of those who rated an item that another one rated, too.
        items: Number of items that at least two of them rated.
        common: Number of items that all of them rated; Fleiss' κ is over these.
        same: Share of the pairs of ratings of one item that are equal.
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
    """Compute all statistics of the agreement on one criterion; NaN where one is not defined.

    Args:
        ratings: ``[annotators, items]``, NaN where there is none. Annotators who share no item are excluded.

    Raises:
        InputError: If ``ratings`` is not such an array.

    Example:
        >>> found = annotator_agreement([[1, 2, 3, 3], [1, 2, 3, 2]])
        >>> found.items, found.same, round(found.cohen, 3), round(found.alpha["ordinal"], 3)
        (4, 0.75, 0.636, 0.79)
    """
    known = _checked(ratings)
    known = known[:, (~np.isnan(known)).sum(axis=0) >= 2]
    known = known[(~np.isnan(known)).any(axis=1)]
    two = known if len(known) == 2 else np.full((2, 0), np.nan)
    first, second = np.triu_indices(len(known), 1)
    equal = known[first] == known[second]
    both = ~np.isnan(known[first]) & ~np.isnan(known[second])
    return AnnotatorAgreement(
        annotators=len(known),
        items=known.shape[1],
        common=int((~np.isnan(known)).all(axis=0).sum()),
        same=float(equal.sum() / both.sum()) if both.any() else math.nan,
        cohen=cohen_kappa(*two),
        weighted=cohen_kappa(*two, weights="quadratic"),
        fleiss=fleiss_kappa(known),
        alpha={level: krippendorff_alpha(known, level) for level in get_args(Level)},
    )


def cohen_kappa(first: ArrayLike, second: ArrayLike, *, weights: Weighting = "none") -> float:
    r"""Cohen's κ of two annotators over the items that both rated.

    :math:`1 - \sum w_{ab} O_{ab} / \sum w_{ab} E_{ab}` with the observed shares :math:`O` of pairs of categories, those
    expected by chance :math:`E`, and as weights :math:`[a \ne b]`, :math:`|a - b|` or :math:`(a - b)^2`.

    Args:
        first: Ratings of the one ``[items]``, NaN where there is none.
        second: Ratings of the other ``[items]``.
        weights: ``"none"`` for categories, ``"linear"`` or ``"quadratic"`` where larger differences are worse.

    Returns:
        At most 1; 0 is chance; NaN where both gave one and the same rating throughout, or shared no item.

    Raises:
        InputError: If the lengths differ, or the weights are unknown.

    Example:
        >>> round(cohen_kappa([1, 2, 3, 3], [1, 2, 3, 2]), 3)
        0.636

    Reference: Cohen (1960), A coefficient of agreement for nominal scales; Cohen (1968) for the weights.
    """
    if weights not in _PENALTIES:
        raise InputError(f"Expected `weights` to be {', '.join(_PENALTIES)}, but got {weights!r}.")
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape or one.ndim != 1:
        raise InputError(f"Expected ratings of the same items, but got {one.shape} and {other.shape} of them.")
    both = ~np.isnan(one) & ~np.isnan(other)
    one, other = one[both], other[both]
    if not len(one):
        return math.nan
    penalty = _PENALTIES[weights]
    expected = penalty(one[:, None], other[None, :]).mean()
    return _one_less(float(penalty(one, other).mean()), float(expected))


def fleiss_kappa(ratings: ArrayLike) -> float:
    r"""Fleiss' κ over the items that all annotators rated.

    :math:`(\bar P - \bar P_e)/(1 - \bar P_e)` with the mean share :math:`\bar P` of agreeing pairs of ratings of
    an item and :math:`\bar P_e = \sum_k p_k^2` from the shares of the categories.

    Args:
        ratings: ``[annotators, items]``, NaN where there is none.

    Returns:
        At most 1; 0 is chance; NaN where there are fewer than two annotators, no common item, or one category.

    Raises:
        InputError: If ``ratings`` is not such an array.

    Example:
        >>> round(fleiss_kappa([[1, 2, 3, 3], [1, 2, 3, 2], [1, 2, 3, 3]]), 3)
        0.745

    Reference: Fleiss (1971), Measuring nominal scale agreement among many raters.
    """
    known = _checked(ratings)
    known = known[:, ~np.isnan(known).any(axis=0)]
    annotators, items = known.shape
    if annotators < 2 or items == 0:
        return math.nan
    counts = np.stack([(known == value).sum(axis=0) for value in np.unique(known)], axis=1).astype(np.float64)
    agreeing = float((counts * (counts - 1)).sum() / (items * annotators * (annotators - 1)))
    chance = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    return _one_less(1 - agreeing, 1 - chance)


def krippendorff_alpha(ratings: ArrayLike, level: Level = "nominal") -> float:
    r"""Krippendorff's α: :math:`1 - D_o/D_e`, observed over expected disagreement.

    :math:`D_o` is the mean of :math:`\delta^2` over pairs of ratings of one item, each item weighted by its number of
    ratings; :math:`D_e` that over all pairs of ratings. :math:`\delta^2` is :math:`[a \ne b]` (nominal),
    :math:`(a - b)^2` (interval), or :math:`(\sum_{g=a}^{b} n_g - (n_a + n_b)/2)^2` (ordinal), where :math:`n_g` ratings
    have the value g. Missing ratings are allowed; items with fewer than two have no part.

    Args:
        ratings: ``[annotators, items]``, NaN where there is none.
        level: What differences between ratings mean.

    Returns:
        At most 1; 0 is chance; NaN where no item has two ratings, or all ratings are the same.

    Raises:
        InputError: If ``ratings`` is not such an array, or the level is unknown.

    Example:
        >>> nan = float("nan")
        >>> round(krippendorff_alpha([[1, 2, 3, nan], [1, 2, 2, 1], [nan, 2, 3, 1]], "ordinal"), 3)
        0.887

    Reference: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability.
    """
    if level not in get_args(Level):
        raise InputError(f"Expected `level` to be {', '.join(get_args(Level))}, but got {level!r}.")
    known = _checked(ratings)
    known = known[:, (~np.isnan(known)).sum(axis=0) >= 2]
    if not known.size:
        return math.nan
    values, places = np.unique(known[~np.isnan(known)], return_inverse=True)
    counts = np.zeros((known.shape[1], len(values)))
    np.add.at(counts, (np.nonzero(~np.isnan(known))[1], places.ravel()), 1.0)
    ratings_of_item = counts.sum(axis=1)
    totals = counts.sum(axis=0)
    shares = counts / (ratings_of_item[:, None] - 1)
    coincidences = counts.T @ shares - np.diag(shares.sum(axis=0))
    # The ordinal distance of two values is the difference of their mid-ranks.
    scale = values if level == "interval" else np.cumsum(totals) - totals / 2
    distances = 1 - np.eye(len(values)) if level == "nominal" else (scale[:, None] - scale) ** 2
    number = totals.sum()
    observed = float((coincidences * distances).sum() / number)
    expected = float((np.outer(totals, totals) * distances).sum() / (number * (number - 1)))
    return _one_less(observed, expected)


def pairwise_agreement(ratings: ArrayLike, statistic: Callable[[Array], float]) -> Array:
    """A statistic of every two annotators, ``[annotators, annotators]``, NaN on the diagonal."""
    known = _checked(ratings)
    found = np.full((len(known), len(known)), np.nan)
    for one, other in itertools.combinations(range(len(known)), 2):
        found[one, other] = found[other, one] = statistic(known[[one, other]])
    return found


_PENALTIES: dict[str, Callable[[Array, Array], Array]] = {
    "none": lambda a, b: (a != b).astype(np.float64),
    "linear": lambda a, b: np.abs(a - b),
    "quadratic": lambda a, b: (a - b) ** 2,
}


def _checked(ratings: ArrayLike) -> Array:
    found = np.asarray(ratings, dtype=np.float64)
    if found.ndim != 2:
        raise InputError(f"Expected `ratings` to be [annotators, items], but got {found.ndim} dimensions.")
    if np.isinf(found).any():
        raise InputError("Expected `ratings` to be finite, or NaN where there is none, but got an infinite one.")
    return found


def _one_less(observed: float, expected: float) -> float:
    return 1 - observed / expected if expected > 0 else math.nan
